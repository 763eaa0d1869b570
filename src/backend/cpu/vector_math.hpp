/// The math functions that compiled kernels call: libmvec's, in vectorised loops and alone alike.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tack::cpu {

/// A function of glibc's libmvec: `vector`, of 256-bit vectors, stands for `width` calls of
/// `scalar`. prefix: the mangling of such a function in LLVM, "_ZGV_LLVM_N8v".
struct VectorFunction {
    std::string scalar;  // "tack_sinf"
    std::string vector;  // "_ZGVdN8v_sinf"
    std::string prefix;
    unsigned width;
};

/// Those that this glibc has and this processor can run: none without AVX2 and FMA.
std::span<const VectorFunction> vector_functions();

/// The address of a VectorFunction's `vector`, or of "tack_" followed by one of libm's names; null
/// for any other name. Where a function has a vector form its scalar one gives what that gives, bit
/// by bit, so that an element's result does not depend on its place in the array: the vector
/// form runs with that argument in each of its lanes. Else it is libm's own.
void* math_symbol(std::string_view name);

}  // namespace tack::cpu
