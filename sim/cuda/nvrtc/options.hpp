/// NVRTC's options, as NVRTC 13.5 takes and refuses them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tack_sim::nvrtc {

struct Options {
    int architecture = 75;
    bool makes_cubin = false;  // sm_XX does, compute_XX only PTX
    bool fmad = true;
    bool device_by_default = false;
    bool int128 = false;
    std::string standard = "17";
    std::vector<std::string> host;  // definitions and folders of headers
    std::string error;              // of the first wrong one; empty: none
};

const std::vector<int>& supported_architectures();

Options parse_options(const std::vector<std::string>& options);

}  // namespace tack_sim::nvrtc
