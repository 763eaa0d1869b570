// Allocating and freeing memory, pools, and what a pointer is.
#include "cuda/memory.hpp"

#include <cstring>

using namespace tack_sim;
using namespace tack_sim::cuda;

namespace tack_sim::cuda {

bool charge(Device& device, size_t bytes) {
    if (bytes > device.capacity - device.bytes) return false;
    device.bytes += bytes;
    return true;
}

void refund(Device& device, size_t bytes) { device.bytes -= bytes; }

RangeRef range_at(Address address) {
    RangeRef range = Memory::instance().find(address);
    return range && !range->freed ? range : nullptr;
}

Result bad_free(const char* call, Address address) {
    if (!Queue::instance().on_executor()) {
        char text[32];
        snprintf(text, sizeof text, "0x%llx", address);
        violation(std::string(call) + ": " + text + " is not allocated, or was freed before");
    }
    return invalid_value;
}

void check_unused(const char* call, const Range& range) {
    if (!range.queued) return;
    char text[32];
    snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(range.base));
    violation(std::string(call) + ": " + range_kind_name(range.kind) + " at " + text +
              " is used by work still queued");
}

namespace {

int allocate(Context& context, size_t bytes, RangeKind kind, Address* out, uint64_t flags = 0) {
    if (!out || !bytes) return invalid_value;
    bool on_device = kind != RangeKind::pinned;
    if (on_device && !charge(*context.device, bytes)) return out_of_memory;
    RangeRef range = Memory::instance().allocate(bytes, kind, context.device->ordinal, &context);
    if (!range) {
        if (on_device) refund(*context.device, bytes);
        return out_of_memory;
    }
    range->flags = flags;
    *out = range->base;
    return success;
}

int allocate_pinned(Entry& entry, void** out, size_t bytes, unsigned flags) {
    return enter_context(entry, [&](Held&, Context& context) -> int {
        if (!out || flags > 7) return invalid_value;
        Address address = 0;
        int error = allocate(context, bytes, RangeKind::pinned, &address, flags);
        if (!error) *out = pointer(address);
        return error;
    });
}

// A free that is not ordered by a stream.
int free_range(Held& held, Context& context, Address address, const char* call) {
    RangeRef range = range_at(address);
    bool ours = range && range->base == address &&
                (range->kind == RangeKind::device || range->kind == RangeKind::managed ||
                 range->kind == RangeKind::pool);
    if (!ours) return bad_free(call, address);
    range->freed = true;
    // The driver waits here for memory of its plain allocator, and for no other.
    if (range->kind == RangeKind::pool)
        check_unused(call, *range);
    else
        Queue::instance().wait(held, all_work(*static_cast<Context*>(range->owner)));
    refund(*state().devices[static_cast<size_t>(range->device)], range->size);
    if (range->kind == RangeKind::pool) {
        static_cast<Pool*>(range->memory)->used -= range->size;
    }
    Memory::instance().release(range);
    return status(context);
}

int allocate_ordered(Stream& stream, Pool& pool, size_t bytes, Address* out) {
    if (!out) return invalid_value;
    if (!bytes) return invalid_value;
    Device& device = *pool.device;
    if (!charge(device, bytes)) return out_of_memory;
    RangeRef range =
        Memory::instance().allocate(bytes, RangeKind::pool, device.ordinal, stream.context);
    if (!range) {
        refund(device, bytes);
        return out_of_memory;
    }
    range->memory = &pool;
    range->live = false;
    pool.used += bytes;
    enqueue(stream, "cuMemAllocAsync", [range] { range->live = true; }, {});
    *out = range->base;
    return success;
}

Pool* pool_of(const char* call, void* handle, Result& error) {
    return checked<Pool>(call, handle, error);
}

// What cuPointerGetAttribute writes; 0 bytes: not applicable to this memory.
size_t pointer_attribute(int attribute, Address address, const Range* range, void* out) {
    auto put = [out](auto value) {
        std::memcpy(out, &value, sizeof value);
        return sizeof value;
    };
    constexpr unsigned host_type = 1, device_type = 2;
    bool on_host =
        range && (range->kind == RangeKind::pinned || range->kind == RangeKind::registered);
    bool managed = range && range->kind == RangeKind::managed;
    bool has_context = range && range->kind != RangeKind::pool && range->kind != RangeKind::mapped;
    switch (attribute) {
        case 1:  // context
            if (!range) return 0;
            return put(has_context ? static_cast<Context*>(range->owner)->handle : nullptr);
        case 2:  // memory type
            return range ? put(on_host ? host_type : device_type) : 0;
        case 3:  // device pointer
            return range ? put(address) : 0;
        case 4:  // host pointer
            return on_host || managed ? put(address) : 0;
        case 6:  // synchronous memory operations
            return range ? put(0u) : 0;
        case 7:  // id of the allocation
            return range ? put(range->id) : 0;
        case 8:  // managed
            return range ? put(managed ? 1u : 0u) : 0;
        case 9:  // device ordinal
            return range ? put(range->device) : 0;
        case 10:  // can be shared by cuIpc
            return range ? put(0u) : 0;
        case 11:  // start
            return range ? put(Address{range->base}) : 0;
        case 12:  // size
            return range ? put(range->size) : 0;
        case 13:  // mapped
            return range ? put(1u) : 0;
        case 14: {  // handle types
            if (!range) return 0;
            uint64_t types = 0;
            if (range->kind == RangeKind::mapped) {
                types =
                    static_cast<uint64_t>(static_cast<Allocation*>(range->memory)->handle_types);
            }
            return put(types);
        }
        case 16:  // access
            return range ? put(3u) : 0;
        case 17:  // pool
            if (!range || range->kind != RangeKind::pool) return 0;
            return put(static_cast<Pool*>(range->memory)->handle);
        default:
            return 0;
    }
}

// What the plural call leaves where the singular one fails.
void default_pointer_attribute(int attribute, void* out) {
    switch (attribute) {
        case 1:
        case 3:
        case 4:
        case 7:
        case 11:
        case 12:
        case 14:
        case 17:
            std::memset(out, 0, 8);
            return;
        case 9: {
            int no_device = -2;
            std::memcpy(out, &no_device, sizeof no_device);
            return;
        }
        default:
            std::memset(out, 0, 4);
    }
}

}  // namespace
}  // namespace tack_sim::cuda

