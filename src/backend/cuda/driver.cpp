#include "backend/cuda/driver.hpp"

#include <cstdio>
#include <memory>
#include <mutex>

#include "tack/error.hpp"

namespace tack::cuda {
namespace {

#ifdef _WIN32
constexpr const char* library_name = "nvcuda.dll";
#else
constexpr const char* library_name = "libcuda.so.1";
#endif

/// The name without the suffix that chooses a signature: cuGetProcAddress takes a version instead.
std::string base_name(const std::string& symbol) {
    const std::size_t at = symbol.rfind("_v");
    return at == symbol.npos ? symbol : symbol.substr(0, at);
}

void* find_by_version(const gpu::Library& library, const char* symbol, int version) {
    void* found = nullptr;
    const std::string name = base_name(symbol);
    // The second form came with CUDA 12, the first with 11.3.
    if (void* const at = library.symbol("cuGetProcAddress_v2")) {
        using Get = int (*)(const char*, void**, int, std::uint64_t, int*);
        int ignored = 0;
        return reinterpret_cast<Get>(at)(name.c_str(), &found, version, legacy_entry_points,
                                         &ignored) == success
                   ? found
                   : nullptr;
    }
    if (void* const at = library.symbol("cuGetProcAddress")) {
        using Get = int (*)(const char*, void**, int, std::uint64_t);
        return reinterpret_cast<Get>(at)(name.c_str(), &found, version, legacy_entry_points) ==
                       success
                   ? found
                   : nullptr;
    }
    return library.symbol(symbol);
}

gpu::Library open_driver() {
    const std::string chosen = gpu::environment("TACK_CUDA_DRIVER");
    const std::string candidates[] = {chosen.empty() ? library_name : chosen};
    std::string tried;
    gpu::Library library = gpu::open_library(candidates, tried);
    if (library) return library;
    std::string reason = "TACK_CUDA_DRIVER names a driver that cannot be opened: " + tried;
    if (chosen.empty() && tried.find("No such file") != tried.npos) {
        reason = std::string(library_name) +
                 " is not installed; looked in the system's library path and TACK_CUDA_DRIVER. It "
                 "comes with NVIDIA's driver";
    } else if (chosen.empty()) {
        reason = std::string(library_name) + " cannot be opened: " + tried;
    }
    throw Error(ErrorKind::runtime, reason);
}

std::string advice(int result) {
    if (loses_context(result)) {
        return ". The context is lost, and with it all memory and work in it: start the process "
               "again, and look for the fault with check_bounds=True";
    }
    switch (result) {
        case not_initialized:
            return ". A forked child cannot use the driver that its parent has started: start "
                   "processes by spawn or exec";
        case deinitialized:
            return ". The driver has been shut down, as happens when the process ends";
        case invalid_context:
        case context_is_destroyed:
            return ". The context that Tack adopted has been destroyed by its owner: keep it alive "
                   "until Tack's arrays are gone";
        case no_device:
            return ". No NVIDIA GPU is visible; see CUDA_VISIBLE_DEVICES and nvidia-smi";
        default:
            return "";
    }
}

}  // namespace

bool loses_context(int result) {
    switch (result) {
        case uncorrectable_memory:
        case broken_link:
        case contained_memory_fault:
        case illegal_address:
        case launch_timeout:
        case assert_failed:
        case tensor_memory_leak:
            return true;
        default:
            return result >= hardware_stack_error && result <= launch_failed;
    }
}

Driver::Driver() {
    gpu::Library library = open_driver();
    // Asked ahead of the table, whose complaint names it.
    int version = 0;
    if (void* const at = library.symbol("cuDriverGetVersion"))
        reinterpret_cast<int (*)(int*)>(at)(&version);
    version_ = version;
    load(std::move(library), find_by_version, "CUDA " + version_text());
    check(init(0), [&] { return "CUDA driver " + version_text() + " at " + library_path(); });
    check(count_devices(&device_count_), [] { return std::string("counting CUDA devices"); });
}

Driver& Driver::get() {
    static std::mutex opening;
    // Never destroyed: buffers may be dropped after static destructors have begun to run.
    static Driver* opened = nullptr;
    const std::lock_guard lock(opening);
    if (!opened) opened = new Driver;
    return *opened;
}

std::string Driver::version_text() const {
    return std::to_string(version_ / 1000) + "." + std::to_string(version_ % 1000 / 10);
}

std::string Driver::describe(int result) const {
    const char* name = nullptr;
    const char* text = nullptr;
    if (error_name(result, &name)) name = nullptr;
    if (error_string(result, &text)) text = nullptr;
    return std::string(name ? name : "an unknown error") + " (" + std::to_string(result) +
           (text ? std::string(", ") + text : std::string()) + ")";
}

void Driver::fail(Status status, const std::string& doing) const {
    throw Error(
        status.code == out_of_memory ? ErrorKind::memory : ErrorKind::runtime,
        doing + ": " + status.symbol + " gave " + describe(status.code) + advice(status.code));
}

int Driver::attribute(DeviceId device, Attribute attribute) const {
    int value = 0;
    const Status status = device_attribute(&value, attribute, device);
    // A driver that does not know an attribute has not got what it is about.
    if (status.code == invalid_value) return 0;
    check(status, [&] {
        return "device: attribute " + std::to_string(attribute) +
               " of cuda:" + std::to_string(device);
    });
    return value;
}

std::vector<std::uint8_t> Driver::uuid(DeviceId device, const char* operation) const {
    Uuid uuid{};
    // The second form gives a MIG instance's own.
    const auto& ask = device_uuid_mig ? device_uuid_mig : device_uuid;
    check(ask(&uuid, device),
          [&] { return std::string(operation) + ": UUID of cuda:" + std::to_string(device); });
    return {std::begin(uuid.bytes), std::end(uuid.bytes)};
}

std::string driver_summary(const Driver& driver, DeviceId device) {
    char name[256] = "";
    std::size_t memory = 0;
    driver.device_name(name, sizeof name, device);
    driver.device_memory(&memory, device);
    char text[400];
    std::snprintf(text, sizeof text, "%s, %.1f GiB, compute capability %d.%d, driver for CUDA %s",
                  name, static_cast<double>(memory) / (1024.0 * 1024 * 1024),
                  driver.attribute(device, compute_capability_major),
                  driver.attribute(device, compute_capability_minor),
                  driver.version_text().c_str());
    return text;
}

}  // namespace tack::cuda
