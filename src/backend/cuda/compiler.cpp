#include "backend/cuda/compiler.hpp"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <vector>

#include "backend/cuda/nvrtc.hpp"
#include "kernel/cache.hpp"
#include "tack/config.hpp"
#include "tack/error.hpp"

namespace tack::cuda {
namespace {

struct LibraryName {
    const char* name;
    int major;
};
#ifdef _WIN32
constexpr LibraryName library_names[] = {
    {"nvrtc64_130_0.dll", 13}, {"nvrtc64_120_0.dll", 12}, {"nvrtc64_112_0.dll", 11}};
#else
constexpr LibraryName library_names[] = {
    {"libnvrtc.so.13", 13}, {"libnvrtc.so.12", 12}, {"libnvrtc.so.11.2", 11}};
#endif

/// Where NVRTC may be, the first wins. What PyPI's packages install lies beside Tack's own. A
/// driver takes the code of compilers up to its own major version: newer ones come last.
std::vector<std::string> candidates() {
    const std::string chosen = gpu::environment("TACK_NVRTC");
    if (!chosen.empty()) return {chosen};
    namespace fs = std::filesystem;
    std::vector<fs::path> folders;
    for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
        const std::string home = gpu::environment(name);
        for (const char* part : {"lib64", "lib", "bin", "bin/x64"})
            if (!home.empty()) folders.push_back(fs::path(home) / part);
    }
    const std::string own = gpu::own_folder();
    for (fs::path folder = own; !own.empty(); folder = folder.parent_path()) {
        for (const char* part :
             {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cu13/bin/x86_64"})
            folders.push_back(folder / part);
        if (folder == folder.parent_path()) break;
    }
    folders.push_back("/usr/local/cuda/lib64");
    const int driver = Driver::get().version() / 1000;
    std::vector<std::string> found;
    std::vector<std::string> newer;
    // What the process has loaded already comes first: two compilers would take twice the memory.
    for (const auto& [name, major] : library_names)
        (major <= driver ? found : newer).emplace_back(name);
    std::error_code error;
    for (const fs::path& folder : folders)
        for (const auto& [name, major] : library_names)
            if (fs::exists(folder / name, error))
                (major <= driver ? found : newer).push_back((folder / name).string());
    found.insert(found.end(), newer.begin(), newer.end());
    return found;
}

}  // namespace

Nvrtc::Nvrtc() {
    std::string tried;
    gpu::Library library = gpu::open_library(candidates(), tried);
    if (!library) {
        throw Error(ErrorKind::runtime,
                    "CUDA kernels need NVRTC, which was not found; install the package "
                    "nvidia-cuda-nvrtc or the CUDA toolkit, or name the library in TACK_NVRTC. "
                    "Looked in the system's library path, CUDA_HOME, the folders nvidia/ beside "
                    "Tack and /usr/local/cuda: " +
                        tried);
    }
    load(std::move(library), nullptr, "NVRTC");
    check(get_version(&major, &minor), "starting NVRTC");
    int count = 0;
    check(count_architectures(&count), "starting NVRTC");
    architectures.resize(static_cast<std::size_t>(count));
    check(get_architectures(architectures.data()), "starting NVRTC");
    std::sort(architectures.begin(), architectures.end());
}

Nvrtc& Nvrtc::get() {
    static std::mutex opening;
    static Nvrtc* opened = nullptr;  // never destroyed, as drivers are not
    const std::lock_guard lock(opening);
    if (!opened) opened = new Nvrtc;
    return *opened;
}

void Nvrtc::check(Status status, const std::string& doing) const {
    if (!status) return;
    const std::string where = library_path();
    if (status.code == builtins_missing) {
        const std::string folder = std::filesystem::path(where).parent_path().string();
        throw Error(ErrorKind::runtime,
                    doing + ": NVRTC at " + where +
                        " did not find its builtins, libnvrtc-builtins." + "so." +
                        std::to_string(major) + "." + std::to_string(minor) +
                        ", which is looked for in " + folder +
                        " and in the system's library path; install NVRTC whole");
    }
    throw Error(ErrorKind::runtime, doing + ": " + status.symbol + " of NVRTC " +
                                        std::to_string(major) + "." + std::to_string(minor) +
                                        " at " + where + " gave error " +
                                        std::to_string(status.code));
}

namespace {

/// One program of NVRTC's, destroyed with the object.
class Compilation {
public:
    Compilation(const Nvrtc& nvrtc, const std::string& source) : nvrtc_(nvrtc) {
        nvrtc_.check(nvrtc_.create(&program_, source.c_str(), "kernel.cu", 0, nullptr, nullptr),
                     "compiling a CUDA kernel");
    }
    Compilation(const Compilation&) = delete;
    ~Compilation() { nvrtc_.destroy(&program_); }

