#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support.hpp"
#include "tack/dtype.hpp"

namespace tack {
namespace {

using test::expect_error;

TEST(DTypes, every_name_leads_back_to_its_dtype) {
    for (int k = 0; k < dtype_count; ++k) {
        const auto dtype = static_cast<DType>(k);
        EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
    }
}

TEST(DTypes, an_unknown_name_lists_the_known_ones) {
    expect_error(ErrorKind::type, {"dtype: ", "'float128'", "bool, int8", "bfloat16", "float64"},
                 [] { dtype_from_name("float128"); });
}

TEST(DTypes, a_number_that_is_no_dtype_is_refused) {
    expect_error(ErrorKind::type, {"dtype: 13"}, [] { itemsize(static_cast<DType>(13)); });
    expect_error(ErrorKind::type, {"dtype: 255"}, [] { name(static_cast<DType>(255)); });
}

TEST(DTypes, the_size_is_that_of_the_type) {
    EXPECT_EQ(itemsize(dtype_of<bool>), 1);
    EXPECT_EQ(itemsize(dtype_of<float16>), 2);
    EXPECT_EQ(itemsize(dtype_of<bfloat16>), 2);
    EXPECT_EQ(itemsize(dtype_of<std::uint32_t>), 4);
    EXPECT_EQ(itemsize(dtype_of<double>), 8);
}

TEST(DTypes, long_and_long_long_are_both_int64) {
    EXPECT_EQ(dtype_of<long>, DType::int64);
    EXPECT_EQ(dtype_of<long long>, DType::int64);
    EXPECT_EQ(dtype_of<const unsigned long long>, DType::uint64);
}

/// The value of a 16-bit float by the definition of the format.
double value_of(std::uint16_t bits, int mantissa_bits) {
    const int special = (1 << (15 - mantissa_bits)) - 1;
    const int exponent = (bits & 0x7fff) >> mantissa_bits;
    const int fraction = bits & ((1 << mantissa_bits) - 1);
    double magnitude;
    if (exponent == special)
        magnitude = fraction ? std::nan("") : HUGE_VAL;
    else if (exponent == 0)
        magnitude = std::ldexp(fraction, 1 - special / 2 - mantissa_bits);
    else
        magnitude =
            std::ldexp(fraction + (1 << mantissa_bits), exponent - special / 2 - mantissa_bits);
    return bits & 0x8000 ? -magnitude : magnitude;
}

template <class Half>
struct Format;
template <>
struct Format<float16> {
    static constexpr int mantissa_bits = 10;
};
template <>
struct Format<bfloat16> {
    static constexpr int mantissa_bits = 7;
};

template <class Half>
struct HalfFormats : testing::Test {};
using Halves = testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(HalfFormats, Halves);

template <class Half>
Half of_bits(std::uint32_t bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    return half;
}

TYPED_TEST(HalfFormats, every_value_is_that_of_the_format) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const auto half = of_bits<TypeParam>(bits);
        const double expected = value_of(half.bits, Format<TypeParam>::mantissa_bits);
        const auto actual = static_cast<float>(half);
        if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(actual)) << bits;
        } else {
            ASSERT_EQ(actual, expected) << bits;
            ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
        }
    }
}

TYPED_TEST(HalfFormats, every_value_survives_a_trip_through_float_and_double) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const auto half = of_bits<TypeParam>(bits);
        const auto wide = static_cast<float>(half);
        if (std::isnan(wide)) {
            ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(wide)))) << bits;
        } else {
            ASSERT_EQ(TypeParam(wide).bits, bits);
            ASSERT_EQ(TypeParam(static_cast<double>(wide)).bits, bits);
        }
    }
}

// Between two neighbours only the midpoint and the doubles next to it can go wrong.
TYPED_TEST(HalfFormats, a_double_rounds_once_to_nearest_and_ties_to_even) {
    constexpr int mantissa_bits = Format<TypeParam>::mantissa_bits;
    constexpr std::uint32_t infinity = 0x7fff >> mantissa_bits << mantissa_bits;
    for (std::uint32_t low = 0; low < infinity; ++low) {
        const std::uint32_t high = low + 1;
        const double below = value_of(static_cast<std::uint16_t>(low), mantissa_bits);
        // Infinity rounds as the value that would be next if the exponent went on.
        const double above =
            high < infinity
                ? value_of(static_cast<std::uint16_t>(high), mantissa_bits)
                : 2 * below - value_of(static_cast<std::uint16_t>(low - 1), mantissa_bits);
        const double middle = below + (above - below) / 2;
        const std::uint32_t even = low % 2 == 0 ? low : high;
        ASSERT_EQ(TypeParam(middle).bits, even) << low;
        ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0)).bits, low) << low;
        ASSERT_EQ(TypeParam(std::nextafter(middle, HUGE_VAL)).bits, high) << low;
        ASSERT_EQ(TypeParam(-middle).bits, even | 0x8000) << low;
    }
}

TYPED_TEST(HalfFormats, floats_of_all_magnitudes_round_to_a_nearest_value) {
    constexpr int mantissa_bits = Format<TypeParam>::mantissa_bits;
    // A step that is prime to 2^32 visits all exponents with ever other fractions.
    std::uint32_t pattern = 0;
    for (int k = 0; k < 200000; ++k, pattern += 2654435769u) {
        const auto value = std::bit_cast<float>(pattern);
        if (!std::isfinite(value)) continue;
        const TypeParam half(value);
        if (std::isinf(static_cast<float>(half))) continue;
        const double error = std::abs(static_cast<double>(static_cast<float>(half)) - value);
        const std::uint32_t magnitude = half.bits & 0x7fff;
        for (const std::uint32_t other : {magnitude + 1, magnitude - 1}) {
            if (other > 0x7fff) continue;
            const double neighbour = value_of(static_cast<std::uint16_t>(other), mantissa_bits);
            ASSERT_LE(error, std::abs(neighbour - std::abs(static_cast<double>(value)))) << value;
        }
        ASSERT_EQ(std::signbit(static_cast<float>(half)), std::signbit(value)) << value;
    }
}

TEST(HalfValues, float16_overflows_to_infinity_from_65520) {
    EXPECT_EQ(float16(65519.0f).bits, 0x7bff);
    EXPECT_EQ(float16(65520.0f).bits, 0x7c00);
    EXPECT_EQ(float16(-1e300).bits, 0xfc00);
}

TEST(HalfValues, a_nan_whose_payload_is_in_the_dropped_bits_stays_a_nan) {
    const auto nan = std::bit_cast<float>(0x7f800001u);
    EXPECT_TRUE(std::isnan(static_cast<float>(float16(nan))));
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(nan))));
}

TEST(HalfValues, the_least_doubles_become_zero_with_their_sign) {
    const double least = std::numeric_limits<double>::denorm_min();
    EXPECT_EQ(float16(least).bits, 0);
    EXPECT_EQ(bfloat16(-least).bits, 0x8000);
}

}  // namespace
}  // namespace tack
