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
    /// Its objects have had their memory on the host, as far as they were asked: the next is
    /// taken to have it there too until its tensor says otherwise.
    bool on_host = false;
};
ArrayKind array_kind(PyTypeObject* type);
inline ArrayKind array_kind(PyObject* object) { return array_kind(Py_TYPE(object)); }
/// The same where that has been looked up and the type has not changed since, else null.
const ArrayKind* known_array_kind(PyTypeObject* type) noexcept;
/// Notes where an object of the type has its memory.
void learn_place(PyTypeObject* type, bool on_host);

/// Throws the error that is set; where it is PyTorch's for a tensor that has no memory to view
/// (sparse, on the meta device, conjugated), one that says what to call, with PyTorch's as cause.
[[noreturn]] void throw_export_error(PyObject* source, bool is_torch);

/// The tensor of an object whose type has an API; the caller owns it.
dlpack::ManagedTensorVersioned* export_exchange(PyObject* object, const ArrayKind& kind);
/// An array over the memory of such an object.
/// Throws what the API's slot sets and what from_dlpack() throws.
Array import_exchange(PyObject* object, const ArrayKind& kind, const Device& device, bool writable);

}  // namespace tack::python
