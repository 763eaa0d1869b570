/// What the tests of the compilers and of their cache share.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/toolchain.hpp"
#include "tack/error.hpp"

#define EXPECT_CONTAINS(text, part) EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text)

namespace tack::testing {

/// An environment variable that has another value, or none, for a while.
class Environment {
public:
    Environment(const char* name, const char* value) : name_(name) {
        if (const char* before = std::getenv(name)) before_ = before;
        set(value);
    }
    Environment(const char* name, const std::string& value) : Environment(name, value.c_str()) {}
    Environment(const Environment&) = delete;
    ~Environment() { set(before_ ? before_->c_str() : nullptr); }

private:
    void set(const char* value) {
        if (value)
            setenv(name_, value, 1);
        else
            unsetenv(name_);
    }
    const char* name_;
    std::optional<std::string> before_;
};

/// A private folder, removed with the files in it.
class Folder {
public:
    Folder() {
        std::string path = "/tmp/tack-test-XXXXXX";
        if (!mkdtemp(path.data())) std::abort();
        path_ = path;
    }
    Folder(const Folder&) = delete;
    ~Folder() {
        chmod(path_.c_str(), 0700);
        for (const std::string& name : names()) unlink((path_ + "/" + name).c_str());
        rmdir(path_.c_str());
    }
    const std::string& path() const { return path_; }
    std::vector<std::string> names() const {
        std::vector<std::string> names;
        DIR* const stream = opendir(path_.c_str());
        if (!stream) return names;
        while (const dirent* item = readdir(stream)) {
            const std::string name = item->d_name;
            if (name != "." && name != "..") names.push_back(name);
        }
        closedir(stream);
        return names;
    }

private:
    std::string path_;
};

inline std::string read_whole(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}
inline void write_whole(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

/// Forks; the child's answer becomes its exit status, an exception 99.
inline pid_t start_child(const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child != 0) return child;
    int status = 99;
    try {
        status = body() ? 0 : 1;
    } catch (...) {
    }
    _exit(status);
}
/// The wait status of a child: 0 if its body answered true, and its signal where one killed it.
inline int wait_for(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}
inline int run_in_child(const std::function<bool()>& body) { return wait_for(start_child(body)); }

/// The message of the Error that `body` throws, or nothing.
inline std::string error_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// The values of TACK_COMPILER that this build and machine can serve.
inline std::vector<std::string> compilers() {
    std::vector<std::string> names;
    if (cpu::embedded_toolchain()) names.emplace_back("embedded");
    if (cpu::system_toolchain()) names.emplace_back("system");
    return names;
}

template <class Function>
Function* function(const cpu::Module& module, const char* name) {
    return reinterpret_cast<Function*>(module.symbol(name));
}

}  // namespace tack::testing
