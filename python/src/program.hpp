/// The finished program of a kernel as Python holds it: what ir.cpp makes and kernel.cpp launches.
#pragma once

#include <memory>

#include "tack/ir.hpp"

struct PythonProgram {
    std::shared_ptr<const tack::ir::Program> program;
};
