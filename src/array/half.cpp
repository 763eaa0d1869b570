#include "tack/half.hpp"

#include <bit>

namespace tack {
namespace {

constexpr int double_mantissa = 52;
constexpr std::uint64_t double_fraction = (std::uint64_t{1} << double_mantissa) - 1;

/// Drops `shift` low bits (1 to 63), rounding to nearest, ties to even.
std::uint64_t round_off(std::uint64_t value, int shift) {
    const std::uint64_t kept = value >> shift;
    const std::uint64_t rest = value & ((std::uint64_t{1} << shift) - 1);
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    return kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);
}

/// Bits of the 16-bit IEEE-like format with this many exponent and mantissa bits. Every source is
/// a double, which holds each float exactly, so that there is one rounding whatever comes in.
template <int exponent_bits, int mantissa_bits>
std::uint16_t narrow(double value) {
    constexpr int special = (1 << exponent_bits) - 1;  // exponent of infinity and NaN
    constexpr int bias = special >> 1;
    constexpr int shift = double_mantissa - mantissa_bits;

    const auto bits = std::bit_cast<std::uint64_t>(value);
    const std::uint64_t sign = (bits >> 63) << 15;
    const int double_exponent = static_cast<int>(bits >> double_mantissa) & 0x7ff;
    const std::uint64_t fraction = bits & double_fraction;
    std::uint64_t magnitude = std::uint64_t{special} << mantissa_bits;

    const int exponent = double_exponent - 1023 + bias;
    if (double_exponent == 0x7ff) {
        // The quiet bit keeps a NaN one whose upper payload bits are all zero.
        if (fraction) magnitude |= (fraction >> shift) | (std::uint64_t{1} << (mantissa_bits - 1));
    } else if (exponent > 0 && exponent < special) {
        // A carry out of the mantissa is the next exponent, up to infinity.
        magnitude =
            round_off((static_cast<std::uint64_t>(exponent) << double_mantissa) | fraction, shift);
    } else if (exponent <= 0) {
        // From 54 dropped bits on the value is below half of the least subnormal.
        const int dropped = shift + 1 - exponent;
        magnitude = dropped > double_mantissa + 1
                        ? 0
                        : round_off(fraction | (double_fraction + 1), dropped);
    }
    return static_cast<std::uint16_t>(sign | magnitude);
}

}  // namespace

float16::float16(float value) noexcept : float16(static_cast<double>(value)) {}
float16::float16(double value) noexcept : bits(narrow<5, 10>(value)) {}

float16::operator float() const noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 15) << 31;
    const std::uint32_t exponent = (bits >> 10) & 0x1f;
    const std::uint32_t fraction = bits & 0x3ff;
    std::uint32_t magnitude;
    if (exponent == 0x1f) {
        magnitude = 0x7f800000 | fraction << 13;
    } else if (exponent != 0) {
        magnitude = (exponent + 112) << 23 | fraction << 13;
    } else if (fraction != 0) {
        const int width = std::bit_width(fraction);  // the leading one becomes the implicit bit
        magnitude =
            static_cast<std::uint32_t>(width + 102) << 23 | ((fraction << (24 - width)) & 0x7fffff);
    } else {
        magnitude = 0;
    }
    return std::bit_cast<float>(sign | magnitude);
}

bfloat16::bfloat16(float value) noexcept : bfloat16(static_cast<double>(value)) {}
bfloat16::bfloat16(double value) noexcept : bits(narrow<8, 7>(value)) {}

bfloat16::operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace tack
