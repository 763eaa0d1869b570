#include "exchange.hpp"

#include <array>

#include "managed_tensor.hpp"

namespace tack::python {
namespace {

// A type's version tag is never given again, also where another type gets the same address, and
// changes when the type does.
unsigned version_tag(PyTypeObject* type) {
#ifdef Py_TPFLAGS_VALID_VERSION_TAG
    if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
    return type->tp_version_tag;
}

const dlpack::ExchangeAPI* find_api(PyTypeObject* type) {
    const nb::object own = nb::handle(reinterpret_cast<PyObject*>(type)).attr("__dict__");
    const nb::object capsule = own.attr("get")("__dlpack_c_exchange_api__");
    if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
    const auto* header = static_cast<const dlpack::ExchangeAPIHeader*>(
        PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (header && header->version.major > 1) header = header->prev_api;
    if (!header || header->version.major != 1) return nullptr;
    const auto* api = reinterpret_cast<const dlpack::ExchangeAPI*>(header);
    return api->managed_tensor_from_py_object_no_sync ? api : nullptr;
}

bool derives_from_torch(PyTypeObject* type) {
    const nb::object torch = loaded_module("torch");
    if (!torch.is_valid()) return false;
    const nb::object tensor = nb::getattr(torch, "Tensor", nb::none());
    return PyType_Check(tensor.ptr()) &&
           PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(tensor.ptr()));
}

/// PyTorch's own accessors, which no derived class can replace; kept until the process ends.
struct TorchAccessors {
    PyObject* requires_grad;  // a getset descriptor
    PyObject* is_neg;         // a method descriptor

    TorchAccessors() {
        const nb::object base = nb::module_::import_("torch").attr("_C").attr("TensorBase");
        requires_grad = nb::object(base.attr("requires_grad")).release().ptr();
        is_neg = nb::object(base.attr("is_neg")).release().ptr();
    }
};
const TorchAccessors& torch_accessors() {
    static const auto* accessors = new TorchAccessors;
    return *accessors;
}

bool is_true(PyObject* result) {
    if (!result) throw nb::python_error();
    const nb::object owned = nb::steal(result);
    return result == Py_True;
}

/// Why PyTorch could not hand the tensor out, and what to call; empty for other reasons.
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

}  // namespace

ArrayKind array_kind(PyTypeObject* type) {
    struct Entry {
        PyTypeObject* type = nullptr;
        unsigned tag = 0;
        ArrayKind kind;
    };
    static std::array<Entry, 16> cache;  // guarded by the GIL
    Entry& entry = cache[(reinterpret_cast<std::uintptr_t>(type) >> 5) % cache.size()];
    const unsigned tag = version_tag(type);
    if (entry.type == type && entry.tag == tag && tag != 0) return entry.kind;
    const ArrayKind kind{find_api(type), derives_from_torch(type)};
    // The lookup may have given the type its tag.
    entry = {type, version_tag(type), kind};
    return entry.kind;
}

void require_plain_torch_tensor(PyObject* tensor) {
    const TorchAccessors& torch = torch_accessors();
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
    if (is_true(Py_TYPE(torch.requires_grad)->tp_descr_get(torch.requires_grad, tensor, type)))
        throw Error(ErrorKind::buffer,
                    "from_dlpack: the tensor requires gradients, which PyTorch does not record "
                    "through a view. Import x.detach()");
    if (is_true(PyObject_Vectorcall(torch.is_neg, &tensor, 1, nullptr)))
        throw Error(ErrorKind::buffer,
                    "from_dlpack: the tensor is a negated view, whose memory holds the numbers "
                    "with the other sign. Import x.resolve_neg()");
}

void throw_export_error(PyObject* source, bool is_torch) {
    if (!PyErr_Occurred())
        throw Error(ErrorKind::runtime,
                    "from_dlpack: the C exchange API of " + class_name(source) +
                        " failed without saying why. Import what its __dlpack__ gives");
    nb::python_error error;
    const std::string reason = is_torch ? torch_reason(source) : "";
    if (reason.empty()) throw error;
    nb::raise_from(error, PyExc_BufferError, "from_dlpack: %s", reason.c_str());
}

dlpack::ManagedTensorVersioned* export_exchange(PyObject* object, const ArrayKind& kind) {
    if (kind.is_torch) require_plain_torch_tensor(object);
    dlpack::ManagedTensorVersioned* tensor = nullptr;
    if (kind.api->managed_tensor_from_py_object_no_sync(object, &tensor) != 0 || !tensor)
        throw_export_error(object, kind.is_torch);
    return tensor;
}

Array import_exchange(PyObject* object, const ArrayKind& kind, const Device& device,
                      bool writable) {
    dlpack::ManagedTensorVersioned* tensor = export_exchange(object, kind);
    try {
        return adopt_tensor(tensor, device, writable);
    } catch (const Error& error) {
        // A conjugated view is complex: the dtype is refused, but not before resolve_conj().
        const std::string reason =
            kind.is_torch && error.kind() == ErrorKind::type ? torch_reason(object) : "";
        if (reason.empty()) throw;
        throw Error(ErrorKind::buffer, "from_dlpack: " + reason);
    }
}

bool borrow_tensor(PyObject* object, const ArrayKind& kind, dlpack::Tensor& out) {
    if (!kind.api->dltensor_from_py_object_no_sync) return false;
    if (kind.is_torch) require_plain_torch_tensor(object);
    if (kind.api->dltensor_from_py_object_no_sync(object, &out) != 0)
        throw_export_error(object, kind.is_torch);
    return true;
}

}  // namespace tack::python
