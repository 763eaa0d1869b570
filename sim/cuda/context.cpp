// Contexts: each thread's stack of them, primary ones, and waiting for all their work.
#include "cuda/driver.hpp"

using namespace tack_sim;
using namespace tack_sim::cuda;

namespace {

// special: a context with more than the ordinary, which is not simulated.
int create(Entry& entry, void** out, unsigned flags, int ordinal, unsigned version, bool special) {
    return enter(entry, true, [&](Held&) -> int {
        if (special) return not_supported;
        if (!out || flags > 0xff) return invalid_value;
        Device* device = device_at(ordinal);
        if (!device) return invalid_device;
        if (context_stack().count == ContextStack::most) return out_of_memory;
        Context* context = make_context(*device);
        context->flags = flags;
        context->api_version = version;
        context_stack().push(context->handle);
        *out = context->handle;
        return success;
    });
}

int synchronize(Held& held, Context& context) {
    Queue::instance().wait(held, all_work(context));
    return status(context);
}

// The context of a handle; a null one is the current, where the call allows that.
Context* named_or_current(const char* call, void* handle, Result& error) {
    return handle ? checked<Context>(call, handle, error) : current(error);
}

void end(Held& held, Context& context) {
    Queue::instance().wait(held, all_work(context));
    end_context(context);
}

}  // namespace

TACK_SIM_ENTRY(cuCtxCreate_v2, "cuCtxCreate", 3020, void** out, unsigned flags, int device) {
    return create(cuCtxCreate_v2_entry, out, flags, device, 3020, false);
}

TACK_SIM_ENTRY(cuCtxCreate_v3, "cuCtxCreate", 11040, void** out, void* affinity, int affinities,
               unsigned flags, int device) {
    return create(cuCtxCreate_v3_entry, out, flags, device, 11040, affinity || affinities);
}

TACK_SIM_ENTRY(cuCtxCreate_v4, "cuCtxCreate", 12050, void** out, void* parameters, unsigned flags,
               int device) {
    return create(cuCtxCreate_v4_entry, out, flags, device, 12050, parameters);
}

TACK_SIM_ENTRY(cuCtxDestroy_v2, "cuCtxDestroy", 4000, void* handle) {
    return enter(cuCtxDestroy_v2_entry, true, [&](Held& held) -> int {
        Result error = success;
        Context* context = checked<Context>("cuCtxDestroy", handle, error);
        if (!context) {
            Object* object = handle ? state().handles.find(handle) : nullptr;
            if (object && object->kind == context_kind) {
                violation("cuCtxDestroy: " + name_of(*object) + " was destroyed before");
            }
            return error;
        }
        if (context->primary) {
            violation("cuCtxDestroy: " + name_of(*context) + " is a primary context");
            return invalid_context;
        }
        if (context_stack().top() == handle) context_stack().pop();
        end(held, *context);
        return success;
    });
}

TACK_SIM_ENTRY(cuCtxPushCurrent_v2, "cuCtxPushCurrent", 4000, void* handle) {
    return enter(cuCtxPushCurrent_v2_entry, true, [&](Held&) -> int {
        Result error = success;
        if (!checked<Context>("cuCtxPushCurrent", handle, error)) return error;
        return context_stack().push(handle) ? success : out_of_memory;
    });
}

TACK_SIM_ENTRY(cuCtxPopCurrent_v2, "cuCtxPopCurrent", 4000, void** handle) {
    return enter(cuCtxPopCurrent_v2_entry, true, [&](Held&) -> int {
        ContextStack& stack = context_stack();
        if (!stack.count) return invalid_context;
        if (handle) *handle = stack.top();
        stack.pop();
        return success;
    });
}

TACK_SIM_ENTRY(cuCtxSetCurrent, "cuCtxSetCurrent", 4000, void* handle) {
    return enter(cuCtxSetCurrent_entry, true, [&](Held&) -> int {
        Result error = success;
        if (handle && !checked<Context>("cuCtxSetCurrent", handle, error)) return error;
        ContextStack& stack = context_stack();
        if (stack.count) stack.pop();
        if (handle) stack.push(handle);
        return success;
    });
}

TACK_SIM_ENTRY(cuCtxGetCurrent, "cuCtxGetCurrent", 4000, void** handle) {
    return enter(cuCtxGetCurrent_entry, true, [&](Held&) -> int {
        if (!handle) return invalid_value;
        *handle = context_stack().top();
        return success;
    });
}

TACK_SIM_ENTRY(cuCtxGetDevice, "cuCtxGetDevice", 2000, int* device) {
    return enter_context(cuCtxGetDevice_entry, [&](Held&, Context& context) -> int {
        if (!device) return invalid_value;
        *device = context.device->ordinal;
        return success;
    });
}

TACK_SIM_ENTRY(cuCtxGetDevice_v2, "cuCtxGetDevice", 13000, int* device, void* handle) {
    return enter(cuCtxGetDevice_v2_entry, true, [&](Held&) -> int {
        Result error = success;
        Context* context = named_or_current("cuCtxGetDevice", handle, error);
        if (!context) return error;
        if (!device) return invalid_value;
        *device = context->device->ordinal;
        return success;
    });
}

