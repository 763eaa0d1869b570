#include "kernels/host_compiler.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "kernels/entry.h"

extern char** environ;

namespace tack_sim {

namespace {

std::string hash(std::initializer_list<std::string_view> parts) {
    std::uint64_t a = 0xcbf29ce484222325, b = 0x9e3779b97f4a7c15;
    const auto add = [&](unsigned char c) {
        a = (a ^ c) * 0x100000001b3;
        b = (b + c) * 0xd6e8feb86659fd93;
        b ^= b >> 29;
    };
    for (const std::string_view part : parts) {
        for (const char c : part) add(static_cast<unsigned char>(c));
        for (std::size_t n = part.size(), i = 0; i < 8; ++i, n >>= 8)
            add(static_cast<unsigned char>(n));
    }
    char text[33];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(a),
                  static_cast<unsigned long long>(b));
    return text;
}

bool read_file(const std::string& path, std::string& out) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return false;
    out.assign(std::istreambuf_iterator<char>(file), {});
    return !file.bad();
}

std::string contents(const std::string& path) {
    std::string out;
    if (!read_file(path, out)) throw std::runtime_error(path + ": " + std::strerror(errno));
    return out;
}

/// A name beside `path` that no other thread or process uses.
std::string temporary(const std::string& path) {
    static std::atomic<unsigned> count{0};
    return path + "." + std::to_string(getpid()) + "-" + std::to_string(count++);
}

void write_whole(const std::string& path, std::string_view text) {
    const std::string partial = temporary(path);
    std::ofstream(partial, std::ios::binary) << text << std::flush;
    if (std::string written; !read_file(partial, written) || written != text) {
        unlink(partial.c_str());
        throw std::runtime_error(path + ": cannot be written");
    }
    std::rename(partial.c_str(), path.c_str());
}

std::string cache_folder() {
    const char* chosen = std::getenv("TACK_SIM_CACHE");
    const char* temporary_folder = std::getenv("TMPDIR");
    const std::string folder =
        chosen && *chosen
            ? chosen
            : std::string(temporary_folder && *temporary_folder ? temporary_folder : "/tmp") +
                  "/tack-sim-" + std::to_string(getuid());
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), ignored);
    mkdir(folder.c_str(), 0700);
    // What lies in there is run: it must be ours.
    struct stat status{};
    if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != getuid() || (status.st_mode & 022) != 0)
        throw std::runtime_error(folder + " is not a folder that only its owner can write to");
    return folder;
}

/// The compiler's own output, and what it ended with; -1: it could not be started.
int run(const std::vector<std::string>& command, const std::string& output) {
    std::vector<char*> arguments;
    for (const std::string& argument : command)
        arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    // The simulator has no business in the compiler, and its messages are read below.
    std::vector<char*> environment;
    for (char** entry = environ; *entry; ++entry) {
        const std::string_view text = *entry;
        if (!text.starts_with("LD_") && !text.starts_with("LC_") && !text.starts_with("LANG"))
            environment.push_back(*entry);
    }
    environment.push_back(nullptr);

    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    pid_t child = 0;
    const int error =
        posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&files);
    if (error) return -1;
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (c != '\n') out += c;
    }
    return out + '"';
}

std::string translation_unit(const HostSource& source, const Scan& scan) {
    std::string out = "#line 1 " + in_quotes(source.name) + "\n" + scan.text + "\n#line 1 " +
                      in_quotes("kernels of " + source.name) + "\n#define TACK_SIM_USES_BARRIERS " +
                      (scan.uses_barriers ? "true" : "false") +
                      "\nstatic const tack_sim::KernelEntry tack_sim_table[] = {\n";
    for (const std::string& name : source.names) out += "TACK_SIM_KERNEL(" + name + "),\n";
    for (const std::string& name : scan.kernels) out += "TACK_SIM_KERNEL(" + name + "),\n";
    out +=
        "{}};\nTACK_SIM_EXPORT const tack_sim::KernelEntry* const tack_sim_kernels = "
        "tack_sim_table;\nstatic const tack_sim::SymbolEntry tack_sim_variables[] = {\n";
    for (const std::string& name : scan.variables) out += "TACK_SIM_VARIABLE(" + name + "),\n";
    out +=
        "{}};\nTACK_SIM_EXPORT const tack_sim::SymbolEntry* const tack_sim_symbols = "
        "tack_sim_variables;\n";
    if (source.architecture)
        out += "TACK_SIM_EXPORT const unsigned tack_sim_architecture = " +
               std::to_string(source.architecture) + ";\n";
    return out;
}

std::string summary(const std::string& name, std::size_t errors) {
    return std::to_string(errors) + (errors == 1 ? " error" : " errors") + " in \"" + name +
           "\".\n";
}

