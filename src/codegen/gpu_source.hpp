/// Source for devices: each parallel loop of a program is an entry point of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/specialization.hpp"

namespace tack::codegen {

/// What an entry point takes as one of its parameters.
struct GpuParameter {
    enum class Kind : std::uint8_t {
        array,   // a device address: the launch's slot number `slot`
        value,   // the low `bytes` bytes of that slot: a scalar, or an array's extent
        fault,   // the address of a kernel::BoundsFault in device memory, zeroed before the launch
        locals,  // the address of GpuSource::locals_bytes of device memory, the launch's own
    };
    Kind kind;
    std::int32_t slot = -1;
    std::int32_t bytes = 8;
};

/// A function to be run on the device, in the order of GpuSource::entries.
struct GpuEntry {
    std::string name;  // extern "C"
    std::vector<GpuParameter> parameters;
    /// The parallel loop that it runs, one that strides by the whole grid, so that any number of
    /// threads in one dimension gives the same result; the more are there, up to the loop's passes,
    /// the faster. Null: statements between loops, for one thread alone.
    const ir::Stmt* loop = nullptr;  // of Specialization::program
    /// How many passes each thread should have where there are enough for all threads of the
    /// device; it runs them side by side.
    int passes_each = 1;
};

struct GpuSource {
    std::string text;
    std::vector<GpuEntry> entries;
    /// 0 where every entry computes what stands outside the loops by itself. Else entries without a
    /// loop do, and keep what later ones need there: the program reads outside a loop what it
    /// stores to inside one.
    std::int64_t locals_bytes = 0;
};

/// Which integers count elements and passes. `narrow` takes 32 bits: only for launches whose arrays
/// are each below 2 GiB and whose loops' passes, with GpuEntry::passes_each of every thread added,
/// are fewer than 2^32.
enum class IndexWidth : std::uint8_t { narrow, wide };

/// CUDA C++17 for NVRTC, without headers.
GpuSource emit_cuda(const kernel::Specialization& spec, IndexWidth width);

}  // namespace tack::codegen