    void run(const std::vector<std::string>& options) {
        std::vector<const char*> texts;
        for (const std::string& option : options) texts.push_back(option.c_str());
        const Status status =
            nvrtc_.compile(program_, static_cast<int>(texts.size()), texts.data());
        if (status.code == compilation_failed) {
            throw Error(ErrorKind::runtime,
                        "compiling a CUDA kernel: NVRTC " + std::to_string(nvrtc_.major) + "." +
                            std::to_string(nvrtc_.minor) + " refused generated code:\n" +
                            text(nvrtc_.log_size, nvrtc_.log));
        }
        nvrtc_.check(status, "compiling a CUDA kernel");
    }
    std::string ptx() const { return text(nvrtc_.ptx_size, nvrtc_.ptx); }
    std::string cubin() const { return text(nvrtc_.cubin_size, nvrtc_.cubin); }

private:
    std::string text(const Entry<int(Program, std::size_t*)>& size,
                     const Entry<int(Program, char*)>& get) const {
        std::size_t bytes = 0;
        nvrtc_.check(size(program_, &bytes), "reading what NVRTC made");
        std::string out(bytes, '\0');
        nvrtc_.check(get(program_, out.data()), "reading what NVRTC made");
        return out;
    }

    const Nvrtc& nvrtc_;
    Program program_ = nullptr;
};

/// "sm_90" where NVRTC can finish code for the device, "compute_120" where it only knows older
/// ones, so that the driver must.
std::string target_of(const Nvrtc& nvrtc, int architecture) {
    const auto& known = nvrtc.architectures;
    if (std::binary_search(known.begin(), known.end(), architecture))
        return "sm_" + std::to_string(architecture);
    const auto newer = std::upper_bound(known.begin(), known.end(), architecture);
    if (newer == known.begin()) {
        throw Error(ErrorKind::runtime,
                    "compiling a CUDA kernel: the device's compute capability is " +
                        std::to_string(architecture / 10) + "." +
                        std::to_string(architecture % 10) + ", and NVRTC " +
                        std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor) + " at " +
                        nvrtc.library_path() + " begins with " +
                        (known.empty() ? std::string("none") : std::to_string(known.front())) +
                        "; install an older NVRTC");
    }
    return "compute_" + std::to_string(*std::prev(newer));
}

std::vector<std::string> options_for(const std::string& target, bool fast_math) {
    std::vector<std::string> options = {"--gpu-architecture=" + target, "--std=c++17"};
    options.push_back(fast_math ? "--use_fast_math" : "--fmad=false");
    return options;
}

}  // namespace

Image compile(const std::string& source, int architecture, bool fast_math) {
    const Nvrtc& nvrtc = Nvrtc::get();
    const std::string target = target_of(nvrtc, architecture);
    const std::vector<std::string> options = options_for(target, fast_math);
    std::string key = "tack " TACK_VERSION "\nnvrtc " + gpu::file_identity(nvrtc.library_path()) +
                      " " + std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor) + "\n";
    for (const std::string& option : options) key += option + " ";
    key += "\n" + source;
    Image image{.bytes = {}, .is_ptx = target.starts_with("compute_")};
    if (auto cached = kernel::cache::load(key)) {
        image.bytes = std::move(*cached);
        return image;
    }
    Compilation compilation(nvrtc, source);
    compilation.run(options);
    image.bytes = image.is_ptx ? compilation.ptx() : compilation.cubin();
    kernel::cache::store(key, image.bytes);
    return image;
}

std::string compile_to_ptx(const std::string& source, int architecture, bool fast_math) {
    const Nvrtc& nvrtc = Nvrtc::get();
    Compilation compilation(nvrtc, source);
    compilation.run(options_for(target_of(nvrtc, architecture), fast_math));
    std::string text = compilation.ptx();
    if (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
}

std::string nvrtc_description() {
    try {
        const Nvrtc& nvrtc = Nvrtc::get();
        return "NVRTC " + std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor);
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace tack::cuda
