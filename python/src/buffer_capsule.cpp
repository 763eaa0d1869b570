// DLPack capsules over what Python's buffer protocol shows, for libraries that offer no other way.
#include <cstdint>
#include <memory>

#include "bindings.hpp"
#include "interop/dlpack_types.hpp"

namespace tack::python {
namespace {

/// The managed tensor, its shape, and the object that keeps the memory alive.
template <class Managed>
struct OwnedTensor : Managed {
    std::int64_t shape[2];
    std::int64_t strides[2];
    PyObject* owner;

    static void release(Managed* managed) {
        auto* self = static_cast<OwnedTensor*>(managed);
        // At the interpreter's end there is no way to drop a reference; the process frees it.
        if (Py_IsInitialized()) {
            const PyGILState_STATE state = PyGILState_Ensure();
            {
                const nb::error_scope kept;  // the drop may happen while an exception is on its way
                Py_DECREF(self->owner);
            }
            PyGILState_Release(state);
        }
        delete self;
    }
};

template <class Managed>
void destroy(PyObject* capsule) {
    constexpr const char* name =
        std::is_same_v<Managed, dlpack::ManagedTensor> ? "dltensor" : "dltensor_versioned";
    if (!PyCapsule_IsValid(capsule, name)) return;  // a consumer owns the tensor
    auto* tensor = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    tensor->deleter(tensor);
}

/// A view of an object's memory for the time of a call: an array keeps its owner, not the view,
/// which would keep the object whose memory may move.
struct View : Py_buffer {
    View(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), this, PyBUF_STRIDED_RO) != 0) throw nb::python_error();
    }
    View(const View&) = delete;
    ~View() { PyBuffer_Release(this); }

    void require(DType dtype, const char* operation) const {
        if (ndim < 1 || ndim > 2 || itemsize != tack::itemsize(dtype) ||
            !PyBuffer_IsContiguous(this, 'C'))
            throw Error(ErrorKind::value,
                        std::string(operation) + ": a buffer of " + std::to_string(ndim) +
                            " dimensions with items of " + std::to_string(itemsize) +
                            " bytes is no C-contiguous array of " + std::string(name(dtype)));
    }
};

/// Of shape (n, components). `owner` is not held yet.
template <class Managed>
std::unique_ptr<OwnedTensor<Managed>> make_tensor(const View& view, DType dtype, nb::handle owner) {
    auto tensor = std::make_unique<OwnedTensor<Managed>>();
    tensor->shape[0] = view.shape[0];
    tensor->shape[1] = view.ndim == 2 ? view.shape[1] : 1;
    tensor->strides[0] = tensor->shape[1];
    tensor->strides[1] = 1;
    tensor->owner = owner.ptr();
    tensor->deleter = OwnedTensor<Managed>::release;
    tensor->manager_ctx = owner.ptr();
    tensor->dl_tensor = {.data = view.len ? view.buf : nullptr,
                         .device = {dlpack::cpu, 0},
                         .ndim = 2,
                         .dtype = to_dlpack_type(dtype),
                         .shape = tensor->shape,
                         .strides = tensor->strides,
                         .byte_offset = 0};
    return tensor;
}

template <class Managed>
nb::object make_capsule(std::unique_ptr<OwnedTensor<Managed>> tensor, const char* name) {
    nb::object capsule = nb::steal(PyCapsule_New(tensor.get(), name, destroy<Managed>));
    if (!capsule.is_valid()) throw nb::python_error();
    Py_INCREF(tensor.release()->owner);
    return capsule;
}

nb::object buffer_capsule(nb::handle buffer, nb::handle dtype_like, nb::handle owner,
                          bool versioned) {
    const DType dtype = to_dtype(dtype_like, "buffer_capsule");
    const View view(buffer);
    view.require(dtype, "buffer_capsule");
    if (!versioned)
        return make_capsule(make_tensor<dlpack::ManagedTensor>(view, dtype, owner), "dltensor");
    auto tensor = make_tensor<dlpack::ManagedTensorVersioned>(view, dtype, owner);
    tensor->version = {1, 0};
    tensor->flags = view.readonly ? dlpack::flag_read_only : 0;
    return make_capsule(std::move(tensor), "dltensor_versioned");
}

