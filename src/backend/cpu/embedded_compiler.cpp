#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "backend/cpu/processor.hpp"
#include "backend/cpu/toolchain.hpp"
#include "backend/cpu/vector_math.hpp"
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

// The plugin as a file.
class PluginFile {
public:
    explicit PluginFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (fd_ < 0 || fstat(fd_, &status_) != 0) {
            const int problem = errno;
            if (fd_ >= 0) close(fd_);
            cannot_load(path, std::strerror(problem));
        }
        Elf64_Ehdr header;
        if (!read(&header, sizeof header, 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
            header.e_phentsize != sizeof(Elf64_Phdr))
            return;
        segments_.resize(header.e_phnum);
        if (!read(segments_.data(), segments_.size() * sizeof(Elf64_Phdr), header.e_phoff))
            segments_.clear();
    }
    PluginFile(const PluginFile&) = delete;
    PluginFile& operator=(const PluginFile&) = delete;
    ~PluginFile() { close(fd_); }

    const struct stat& status() const { return status_; }

    bool is_cut_short() const {
        for (const Elf64_Phdr& segment : segments_)
            if (segment.p_offset + segment.p_filesz > static_cast<std::uint64_t>(status_.st_size))
                return true;
        return false;
    }

    // What the linker made of the contents, in hexadecimal digits; empty where it did not.
    std::string build_id() const {
        for (const Elf64_Phdr& segment : segments_) {
            constexpr std::size_t largest_notes = 4096;
            char notes[largest_notes];
            const std::size_t size = segment.p_filesz;
            if (segment.p_type != PT_NOTE || size > largest_notes ||
                !read(notes, size, segment.p_offset))
                continue;
            const auto padded = [](std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; };
            Elf64_Nhdr note;
            for (std::size_t at = 0; at + sizeof note <= size;) {
                std::memcpy(&note, notes + at, sizeof note);
                const std::size_t id = at + sizeof note + padded(note.n_namesz);
                if (id + note.n_descsz > size) break;
                if (note.n_type == NT_GNU_BUILD_ID) return hexadecimal({notes + id, note.n_descsz});
                at = id + padded(note.n_descsz);
            }
        }
        return {};
    }

private:
    bool read(void* to, std::size_t size, std::uint64_t offset) const {
        return pread(fd_, to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
    }
    static std::string hexadecimal(std::string_view bytes) {
        constexpr char digits[] = "0123456789abcdef";
        std::string text;
        for (const char byte : bytes) {
            const auto value = static_cast<unsigned char>(byte);
            text.append(1, digits[value >> 4]).append(1, digits[value & 15]);
        }
        return text;
    }

    const int fd_;
    struct stat status_{};
    std::vector<Elf64_Phdr> segments_;
};

Plugin open_plugin(const std::string& path) {
    // The dynamic linker touches what such a file lacks, and dies of it.
    if (PluginFile(path).is_cut_short()) cannot_load(path, "the file is cut short");
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

class Embedded final : public Toolchain {
public:
    explicit Embedded(std::string path) : path_(std::move(path)) {}

    std::string identity() const override {
        const PluginFile file(path_);
        std::string id = file.build_id();
        if (id.empty())  // not linked by our build: the file itself must do
            id = path_ + " " + std::to_string(file.status().st_size) + " " +
                 std::to_string(file.status().st_mtim.tv_sec) + "." +
                 std::to_string(file.status().st_mtim.tv_nsec);
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

        std::vector<tack_clang_vector_function> functions;
        for (const VectorFunction& f : vector_functions())
            functions.push_back({f.scalar.c_str(), f.vector.c_str(), f.width, f.prefix.c_str()});

        tack_clang_request request{};
        request.source = source.data();
        request.source_size = source.size();
        request.name = "kernel.c";
        request.features = features.data();
        request.feature_count = features.size();
        request.vector_functions = functions.data();
        request.vector_function_count = functions.size();
        request.fast_math = options.fast_math;
        request.output = output == Output::object ? TACK_CLANG_OBJECT : TACK_CLANG_ASSEMBLY;
        struct Result : tack_clang_result {
            explicit Result(const Plugin& clang_) : tack_clang_result{}, clang(clang_) {}
            Result(const Result&) = delete;
            ~Result() { clang.free(this); }
            const Plugin& clang;
        } result(clang);
        if (clang.compile(&request, &result) != 0)
            throw Error(ErrorKind::runtime, "compile: " + description() + " refused the source:\n" +
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
