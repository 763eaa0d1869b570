// Streams and events.
#include "cuda/driver.hpp"

using namespace tack_sim;
using namespace tack_sim::cuda;

namespace {

// A poll that never ends would tell nothing: so many queries run one command.
constexpr uint64_t queries_per_step = 64;

int create_stream(Entry& entry, void** out, unsigned flags, int priority) {
    return enter_context(entry, [&](Held&, Context& context) -> int {
        if (!out || flags > 1) return invalid_value;
        auto stream = std::make_shared<Stream>();
        stream->context = &context;
        stream->flags = flags;
        stream->priority = priority;
        stream->id = state().next_id++;
        context.streams.push_back(stream.get());
        *out = state().handles.add(stream);
        return success;
    });
}

// The body of an entry point on one stream: body(held, stream).
template <typename Body>
int enter_stream(Entry& entry, void* handle, Body&& body) {
    return enter(entry, true, [&](Held& held) -> int {
        Result error = success;
        Stream* stream = stream_of(entry.base, handle, error);
        return stream ? body(held, *stream) : error;
    });
}

template <typename Body>
int enter_event(Entry& entry, void* handle, Body&& body) {
    return enter(entry, true, [&](Held& held) -> int {
        Result error = success;
        Event* event = checked<Event>(entry.base, handle, error);
        if (!event) return error;
        if (Result sticky = status(*event->context)) return sticky;
        return body(held, *event);
    });
}

int query(Held& held, const CommandRef& command, uint64_t& queries, const Context& context) {
    if (!command || command->done) return success;
    // What follows is kept alive over the unlocked step.
    CommandRef kept = command;
    std::shared_ptr<FaultDomain> domain = context.domain;
    if (++queries % queries_per_step == 0) Queue::instance().step(held, kept);
    if (domain->sticky_error) return domain->sticky_error;
    return kept->done ? success : not_ready;
}

int record(Entry& entry, void* handle, void* stream_handle, unsigned flags) {
    return enter_event(entry, handle, [&](Held&, Event& event) -> int {
        if (flags > 1) return invalid_value;
        Result error = success;
        Stream* stream = stream_of(entry.base, stream_handle, error);
        if (!stream) return error;
        if (stream->context != event.context) {
            violation("cuEventRecord: " + name_of(event) + " and " + name_of(*stream) +
                      " are of different contexts");
            return invalid_handle;
        }
        event.recorded = enqueue(*stream, "cuEventRecord", nullptr, {});
        return success;
    });
}

int elapsed(Entry& entry, float* milliseconds, void* start, void* end) {
    return enter_event(entry, start, [&](Held&, Event& first) -> int {
        Result error = success;
        Event* second = checked<Event>(entry.base, end, error);
        if (!second) return error;
        if (!milliseconds) return invalid_value;
        constexpr unsigned disable_timing = 2;
        if (!first.recorded || !second->recorded || first.flags & disable_timing ||
            second->flags & disable_timing || first.context != second->context) {
            return invalid_handle;
        }
        if (!first.recorded->done || !second->recorded->done) return not_ready;
        *milliseconds = static_cast<float>(second->recorded->finished - first.recorded->finished);
        return success;
    });
}

}  // namespace

TACK_SIM_ENTRY(cuStreamCreate, "cuStreamCreate", 2000, void** out, unsigned flags) {
    return create_stream(cuStreamCreate_entry, out, flags, 0);
}

TACK_SIM_ENTRY(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050, void** out,
               unsigned flags, int priority) {
    return create_stream(cuStreamCreateWithPriority_entry, out, flags, priority);
}

TACK_SIM_ENTRY(cuStreamDestroy_v2, "cuStreamDestroy", 4000, void* handle) {
    return enter(cuStreamDestroy_v2_entry, true, [&](Held&) -> int {
        Result error = success;
        if (reinterpret_cast<uintptr_t>(handle) <= 2) return invalid_handle;
        Stream* stream = checked<Stream>("cuStreamDestroy", handle, error);
        if (!stream) return error;
        Context& context = *stream->context;
        if (stream->built_in) return invalid_handle;
        if (stream->last && !stream->last->done && !status(context)) {
            // Legal, and nearly always a wait that was forgotten; not so after the last free.
            if (stream->last->name != "cuMemFreeAsync") {
                violation("cuStreamDestroy: " + name_of(*stream) + " has work queued");
            }
            context.orphans.push_back(stream->last);
        }
        stream->alive = false;
        stream->last = nullptr;
        std::erase(context.streams, stream);
        return status(context);
    });
}

TACK_SIM_ENTRY(cuStreamSynchronize, "cuStreamSynchronize", 2000, void* handle) {
    return enter_stream(cuStreamSynchronize_entry, handle, [](Held& held, Stream& stream) -> int {
        // Of the legacy stream too only what was queued there, and what that waits for.
        CommandRef last = stream.last;
        std::shared_ptr<FaultDomain> domain = stream.context->domain;
        Queue::instance().wait(held, last);
        return domain->sticky_error;
    });
}

TACK_SIM_ENTRY(cuStreamQuery, "cuStreamQuery", 2000, void* handle) {
    return enter_stream(cuStreamQuery_entry, handle, [](Held& held, Stream& stream) -> int {
        return query(held, stream.last, stream.queries, *stream.context);
    });
}

