#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "backend/cpu/processor.hpp"
#include "backend/cpu/toolchain.hpp"
#include "clang/tack_clang.h"
#include "tack/error.hpp"

namespace tack::cpu {
namespace {

struct Plugin {
    decltype(&tack_clang_version) version;
    decltype(&tack_clang_compile) compile;
    decltype(&tack_clang_free) free;
};

[[noreturn]] void cannot_load(const std::string& path, const std::string& why) {
    throw Error(ErrorKind::runtime, "compile: the embedded compiler " + path +
                                        " cannot be loaded: " + why +
                                        ". Install it anew together with libtack, or set "
                                        "TACK_COMPILER=system to use the system's compiler.");
}

Plugin open_plugin(const std::string& path) {
    // RTLD_LOCAL, whatever the host process has set for its own: no other LLVM sees this one.
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) cannot_load(path, dlerror());
    const auto entry = [&](const char* name) {
        void* const address = dlsym(handle, name);
        if (!address) cannot_load(path, std::string("it has no function ") + name);
        return address;
    };
    const auto abi = reinterpret_cast<decltype(&tack_clang_abi)>(entry("tack_clang_abi"));
    if (abi() != TACK_CLANG_ABI)
        cannot_load(path, "its interface is number " + std::to_string(abi()) + ", not " +
                              std::to_string(TACK_CLANG_ABI));
    return {reinterpret_cast<decltype(Plugin::version)>(entry("tack_clang_version")),
            reinterpret_cast<decltype(Plugin::compile)>(entry("tack_clang_compile")),
            reinterpret_cast<decltype(Plugin::free)>(entry("tack_clang_free"))};
}

// Loaded at the first use and never unloaded: LLVM does not survive that.
const Plugin& plugin(const std::string& path) {
    static std::mutex mutex;
    static auto* const plugins = new std::map<std::string, Plugin>;
    const std::lock_guard lock(mutex);
    auto found = plugins->find(path);
    if (found == plugins->end()) found = plugins->emplace(path, open_plugin(path)).first;
    return found->second;
}

// The linker's build id of a shared library, in hexadecimal digits, or nothing.
std::string build_id(int file) {
    Elf64_Ehdr header;
    if (pread(file, &header, sizeof header, 0) != sizeof header ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(Elf64_Phdr))
        return {};
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        const auto at = static_cast<off_t>(header.e_phoff + i * sizeof segment);
        if (pread(file, &segment, sizeof segment, at) != sizeof segment) return {};
        constexpr std::size_t largest_notes = 4096;
        if (segment.p_type != PT_NOTE || segment.p_filesz > largest_notes) continue;
        char notes[largest_notes];
        const ssize_t read = pread(file, notes, segment.p_filesz,
                                   static_cast<off_t>(segment.p_offset));
        const std::size_t size = read < 0 ? 0 : static_cast<std::size_t>(read);
        const auto padded = [](std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; };
        Elf64_Nhdr note;
        for (std::size_t offset = 0; offset + sizeof note <= size;) {
            std::memcpy(&note, notes + offset, sizeof note);
            const std::size_t id = offset + sizeof note + padded(note.n_namesz);
            if (id + note.n_descsz > size) break;
            if (note.n_type == NT_GNU_BUILD_ID) {
                constexpr char digits[] = "0123456789abcdef";
                std::string text;
                for (std::size_t k = 0; k < note.n_descsz; ++k) {
                    const auto byte = static_cast<unsigned char>(notes[id + k]);
                    text.append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
                }
                return text;
            }
            offset = id + padded(note.n_descsz);
        }
    }
    return {};
}

class Embedded final : public Toolchain {
public:
    explicit Embedded(std::string path) : path_(std::move(path)) {}

    std::string identity() const override {
        const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
        if (file < 0) cannot_load(path_, std::strerror(errno));
        struct stat status;
        fstat(file, &status);
        std::string id = build_id(file);
        close(file);
        if (id.empty())  // not linked by our build: the file itself must do
            id = path_ + " " + std::to_string(status.st_size) + " " +
                 std::to_string(status.st_mtim.tv_sec) + "." +
                 std::to_string(status.st_mtim.tv_nsec);
        return "embedded " + id;
    }

    std::string description() const override {
        return std::string("Clang ") + plugin(path_).version() + " (embedded)";
    }

    std::string run(const std::string& source, const CompileOptions& options,
                    Output output) const override {
        const Plugin& clang = plugin(path_);
        std::vector<std::string> names;
        for (const std::string_view feature : processor_features())
            names.push_back("+" + std::string(feature));
        std::vector<const char*> features;
        for (const std::string& name : names) features.push_back(name.c_str());

        tack_clang_request request{};
        request.source = source.data();
        request.source_size = source.size();
        request.name = "kernel.c";
        request.features = features.data();
        request.feature_count = features.size();
        request.fast_math = options.fast_math;
        request.output = output == Output::object ? TACK_CLANG_OBJECT : TACK_CLANG_ASSEMBLY;
        struct Result : tack_clang_result {
            explicit Result(const Plugin& clang_) : tack_clang_result{}, clang(clang_) {}
            Result(const Result&) = delete;
            ~Result() { clang.free(this); }
            const Plugin& clang;
        } result(clang);
        if (clang.compile(&request, &result) != 0)
            throw Error(ErrorKind::runtime, "compile: " + description() +
                                                " refused the source:\n" +
                                                (result.log ? result.log : "no memory"));
        return std::string(result.data, result.size);
    }

private:
    const std::string path_;
};

}  // namespace

std::string embedded_path() {
    if (const char* const named = std::getenv("TACK_CLANG"); named && *named) return named;
    // Settled at the first use: a program's own name may be relative to where it was started.
    static const std::string beside = [] {
        Dl_info here{};
        dladdr(reinterpret_cast<const void*>(&embedded_path), &here);
        char* const real = here.dli_fname ? realpath(here.dli_fname, nullptr) : nullptr;
        std::string path = real ? real : "";
        std::free(real);
        path.resize(path.rfind('/') + 1);
        return path + "libtack_clang.so";
    }();
    return beside;
}

std::unique_ptr<Toolchain> embedded_toolchain() {
    std::string path = embedded_path();
    if (access(path.c_str(), F_OK) != 0) return nullptr;
    return std::make_unique<Embedded>(std::move(path));
}

}  // namespace tack::cpu
