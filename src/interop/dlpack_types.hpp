/// Tack's dtypes and DLPack's, and DLPack's names for messages.
#pragma once

#include <array>
#include <bit>
#include <optional>
#include <string>

#include "tack/dlpack.hpp"
#include "tack/dtype.hpp"

namespace tack {

constexpr dlpack::DataType to_dlpack_type(DType dtype) noexcept {
    using namespace dlpack;
    constexpr DataType types[dtype_count] = {
        {code_bool, 8, 1},   {code_int, 8, 1},    {code_int, 16, 1},    {code_int, 32, 1},
        {code_int, 64, 1},   {code_uint, 8, 1},   {code_uint, 16, 1},   {code_uint, 32, 1},
        {code_uint, 64, 1},  {code_float, 16, 1}, {code_bfloat, 16, 1}, {code_float, 32, 1},
        {code_float, 64, 1},
    };
    return types[static_cast<int>(dtype)];
}

/// The dtype of one lane, or none where Tack has no such dtype.
constexpr std::optional<DType> from_dlpack_type(dlpack::DataType type) noexcept {
    // By code and by the logarithm of the bytes, since every import looks here.
    constexpr auto dtypes = [] {
        std::array<std::array<std::optional<DType>, 4>, dlpack::code_bool + 1> table{};
        for (int k = 0; k < dtype_count; ++k) {
            const dlpack::DataType known = to_dlpack_type(static_cast<DType>(k));
            table[known.code][std::bit_width(known.bits) - 4u] = static_cast<DType>(k);
        }
        return table;
    }();
    // Not std::has_single_bit, which is a call where the processor may lack the instruction.
    if (type.code >= dtypes.size() || (type.bits & (type.bits - 1)) != 0) return std::nullopt;
    const unsigned row = static_cast<unsigned>(std::bit_width(type.bits)) - 4u;  // 0 bits wrap
    return row < 4 ? dtypes[type.code][row] : std::nullopt;
}

/// "complex64 (code 5, 64 bits)"; with lanes where there is not one of them.
TACK_API std::string describe(dlpack::DataType type);

/// "kDLCUDA", or "device type 99" for what DLPack 1.3 does not list.
TACK_API std::string device_type_name(std::int32_t device_type);

}  // namespace tack
