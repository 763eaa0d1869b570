// Copies and fills, and when they happen: DESIGN.md's "work is lazy", and CUDA's rules for pageable
// host memory.
#include <algorithm>
#include <cstring>

#include "cuda/memory.hpp"

using namespace tack_sim;
using namespace tack_sim::cuda;

namespace tack_sim::cuda {
namespace {

enum class Side { any, host, device };

struct Place {
    RangeRef range;  // null: pageable host memory
    bool on_host = true;
    bool fits = true;
};

Place place_of(Address address, size_t bytes) {
    Place place;
    place.range = range_at(address);
    if (!place.range) return place;
    place.on_host =
        place.range->kind == RangeKind::pinned || place.range->kind == RangeKind::registered;
    place.fits = place.range->contains(address, bytes);
    return place;
}

bool matches(const Place& place, Side side) {
    // What is no memory of the driver's is the host's, if the host can touch it.
    if (side == Side::any) return true;
    return side == Side::host || place.range;
}

// blocking: the call that has no Async in its name.
int copy(Held& held, Stream& stream, const char* call, Address to, Side to_side, Address from,
         Side from_side, size_t bytes, bool blocking) {
    if (!bytes) return success;
    if (!to || !from) return invalid_value;
    Place target = place_of(to, bytes), source = place_of(from, bytes);
    if (!matches(target, to_side) || !matches(source, from_side)) return invalid_value;
    if (!target.fits || !source.fits) return invalid_value;
    std::shared_ptr<FaultDomain> domain = stream.context->domain;
    // An address that is neither the driver's nor the host's.
    if (!target.range && !host_can_read(pointer(to))) return invalid_value;
    if (!source.range && !host_can_read(pointer(from))) return invalid_value;

    std::vector<RangeRef> uses;
    for (const RangeRef& range : {target.range, source.range}) {
        if (range) uses.push_back(range);
    }
    std::function<void()> work;
    if (!source.range) {
        if (blocking) Queue::instance().wait(held, enqueue(stream, call, nullptr, {}));
        // Staged by the driver before the call returns.
        auto staged = std::make_shared<std::vector<char>>(bytes);
        std::memcpy(staged->data(), pointer(from), bytes);
        work = [staged, to, bytes] { std::memcpy(pointer(to), staged->data(), bytes); };
    } else {
        work = [to, from, bytes] { std::memmove(pointer(to), pointer(from), bytes); };
    }
    CommandRef command = enqueue(stream, call, std::move(work), std::move(uses));
    command->any_device = true;
    // Between two places of the device even the blocking call returns early.
    bool returns_early = target.range && !target.on_host && (!source.range || !source.on_host);
    bool waits = !target.range || (blocking && !returns_early);
    if (waits) Queue::instance().wait(held, command);
    return domain->sticky_error;
}

int copy_async(Entry& entry, Address to, Side to_side, Address from, Side from_side, size_t bytes,
               void* stream_handle) {
    return enter(entry, true, [&](Held& held) -> int {
        Result error = success;
        Stream* stream = stream_of(entry.base, stream_handle, error);
        if (!stream) return error;
        return copy(held, *stream, entry.base, to, to_side, from, from_side, bytes, false);
    });
}

int copy_now(Entry& entry, Address to, Side to_side, Address from, Side from_side, size_t bytes) {
    return enter_context(entry, [&](Held& held, Context& context) {
        return copy(held, *context.legacy, entry.base, to, to_side, from, from_side, bytes, true);
    });
}

template <typename Value>
int fill_range(Stream& stream, const char* call, Address to, size_t pitch, Value value,
               size_t width, size_t height) {
    if (!width || !height) return success;
    if (height > 1 && pitch < width * sizeof(Value)) return invalid_value;
    size_t bytes = pitch * (height - 1) + width * sizeof(Value);
    Place target = place_of(to, bytes);
    if (!target.range || !target.fits || to % sizeof(Value)) return invalid_value;
    auto work = [to, pitch, value, width, height] {
        for (size_t row = 0; row < height; ++row) {
            std::fill_n(reinterpret_cast<Value*>(to + row * pitch), width, value);
        }
    };
    enqueue(stream, call, work, {target.range});
    return success;
}

template <typename Value>
int fill_async(Entry& entry, Address to, size_t pitch, Value value, size_t width, size_t height,
               void* stream_handle) {
    return enter(entry, true, [&](Held&) -> int {
        Result error = success;
        Stream* stream = stream_of(entry.base, stream_handle, error);
        if (!stream) return error;
        return fill_range(*stream, entry.base, to, pitch, value, width, height);
    });
}

template <typename Value>
int fill_now(Entry& entry, Address to, Value value, size_t count) {
    return enter_context(entry, [&](Held&, Context& context) {
        return fill_range(*context.legacy, entry.base, to, 0, value, count, 1);
    });
}

int copy_peer(Entry& entry, Address to, void* to_context, Address from, void* from_context,
              size_t bytes, void* stream_handle, bool blocking) {
    return enter(entry, true, [&](Held& held) -> int {
        Result error = success;
        if (!checked<Context>(entry.base, to_context, error)) return error;
        if (!checked<Context>(entry.base, from_context, error)) return error;
        Stream* stream = stream_of(entry.base, stream_handle, error);
        if (!stream) return error;
        return copy(held, *stream, entry.base, to, Side::device, from, Side::device, bytes,
                    blocking);
    });
}

}  // namespace
}  // namespace tack_sim::cuda

