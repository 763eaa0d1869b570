/// Clients of the simulated CUDA driver: each runs in a process of its own, whose end and report
/// the test looks at.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace tack::test {

/// How a client's process ended.
struct Ending {
    int status = -1;     ///< of exit; -1: a signal ended it
    int signal = 0;      ///< that ended it
    std::string report;  ///< the simulator's lines
    bool says(const std::string& text) const { return report.find(text) != std::string::npos; }
};

/// Status of a client in which a CLIENT_CHECK failed.
constexpr int client_failed = 3;

#define CLIENT_CHECK(condition)                                                      \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            _exit(::tack::test::client_failed);                                      \
        }                                                                            \
    } while (false)

using Environment = std::initializer_list<std::pair<const char*, const char*>>;

/// Runs `client` in a child process; a report goes to a file unless `with_report` is false.
inline Ending run_client(const std::function<void()>& client, Environment environment = {},
                         bool with_report = true) {
    std::string path =
        (std::filesystem::temp_directory_path() / ("tack_sim_report_" + std::to_string(getpid())))
            .string();
    std::filesystem::remove(path);
    fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        if (with_report) setenv("TACK_SIM_REPORT", path.c_str(), 1);
        for (auto [name, value] : environment) setenv(name, value, 1);
        client();
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    Ending ending;
    if (WIFEXITED(status)) ending.status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
    std::ifstream file(path);
    ending.report.assign(std::istreambuf_iterator<char>(file), {});
    std::filesystem::remove(path);
    return ending;
}

inline void* driver_library() {
    static void* library = dlopen(TACK_SIM_CUDA, RTLD_NOW | RTLD_LOCAL);
    return library;
}

/// A function of the driver's library, looked up when it is first called.
template <typename Signature>
struct Entry {
    const char* name;
    template <typename... Arguments>
    auto operator()(Arguments... arguments) const {
        return reinterpret_cast<Signature*>(dlsym(driver_library(), name))(arguments...);
    }
};

using Address = unsigned long long;
using Handle = void*;

enum : int {
    cuda_success = 0,
    cuda_invalid_value = 1,
    cuda_out_of_memory = 2,
    cuda_not_initialized = 3,
    cuda_no_device = 100,
    cuda_invalid_device = 101,
    cuda_invalid_image = 200,
    cuda_invalid_context = 201,
    cuda_no_binary = 209,
    cuda_invalid_handle = 400,
    cuda_not_found = 500,
    cuda_not_ready = 600,
    cuda_illegal_address = 700,
    cuda_context_is_destroyed = 709,
    cuda_launch_failed = 719,
    cuda_not_permitted = 800,
    cuda_not_supported = 801,
};

