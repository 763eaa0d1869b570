/// A program with its types settled for one kind of arguments: what a backend compiles.
#pragma once

#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernel/ir.hpp"
#include "kernel/types.hpp"
#include "tack/launch.hpp"

namespace tack::kernel {

/// What a parameter is bound to: an array of the kernel, or a scalar of a type.
struct ParameterType {
    bool is_array = false;
    Type type;                // of the scalar, or of the array's elements
    int ndim = 0;             // of the array
    std::int32_t array = -1;  // which parameter of the kernel the array is

    friend bool operator==(const ParameterType&, const ParameterType&) = default;
};

/// A routine with types. A device function has one for each kind of arguments it is called with.
struct Instance {
    std::int32_t function = -1;  // -1: the kernel
    std::vector<ParameterType> parameters;
    std::vector<Type> exprs;
    std::vector<Type> locals;
    std::vector<std::int32_t> callees;  // by expression: the instance that a call runs
    std::vector<Type> results;          // of what it returns, if anything
    bool finished = false;              // false while it is being typed: a call then is recursion
};

/// What the kernel does to an array parameter.
struct Access {
    bool loads = false;
    bool stores = false;  // atomics load and store
};

/// The values that a Python int argument may have: it takes the dtype of what it meets.
struct IntegerRange {
    DType dtype = DType::int64;
    std::int64_t low = std::numeric_limits<std::int64_t>::min();
    std::int64_t high = std::numeric_limits<std::int64_t>::max();
};

/// The first index that a launch with check_bounds found out of range. Generated code declares the
/// same layout.
struct BoundsFault {
    std::uint32_t recorded = 0;
    std::int32_t parameter = 0;  // of the kernel
    std::int32_t axis = 0;
    std::int64_t index = 0;
    std::int64_t extent = 0;
};

struct Specialization {
    std::shared_ptr<const ir::Program> program;
    Options options;
    bool no_alias = false;             // no array that is stored to overlaps another
    bool large = false;                // the arrays exceed the backend's large_bytes
    std::deque<Instance> instances;    // the kernel first; a deque: typing one may add others
    std::vector<Access> access;        // by kernel parameter
    std::vector<IntegerRange> ranges;  // by kernel parameter
    std::vector<std::int32_t> steps;   // kernel parameters that are loops' steps: not 0

    const ir::Routine& routine(const Instance& instance) const {
        return instance.function < 0
                   ? program->kernel
                   : program->functions[static_cast<std::size_t>(instance.function)];
    }
};

/// Types `program` for parameters bound as given. Throws compile, in the user's terms, where a
/// rule of docs/kernels.md is broken.
Specialization specialize(std::shared_ptr<const ir::Program> program,
                          std::vector<ParameterType> parameters, Options options, bool no_alias);

}  // namespace tack::kernel
