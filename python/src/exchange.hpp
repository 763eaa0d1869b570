/// Other libraries' arrays through their C exchange API (DLPack 1.3): no capsule, no Python call.
#pragma once

#include "bindings.hpp"
#include "tack/dlpack.hpp"

namespace tack::python {

/// What is known of a type of arrays, looked up once for each.
struct ArrayKind {
    /// The API that the type itself has, or null. A base class's is not its: a derived type may
    /// mean something else by its memory, and the API's slots take the exact type only.
    const dlpack::ExchangeAPI* api = nullptr;
    bool is_torch = false;  // torch.Tensor or derived from it
};
ArrayKind array_kind(PyTypeObject* type);
inline ArrayKind array_kind(PyObject* object) { return array_kind(Py_TYPE(object)); }

/// Refuses a PyTorch tensor that a view would misrepresent and that PyTorch's exchange API hands
/// out all the same: one that requires gradients, or a negated view. Throws buffer.
void require_plain_torch_tensor(PyObject* tensor);
/// Throws the error that is set; where it is PyTorch's for a tensor that has no memory to view
/// (sparse, on the meta device, conjugated), one that says what to call, with PyTorch's as cause.
[[noreturn]] void throw_export_error(PyObject* source, bool is_torch);

/// The tensor of an object whose type has an API; the caller owns it.
dlpack::ManagedTensorVersioned* export_exchange(PyObject* object, const ArrayKind& kind);
/// An array over the memory of such an object.
/// Throws what the API's slot sets and what from_dlpack() throws.
Array import_exchange(PyObject* object, const ArrayKind& kind, const Device& device, bool writable);
/// Describes the memory of such an object without taking anything: shape and strides stay the
/// object's, and the memory is valid while the object is and nothing else resizes it. False where
/// the API lacks the slot. A tensor says nothing of read-only memory, which the slot must refuse.
bool borrow_tensor(PyObject* object, const ArrayKind& kind, dlpack::Tensor& out);

}  // namespace tack::python
