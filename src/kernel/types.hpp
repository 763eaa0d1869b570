/// The types of values in kernels and NumPy's promotion between them.
#pragma once

#include <cstdint>

#include "tack/dtype.hpp"

namespace tack::kernel {

/// How a number that is not bound to a dtype behaves among others.
enum class Weak : std::uint8_t {
    none,      // has its dtype
    index,     // loop indices, extents, locals begun from an integer literal: int64 among
               // integers, the other's dtype among floats
    integer,   // integer literals and Python int arguments: take the other's dtype
    floating,  // float literals and Python float arguments: take a float's dtype, make ints float64
};

/// The type of an expression or local. While types are being found, `known` is false for what is
/// not settled yet.
struct Type {
    DType dtype = DType::bool_;
    Weak weak = Weak::none;
    bool known = false;

    friend bool operator==(const Type&, const Type&) = default;
};

constexpr Type strong(DType dtype) { return {dtype, Weak::none, true}; }
inline constexpr Type index_type{DType::int64, Weak::index, true};
inline constexpr Type weak_int_type{DType::int64, Weak::integer, true};
inline constexpr Type weak_uint_type{DType::uint64, Weak::integer, true};  // above int64
inline constexpr Type weak_float_type{DType::float64, Weak::floating, true};

/// NumPy's promote_types of two dtypes; bfloat16 stands where float16 does, and the two meet in
/// float32.
DType promote(DType a, DType b);
/// NumPy 2's result type of an operation on both, weak numbers included.
Type promote(Type a, Type b);
/// The type of a local that is assigned both.
Type join(Type local, Type value);
/// The floating type that divisions and math functions of `type` have.
Type to_floating(Type type);

/// Whether an integer (read as unsigned where `is_unsigned`) is a value of `dtype`.
bool fits(DType dtype, std::int64_t value, bool is_unsigned);

}  // namespace tack::kernel
