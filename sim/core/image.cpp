#include "core/image.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

namespace tack_sim {
namespace {

// dlopen takes a path that it knows for the library that it has, and numbers of files come back.
// So each path spells the folder in another way: a "./" or a "/" for each bit of a counter.
std::string path_of(int file) {
    static std::atomic<uint32_t> counter{0};
    std::string path = "/proc/self/fd/";
    for (uint32_t bits = ++counter; bits != 0; bits >>= 1) path += bits & 1 ? "./" : "/";
    return path + std::to_string(file);
}

}  // namespace

std::shared_ptr<Image> Image::load(const void* data, ImageError& error) {
    auto* header = static_cast<const Elf64_Ehdr*>(data);
    error = ImageError::not_an_image;
    // Piecewise: what is not ELF may be a text of a few bytes.
    if (!data || std::strncmp(static_cast<const char*>(data), ELFMAG, SELFMAG)) return nullptr;
    error = ImageError::foreign;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64 ||
        header->e_type != ET_DYN) {
        return nullptr;
    }
    size_t bytes = size(data);

    int file = memfd_create("tack-sim-image", MFD_CLOEXEC);
    if (file < 0) return nullptr;
    bool written = write(file, data, bytes) == static_cast<ssize_t>(bytes);
    std::shared_ptr<Image> image(new Image);
    if (written) image->library_ = dlopen(path_of(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    close(file);
    if (!image->library_) return nullptr;
    auto variable = [&](const char* name) { return dlsym(image->library_, name); };
    if (void* table = variable(TACK_SIM_IMAGE_KERNELS)) {
        image->kernels_ = *static_cast<const tack_sim_kernel* const*>(table);
    }
    if (void* table = variable(TACK_SIM_IMAGE_SYMBOLS)) {
        image->symbols_ = *static_cast<const tack_sim_symbol* const*>(table);
    }
    if (void* number = variable(TACK_SIM_IMAGE_ARCHITECTURE)) {
        image->architecture_ = *static_cast<const uint32_t*>(number);
    }
    if (!image->kernels_) return nullptr;
    error = ImageError::none;
    return image;
}

size_t Image::size(const void* data) {
    auto* header = static_cast<const Elf64_Ehdr*>(data);
    return header->e_shoff + size_t{header->e_shentsize} * header->e_shnum;
}

Image::~Image() {
    if (library_) dlclose(library_);
}

const tack_sim_kernel* Image::kernel(const char* name) const {
    for (const tack_sim_kernel* kernel = kernels_; kernel->name; ++kernel) {
        if (!std::strcmp(kernel->name, name)) return kernel;
    }
    return nullptr;
}

const tack_sim_symbol* Image::symbol(const char* name) const {
    for (const tack_sim_symbol* symbol = symbols_; symbol && symbol->name; ++symbol) {
        if (!std::strcmp(symbol->name, name)) return symbol;
    }
    return nullptr;
}

}  // namespace tack_sim
