/// How often parallel loops run, computed on the host ahead of a launch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/specialization.hpp"

namespace tack::gpu {

/// The passes of each parallel loop of the program, in order. None where it takes more than
/// integers, arguments and extents to know: a launch then chooses its size without.
/// slots: see LaunchArguments.
std::vector<std::optional<std::int64_t>> loop_passes(const kernel::Specialization& spec,
                                                     const std::uint64_t* slots);

}  // namespace tack::gpu
