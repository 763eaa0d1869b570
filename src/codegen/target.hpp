/// What one language of the C family says otherwise than another. All else of the generated source
/// is the same for every target.
#pragma once

#include <array>
#include <string_view>

#include "tack/ir.hpp"

namespace tack::codegen {

struct Target {
    std::string_view head;  // the source's first lines

    // before a function
    std::string_view inlined;  // a small one
    std::string_view rare;     // one that is seldom called
    std::string_view routine;  // a device function's instance

    std::string_view boolean;
    std::string_view half;         // declares f16; empty: a struct of Tack's, by Helpers::half()
    std::string_view no_alias;     // behind the * of a pointer
    std::string_view array_space;  // before the type that a pointer to an array's elements has
    std::string_view member;       // before a member function

    bool signed_overflow_wraps;  // else operations go through unsigned integers
    bool divides_by_doubles;     // quotients of small integers, which then vectorise
    bool narrow = false;         // elements are counted by 32-bit integers

    // functions of <math.h>: one that is an instruction or two is `builtin` and its name
    std::string_view builtin;
    bool own_math;  // the others are Tack's entries, see vector_math.hpp; else by their names
    struct Number {
        std::string_view infinity, nan;
        std::string_view to_bits, from_bits;  // functions; empty: by copying memory
    };
    Number f32, f64;

    // atomics of $t *cell and $t value, $u being the unsigned integer of that width
    struct Atomic {
        std::string_view of_integers, of_floats;  // give the old value; empty: by a loop
    };
    std::array<Atomic, 3> atomics;  // by ir::Atomic
    std::string_view atomic_load;
    /// The body of b8 f($u *cell, $u *seen, $u wanted): stores `wanted` where *seen is found, else
    /// sets *seen to what is.
    std::string_view compare_exchange;

    // of devices: what stands before an entry's name, the index of a thread and their number, each
    // an operand to be cast to the type of counters first
    std::string_view entry, thread, threads;
};

/// GNU C for the host, compiled with -fwrapv.
extern const Target host_target;
/// CUDA C++17 for NVRTC, without headers.
extern const Target cuda_target;

}  // namespace tack::codegen
