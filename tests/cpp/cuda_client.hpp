/// Tack in processes of its own on the simulated CUDA driver.
#pragma once

#include "sim_cuda_client.hpp"
#include "support.hpp"
#include "tack/tack.hpp"

/// Where it is true no leak of the host's memory is looked for; see sanitizers.cpp.
extern bool tack_test_keeps_things;

namespace tack::test {

/// How a process with Tack ended, and what it had to say.
struct Told : Ending {
    std::string text;
};

/// Runs `program` in a child process with this environment, and returns what it returned there.
/// What it leaves alive is for the simulator to report.
inline Told run_tack(const std::function<std::string()>& program,
                     const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    const auto path =
        std::filesystem::temp_directory_path() / ("tack_cuda_client_" + std::to_string(getpid()));
    Told told;
    static_cast<Ending&>(told) = run_client([&] {
        tack_test_keeps_things = true;
        setenv("TACK_CUDA_DRIVER", TACK_SIM_CUDA, 1);
        setenv("TACK_NVRTC", TACK_SIM_NVRTC, 1);
        setenv("TACK_SIM_CACHE", TACK_SIM_KERNELS, 1);
        setenv("TACK_SIM_KEEP", "stream,memory pool,module", 1);
        for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
        std::string text;
        try {
            text = program();
        } catch (const std::exception& error) {
            fprintf(stderr, "%s\n", error.what());
            _exit(client_failed);
        }
        std::ofstream(path) << text;
    });
    std::ifstream file(path);
    told.text.assign(std::istreambuf_iterator<char>(file), {});
    std::filesystem::remove(path);
    return told;
}

/// The functions of the simulated driver beside CUDA, or those of the stand-in for its compiler.
struct Control {
    void* library = driver_library();

    template <class Result, class... Arguments>
    Result call(const char* name, Arguments... arguments) const {
        return reinterpret_cast<Result (*)(Arguments...)>(dlsym(library, name))(arguments...);
    }
    void reset_counts() const { call<void>("tack_sim_reset_counts"); }
    void fail(const std::string& what) const {
        CLIENT_CHECK(call<int>("tack_sim_fail", what.c_str()) == 0);
    }
    std::string text(const char* function) const;
};

/// What a function writes into a buffer.
inline std::string Control::text(const char* function) const {
    const auto write = [&](char* buffer, size_t size) {
        return call<size_t>(function, buffer, size);
    };
    std::string text(write(nullptr, 0), '\0');
    write(text.data(), text.size());
    text.resize(text.empty() ? 0 : text.size() - 1);
    return text;
}

inline std::string sim_text(const char* function) { return Control().text(function); }

inline std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

}  // namespace tack::test
