/// NumPy's arrays, scalars and dtypes, read and made without a call of Python code.
#pragma once

#include "bindings.hpp"
#include "tack/launch.hpp"

namespace tack::python {

/// numpy.ndarray itself; null until learn_numpy() has found it.
extern PyTypeObject* numpy_array_type;
/// Finds the objects of a NumPy that something has imported. False without one, and for a major
/// version whose objects may be laid out otherwise.
bool learn_numpy();

/// Describes the memory of a numpy.ndarray without taking anything: good while the caller holds
/// the array. False where NumPy's DLPack has to judge: another layout or byte order, a dtype that
/// Tack does not have, memory that is misaligned or that NumPy warns of writing to.
bool read_numpy_array(PyObject* array, kernel::HostView& view) noexcept;
/// The value of one of NumPy's scalars, and its dtype; null for objects of other types.
const void* read_numpy_scalar(PyObject* object, DType& dtype) noexcept;
bool is_numpy_scalar_type(PyTypeObject* type) noexcept;

/// A NumPy array over the memory of a Tack array on the host, which it keeps alive; read-only where
/// that is. An empty object where learn_numpy() is false, or for a dtype that NumPy lacks.
nb::object numpy_view(nb::handle array);

}  // namespace tack::python