TACK_SIM_ENTRY(cuMemAlloc_v2, "cuMemAlloc", 3020, Address* out, size_t bytes) {
    return enter_context(cuMemAlloc_v2_entry, [&](Held&, Context& context) {
        return allocate(context, bytes, RangeKind::device, out);
    });
}

TACK_SIM_ENTRY(cuMemAllocManaged, "cuMemAllocManaged", 6000, Address* out, size_t bytes,
               unsigned flags) {
    return enter_context(cuMemAllocManaged_entry, [&](Held&, Context& context) -> int {
        if (flags != 1 && flags != 2) return invalid_value;
        return allocate(context, bytes, RangeKind::managed, out, flags);
    });
}

TACK_SIM_ENTRY(cuMemHostAlloc, "cuMemHostAlloc", 2020, void** out, size_t bytes, unsigned flags) {
    return allocate_pinned(cuMemHostAlloc_entry, out, bytes, flags);
}

TACK_SIM_ENTRY(cuMemAllocHost_v2, "cuMemAllocHost", 3020, void** out, size_t bytes) {
    return allocate_pinned(cuMemAllocHost_v2_entry, out, bytes, 0);
}

TACK_SIM_ENTRY(cuMemFree_v2, "cuMemFree", 3020, Address address) {
    return enter_context(cuMemFree_v2_entry, [&](Held& held, Context& context) -> int {
        return address ? free_range(held, context, address, "cuMemFree") : success;
    });
}

TACK_SIM_ENTRY(cuMemFreeHost, "cuMemFreeHost", 2000, void* p) {
    return enter_context(cuMemFreeHost_entry, [&](Held&, Context& context) -> int {
        RangeRef range = range_at(address_of(p));
        bool ours = range && range->kind == RangeKind::pinned && range->base == address_of(p);
        if (!ours) return bad_free("cuMemFreeHost", address_of(p));
        check_unused("cuMemFreeHost", *range);
        Memory::instance().release(range);
        return status(context);
    });
}

TACK_SIM_ENTRY(cuMemHostRegister_v2, "cuMemHostRegister", 6050, void* p, size_t bytes,
               unsigned flags) {
    return enter_context(cuMemHostRegister_v2_entry, [&](Held&, Context& context) -> int {
        if (!p || !bytes || flags > 15) return invalid_value;
        Address begin = address_of(p);
        for (const RangeRef& range : Memory::instance().all()) {
            if (range->base < begin + bytes && begin < range->base + range->size) {
                return host_memory_already_registered;
            }
        }
        if (!host_can_read(p) || !host_can_read(static_cast<char*>(p) + bytes - 1)) {
            return invalid_value;
        }
        Memory::instance()
            .note(begin, bytes, RangeKind::registered, context.device->ordinal, &context)
            ->flags = flags;
        return success;
    });
}

TACK_SIM_ENTRY(cuMemHostUnregister, "cuMemHostUnregister", 4000, void* p) {
    return enter_context(cuMemHostUnregister_entry, [&](Held&, Context&) -> int {
        RangeRef range = range_at(address_of(p));
        if (!range || range->kind != RangeKind::registered || range->base != address_of(p)) {
            violation("cuMemHostUnregister: the memory is not registered");
            return host_memory_not_registered;
        }
        check_unused("cuMemHostUnregister", *range);
        Memory::instance().release(range);
        return success;
    });
}

