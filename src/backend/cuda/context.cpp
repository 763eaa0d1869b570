#include "backend/cuda/context.hpp"

#include <mutex>
#include <vector>

#include "kernel/gil.hpp"
#include "tack/error.hpp"

namespace tack::cuda {

namespace {

struct Contexts {
    std::mutex mutex;
    std::vector<detail::Ref<OwnContext>> known;
};
Contexts& contexts() {
    static auto* const instance = new Contexts;
    return *instance;
}

}  // namespace

bool OwnContext::retain_if_primary(Driver& driver, DeviceId device, Context handle) {
    unsigned flags = 0;
    int active = 0;
    Context primary = nullptr;
    if (!driver.primary_state || !driver.primary_release ||
        driver.primary_state(device, &flags, &active) || !active ||
        driver.primary_retain(&primary, device))
        return false;
    if (primary == handle) return true;
    driver.primary_release(device);
    return false;
}

detail::Ref<OwnContext> OwnContext::of(Driver& driver, DeviceId device) {
    Context handle = nullptr;
    DeviceId on = -1;
    const bool adopted =
        !driver.context_current(&handle) && handle && !driver.context_device(&on) && on == device;
    // A context may come to lie where a destroyed one has been.
    std::uint64_t id = 0;
    if (adopted && driver.context_id) driver.context_id(handle, &id);
    const std::lock_guard lock(contexts().mutex);
    if (!adopted) {
        driver.check(driver.primary_retain(&handle, device), [&] {
            return "device: retaining the primary context of cuda:" + std::to_string(device);
        });
        if (driver.context_id) driver.context_id(handle, &id);
    }
    for (const auto& known : contexts().known) {
        if (known->device != device || known->handle != handle || known->id_ != id) continue;
        if (!adopted && driver.primary_release) driver.primary_release(device);
        return known;
    }
    if (adopted) retain_if_primary(driver, device, handle);
    auto made = detail::make_ref<OwnContext>(driver, device, handle, adopted, id);
    contexts().known.push_back(made);
    return made;
}

void OwnContext::wait_for_all() const noexcept {
    const kernel::GilRelease release(kernel::GilRelease::is_held());
    try {
        const Current current(*this);
        driver.context_synchronize();
    } catch (const Error&) {
    }
}

Current::Current(const Driver& driver, Context context, DeviceId device) {
    Context current = nullptr;
    if (!driver.context_current(&current) && current == context) return;
    driver.check(driver.context_push(context), [&] {
        return "making the context of " +
               (device < 0 ? std::string("a stream") : "cuda:" + std::to_string(device)) +
               " current";
    });
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
    context->wait_for_all();
    try {
        const Current current(*context);
        context->driver.stream_destroy(stream);
    } catch (const Error&) {
        // The context is gone, and its streams with it.
    }
}

void StreamQueue::wait() {
    const Current current(*context);
    context->driver.check(context->driver.stream_synchronize(stream), [&] {
        return "waiting for the work of cuda:" + std::to_string(context->device) + last_queued();
    });
}

}  // namespace tack::cuda
