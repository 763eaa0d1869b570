#include "borrow.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "bindings.hpp"
#include "interop/dlpack_types.hpp"

namespace tack::python {
namespace {

using kernel::Argument;
using kernel::HostView;

// NumPy. What its macros PyArray_DATA() and the like read in every extension module that is
// compiled against NumPy 1 or 2. Source: NumPy C API, "PyArrayObject", "Array Scalars".
struct NumpyArray {
    PyObject_HEAD char* data;
    int nd;
    Py_ssize_t* dimensions;
    Py_ssize_t* strides;
    PyObject* base;
    PyObject* descr;
    int flags;

    static constexpr int c_contiguous = 0x1, aligned = 0x100, writeable = 0x400;
};
struct NumpyScalar {
    PyObject_HEAD char value[8];
};

/// NumPy's objects for one of Tack's dtypes, which live as long as NumPy.
struct NumpyDtype {
    PyObject* descr;  // of native byte order
    PyObject* scalar_type;
    DType dtype;
};
PyTypeObject* numpy_array_type = nullptr;
std::array<NumpyDtype, dtype_count> numpy_dtypes;
std::size_t numpy_dtype_count = 0;

void learn_numpy(nb::handle numpy) {
    const std::string version = nb::cast<std::string>(numpy.attr("__version__"));
    if (!version.starts_with("1.") && !version.starts_with("2.")) return;
    std::size_t count = 0;
    // The usual ones first: they are searched in this order.
    for (const DType dtype :
         {DType::float32, DType::float64, DType::int32, DType::int64, DType::uint8, DType::bool_,
          DType::int8, DType::int16, DType::uint16, DType::uint32, DType::uint64, DType::float16}) {
        const nb::object descr = numpy_dtype(dtype);
        numpy_dtypes[count++] = {nb::borrow(descr).release().ptr(),
                                 nb::object(descr.attr("type")).release().ptr(), dtype};
    }
    numpy_dtype_count = count;
    numpy_array_type = reinterpret_cast<PyTypeObject*>(numpy.attr("ndarray").inc_ref().ptr());
}

bool borrow_numpy(PyObject* object, HostView& view) noexcept {
    const auto& array = *reinterpret_cast<const NumpyArray*>(object);
    constexpr int needed = NumpyArray::c_contiguous | NumpyArray::aligned;
    if ((array.flags & needed) != needed || array.nd == 0) return false;
    for (std::size_t k = 0; k < numpy_dtype_count; ++k) {
        if (numpy_dtypes[k].descr != array.descr) continue;
        static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
        view.extents = reinterpret_cast<const std::int64_t*>(array.dimensions);
        view.nbytes = itemsize(numpy_dtypes[k].dtype);
        for (int axis = 0; axis < array.nd; ++axis) view.nbytes *= view.extents[axis];
        view.address = array.data;
        view.ndim = array.nd;
        view.dtype = numpy_dtypes[k].dtype;
        view.writable = (array.flags & NumpyArray::writeable) != 0;
        return true;
    }
    return false;
}

const NumpyDtype* numpy_scalar_dtype(PyTypeObject* type) noexcept {
    for (std::size_t k = 0; k < numpy_dtype_count; ++k)
        if (numpy_dtypes[k].scalar_type == reinterpret_cast<PyObject*>(type))
            return &numpy_dtypes[k];
    return nullptr;
}

// PyTorch. Its tensors come through DLPack's C exchange API, which does not refuse what an import
// refuses: a tensor that requires gradients, and a negated view, whose memory has the other sign.
struct ExchangeApi {
    dlpack::Version version;
    void* previous;
    void* managed_tensor_allocator;
    void* managed_tensor_from_py_object;
    void* managed_tensor_to_py_object;
    int (*tensor_from_py_object)(void* object, dlpack::Tensor* out);  // borrows; may be null
    void* current_work_stream;
};
struct TorchTensor {
    PyTypeObject* type = nullptr;
    decltype(ExchangeApi::tensor_from_py_object) read = nullptr;
    PyGetSetDef* requires_grad = nullptr;
    PyMethodDef* is_neg = nullptr;
} torch_tensor;

void learn_torch(PyTypeObject* type) {
    const nb::handle of(reinterpret_cast<PyObject*>(type));
    // In the type's own dictionary: a subclass may not be what the API of its base reads.
    const nb::object own = of.attr("__dict__");
    const nb::object capsule = own.attr("get")("__dlpack_c_exchange_api__");
    const nb::object requires_grad = nb::getattr(of, "requires_grad", nb::none());
    const nb::object is_neg = nb::getattr(of, "is_neg", nb::none());
    if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api") ||
        Py_TYPE(requires_grad.ptr()) != &PyGetSetDescr_Type ||
        Py_TYPE(is_neg.ptr()) != &PyMethodDescr_Type)
        return;
    const auto* api =
        static_cast<ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    PyMethodDef* method = reinterpret_cast<PyMethodDescrObject*>(is_neg.ptr())->d_method;
    if (api->version.major != 1 || !api->tensor_from_py_object || method->ml_flags != METH_NOARGS)
        return;
    torch_tensor = {type, api->tensor_from_py_object,
                    reinterpret_cast<PyGetSetDescrObject*>(requires_grad.ptr())->d_getset, method};
    Py_INCREF(of.ptr());
}

/// Whether the getter or method gave False; true values and failures are import_dlpack()'s.
bool is_false(PyObject* answer) noexcept {
    if (!answer) PyErr_Clear();
    Py_XDECREF(answer);
    return answer == Py_False;
}

bool is_contiguous(const dlpack::Tensor& tensor) noexcept {
    std::int64_t expected = 1;
    for (int axis = tensor.ndim - 1; tensor.strides && axis >= 0; --axis) {
        if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
        expected *= tensor.shape[axis];
    }
    return true;
}

bool borrow_torch(PyObject* object, HostView& view) noexcept {
    dlpack::Tensor tensor;
    if (torch_tensor.read(object, &tensor) != 0) {
        PyErr_Clear();
        return false;
    }
    const std::optional<DType> dtype = from_dlpack_type(tensor.dtype);
    if (!dtype || tensor.dtype.lanes != 1 || tensor.device.device_type != dlpack::cpu ||
        tensor.ndim < 1 || tensor.ndim > Shape::max_ndim || !tensor.data || !is_contiguous(tensor))
        return false;
    view.address = static_cast<char*>(tensor.data) + tensor.byte_offset;
    if (reinterpret_cast<std::uintptr_t>(view.address) % static_cast<std::size_t>(itemsize(*dtype)))
        return false;
    if (!is_false(torch_tensor.requires_grad->get(object, torch_tensor.requires_grad->closure)) ||
        !is_false(torch_tensor.is_neg->ml_meth(object, nullptr)))
        return false;
    view.nbytes = itemsize(*dtype);
    for (int axis = 0; axis < tensor.ndim; ++axis) view.nbytes *= tensor.shape[axis];
    view.extents = tensor.shape;
    view.ndim = tensor.ndim;
    view.dtype = *dtype;
    view.writable = true;
    return true;
}

}  // namespace

bool borrow(PyObject* object, Argument& argument, HostView& view) noexcept {
    PyTypeObject* const type = Py_TYPE(object);
    if (type == numpy_array_type ? borrow_numpy(object, view)
                                 : type == torch_tensor.type && borrow_torch(object, view)) {
        argument = Argument(view);
        return true;
    }
    const NumpyDtype* const scalar = numpy_scalar_dtype(type);
    if (!scalar) return false;
    argument = Argument::scalar(scalar->dtype, reinterpret_cast<NumpyScalar*>(object)->value);
    return true;
}

bool learn_type(PyTypeObject* type) {
    if (!numpy_array_type)
        if (const nb::object numpy = loaded_module("numpy"); numpy.is_valid()) learn_numpy(numpy);
    if (!torch_tensor.type && std::strcmp(type->tp_name, "Tensor") == 0) learn_torch(type);
    return type == numpy_array_type || type == torch_tensor.type || numpy_scalar_dtype(type);
}

}  // namespace tack::python
