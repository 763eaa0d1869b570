// Kernels compiled for the host: loading what module_abi.h describes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/module_abi.h"

namespace tack_sim {

enum class ImageError { none, not_an_image, foreign };

class Image {
public:
    // Loads a copy of the image, with its own variables. `data` has no size: it is an ELF file, or
    // the start of something else, of which the first bytes are read. Null on error.
    // foreign: an ELF file for another machine, or without kernels.
    static std::shared_ptr<Image> load(const void* data, ImageError& error);
    // Bytes of an image that load() has taken.
    static size_t size(const void* data);

    ~Image();
    Image(const Image&) = delete;
    Image& operator=(const Image&) = delete;

    const tack_sim_kernel* kernels() const { return kernels_; }
    const tack_sim_symbol* symbols() const { return symbols_; }  // may be null
    const tack_sim_kernel* kernel(const char* name) const;
    const tack_sim_symbol* symbol(const char* name) const;
    uint32_t architecture() const { return architecture_; }  // 0: not said

private:
    Image() = default;
    void* library_ = nullptr;
    const tack_sim_kernel* kernels_ = nullptr;
    const tack_sim_symbol* symbols_ = nullptr;
    uint32_t architecture_ = 0;
};

}  // namespace tack_sim
