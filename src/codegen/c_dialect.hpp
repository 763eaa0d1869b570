/// C for the host: one function that runs a launch, parallel loops handed to a runtime.
#pragma once

#include <cstdint>
#include <string>

#include "kernel/specialization.hpp"

namespace tack::codegen {

/// What generated code calls back; the generated source declares the same layout.
struct Runtime {
    using Body = void (*)(const void* frame, std::int64_t begin, std::int64_t end);
    /// Runs body(frame, begin, end) over parts of [0, total), each pass of about `nanoseconds`.
    void (*parallel)(const Runtime* self, Body body, const void* frame, std::int64_t total,
                     double nanoseconds);
    /// Loops over arrays of more bytes than this write by streaming stores where they can.
    std::int64_t cache_bytes;
    kernel::BoundsFault* fault;  // for check_bounds
};
/// The launch function, by the name in the source. See LaunchArguments for the slots.
using HostKernel = void (*)(const std::uint64_t* slots, const Runtime* runtime);
inline constexpr const char* host_kernel_symbol = "tack_kernel";

/// Loops of less estimated work run in the caller's thread.
inline constexpr double serial_nanoseconds = 1500;

std::string emit_c(const kernel::Specialization& spec);

}  // namespace tack::codegen
