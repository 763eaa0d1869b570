/// Shared libraries that are opened at run time: drivers and their compilers.
#pragma once

#include <span>
#include <string>

namespace tack::gpu {

/// An open library; never closed, since drivers do not survive that.
struct Library {
    void* handle = nullptr;
    std::string path;  // the file that the loader took, where it says

    explicit operator bool() const noexcept { return handle != nullptr; }
    /// The address of a symbol, or null.
    void* symbol(const char* name) const noexcept;
};

/// The first of `candidates`, paths or bare names for the system's search, that can be opened. A
/// bare name that the process has loaded already gives that library. None: empty, and each
/// candidate's reason is appended to `tried`, separated by "; ".
Library open_library(std::span<const std::string> candidates, std::string& tried);

/// The value of an environment variable; empty where it is not set.
std::string environment(const char* name);

/// The folder of libtack itself, or empty where the loader does not say.
std::string own_folder();

/// Path, size and time of a file, which another build of a library has others of.
std::string file_identity(const std::string& path);

}  // namespace tack::gpu
