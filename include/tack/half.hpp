/// 16-bit floating-point values on the host: storage and conversion, no arithmetic.
#pragma once

#include <cstdint>

#include "tack/config.hpp"

namespace tack {

/// IEEE 754 binary16. Conversion from float rounds to nearest, ties to even.
struct float16 {
    std::uint16_t bits = 0;

    float16() = default;
    TACK_API explicit float16(float value) noexcept;
    TACK_API explicit float16(double value) noexcept;  // rounds once
    TACK_API explicit operator float() const noexcept;
    friend bool operator==(float16 a, float16 b) noexcept { return float(a) == float(b); }
};

/// The upper half of a binary32. Conversion from float rounds to nearest, ties to even.
struct bfloat16 {
    std::uint16_t bits = 0;

    bfloat16() = default;
    TACK_API explicit bfloat16(float value) noexcept;
    TACK_API explicit bfloat16(double value) noexcept;  // rounds once
    TACK_API explicit operator float() const noexcept;
    friend bool operator==(bfloat16 a, bfloat16 b) noexcept { return float(a) == float(b); }
};

}  // namespace tack
