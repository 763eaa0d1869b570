/// Devices that hold arrays and run kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tack/config.hpp"
#include "tack/detail/ref.hpp"

namespace tack {

struct Backend;

/// The memory that an address belongs to, as the device's driver reports it.
enum class MemoryKind {
    unknown,  // the driver does not know the address
    host,     // ordinary host memory
    pinned,   // host memory that a device reaches too
    device,   // memory of one device
    managed,  // migrates between host and device (CUDA managed, shared USM)
};
struct MemorySpace {
    std::string backend;  // which backend may wrap the address: "cpu", "cuda", ..., "unknown"
    MemoryKind kind = MemoryKind::unknown;
};

/// Values of device options: a handle as an integer, a text, or named handles.
using OptionValue = std::variant<std::uint64_t, std::string, std::map<std::string, std::uint64_t>>;
using DeviceOptions = std::map<std::string, OptionValue>;

/// A handle on one device. Copies are cheap and mean the same device; a default-constructed
/// handle means no device and may only be assigned to or tested.
class TACK_API Device {
public:
    Device() noexcept;
    explicit Device(detail::Ref<Backend> backend) noexcept;
    Device(const Device&) noexcept;
    Device(Device&&) noexcept;
    Device& operator=(const Device&) noexcept;
    Device& operator=(Device&&) noexcept;
    ~Device();

    /// The backend's name: "cpu", "cuda", ...
    std::string_view name() const noexcept;
    int index() const noexcept;
    /// Arrays of two memory domains never meet in one launch: "cpu", "cuda:0", ...
    std::string memory_domain() const;
    /// Which memory an address belongs to. Never reads it.
    MemorySpace memory_space(const void* ptr) const;
    /// Whether the device runs in a context that another library made.
    bool shares_external_context() const noexcept;
    /// Waits until all work queued on this device has run.
    void synchronize() const;
    /// The native handle of the queue that launches go to, such as a CUstream; 0 on the host.
    std::uint64_t stream() const noexcept;
    /// Work queued on this device from now on runs after what has been queued so far on `other`,
    /// another library's stream of the same device, by an event and without waiting. On CUDA 0 and
    /// 1 are the legacy stream, 2 the calling thread's own. Nothing on the host.
    /// Throws runtime for a handle that the driver refuses.
    void wait_for_stream(std::uint64_t other) const;
    /// "cpu", "cuda:1": what device() takes.
    std::string to_string() const;

    explicit operator bool() const noexcept { return static_cast<bool>(backend_); }
    friend bool operator==(const Device& a, const Device& b) noexcept {
        return a.backend_ == b.backend_;
    }
    Backend& backend() const noexcept { return *backend_; }

private:
    detail::Ref<Backend> backend_;
};

/// The device of a backend. `name` may carry the index: "cuda:1". A plain device (no options) is
/// one object for the whole process; one with options is a device of its own each time.
/// Throws value for an option that the backend does not declare, naming it and the declared ones,
/// before anything is constructed; runtime, with the reason, for a backend or index that is not
/// there.
TACK_API Device device(std::string_view name, int index = 0, const DeviceOptions& options = {});
/// The names of the options that device() takes for a backend: "stream" for CUDA. Starts no driver.
/// Throws runtime, with the reason, for a backend that this build has not.
TACK_API std::vector<std::string> device_options(std::string_view backend);
/// The process-wide default, the CPU until set.
TACK_API Device default_device();
TACK_API Device set_default_device(const Device& device);
TACK_API Device set_default_device(std::string_view name, int index = 0,
                                   const DeviceOptions& options = {});
/// Every device that can be used now.
TACK_API std::vector<Device> devices();
/// Waits until all work queued on every device in use has run.
TACK_API void synchronize();

/// One row per backend that Tack knows, for `python -m tack` and the like.
struct BackendStatus {
    std::string name;
    std::string state;   // "ready", "not found", "not usable", "not built"
    std::string detail;  // what is there, or the reason in one sentence
};
TACK_API std::vector<BackendStatus> backend_status();

/// Threads that CPU launches use: TACK_NUM_THREADS, else the processors this process may use.
TACK_API int num_threads();
/// From 1 up; anything else throws value. Takes effect at the next launch.
TACK_API void set_num_threads(int threads);

}  // namespace tack