namespace cu {
// clang-format off
inline const Entry<int(unsigned)> init{"cuInit"};
inline const Entry<int(int*)> driver_version{"cuDriverGetVersion"};
inline const Entry<int(int*)> device_count{"cuDeviceGetCount"};
inline const Entry<int(int*, int, int)> device_attribute{"cuDeviceGetAttribute"};
inline const Entry<int(unsigned char*, int)> device_uuid{"cuDeviceGetUuid"};
inline const Entry<int(unsigned char*, int)> device_uuid_v2{"cuDeviceGetUuid_v2"};
inline const Entry<int(const char*, void**, int, uint64_t, int*)> proc_address{"cuGetProcAddress_v2"};
inline const Entry<int(const void**, const void*)> export_table{"cuGetExportTable"};
inline const Entry<int(int, const char**)> error_name{"cuGetErrorName"};
inline const Entry<int(Handle*, unsigned, int)> context_create{"cuCtxCreate_v2"};
inline const Entry<int(Handle)> context_destroy{"cuCtxDestroy_v2"};
inline const Entry<int(Handle)> context_push{"cuCtxPushCurrent_v2"};
inline const Entry<int(Handle*)> context_pop{"cuCtxPopCurrent_v2"};
inline const Entry<int(Handle)> context_set{"cuCtxSetCurrent"};
inline const Entry<int(Handle*)> context_get{"cuCtxGetCurrent"};
inline const Entry<int()> context_synchronize{"cuCtxSynchronize"};
inline const Entry<int(Handle*, int)> primary_retain{"cuDevicePrimaryCtxRetain"};
inline const Entry<int(int)> primary_release{"cuDevicePrimaryCtxRelease_v2"};
inline const Entry<int(int)> primary_reset{"cuDevicePrimaryCtxReset_v2"};
inline const Entry<int(Handle*, unsigned)> stream_create{"cuStreamCreate"};
inline const Entry<int(Handle)> stream_destroy{"cuStreamDestroy_v2"};
inline const Entry<int(Handle)> stream_synchronize{"cuStreamSynchronize"};
inline const Entry<int(Handle)> stream_query{"cuStreamQuery"};
inline const Entry<int(Handle, Handle, unsigned)> stream_wait_event{"cuStreamWaitEvent"};
inline const Entry<int(Handle*, unsigned)> event_create{"cuEventCreate"};
inline const Entry<int(Handle, Handle)> event_record{"cuEventRecord"};
inline const Entry<int(Handle)> event_query{"cuEventQuery"};
inline const Entry<int(Handle)> event_synchronize{"cuEventSynchronize"};
inline const Entry<int(Handle)> event_destroy{"cuEventDestroy_v2"};
inline const Entry<int(float*, Handle, Handle)> event_elapsed{"cuEventElapsedTime"};
inline const Entry<int(Address*, size_t)> alloc{"cuMemAlloc_v2"};
inline const Entry<int(Address)> free{"cuMemFree_v2"};
inline const Entry<int(Address*, size_t, Handle)> alloc_async{"cuMemAllocAsync"};
inline const Entry<int(Address, Handle)> free_async{"cuMemFreeAsync"};
inline const Entry<int(Address*, size_t, unsigned)> alloc_managed{"cuMemAllocManaged"};
inline const Entry<int(void**, size_t, unsigned)> host_alloc{"cuMemHostAlloc"};
inline const Entry<int(void*)> host_free{"cuMemFreeHost"};
inline const Entry<int(void*, size_t, unsigned)> host_register{"cuMemHostRegister_v2"};
inline const Entry<int(void*)> host_unregister{"cuMemHostUnregister"};
inline const Entry<int(Address, const void*, size_t)> copy_in{"cuMemcpyHtoD_v2"};
inline const Entry<int(void*, Address, size_t)> copy_out{"cuMemcpyDtoH_v2"};
inline const Entry<int(Address, const void*, size_t, Handle)> copy_in_async{"cuMemcpyHtoDAsync_v2"};
inline const Entry<int(void*, Address, size_t, Handle)> copy_out_async{"cuMemcpyDtoHAsync_v2"};
inline const Entry<int(Address, Address, size_t, Handle)> copy_async{"cuMemcpyAsync"};
inline const Entry<int(Address, unsigned, size_t, Handle)> fill_async{"cuMemsetD32Async"};
inline const Entry<int(Address, unsigned, size_t)> fill{"cuMemsetD32_v2"};
inline const Entry<int(size_t*, size_t*)> memory_info{"cuMemGetInfo_v2"};
inline const Entry<int(Address*, size_t*, Address)> address_range{"cuMemGetAddressRange_v2"};
inline const Entry<int(void*, int, Address)> pointer_attribute{"cuPointerGetAttribute"};
inline const Entry<int(unsigned, const int*, void**, Address)> pointer_attributes{"cuPointerGetAttributes"};
inline const Entry<int(Address*, size_t, const void*, unsigned long long)> memory_create{"cuMemCreate"};
inline const Entry<int(Address)> memory_release{"cuMemRelease"};
inline const Entry<int(Address*, size_t, size_t, Address, unsigned long long)> reserve{"cuMemAddressReserve"};
inline const Entry<int(Address, size_t)> address_free{"cuMemAddressFree"};
inline const Entry<int(Address, size_t, size_t, Address, unsigned long long)> map{"cuMemMap"};
inline const Entry<int(Address, size_t)> unmap{"cuMemUnmap"};
inline const Entry<int(Address, size_t, const void*, size_t)> set_access{"cuMemSetAccess"};
inline const Entry<int(void*, Address, int, unsigned long long)> export_handle{"cuMemExportToShareableHandle"};
inline const Entry<int(Address*, void*, int)> import_handle{"cuMemImportFromShareableHandle"};
inline const Entry<int(Handle*, const void*)> module_load{"cuModuleLoadData"};
inline const Entry<int(Handle)> module_unload{"cuModuleUnload"};
inline const Entry<int(Handle*, Handle, const char*)> module_function{"cuModuleGetFunction"};
inline const Entry<int(Address*, size_t*, Handle, const char*)> module_global{"cuModuleGetGlobal_v2"};
inline const Entry<int(Handle*, const void*, int*, void**, unsigned, int*, void**, unsigned)> library_load{"cuLibraryLoadData"};
inline const Entry<int(Handle)> library_unload{"cuLibraryUnload"};
inline const Entry<int(Handle*, Handle, const char*)> library_kernel{"cuLibraryGetKernel"};
inline const Entry<int(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**)> launch{"cuLaunchKernel"};
inline const Entry<int(Handle, void (*)(void*), void*)> launch_host{"cuLaunchHostFunc"};
inline const Entry<int(const char*)> sim_fail{"tack_sim_fail"};
inline const Entry<uint64_t(const char*)> sim_call_count{"tack_sim_call_count"};
inline const Entry<size_t(char*, size_t)> sim_live_objects{"tack_sim_live_objects"};
inline const Entry<uint64_t()> sim_device_bytes{"tack_sim_device_bytes"};
inline const Entry<int(const void*)> sim_host_can_read{"tack_sim_host_can_read"};
// clang-format on
}  // namespace cu

