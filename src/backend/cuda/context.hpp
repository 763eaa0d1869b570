/// The context that a CUDA device works in, and its stream.
#pragma once

#include "backend/cuda/driver.hpp"
#include "backend/gpu/queue.hpp"

namespace tack::cuda {

/// A context that another library made and Tack adopted, or the device's primary context, which is
/// retained. It is neither destroyed nor released here, and known for the life of the process.
/// One that is both, such as PyTorch's, is adopted and retained: its other users may let go of it.
struct OwnContext : detail::RefCounted {
    /// The calling thread's current context where it is one of this device, else the primary one.
    /// One object for each context, so that devices in it share compiled kernels.
    static detail::Ref<OwnContext> of(Driver& driver, DeviceId device);
    OwnContext(Driver& driver_, DeviceId device_, Context handle_, bool adopted_, std::uint64_t id)
        : driver(driver_), device(device_), handle(handle_), adopted(adopted_), id_(id) {}

    /// Waits for all work in the context, other libraries' too. For destructors: without the GIL,
    /// and what fails is ignored, since then the work is gone.
    void wait_for_all() const noexcept;

    Driver& driver;
    const DeviceId device;
    const Context handle;
    const bool adopted;

private:
    static bool retain_if_primary(Driver& driver, DeviceId device, Context handle);

    const std::uint64_t id_;  // 0 where the driver has none
};

/// Makes a context current on this thread for as long as it lives. What was current comes back,
/// on errors too (flatironinstitute/cufinufft#99).
class Current {
public:
    /// Throws runtime where the context is gone. device: whose it is, for that sentence; -1: of the
    /// stream that another library named.
    Current(const Driver& driver, Context context, DeviceId device = -1);
    explicit Current(const OwnContext& context)
        : Current(context.driver, context.handle, context.device) {}
    Current(const Current&) = delete;
    ~Current();

private:
    const Driver* pushed_ = nullptr;
};

/// Marks what is queued on a stream, for others to wait for.
class Mark {
public:
    /// Throws runtime, beginning with `doing`.
    Mark(const Driver& driver, Stream stream, const std::string& doing);
    Mark(const Mark&) = delete;
    /// The driver keeps an event that is waited for until that has happened.
    ~Mark() { driver_.event_destroy(event_); }

    Event event() const noexcept { return event_; }

private:
    const Driver& driver_;
    Event event_ = nullptr;
};

/// A stream of Tack's own, with default flags so that it orders itself with the legacy stream, or
/// one of the caller's.
struct StreamQueue final : gpu::Queue {
    StreamQueue(detail::Ref<OwnContext> context, Stream stream, bool owned);
    ~StreamQueue() override;

    const detail::Ref<OwnContext> context;
    const Stream stream;

private:
    void wait() override;

    const bool owned_;
};

}  // namespace tack::cuda
