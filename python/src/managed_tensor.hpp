/// Managed tensors whose deleter may need the interpreter.
#pragma once

#include "bindings.hpp"
#include "tack/dlpack.hpp"

namespace tack::python {

/// Whether this thread holds the GIL.
inline bool holds_gil() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    PyThreadState* current = PyThreadState_GetUnchecked();
#else
    PyThreadState* current = _PyThreadState_UncheckedGet();
#endif
    return current && current == PyGILState_GetThisThreadState();
}

/// Whether this thread may wait for the GIL. While the interpreter is closing it would be stopped
/// for good inside PyGILState_Ensure.
inline bool may_take_gil() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return !Py_IsFinalizing();
#else
    return !_Py_IsFinalizing();
#endif
}

/// Calls `body` with the GIL on whichever thread this is, and keeps the error that may be on its
/// way there. Once the interpreter is closing there may be no safe way in: then it is not called.
template <class Body>
void with_gil(Body&& body) noexcept {
    if (!Py_IsInitialized()) return;
    if (holds_gil()) {
        const nb::error_scope kept;
        body();
    } else if (may_take_gil()) {
        const PyGILState_STATE state = PyGILState_Ensure();
        {
            const nb::error_scope kept;
            body();
        }
        PyGILState_Release(state);
    }
}

/// The deleter of a tensor that came through Python, for the last array over it to call.
template <class Managed>
void delete_with_gil(void* context) noexcept {
    auto* tensor = static_cast<Managed*>(context);
    if (tensor->deleter) with_gil([&] { tensor->deleter(tensor); });
}

/// Gives back a reference on a Python object that kept memory alive.
inline void drop_reference(void* object) noexcept {
    with_gil([&] { Py_DECREF(static_cast<PyObject*>(object)); });
}

/// A managed tensor of the array, without the GIL where that waits for queued work.
inline dlpack::ManagedTensorVersioned* export_versioned(const Array& array) {
    return while_waiting(array, [&] { return to_dlpack_versioned(array); });
}

/// An array over a tensor that is the caller's: whatever happens, its deleter is called once.
inline Array adopt_tensor(dlpack::ManagedTensorVersioned* tensor, const Device& device,
                          bool writable) {
    constexpr auto release = delete_with_gil<dlpack::ManagedTensorVersioned>;
    // Of a later major version libtack calls the deleter itself; nothing else of it may be read.
    const bool readable = tensor->version.major <= 1;
    try {
        return from_dlpack(tensor, device, writable, release);
    } catch (...) {
        if (readable) release(tensor);
        throw;
    }
}

}  // namespace tack::python
