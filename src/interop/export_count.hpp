/// How many exported tensors have not been given back.
#pragma once

#include <cstdint>

namespace tack {

/// Adds to what live_exports() says. Never throws: a thread that finds no memory for its part of
/// the count ends the process.
void count_export(std::int64_t change) noexcept;

}  // namespace tack