TACK_SIM_ENTRY(cuMemHostGetDevicePointer_v2, "cuMemHostGetDevicePointer", 3020, Address* out,
               void* p, unsigned flags) {
    return enter_context(cuMemHostGetDevicePointer_v2_entry, [&](Held&, Context&) -> int {
        if (!out || flags) return invalid_value;
        RangeRef range = range_at(address_of(p));
        bool host =
            range && (range->kind == RangeKind::pinned || range->kind == RangeKind::registered);
        if (!host) return invalid_value;
        *out = address_of(p);
        return success;
    });
}

TACK_SIM_ENTRY(cuMemHostGetFlags, "cuMemHostGetFlags", 2030, unsigned* flags, void* p) {
    return enter_context(cuMemHostGetFlags_entry, [&](Held&, Context&) -> int {
        RangeRef range = range_at(address_of(p));
        if (!flags || !range || range->kind != RangeKind::pinned) return invalid_value;
        *flags = static_cast<unsigned>(range->flags);
        return success;
    });
}

TACK_SIM_ENTRY(cuMemGetInfo_v2, "cuMemGetInfo", 3020, size_t* free, size_t* total) {
    return enter_context(cuMemGetInfo_v2_entry, [&](Held&, Context& context) -> int {
        if (free) *free = context.device->capacity - context.device->bytes;
        if (total) *total = context.device->capacity;
        return success;
    });
}

TACK_SIM_ENTRY(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, Address* base, size_t* size,
               Address address) {
    return enter_context(cuMemGetAddressRange_v2_entry, [&](Held&, Context&) -> int {
        RangeRef range = range_at(address);
        if (!range) return not_found;
        if (base) *base = range->base;
        if (size) *size = range->size;
        return success;
    });
}

TACK_SIM_ENTRY(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, void* out, int attribute,
               Address address) {
    return enter(cuPointerGetAttribute_entry, true, [&](Held&) -> int {
        if (!out) return invalid_value;
        RangeRef range = range_at(address);
        return pointer_attribute(attribute, address, range.get(), out) ? success : invalid_value;
    });
}

TACK_SIM_ENTRY(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, unsigned count,
               const int* attributes, void** out, Address address) {
    return enter(cuPointerGetAttributes_entry, true, [&](Held&) -> int {
        if (!count || !attributes || !out) return invalid_value;
        RangeRef range = range_at(address);
        for (unsigned i = 0; i < count; ++i) {
            if (!pointer_attribute(attributes[i], address, range.get(), out[i])) {
                default_pointer_attribute(attributes[i], out[i]);
            }
        }
        return success;
    });
}

TACK_SIM_ENTRY(cuMemAllocAsync, "cuMemAllocAsync", 11020, Address* out, size_t bytes,
               void* stream_handle) {
    return enter(cuMemAllocAsync_entry, true, [&](Held&) -> int {
        Result error = success;
        Stream* stream = stream_of("cuMemAllocAsync", stream_handle, error);
        if (!stream) return error;
        if (!pools_supported()) return not_supported;
        return allocate_ordered(*stream, *stream->context->device->pool, bytes, out);
    });
}

TACK_SIM_ENTRY(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, Address* out,
               size_t bytes, void* pool_handle, void* stream_handle) {
    return enter(cuMemAllocFromPoolAsync_entry, true, [&](Held&) -> int {
        Result error = success;
        Stream* stream = stream_of("cuMemAllocFromPoolAsync", stream_handle, error);
        if (!stream) return error;
        if (!pools_supported()) return not_supported;
        Pool* pool = pool_of("cuMemAllocFromPoolAsync", pool_handle, error);
        return pool ? allocate_ordered(*stream, *pool, bytes, out) : error;
    });
}

TACK_SIM_ENTRY(cuMemFreeAsync, "cuMemFreeAsync", 11020, Address address, void* stream_handle) {
    return enter(cuMemFreeAsync_entry, true, [&](Held&) -> int {
        Result error = success;
        Stream* stream = stream_of("cuMemFreeAsync", stream_handle, error);
        if (!stream) return error;
        if (!pools_supported()) return not_supported;
        RangeRef range = range_at(address);
        bool ours = range && range->base == address && range->kind == RangeKind::pool;
        if (!ours) return bad_free("cuMemFreeAsync", address);
        range->freed = true;
        refund(*state().devices[static_cast<size_t>(range->device)], range->size);
        static_cast<Pool*>(range->memory)->used -= range->size;
        enqueue(*stream, "cuMemFreeAsync",
                [range] {
                    // Work that comes before this one in any order of streams has run.
                    Held held = Queue::instance().lock();
                    check_unused("cuMemFreeAsync", *range);
                    Memory::instance().release(range);
                },
                {});
        return success;
    });
}

