#include "backend/gpu/library.hpp"

#include <cstdlib>
#include <filesystem>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#include <link.h>
#endif

namespace tack::gpu {
namespace {

#ifdef _WIN32
void* open_one(const std::string& name, std::string& reason) {
    HMODULE module = LoadLibraryA(name.c_str());
    if (!module) reason = name + ": error " + std::to_string(GetLastError());
    return reinterpret_cast<void*>(module);
}

std::string path_of(void* handle) {
    char path[MAX_PATH];
    const DWORD length = GetModuleFileNameA(static_cast<HMODULE>(handle), path, MAX_PATH);
    return std::string(path, length);
}
#else
void* open_one(const std::string& name, std::string& reason) {
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    // The loader's own sentence begins with the name, and tells a missing file from a broken one.
    if (!handle) reason = dlerror();
    return handle;
}

std::string path_of(void* handle) {
    link_map* map = nullptr;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map ? map->l_name : "";
}
#endif

}  // namespace

void* Library::symbol(const char* name) const noexcept {
#ifdef _WIN32
    return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle), name));
#else
    return dlsym(handle, name);
#endif
}

Library open_library(std::span<const std::string> candidates, std::string& tried) {
    for (const std::string& candidate : candidates) {
        std::string reason;
        if (void* const handle = open_one(candidate, reason)) return {handle, path_of(handle)};
        tried += (tried.empty() ? "" : "; ") + reason;
    }
    return {};
}

std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value ? value : "";
}

std::string own_folder() {
#ifdef _WIN32
    HMODULE module = nullptr;
    GetModuleHandleExA(
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
        reinterpret_cast<const char*>(&own_folder), &module);
    const std::string path = path_of(reinterpret_cast<void*>(module));
#else
    Dl_info info;
    const std::string path =
        dladdr(reinterpret_cast<void*>(&own_folder), &info) && info.dli_fname ? info.dli_fname : "";
#endif
    std::error_code error;
    const auto absolute = std::filesystem::absolute(path, error);
    return path.empty() || error ? "" : absolute.parent_path().string();
}

std::string file_identity(const std::string& path) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    const auto time = std::filesystem::last_write_time(path, error).time_since_epoch().count();
    return path + " " + std::to_string(size) + " " + std::to_string(time);
}

}  // namespace tack::gpu
