/// The disk cache of compiled kernels.
#pragma once

#include <cstdint>
#include <string>

#include "tack/config.hpp"

namespace tack {

/// Where compiled kernels are kept: TACK_CACHE_DIR, else XDG_CACHE_HOME/tack, else
/// HOME/.cache/tack; empty where none of them is set (then there is no disk cache).
TACK_API std::string cache_directory();
struct CacheUsage {
    std::int64_t bytes = 0;
    std::int64_t limit = 0;  // bytes: TACK_CACHE_MAX_MB, 512 unless set
    std::int64_t entries = 0;
};
TACK_API CacheUsage cache_usage();
/// Removes every entry and returns how many there were. Throws runtime where one cannot be removed.
TACK_API std::int64_t clear_cache();
/// "Clang 22.1.8 (embedded)", the system compiler's path and version, or why there is none.
TACK_API std::string compiler_description();

}  // namespace tack
