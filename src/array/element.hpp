/// One number as the bytes of an element.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "tack/dtype.hpp"

namespace tack {

/// The nearest value of the integer type, towards zero; 0 for NaN.
template <class T, class V>
T saturate(V value) {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_integral_v<V>) {
        if (std::cmp_less(value, Limits::min())) return Limits::min();
        if (std::cmp_greater(value, Limits::max())) return Limits::max();
    } else {
        // One above the maximum is a power of two, which a double holds where it cannot hold the
        // maximum itself.
        constexpr double beyond = 2.0 * static_cast<double>(T{1} << (Limits::digits - 1));
        if (value != value) return 0;
        if (value <= static_cast<V>(Limits::min())) return Limits::min();
        if (value >= beyond) return Limits::max();
    }
    return static_cast<T>(value);
}

/// A double that rounds to a 16-bit float as the number itself does: exact, or what is beyond 53
/// bits squeezed into a last bit that breaks ties the right way.
template <class V>
double for_narrowing(V value) {
    if constexpr (std::is_integral_v<V>) {
        const bool negative = std::cmp_less(value, 0);
        std::uint64_t magnitude = static_cast<std::uint64_t>(value);
        if (negative) magnitude = 0 - magnitude;
        if (magnitude >> 53) magnitude = (magnitude & ~0x7ffull) | (magnitude & 0x7ff ? 0x800 : 0);
        const double result = static_cast<double>(magnitude);
        return negative ? -result : result;
    } else {
        return value;
    }
}

/// The bytes of `value` (double, int64 or uint64) as an element of `dtype`, low ones first.
/// Integers saturate and take NaN as 0, bool is `value != 0`, floats round once.
template <class V>
std::uint64_t encode_element(DType dtype, V value) {
    switch (dtype) {
        case DType::bool_:
            return value != 0;
        case DType::int8:
            return static_cast<std::uint8_t>(saturate<std::int8_t>(value));
        case DType::int16:
            return static_cast<std::uint16_t>(saturate<std::int16_t>(value));
        case DType::int32:
            return static_cast<std::uint32_t>(saturate<std::int32_t>(value));
        case DType::int64:
            return static_cast<std::uint64_t>(saturate<std::int64_t>(value));
        case DType::uint8:
            return saturate<std::uint8_t>(value);
        case DType::uint16:
            return saturate<std::uint16_t>(value);
        case DType::uint32:
            return saturate<std::uint32_t>(value);
        case DType::uint64:
            return saturate<std::uint64_t>(value);
        case DType::float16:
            return float16(for_narrowing(value)).bits;
        case DType::bfloat16:
            return bfloat16(for_narrowing(value)).bits;
        case DType::float32:
            return std::bit_cast<std::uint32_t>(static_cast<float>(value));
        case DType::float64:
            return std::bit_cast<std::uint64_t>(static_cast<double>(value));
    }
    return 0;
}

}  // namespace tack