/// A correct client of one device, one context and one stream, which cleans up after itself.
struct Client {
    Handle context = nullptr, stream = nullptr, module = nullptr;

    explicit Client(unsigned stream_flags = 0) {
        CLIENT_CHECK(cu::init(0u) == cuda_success);
        CLIENT_CHECK(cu::primary_retain(&context, 0) == cuda_success);
        CLIENT_CHECK(cu::context_set(context) == cuda_success);
        CLIENT_CHECK(cu::stream_create(&stream, stream_flags) == cuda_success);
        CLIENT_CHECK(cu::module_load(&module, image().data()) == cuda_success);
    }
    ~Client() {
        cu::stream_synchronize(stream);
        cu::module_unload(module);
        cu::stream_destroy(stream);
        cu::primary_release(0);
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    static const std::string& image() {
        static const std::string bytes = [] {
            std::ifstream file(TACK_SIM_IMAGE, std::ios::binary);
            return std::string(std::istreambuf_iterator<char>(file), {});
        }();
        return bytes;
    }

    Handle function(const char* name) const {
        Handle found = nullptr;
        CLIENT_CHECK(cu::module_function(&found, module, name) == cuda_success);
        return found;
    }

    Address allocate(size_t bytes) const {
        Address address = 0;
        CLIENT_CHECK(cu::alloc(&address, bytes) == cuda_success);
        return address;
    }

    /// n floats of one value.
    Address floats(int n, float value) const {
        Address address = allocate(sizeof(float) * static_cast<size_t>(n));
        std::vector<float> host(static_cast<size_t>(n), value);
        CLIENT_CHECK(cu::copy_in(address, host.data(), host.size() * sizeof(float)) ==
                     cuda_success);
        return address;
    }

    /// Queues x[i] *= factor for i < n.
    int scale(Address x, float factor, int n, Handle on) const {
        void* parameters[] = {&x, &factor, &n};
        unsigned blocks = static_cast<unsigned>(n + 31) / 32;
        return cu::launch(function("scale"), blocks, 1u, 1u, 32u, 1u, 1u, 0u, on, parameters,
                          static_cast<void**>(nullptr));
    }
    int scale(Address x, float factor, int n) const { return scale(x, factor, n, stream); }

    float first(Address x) const {
        float value = 0;
        CLIENT_CHECK(cu::copy_out(&value, x, sizeof value) == cuda_success);
        return value;
    }
};

}  // namespace tack::test
