/// NVRTC's interface, as far as Tack calls it. Declared here: the build needs no CUDA.
/// Source: NVRTC's reference; tests/cpp/test_cuda_abi.cpp compares with its nvrtc.h.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backend/gpu/driver_table.hpp"

namespace tack::cuda {

using gpu::Entry;
using gpu::Status;
using Program = struct ProgramHandle*;

/// nvrtcResult
inline constexpr int compilation_failed = 6;
inline constexpr int builtins_missing = 7;

struct Nvrtc final : gpu::DriverTable {
    /// The compiler of this process, opened at the first call that succeeds. Throws runtime with
    /// all places where it was looked for.
    static Nvrtc& get();

    Entry<int(int*, int*)> get_version{*this, "nvrtcVersion"};
    Entry<int(int*)> count_architectures{*this, "nvrtcGetNumSupportedArchs"};
    Entry<int(int*)> get_architectures{*this, "nvrtcGetSupportedArchs"};
    Entry<int(Program*, const char*, const char*, int, const char* const*, const char* const*)>
        create{*this, "nvrtcCreateProgram"};
    Entry<int(Program*)> destroy{*this, "nvrtcDestroyProgram"};
    Entry<int(Program, int, const char* const*)> compile{*this, "nvrtcCompileProgram"};
    Entry<int(Program, std::size_t*)> log_size{*this, "nvrtcGetProgramLogSize"};
    Entry<int(Program, char*)> log{*this, "nvrtcGetProgramLog"};
    Entry<int(Program, std::size_t*)> ptx_size{*this, "nvrtcGetPTXSize"};
    Entry<int(Program, char*)> ptx{*this, "nvrtcGetPTX"};
    Entry<int(Program, std::size_t*)> cubin_size{*this, "nvrtcGetCUBINSize"};
    Entry<int(Program, char*)> cubin{*this, "nvrtcGetCUBIN"};

    /// Throws runtime with the function, NVRTC's version and path, and the result.
    void check(Status status, const std::string& doing) const;

    int major = 0;
    int minor = 0;
    std::vector<int> architectures;  // ascending

private:
    Nvrtc();
};

}  // namespace tack::cuda
