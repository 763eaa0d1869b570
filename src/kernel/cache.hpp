/// The disk cache, as the compilers of the backends use it. See include/tack/cache.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tack::kernel::cache {

/// The payload that was stored under exactly this key, if it is there and undamaged.
/// key: everything that the payload depends on, in full; it may be long.
std::optional<std::string> load(std::string_view key);

/// Keeps a payload, or does nothing: a folder that is missing, read-only, full or not ours alone
/// costs a recompilation and no error.
void store(std::string_view key, std::string_view payload);

}  // namespace tack::kernel::cache
