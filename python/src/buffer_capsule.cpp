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
            Py_DECREF(self->owner);
            PyGILState_Release(state);
        }
        delete self;
    }
};

template <class Managed>
void destroy(PyObject* capsule) {
    constexpr const char* name = std::is_same_v<Managed, dlpack::ManagedTensor>
                                     ? "dltensor"
                                     : "dltensor_versioned";
    if (!PyCapsule_IsValid(capsule, name)) return;  // a consumer owns the tensor
    auto* tensor = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    tensor->deleter(tensor);
}

template <class Managed>
nb::object make_capsule(const Py_buffer& view, DType dtype, nb::handle owner, const char* name) {
    auto tensor = std::make_unique<OwnedTensor<Managed>>();
    tensor->shape[0] = view.shape[0];
    tensor->shape[1] = view.ndim == 2 ? view.shape[1] : 1;
    tensor->strides[0] = tensor->shape[1];
    tensor->strides[1] = 1;
    tensor->deleter = OwnedTensor<Managed>::release;
    tensor->manager_ctx = owner.ptr();
    tensor->dl_tensor = {.data = view.len ? view.buf : nullptr,
                         .device = {dlpack::cpu, 0},
                         .ndim = 2,
                         .dtype = to_dlpack_type(dtype),
                         .shape = tensor->shape,
                         .strides = tensor->strides,
                         .byte_offset = 0};
    if constexpr (std::is_same_v<Managed, dlpack::ManagedTensorVersioned>) {
        tensor->version = {1, 0};
        tensor->flags = view.readonly ? dlpack::flag_read_only : 0;
    }
    nb::object capsule = nb::steal(PyCapsule_New(tensor.get(), name, destroy<Managed>));
    if (!capsule.is_valid()) throw nb::python_error();
    tensor->owner = owner.inc_ref().ptr();
    tensor.release();
    return capsule;
}

nb::object buffer_capsule(nb::handle buffer, nb::handle dtype_like, nb::handle owner,
                          bool versioned) {
    const DType dtype = to_dtype(dtype_like, "buffer_capsule");
    Py_buffer view;
    if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_STRIDED_RO) != 0) throw nb::python_error();
    // The owner keeps the memory; the view would keep the object whose memory may move.
    struct Released {
        Py_buffer* view;
        ~Released() { PyBuffer_Release(view); }
    } released{&view};
    if (view.ndim < 1 || view.ndim > 2 || view.itemsize != itemsize(dtype) ||
        !PyBuffer_IsContiguous(&view, 'C'))
        throw Error(ErrorKind::value,
                    "buffer_capsule: a buffer of " + std::to_string(view.ndim) +
                        " dimensions with items of " + std::to_string(view.itemsize) +
                        " bytes is no C-contiguous array of " + std::string(name(dtype)));
    return versioned ? make_capsule<dlpack::ManagedTensorVersioned>(view, dtype, owner,
                                                                    "dltensor_versioned")
                     : make_capsule<dlpack::ManagedTensor>(view, dtype, owner, "dltensor");
}

/// The DLPack device type and id of an unconsumed capsule, which stays as it is; None for another.
nb::object capsule_device(nb::handle capsule) {
    const dlpack::Tensor* tensor = nullptr;
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor"))
        tensor = &static_cast<dlpack::ManagedTensor*>(
                      PyCapsule_GetPointer(capsule.ptr(), "dltensor"))
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
    m.def("capsule_device", &capsule_device, nb::arg("capsule"),
          "The (device type, device id) of an unconsumed DLPack capsule, else None.");
}

}  // namespace tack::python