TACK_SIM_ENTRY(cuCtxGetFlags, "cuCtxGetFlags", 7000, unsigned* flags) {
    return enter_context(cuCtxGetFlags_entry, [&](Held&, Context& context) -> int {
        if (!flags) return invalid_value;
        *flags = context.flags;
        return success;
    });
}

TACK_SIM_ENTRY(cuCtxGetApiVersion, "cuCtxGetApiVersion", 3020, void* handle, unsigned* version) {
    return enter(cuCtxGetApiVersion_entry, true, [&](Held&) -> int {
        Result error = success;
        Context* context = named_or_current("cuCtxGetApiVersion", handle, error);
        if (!context) return error;
        if (!version) return invalid_value;
        *version = context->api_version;
        return success;
    });
}

TACK_SIM_ENTRY(cuCtxGetId, "cuCtxGetId", 12000, void* handle, unsigned long long* id) {
    return enter(cuCtxGetId_entry, true, [&](Held&) -> int {
        Result error = success;
        Context* context = named_or_current("cuCtxGetId", handle, error);
        if (!context) return error;
        if (!id) return invalid_value;
        *id = context->id;
        return success;
    });
}

TACK_SIM_ENTRY(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", 5050, int* least,
               int* greatest) {
    return enter_context(cuCtxGetStreamPriorityRange_entry, [&](Held&, Context&) -> int {
        if (least) *least = 0;
        if (greatest) *greatest = -5;
        return success;
    });
}

TACK_SIM_ENTRY(cuCtxSynchronize, "cuCtxSynchronize", 2000) {
    return enter_context(cuCtxSynchronize_entry, synchronize);
}

TACK_SIM_ENTRY(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000, void* handle) {
    return enter(cuCtxSynchronize_v2_entry, true, [&](Held& held) -> int {
        Result error = success;
        Context* context = named_or_current("cuCtxSynchronize", handle, error);
        return context ? synchronize(held, *context) : error;
    });
}

TACK_SIM_ENTRY(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000, void* peer, unsigned) {
    return enter_context(cuCtxEnablePeerAccess_entry, [&](Held&, Context&) -> int {
        Result error = success;
        return checked<Context>("cuCtxEnablePeerAccess", peer, error) ? peer_access_unsupported
                                                                      : error;
    });
}

TACK_SIM_ENTRY(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, void** out,
               int ordinal) {
    return enter(cuDevicePrimaryCtxRetain_entry, true, [&](Held&) -> int {
        if (!out) return invalid_value;
        Device* device = device_at(ordinal);
        if (!device) return invalid_device;
        if (!device->primary) {
            device->primary = make_context(*device);
            device->primary->primary = true;
            device->primary->flags = device->primary_flags;
        }
        ++device->primary->retained;
        *out = device->primary->handle;
        return status(*device->primary);
    });
}

TACK_SIM_ENTRY(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, int ordinal) {
    return enter(cuDevicePrimaryCtxRelease_v2_entry, true, [&](Held& held) -> int {
        Device* device = device_at(ordinal);
        if (!device) return invalid_device;
        if (device->retained_before_reset) {
            --device->retained_before_reset;
            return success;
        }
        if (!device->primary) {
            violation("cuDevicePrimaryCtxRelease: the primary context of device " +
                      std::to_string(ordinal) + " is not retained");
            return invalid_context;
        }
        if (--device->primary->retained) return success;
        Context& context = *device->primary;
        device->primary = nullptr;
        end(held, context);
        return success;
    });
}

TACK_SIM_ENTRY(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, int ordinal) {
    return enter(cuDevicePrimaryCtxReset_v2_entry, true, [&](Held& held) -> int {
        Device* device = device_at(ordinal);
        if (!device) return invalid_device;
        if (!device->primary) return success;
        Context& context = *device->primary;
        device->retained_before_reset += context.retained;
        device->primary = nullptr;
        end(held, context);
        return success;
    });
}

TACK_SIM_ENTRY(cuDevicePrimaryCtxSetFlags_v2, "cuDevicePrimaryCtxSetFlags", 11000, int ordinal,
               unsigned flags) {
    return enter(cuDevicePrimaryCtxSetFlags_v2_entry, true, [&](Held&) -> int {
        Device* device = device_at(ordinal);
        if (!device) return invalid_device;
        device->primary_flags = flags;
        if (device->primary) device->primary->flags = flags;
        return success;
    });
}

TACK_SIM_ENTRY(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000, int ordinal,
               unsigned* flags, int* active) {
    return enter(cuDevicePrimaryCtxGetState_entry, true, [&](Held&) -> int {
        if (!flags || !active) return invalid_value;
        Device* device = device_at(ordinal);
        if (!device) return invalid_device;
        *flags = device->primary_flags;
        *active = device->primary != nullptr;
        return success;
    });
}