TACK_SIM_ENTRY(cuStreamGetCtx, "cuStreamGetCtx", 9020, void* handle, void** context) {
    return enter_stream(cuStreamGetCtx_entry, handle, [&](Held&, Stream& stream) -> int {
        if (!context) return invalid_value;
        *context = stream.context->handle;
        return success;
    });
}

TACK_SIM_ENTRY(cuStreamGetCtx_v2, "cuStreamGetCtx", 12050, void* handle, void** context,
               void** green) {
    return enter_stream(cuStreamGetCtx_v2_entry, handle, [&](Held&, Stream& stream) -> int {
        if (!context) return invalid_value;
        *context = stream.context->handle;
        if (green) *green = nullptr;
        return success;
    });
}

TACK_SIM_ENTRY(cuStreamGetDevice, "cuStreamGetDevice", 12080, void* handle, int* device) {
    return enter_stream(cuStreamGetDevice_entry, handle, [&](Held&, Stream& stream) -> int {
        if (!device) return invalid_value;
        *device = stream.context->device->ordinal;
        return success;
    });
}

TACK_SIM_ENTRY(cuStreamGetFlags, "cuStreamGetFlags", 5050, void* handle, unsigned* flags) {
    return enter_stream(cuStreamGetFlags_entry, handle, [&](Held&, Stream& stream) -> int {
        if (!flags) return invalid_value;
        *flags = stream.flags;
        return success;
    });
}

TACK_SIM_ENTRY(cuStreamGetPriority, "cuStreamGetPriority", 5050, void* handle, int* priority) {
    return enter_stream(cuStreamGetPriority_entry, handle, [&](Held&, Stream& stream) -> int {
        if (!priority) return invalid_value;
        *priority = stream.priority;
        return success;
    });
}

TACK_SIM_ENTRY(cuStreamGetId, "cuStreamGetId", 12000, void* handle, unsigned long long* id) {
    return enter_stream(cuStreamGetId_entry, handle, [&](Held&, Stream& stream) -> int {
        if (!id) return invalid_value;
        *id = stream.id;
        return success;
    });
}

TACK_SIM_ENTRY(cuStreamIsCapturing, "cuStreamIsCapturing", 10000, void* handle, int* capturing) {
    return enter_stream(cuStreamIsCapturing_entry, handle, [&](Held&, Stream&) -> int {
        if (!capturing) return invalid_value;
        *capturing = 0;
        return success;
    });
}

TACK_SIM_ENTRY(cuStreamWaitEvent, "cuStreamWaitEvent", 3020, void* handle, void* event_handle,
               unsigned flags) {
    return enter_stream(cuStreamWaitEvent_entry, handle, [&](Held&, Stream& stream) -> int {
        if (flags > 1) return invalid_value;
        Result error = success;
        Event* event = checked<Event>("cuStreamWaitEvent", event_handle, error);
        if (!event) return error;
        if (!event->recorded || event->recorded->done) return success;
        enqueue(stream, "cuStreamWaitEvent", nullptr, {}, event->recorded);
        return success;
    });
}

TACK_SIM_ENTRY(cuEventCreate, "cuEventCreate", 2000, void** out, unsigned flags) {
    return enter_context(cuEventCreate_entry, [&](Held&, Context& context) -> int {
        if (!out || flags > 7) return invalid_value;
        auto event = std::make_shared<Event>();
        event->context = &context;
        event->flags = flags;
        *out = state().handles.add(event);
        return success;
    });
}

TACK_SIM_ENTRY(cuEventRecord, "cuEventRecord", 2000, void* event, void* stream) {
    return record(cuEventRecord_entry, event, stream, 0);
}

TACK_SIM_ENTRY(cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010, void* event, void* stream,
               unsigned flags) {
    return record(cuEventRecordWithFlags_entry, event, stream, flags);
}

TACK_SIM_ENTRY(cuEventQuery, "cuEventQuery", 2000, void* handle) {
    return enter_event(cuEventQuery_entry, handle, [](Held& held, Event& event) -> int {
        return query(held, event.recorded, event.queries, *event.context);
    });
}

TACK_SIM_ENTRY(cuEventSynchronize, "cuEventSynchronize", 2000, void* handle) {
    return enter_event(cuEventSynchronize_entry, handle, [](Held& held, Event& event) -> int {
        CommandRef recorded = event.recorded;
        std::shared_ptr<FaultDomain> domain = event.context->domain;
        Queue::instance().wait(held, recorded);
        return domain->sticky_error;
    });
}

TACK_SIM_ENTRY(cuEventDestroy_v2, "cuEventDestroy", 4000, void* handle) {
    return enter(cuEventDestroy_v2_entry, true, [&](Held&) -> int {
        Result error = success;
        Event* event = checked<Event>("cuEventDestroy", handle, error);
        if (!event) return error;
        event->alive = false;
        event->recorded = nullptr;
        return status(*event->context);
    });
}

TACK_SIM_ENTRY(cuEventElapsedTime, "cuEventElapsedTime", 2000, float* milliseconds, void* start,
               void* end) {
    return elapsed(cuEventElapsedTime_entry, milliseconds, start, end);
}

TACK_SIM_ENTRY(cuEventElapsedTime_v2, "cuEventElapsedTime", 12080, float* milliseconds, void* start,
               void* end) {
    return elapsed(cuEventElapsedTime_v2_entry, milliseconds, start, end);
}
