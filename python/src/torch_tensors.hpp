/// What PyTorch's exports do not say of its tensors, and what to call where they refuse.
#pragma once

#include "bindings.hpp"

namespace tack::python {

/// Whether the type is torch.Tensor or derived from it.
bool derives_from_torch(PyTypeObject* type);

/// Whether the tensor neither requires gradients nor is a negated view, whose memory holds the
/// numbers with the other sign: PyTorch's exchange API hands out both. False, without a Python
/// error, also where PyTorch fails to say.
bool is_plain_torch_tensor(PyObject* tensor) noexcept;
/// Refuses a tensor that is not plain. Throws buffer.
void require_plain_torch_tensor(PyObject* tensor);

/// Why PyTorch could not hand the tensor out, and what to call; empty for other reasons.
std::string torch_reason(nb::handle tensor);

}  // namespace tack::python
