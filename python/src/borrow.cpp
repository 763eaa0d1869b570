#include "borrow.hpp"

#include <optional>

#include "exchange.hpp"
#include "interop/dlpack_types.hpp"
#include "numpy_arrays.hpp"
#include "torch_tensors.hpp"

namespace tack::python {
namespace {

using kernel::Argument;
using kernel::HostView;

bool is_contiguous(const dlpack::Tensor& tensor) noexcept {
    std::int64_t expected = 1;
    for (int axis = tensor.ndim - 1; tensor.strides && axis >= 0; --axis) {
        if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
        expected *= tensor.shape[axis];
    }
    return true;
}

bool borrow_torch(PyObject* object, const ArrayKind& kind, HostView& view) noexcept {
    dlpack::Tensor tensor;
    if (kind.api->dltensor_from_py_object_no_sync(object, &tensor) != 0) {
        PyErr_Clear();
        return false;
    }
    const std::optional<DType> dtype = from_dlpack_type(tensor.dtype);
    if (!dtype || tensor.dtype.lanes != 1 || tensor.device.device_type != dlpack::cpu ||
        tensor.ndim < 0 || tensor.ndim > Shape::max_ndim || !tensor.data || !is_contiguous(tensor))
        return false;
    view.address = static_cast<char*>(tensor.data) + tensor.byte_offset;
    if (reinterpret_cast<std::uintptr_t>(view.address) &
        static_cast<std::size_t>(itemsize(*dtype) - 1))
        return false;
    if (!is_plain_torch_tensor(object)) return false;
    view.nbytes = itemsize(*dtype);
    for (int axis = 0; axis < tensor.ndim; ++axis) view.nbytes *= tensor.shape[axis];
    view.extents = tensor.shape;
    view.ndim = tensor.ndim;
    view.dtype = *dtype;
    view.writable = true;
    return true;
}

bool can_borrow(const ArrayKind& kind) noexcept {
    return kind.is_torch && kind.api && kind.api->dltensor_from_py_object_no_sync;
}

}  // namespace

bool borrow(PyObject* object, HostView& view) noexcept {
    PyTypeObject* const type = Py_TYPE(object);
    if (type == numpy_array_type) return read_numpy_array(object, view);
    const ArrayKind* const kind = known_array_kind(type);
    return kind && can_borrow(*kind) && borrow_torch(object, *kind, view);
}

bool borrow(PyObject* object, Argument& argument, HostView& view) noexcept {
    if (borrow(object, view)) {
        argument = Argument(view);
        return view.ndim > 0;
    }
    DType dtype;
    const void* const value = read_numpy_scalar(object, dtype);
    if (value) argument = Argument::scalar(dtype, value);
    return value != nullptr;
}

bool learn_type(PyTypeObject* type) {
    return (learn_numpy() && (type == numpy_array_type || is_numpy_scalar_type(type))) ||
           can_borrow(array_kind(type));
}

}  // namespace tack::python