/// None where the memory is not at `address`.
nb::object buffer_array(nb::handle buffer, nb::handle dtype_like, nb::handle owner, bool flatten,
                        std::uintptr_t address) {
    const DType dtype = to_dtype(dtype_like, "buffer_array");
    const View view(buffer);
    view.require(dtype, "buffer_array");
    if (reinterpret_cast<std::uintptr_t>(view.buf) != address) return nb::none();
    auto tensor = make_tensor<dlpack::ManagedTensor>(view, dtype, owner);
    if (flatten || tensor->shape[1] == 1) {
        tensor->shape[0] *= tensor->shape[1];
        tensor->strides[0] = 1;
        tensor->dl_tensor.ndim = 1;
    }
    Array array =
        from_dlpack(static_cast<dlpack::ManagedTensor*>(tensor.get()), Device(), !view.readonly);
    Py_INCREF(tensor.release()->owner);
    return nb::cast(std::move(array));
}

/// The array over a VTK array's memory where the stand-in has imported that before: the buffer is
/// still the one that was swapped in then, and has not moved its memory. Else None.
nb::object array_imported_before(nb::handle array, bool flatten) {
    static PyObject* const attribute = PyUnicode_InternFromString("_tack_import");
    static PyObject* const get_buffer = PyUnicode_InternFromString("GetBuffer");
    const nb::object import = nb::steal(PyObject_GetAttr(array.ptr(), attribute));
    if (!import.is_valid()) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw nb::python_error();
        PyErr_Clear();
        return nb::none();
    }
    if (!PyTuple_CheckExact(import.ptr()))
        return nb::none();  // of an object that answers to any name
    const nb::object buffer = nb::steal(PyObject_CallMethodNoArgs(array.ptr(), get_buffer));
    if (!buffer.is_valid()) throw nb::python_error();
    const auto part = [&](Py_ssize_t k) { return nb::handle(PyTuple_GET_ITEM(import.ptr(), k)); };
    if (!buffer.is(part(0))) return nb::none();
    return buffer_array(array, part(2), part(1), flatten, nb::cast<std::uintptr_t>(part(3)));
}

/// The value of a writable host array's dtype in a dictionary, or None.
nb::object by_dtype_on_host(const Array& array, nb::dict values) {
    if (!array.writable() || !on_host(array)) return nb::none();
    PyObject* value = PyDict_GetItemWithError(values.ptr(), dtype_object(array.dtype()).ptr());
    if (!value && PyErr_Occurred()) throw nb::python_error();
    return value ? nb::borrow(value) : nb::none();
}

std::uintptr_t buffer_address(nb::handle buffer) {
    return reinterpret_cast<std::uintptr_t>(View(buffer).buf);
}

/// The DLPack device type and id of an unconsumed capsule, which stays as it is; None for another.
nb::object capsule_device(nb::handle capsule) {
    const dlpack::Tensor* tensor = nullptr;
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor"))
        tensor =
            &static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))
                 ->dl_tensor;
    else if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
        auto* managed = static_cast<dlpack::ManagedTensorVersioned*>(
            PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
        if (managed->version.major <= 1) tensor = &managed->dl_tensor;
    }
    if (!tensor) return nb::none();
    return nb::make_tuple(tensor->device.device_type, tensor->device.device_id);
}

}  // namespace

void bind_buffer_capsule(nb::module_& m) {
    m.def("buffer_capsule", &buffer_capsule, nb::arg("buffer"), nb::arg("dtype"), nb::arg("owner"),
          nb::arg("versioned") = false,
          "A DLPack capsule of shape (n, components) over a buffer's memory, kept by `owner`.");
    m.def("buffer_array", &buffer_array, nb::arg("buffer"), nb::arg("dtype"), nb::arg("owner"),
          nb::arg("flatten"), nb::arg("address"),
          "An array over a buffer's memory, kept by `owner`: of shape (n, components), or of one "
          "dimension for one component and with `flatten`. None where the memory lies elsewhere.");
    m.def("array_imported_before", &array_imported_before, nb::arg("array").none(),
          nb::arg("flatten"),
          "The array over a VTK array's memory, or None where that has not been imported before.");
    m.def("by_dtype_on_host", &by_dtype_on_host, nb::arg("array"), nb::arg("values"),
          "The value of a writable host array's dtype in a dictionary, or None.");
    m.def("buffer_address", &buffer_address, nb::arg("buffer"), "Where a buffer's memory lies.");
    m.def("capsule_device", &capsule_device, nb::arg("capsule"),
          "The (device type, device id) of an unconsumed DLPack capsule, else None.");
}

}  // namespace tack::python
