/// What is done to a program once its front end has built it.
#pragma once

#include "kernel/ir.hpp"

namespace tack::ir {

/// Puts the values of temporaries that are used once, by the statement that follows them directly,
/// into that statement. What a C++ function says in one expression then is one, as in Python.
void inline_temporaries(Program& program);

/// Makes operands with effects (atomics, device functions that store) statements of their own where
/// another operand has effects or reads memory. Afterwards no result depends on the order of
/// evaluation of operands, which C leaves open; it is Python's, left to right.
void order_effects(Program& program);

}  // namespace tack::ir
