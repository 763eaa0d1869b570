/// From CUDA C to what the driver loads: NVRTC and the disk cache.
#pragma once

#include <string>

#include "backend/cuda/driver.hpp"

namespace tack::cuda {

/// An ELF image for one architecture, or PTX text for the driver to finish.
struct Image {
    std::string bytes;
    bool is_ptx = false;
};

/// Compiles `source` for a device of this architecture (90: compute capability 9.0), or takes it
/// from the disk cache. A device newer than NVRTC gets PTX.
/// Throws runtime: no NVRTC and where it was looked for; the compiler's diagnostics; a device that
/// this NVRTC no longer knows.
Image compile(const std::string& source, int architecture, bool fast_math);

/// The PTX text of the same compilation. Never cached.
std::string compile_to_ptx(const std::string& source, int architecture, bool fast_math);

/// "NVRTC 13.0", or why there is none; for people.
std::string nvrtc_description();

}  // namespace tack::cuda
