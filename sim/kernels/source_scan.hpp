/// What the host's compiler cannot say about a kernel's source: where the kernels are, and what a
/// device's compiler would refuse.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tack_sim {

struct Diagnostic {
    int line;  // of the source, from 1
    std::string text;
};

struct ScanRules {
    /// Functions and variables without __device__ and the like count as the device's.
    bool device_by_default = false;
    bool has_int128 = false;
    /// Those of the host's compiler that the device's compiler has too.
    std::vector<std::string_view> known_builtins;
};

struct Scan {
    std::string text;                    // the source, line by line as it was, for the host
    std::vector<std::string> kernels;    // __global__ functions at namespace scope, no templates
    std::vector<std::string> variables;  // __device__ and __constant__ ones
    bool uses_barriers = false;
    std::vector<Diagnostic> errors;
};

Scan scan_source(std::string_view source, const ScanRules& rules);

}  // namespace tack_sim
