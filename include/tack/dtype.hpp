/// Element types of arrays.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tack/config.hpp"
#include "tack/half.hpp"

namespace tack {

/// The element type of an array. The enumerators' values are stable: they are part of cache keys.
enum class DType : std::uint8_t {
    bool_ = 0,
    int8 = 1,
    int16 = 2,
    int32 = 3,
    int64 = 4,
    uint8 = 5,
    uint16 = 6,
    uint32 = 7,
    uint64 = 8,
    float16 = 9,
    bfloat16 = 10,
    float32 = 11,
    float64 = 12,
};
inline constexpr int dtype_count = 13;

/// Bytes of one element. An enumerator outside the list throws type.
TACK_API std::int64_t itemsize(DType dtype);
/// NumPy's name of it: "float32", "bool". An enumerator outside the list throws type.
TACK_API std::string_view name(DType dtype);
/// The dtype of a name as name() gives it; anything else throws type, listing the names.
TACK_API DType dtype_from_name(std::string_view name);

constexpr bool is_valid(DType d) noexcept { return static_cast<int>(d) < dtype_count; }
constexpr bool is_signed_integer(DType d) noexcept { return d >= DType::int8 && d <= DType::int64; }
constexpr bool is_unsigned_integer(DType d) noexcept {
    return d >= DType::uint8 && d <= DType::uint64;
}
constexpr bool is_integer(DType d) noexcept { return d >= DType::int8 && d <= DType::uint64; }
constexpr bool is_floating(DType d) noexcept { return d >= DType::float16 && d <= DType::float64; }

/// The dtype of a C++ type: dtype_of<float> is DType::float32. Other types do not compile.
/// Integers are matched by size and sign, so that long and long long both work.
template <class T>
constexpr DType make_dtype_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, bool>) {
        return DType::bool_;
    } else if constexpr (std::is_same_v<U, float16>) {
        return DType::float16;
    } else if constexpr (std::is_same_v<U, bfloat16>) {
        return DType::bfloat16;
    } else if constexpr (std::is_same_v<U, float>) {
        return DType::float32;
    } else if constexpr (std::is_same_v<U, double>) {
        return DType::float64;
    } else {
        static_assert(std::is_integral_v<U> && sizeof(U) <= 8, "no Tack dtype for this type");
        constexpr int log2 = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
        return static_cast<DType>(
            static_cast<int>(std::is_signed_v<U> ? DType::int8 : DType::uint8) + log2);
    }
}
template <class T>
inline constexpr DType dtype_of = make_dtype_of<T>();

}  // namespace tack
