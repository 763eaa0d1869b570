#include "backend/cuda/context.hpp"

#include "tack/error.hpp"

namespace tack::cuda {

OwnContext::OwnContext(Driver& driver_, DeviceId device_) : driver(driver_), device(device_) {
    Context current = nullptr;
    DeviceId of = -1;
    if (!driver.context_current(&current) && current && !driver.context_device(&of) &&
        of == device) {
        handle = current;
        adopted = true;
        return;
    }
    driver.check(driver.primary_retain(&handle, device), [&] {
        return "device: retaining the primary context of cuda:" + std::to_string(device);
    });
}

OwnContext::~OwnContext() {
    if (!adopted && handle && driver.primary_release) driver.primary_release(device);
}

Current::Current(const Driver& driver, Context context) {
    Context current = nullptr;
    if (!driver.context_current(&current) && current == context) return;
    driver.check(driver.context_push(context),
                 [] { return std::string("making the device's context current"); });
    pushed_ = &driver;
}

Current::~Current() {
    Context popped = nullptr;
    if (pushed_) pushed_->context_pop(&popped);
}

Mark::Mark(const Driver& driver, Stream stream, const std::string& doing) : driver_(driver) {
    const auto what = [&] { return doing; };
    driver.check(driver.event_create(&event_, event_disable_timing), what);
    if (const Status failed = driver.event_record(event_, stream)) {
        driver.event_destroy(event_);
        driver.fail(failed, doing);
    }
}

StreamQueue::StreamQueue(detail::Ref<OwnContext> context_, Stream stream_, bool owned)
    : context(std::move(context_)), stream(stream_), owned_(owned) {}

StreamQueue::~StreamQueue() {
    if (!owned_) return;
    try {
        const Current current(*context);
        context->driver.stream_synchronize(stream);
        context->driver.stream_destroy(stream);
    } catch (const Error&) {
        // The context is gone, and its streams with it.
    }
}

void StreamQueue::synchronize() {
    const Current current(*context);
    context->driver.check(context->driver.stream_synchronize(stream), [&] {
        return "waiting for the work of cuda:" + std::to_string(context->device) + last_queued();
    });
}

}  // namespace tack::cuda