/// "NAME:3:7: error: text" becomes "NAME(3): error: text"; what is about the prelude goes, unless
/// there is nothing else.
std::string user_log(const std::string& output, const std::string& name) {
    std::string log;
    std::size_t errors = 0;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(name + ":")) continue;
        std::size_t at = name.size() + 1;
        const std::size_t number = at;
        while (at < line.size() && std::isdigit(static_cast<unsigned char>(line[at]))) ++at;
        const std::size_t text = line.find(": ", at);
        if (at == number || text == line.npos) continue;
        const std::string message = line.substr(text + 2);
        if (message.starts_with("error") || message.starts_with("fatal error")) ++errors;
        log += name + "(" + line.substr(number, at - number) + "): " + message + "\n";
    }
    return errors ? log + "\n" + summary(name, errors) : output;
}

std::vector<std::string> compiler_command(const HostSource& source) {
    std::vector<std::string> command = {TACK_SIM_CXX,
                                        "-O1",
                                        "-pipe",
                                        "-fPIC",
                                        "-undef",
                                        "-shared",
                                        "-nostdlib",
                                        "-nostdinc",
                                        "-nostdinc++",
                                        "-fno-exceptions",
                                        "-fno-rtti",
                                        "-fvisibility=hidden",
                                        "-fno-gnu-unique",
                                        "-fno-threadsafe-statics",
                                        "-fno-asynchronous-unwind-tables",
                                        "-fno-strict-aliasing",
                                        "-fno-math-errno",
                                        "-fno-diagnostics-show-caret",
                                        "-fno-diagnostics-show-option",
                                        "-mlong-double-64"};
    if (source.contract && __builtin_cpu_supports("fma")) {
        command.insert(command.end(), {"-mfma", "-ffp-contract=fast", "-fexpensive-optimizations"});
    } else {
        command.push_back("-ffp-contract=off");
    }
    // Device compilers have few of GNU's extensions, and 128-bit integers are one.
    if (!source.rules.has_int128) command.push_back("-pedantic-errors");
    command.insert(command.end(), source.options.begin(), source.options.end());
    command.insert(command.end(), {"-include", source.prelude});
    return command;
}

/// Names of the first kernels in an image. Throws if it cannot be loaded: a function was declared
/// and never defined.
std::vector<std::string> kernel_names(const std::string& path, std::size_t count) {
    void* image = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!image) {
        std::string text = dlerror();
        if (text.starts_with(path + ": ")) text.erase(0, path.size() + 2);
        throw std::runtime_error(text);
    }
    std::vector<std::string> names;
    const auto* table = static_cast<const KernelEntry* const*>(dlsym(image, "tack_sim_kernels"));
    for (std::size_t i = 0; i < count; ++i) names.emplace_back((*table)[i].name);
    dlclose(image);
    return names;
}

}  // namespace

HostImage compile_for_host(const HostSource& source) {
    HostImage image;
    const Scan scan = scan_source(source.text, source.rules);
    if (!scan.errors.empty()) {
        for (const Diagnostic& e : scan.errors)
            image.log += source.name + "(" + std::to_string(e.line) + "): error: " + e.text + "\n";
        image.log += "\n" + summary(source.name, scan.errors.size());
        return image;
    }
    static const std::string runner = contents(TACK_SIM_RUNNER);
    static const std::string headers = contents(TACK_SIM_FOLDER "/kernels/device.h") +
                                       contents(TACK_SIM_FOLDER "/kernels/entry.h");
    const std::string unit = translation_unit(source, scan);
    std::vector<std::string> command = compiler_command(source);
    std::string options;
    for (const std::string& option : command) options += option + "\n";
    const std::string path =
        cache_folder() + "/" + hash({unit, options, contents(source.prelude), headers, runner});
    const std::string cached = path + ".so";

    if (!read_file(cached, image.bytes)) {
        const std::string base = temporary(path);
        const std::string input = base + ".cpp", output = base + ".log", built = base + ".so";
        write_whole(input, unit);
        command.insert(command.end(), {input, TACK_SIM_RUNNER, "-Wl,--no-as-needed",
                                       TACK_SIM_LIBRARIES, "-o", built});
        const int status = run(command, output);
        std::string text;
        read_file(output, text);
        unlink(input.c_str());
        unlink(output.c_str());
        if (status < 0) throw std::runtime_error("cannot run " + command[0]);
        if (status != 0) {
            image.log = user_log(text, source.name);
            return image;
        }
        try {
            kernel_names(built, 0);
        } catch (const std::runtime_error& error) {
            unlink(built.c_str());
            image.log = source.name + ": error: " + error.what() + "\n";
            return image;
        }
        image.bytes = contents(built);
        std::rename(built.c_str(), cached.c_str());
    }
    if (!source.names.empty()) image.lowered = kernel_names(cached, source.names.size());
    image.compiled = true;
    return image;
}

void collect_source(std::string_view text, const std::vector<std::string>& options) {
    const char* folder = std::getenv("TACK_SIM_SOURCES");
    if (!folder || !*folder) return;
    std::string lines;
    for (const std::string& option : options) lines += option + "\n";
    std::filesystem::create_directories(folder);
    const std::string path = std::string(folder) + "/" + hash({text, lines});
    // The source comes last: whoever finds it finds its options too.
    write_whole(path + ".options", lines);
    write_whole(path + ".cu", text);
}

}  // namespace tack_sim