TACK_SIM_ENTRY(cuMemcpy, "cuMemcpy", 4000, Address to, Address from, size_t bytes) {
    return copy_now(cuMemcpy_entry, to, Side::any, from, Side::any, bytes);
}

TACK_SIM_ENTRY(cuMemcpyAsync, "cuMemcpyAsync", 4000, Address to, Address from, size_t bytes,
               void* stream) {
    return copy_async(cuMemcpyAsync_entry, to, Side::any, from, Side::any, bytes, stream);
}

TACK_SIM_ENTRY(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, Address to, const void* from, size_t bytes) {
    return copy_now(cuMemcpyHtoD_v2_entry, to, Side::device, address_of(from), Side::host, bytes);
}

TACK_SIM_ENTRY(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020, Address to, const void* from,
               size_t bytes, void* stream) {
    return copy_async(cuMemcpyHtoDAsync_v2_entry, to, Side::device, address_of(from), Side::host,
                      bytes, stream);
}

TACK_SIM_ENTRY(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, void* to, Address from, size_t bytes) {
    return copy_now(cuMemcpyDtoH_v2_entry, address_of(to), Side::host, from, Side::device, bytes);
}

TACK_SIM_ENTRY(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, void* to, Address from,
               size_t bytes, void* stream) {
    return copy_async(cuMemcpyDtoHAsync_v2_entry, address_of(to), Side::host, from, Side::device,
                      bytes, stream);
}

TACK_SIM_ENTRY(cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, Address to, Address from, size_t bytes) {
    return copy_now(cuMemcpyDtoD_v2_entry, to, Side::device, from, Side::device, bytes);
}

TACK_SIM_ENTRY(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, Address to, Address from,
               size_t bytes, void* stream) {
    return copy_async(cuMemcpyDtoDAsync_v2_entry, to, Side::device, from, Side::device, bytes,
                      stream);
}

TACK_SIM_ENTRY(cuMemcpyPeer, "cuMemcpyPeer", 4000, Address to, void* to_context, Address from,
               void* from_context, size_t bytes) {
    return copy_peer(cuMemcpyPeer_entry, to, to_context, from, from_context, bytes, nullptr, true);
}

TACK_SIM_ENTRY(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000, Address to, void* to_context,
               Address from, void* from_context, size_t bytes, void* stream) {
    return copy_peer(cuMemcpyPeerAsync_entry, to, to_context, from, from_context, bytes, stream,
                     false);
}

TACK_SIM_ENTRY(cuMemsetD8_v2, "cuMemsetD8", 3020, Address to, unsigned char value, size_t count) {
    return fill_now(cuMemsetD8_v2_entry, to, value, count);
}

TACK_SIM_ENTRY(cuMemsetD8Async, "cuMemsetD8Async", 3020, Address to, unsigned char value,
               size_t count, void* stream) {
    return fill_async(cuMemsetD8Async_entry, to, 0, value, count, 1, stream);
}

TACK_SIM_ENTRY(cuMemsetD2D8Async, "cuMemsetD2D8Async", 3020, Address to, size_t pitch,
               unsigned char value, size_t width, size_t height, void* stream) {
    return fill_async(cuMemsetD2D8Async_entry, to, pitch, value, width, height, stream);
}

TACK_SIM_ENTRY(cuMemsetD16_v2, "cuMemsetD16", 3020, Address to, unsigned short value,
               size_t count) {
    return fill_now(cuMemsetD16_v2_entry, to, value, count);
}

TACK_SIM_ENTRY(cuMemsetD16Async, "cuMemsetD16Async", 3020, Address to, unsigned short value,
               size_t count, void* stream) {
    return fill_async(cuMemsetD16Async_entry, to, 0, value, count, 1, stream);
}

TACK_SIM_ENTRY(cuMemsetD2D16Async, "cuMemsetD2D16Async", 3020, Address to, size_t pitch,
               unsigned short value, size_t width, size_t height, void* stream) {
    return fill_async(cuMemsetD2D16Async_entry, to, pitch, value, width, height, stream);
}

TACK_SIM_ENTRY(cuMemsetD32_v2, "cuMemsetD32", 3020, Address to, unsigned value, size_t count) {
    return fill_now(cuMemsetD32_v2_entry, to, value, count);
}

TACK_SIM_ENTRY(cuMemsetD32Async, "cuMemsetD32Async", 3020, Address to, unsigned value, size_t count,
               void* stream) {
    return fill_async(cuMemsetD32Async_entry, to, 0, value, count, 1, stream);
}

TACK_SIM_ENTRY(cuMemsetD2D32Async, "cuMemsetD2D32Async", 3020, Address to, size_t pitch,
               unsigned value, size_t width, size_t height, void* stream) {
    return fill_async(cuMemsetD2D32Async_entry, to, pitch, value, width, height, stream);
}
