#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "backend/cpu/processor.hpp"
#include "backend/cpu/toolchain.hpp"
#include "tack/error.hpp"

extern char** environ;

namespace tack::cpu {
namespace {

[[noreturn]] void fail(const std::string& what) {
    throw Error(ErrorKind::runtime, "compile: " + what);
}

// A folder that only this user can enter, removed with all in it.
class TemporaryFolder {
public:
    TemporaryFolder() {
        const char* const parent = std::getenv("TMPDIR");
        path_ = std::string(parent && *parent ? parent : "/tmp") + "/tack-XXXXXX";
        if (!mkdtemp(path_.data()))
            fail("no temporary folder " + path_ + " can be made (" + std::strerror(errno) +
                 "). Set TMPDIR to a folder that is writable.");
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() {
        for (const char* name : {"kernel.c", "output", "messages"}) unlink(file(name).c_str());
        rmdir(path_.c_str());
    }
    std::string file(const char* name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

std::string read_file(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

// Runs a program without a shell, both of its output streams into a file, and says whether it
// succeeded.
bool run_program(const std::vector<std::string>& command, const std::string& messages) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    // The compiler is to die of an interrupt and a broken pipe, whatever this process does.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, defaults;
    sigemptyset(&none);
    sigfillset(&defaults);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_t child = 0;
    const int problem =
        posix_spawn(&child, arguments[0], &files, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (problem != 0) fail(command[0] + " cannot be run (" + std::strerror(problem) + ")");

    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        // A process that ignores SIGCHLD is told nothing but that the child has ended.
        if (errno == ECHILD) return true;
        if (errno != EINTR) return false;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::vector<std::string> compiler_flags(const CompileOptions& options, bool has_half) {
    std::vector<std::string> flags = {"-x",
                                      "c",
                                      "-std=gnu17",
                                      "-O3",
                                      "-march=x86-64",
                                      "-mtune=native",
                                      "-fPIC",
                                      "-mcmodel=small",
                                      "-fvisibility=hidden",
                                      "-fomit-frame-pointer",
                                      "-fno-stack-protector",
                                      "-fno-asynchronous-unwind-tables",
                                      "-fno-unwind-tables",
                                      "-fno-common",
                                      "-fwrapv",
                                      "-fno-strict-aliasing",
                                      "-fno-math-errno",
                                      "-fno-trapping-math"};
    if (options.fast_math)
        flags.insert(flags.end(), {"-ffp-contract=fast", "-fassociative-math", "-fno-signed-zeros",
                                   "-freciprocal-math"});
    else
        flags.emplace_back("-ffp-contract=off");
    // Compilers that know no _Float16 know no such precision either.
    if (has_half) flags.emplace_back("-fexcess-precision=16");
    for (const std::string_view feature : processor_features())
        flags.push_back("-m" + std::string(feature));
    return flags;
}

class System final : public Toolchain {
public:
    explicit System(std::string path) : path_(std::move(path)) {}

    std::string identity() const override {
        struct stat status{};
        stat(path_.c_str(), &status);
        std::string identity = "system " + path_ + " " + std::to_string(status.st_size) + " " +
                               std::to_string(status.st_mtim.tv_sec) + "." +
                               std::to_string(status.st_mtim.tv_nsec);
        for (const std::string& flag : compiler_flags({}, true)) identity += " " + flag;
        return identity;
    }

    std::string description() const override {
        const TemporaryFolder folder;
        const std::string messages = folder.file("messages");
        if (!run_program({path_, "--version"}, messages)) return path_ + " (version unknown)";
        const std::string text = read_file(messages);
        return path_ + ": " + text.substr(0, text.find('\n'));
    }

    std::string run(const std::string& source, const CompileOptions& options,
                    Output output) const override {
        const TemporaryFolder folder;
        const std::string input = folder.file("kernel.c"), result = folder.file("output"),
                          messages = folder.file("messages");
        std::ofstream stream(input, std::ios::binary);
        stream << source;
        stream.close();
        if (!stream) fail(input + " cannot be written. Set TMPDIR to a folder with room.");
        std::vector<std::string> command{path_};
        const bool has_half = source.find("_Float16") != std::string::npos;
        for (std::string& flag : compiler_flags(options, has_half))
            command.push_back(std::move(flag));
        command.insert(command.end(),
                       {output == Output::object ? "-c" : "-S", input, "-o", result});
        const bool succeeded = run_program(command, messages);
        std::string bytes = read_file(result);
        if (!succeeded || bytes.empty())
            fail(path_ + " refused the source:\n" + read_file(messages));
        return bytes;
    }

private:
    const std::string path_;
};

bool is_program(const std::string& path) {
    struct stat status;
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           access(path.c_str(), X_OK) == 0;
}

// The path of a program, as a shell would find it; empty where there is none.
std::string find_program(const std::string& name) {
    if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
    const char* const variable = std::getenv("PATH");
    const std::string path = variable ? variable : "";
    for (std::size_t start = 0; start < path.size();) {
        const std::size_t end = std::min(path.find(':', start), path.size());
        // An empty or relative entry means the current folder: never run a compiler from there.
        const std::string candidate = path.substr(start, end - start) + "/" + name;
        if (candidate.starts_with('/') && end > start && is_program(candidate)) return candidate;
        start = end + 1;
    }
    return {};
}

}  // namespace

std::unique_ptr<Toolchain> system_toolchain() {
    std::vector<std::string> names = {"cc", "gcc", "clang"};
    if (const char* const named = std::getenv("TACK_CC"); named && *named) names = {named};
    for (const std::string& name : names)
        if (std::string path = find_program(name); !path.empty())
            return std::make_unique<System>(std::move(path));
    return nullptr;
}

}  // namespace tack::cpu
