#include "backend/cuda/context.hpp"

#include <mutex>
#include <vector>

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

detail::Ref<OwnContext> OwnContext::of(Driver& driver, DeviceId device) {
    Context handle = nullptr;
    DeviceId of = -1;
    const bool adopted =
        !driver.context_current(&handle) && handle && !driver.context_device(&of) && of == device;
    // A context may come to lie where a destroyed one has been.
    std::uint64_t id = 0;
    if (adopted && driver.context_id) driver.context_id(handle, &id);
    const std::lock_guard lock(contexts().mutex);
    for (const auto& known : contexts().known) {
        const bool same = adopted ? known->handle == handle && known->id_ == id : !known->adopted;
        if (known->device == device && known->adopted == adopted && same) return known;
    }
    if (!adopted) {
        driver.check(driver.primary_retain(&handle, device), [&] {
            return "device: retaining the primary context of cuda:" + std::to_string(device);
        });
    }
    auto made = detail::make_ref<OwnContext>(driver, device, handle, adopted, id);
    contexts().known.push_back(made);
    return made;
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