TACK_SIM_ENTRY(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020, void** out,
               int ordinal) {
    return enter(cuDeviceGetDefaultMemPool_entry, true, [&](Held&) -> int {
        if (!out) return invalid_value;
        Device* device = device_at(ordinal);
        if (!device) return invalid_device;
        if (!pools_supported()) return not_supported;
        *out = device->default_pool->handle;
        return success;
    });
}

TACK_SIM_ENTRY(cuDeviceGetMemPool, "cuDeviceGetMemPool", 11020, void** out, int ordinal) {
    return enter(cuDeviceGetMemPool_entry, true, [&](Held&) -> int {
        if (!out) return invalid_value;
        Device* device = device_at(ordinal);
        if (!device) return invalid_device;
        if (!pools_supported()) return not_supported;
        *out = device->pool->handle;
        return success;
    });
}

TACK_SIM_ENTRY(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, int ordinal, void* handle) {
    return enter(cuDeviceSetMemPool_entry, true, [&](Held&) -> int {
        Device* device = device_at(ordinal);
        if (!device) return invalid_device;
        Result error = success;
        Pool* pool = pool_of("cuDeviceSetMemPool", handle, error);
        if (!pool) return error;
        if (pool->device != device) return invalid_device;
        device->pool = pool;
        return success;
    });
}

namespace {

// The start of CUmemPoolProps, which is 88 bytes.
struct PoolProperties {
    int allocation_type;
    int handle_types;
    int location_type;
    int location_id;
};

constexpr int pinned_allocation = 1;
constexpr int device_location = 1;

// Flags of the pool's reuse are ints, the rest are 64 bits wide.
size_t pool_attribute_size(int attribute) {
    if (attribute < 1 || attribute > 8) return 0;
    return attribute <= 3 ? 4 : 8;
}

}  // namespace

TACK_SIM_ENTRY(cuMemPoolCreate, "cuMemPoolCreate", 11020, void** out,
               const PoolProperties* properties) {
    return enter(cuMemPoolCreate_entry, true, [&](Held&) -> int {
        if (!out || !properties) return invalid_value;
        if (!pools_supported()) return not_supported;
        Device* device = device_at(properties->location_id);
        bool fits = properties->allocation_type == pinned_allocation &&
                    properties->location_type == device_location && device;
        if (!fits) return invalid_value;
        if (properties->handle_types) return not_supported;
        auto pool = std::make_shared<Pool>();
        pool->device = device;
        *out = state().handles.add(pool);
        return success;
    });
}

TACK_SIM_ENTRY(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, void* handle) {
    return enter(cuMemPoolDestroy_entry, true, [&](Held&) -> int {
        Result error = success;
        Pool* pool = pool_of("cuMemPoolDestroy", handle, error);
        if (!pool) return error;
        if (pool->built_in) return invalid_value;
        pool->alive = false;
        if (pool->device->pool == pool) pool->device->pool = pool->device->default_pool;
        return success;
    });
}

TACK_SIM_ENTRY(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, void* handle, size_t) {
    return enter(cuMemPoolTrimTo_entry, true, [&](Held&) -> int {
        Result error = success;
        return pool_of("cuMemPoolTrimTo", handle, error) ? success : error;
    });
}

TACK_SIM_ENTRY(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, void* handle, int attribute,
               const void* value) {
    return enter(cuMemPoolSetAttribute_entry, true, [&](Held&) -> int {
        Result error = success;
        Pool* pool = pool_of("cuMemPoolSetAttribute", handle, error);
        if (!pool) return error;
        size_t bytes = pool_attribute_size(attribute);
        if (!bytes || !value) return invalid_value;
        std::memcpy(&pool->attributes[attribute], value, bytes);
        return success;
    });
}

TACK_SIM_ENTRY(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, void* handle, int attribute,
               void* value) {
    return enter(cuMemPoolGetAttribute_entry, true, [&](Held&) -> int {
        Result error = success;
        Pool* pool = pool_of("cuMemPoolGetAttribute", handle, error);
        if (!pool) return error;
        size_t bytes = pool_attribute_size(attribute);
        if (!bytes || !value) return invalid_value;
        constexpr int reserved_now = 5, used_now = 7;
        bool now = attribute == reserved_now || attribute == used_now;
        std::memcpy(value, now ? &pool->used : &pool->attributes[attribute], bytes);
        return success;
    });
}

TACK_SIM_ENTRY(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, void* handle, const void* access,
               size_t count) {
    return enter(cuMemPoolSetAccess_entry, true, [&](Held&) -> int {
        Result error = success;
        if (!pool_of("cuMemPoolSetAccess", handle, error)) return error;
        return access || !count ? success : invalid_value;
    });
}
