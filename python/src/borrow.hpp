/// Other libraries' arrays and scalars read where they are, without a capsule.
#pragma once

#include <Python.h>

#include "tack/launch.hpp"

namespace tack::python {

/// Describes the memory of a NumPy array or PyTorch tensor, of exactly a type that learn_type()
/// knows; good while the caller holds `object`. False, without a Python error, where
/// import_dlpack() has to judge: another type, a dtype that Tack does not have, memory that is not
/// the host's, contiguous and aligned, a tensor that requires gradients or is negated.
bool borrow(PyObject* object, kernel::HostView& view) noexcept;
/// The same as the argument of a launch, where NumPy's scalars are numbers; arrays without
/// dimensions are not borrowed.
bool borrow(PyObject* object, kernel::Argument& argument, kernel::HostView& view) noexcept;

/// Learns how to read the objects of `type`, exactly; true where it is one that can be.
bool learn_type(PyTypeObject* type);

}  // namespace tack::python
