#include "tack/dtype.hpp"

#include <array>
#include <string>

#include "tack/error.hpp"

namespace tack {
namespace {

struct DTypeInfo {
    std::string_view name;
    std::int64_t itemsize;
};
constexpr std::array<DTypeInfo, dtype_count> infos{{
    {"bool", 1},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
}};

std::string known_names() {
    std::string names;
    for (const DTypeInfo& info : infos)
        names += (names.empty() ? "" : ", ") + std::string(info.name);
    return names;
}

const DTypeInfo& info_of(DType dtype) {
    if (!is_valid(dtype)) {
        throw Error(ErrorKind::type, "dtype: " + std::to_string(static_cast<int>(dtype)) +
                                         " is not the value of a dtype; use one of " +
                                         known_names());
    }
    return infos[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::int64_t itemsize(DType dtype) { return info_of(dtype).itemsize; }

std::string_view name(DType dtype) { return info_of(dtype).name; }

DType dtype_from_name(std::string_view name) {
    for (std::size_t k = 0; k < infos.size(); ++k)
        if (infos[k].name == name) return static_cast<DType>(k);
    throw Error(ErrorKind::type, "dtype: there is no dtype '" + std::string(name) +
                                     "'; use one of " + known_names());
}

}  // namespace tack
