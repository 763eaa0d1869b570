/// Other libraries' arrays and scalars as arguments of one launch, without a capsule.
#pragma once

#include <Python.h>

#include "tack/launch.hpp"

namespace tack::python {

/// Reads a NumPy array, a NumPy scalar or a PyTorch tensor of a type that learn_type() knows: into
/// `argument`, and `view` where it is an array; both are good while the caller holds `object`.
/// False, without a Python error, where import_dlpack() has to judge: another type, a dtype that
/// Tack does not have, memory that is not the host's, contiguous and aligned, zero dimensions, a
/// tensor that requires gradients or is negated.
bool borrow(PyObject* object, kernel::Argument& argument, kernel::HostView& view) noexcept;

/// Learns how to read the objects of `type`, exactly; true where it is one that can be.
bool learn_type(PyTypeObject* type);

}  // namespace tack::python
