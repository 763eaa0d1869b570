#include "torch_tensors.hpp"

namespace tack::python {
namespace {

/// PyTorch's own accessors, which no derived class can replace; kept until the process ends.
/// The definitions behind the descriptors are called without a look-up or a bound method.
struct Accessors {
    PyGetSetDef* requires_grad;
    PyMethodDef* is_neg;

    Accessors() {
        const nb::object base = nb::module_::import_("torch").attr("_C").attr("TensorBase");
        const nb::object getter = base.attr("requires_grad");
        const nb::object method = base.attr("is_neg");
        if (Py_TYPE(getter.ptr()) != &PyGetSetDescr_Type ||
            Py_TYPE(method.ptr()) != &PyMethodDescr_Type)
            fail();
        requires_grad = reinterpret_cast<PyGetSetDescrObject*>(getter.ptr())->d_getset;
        is_neg = reinterpret_cast<PyMethodDescrObject*>(method.ptr())->d_method;
        if (is_neg->ml_flags != METH_NOARGS) fail();
        nb::object(base).release();
    }

    PyObject* get_requires_grad(PyObject* tensor) const {
        return requires_grad->get(tensor, requires_grad->closure);
    }
    PyObject* get_is_neg(PyObject* tensor) const { return is_neg->ml_meth(tensor, nullptr); }

private:
    [[noreturn]] static void fail() {
        throw Error(ErrorKind::runtime,
                    "from_dlpack: this version of PyTorch does not say whether a tensor requires "
                    "gradients or is negated in a way that Tack knows. Pass x.numpy()");
    }
};

const Accessors& accessors() {
    static const auto* instance = new Accessors;
    return *instance;
}

bool is_true(PyObject* answer) {
    if (!answer) throw nb::python_error();
    const nb::object owned = nb::steal(answer);
    return answer == Py_True;
}

bool is_false(PyObject* answer) noexcept {
    if (!answer) PyErr_Clear();
    Py_XDECREF(answer);
    return answer == Py_False;
}

}  // namespace

bool derives_from_torch(PyTypeObject* type) {
    const nb::object torch = loaded_module("torch");
    if (!torch.is_valid()) return false;
    const nb::object tensor = nb::getattr(torch, "Tensor", nb::none());
    return PyType_Check(tensor.ptr()) &&
           PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(tensor.ptr()));
}

bool is_plain_torch_tensor(PyObject* tensor) noexcept {
    try {
        const Accessors& torch = accessors();
        return is_false(torch.get_requires_grad(tensor)) && is_false(torch.get_is_neg(tensor));
    } catch (...) {
        return false;
    }
}

void require_plain_torch_tensor(PyObject* tensor) {
    const Accessors& torch = accessors();
    if (is_true(torch.get_requires_grad(tensor)))
        throw Error(ErrorKind::buffer,
                    "from_dlpack: the tensor requires gradients, which PyTorch does not record "
                    "through a view. Import x.detach()");
    if (is_true(torch.get_is_neg(tensor)))
        throw Error(ErrorKind::buffer,
                    "from_dlpack: the tensor is a negated view, whose memory holds the numbers "
                    "with the other sign. Import x.resolve_neg()");
}

std::string torch_reason(nb::handle tensor) {
    const auto says = [&](const char* method) {
        return nb::cast<bool>(nb::bool_(tensor.attr(method)()));
    };
    const nb::object torch = nb::module_::import_("torch");
    if (nb::cast<bool>(nb::bool_(tensor.attr("is_meta"))))
        return "the tensor is on PyTorch's meta device and has no data. Make one that has: "
               "torch.empty_like(x, device=\"cpu\")";
    if (!tensor.attr("layout").is(torch.attr("strided")))
        return "the tensor's layout is " +
               nb::cast<std::string>(nb::str(nb::object(tensor.attr("layout")))) +
               ", which has no strides. Import x.to_dense(), or x.values() and its indices";
    if (says("is_conj"))
        return "the tensor is a conjugated view, whose memory holds other numbers. Import "
               "x.resolve_conj()";
    return "";
}

}  // namespace tack::python
