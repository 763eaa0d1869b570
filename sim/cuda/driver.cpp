#include "cuda/driver.hpp"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace tack_sim::cuda {
namespace {

std::atomic<bool> is_forked_child = false;

std::string describe(const Range& range) {
    char address[32];
    snprintf(address, sizeof address, "0x%zx", static_cast<size_t>(range.base));
    return std::string(range_kind_name(range.kind)) + " at " + address + " of " +
           std::to_string(range.size) + " bytes";
}

// In a ruined context nothing can be destroyed, so what is left there is not the client's fault.
bool is_leak(const Object& object) {
    if (object.kind == context_kind) return !static_cast<const Context&>(object).primary;
    if (object.kind == stream_kind) {
        auto& stream = static_cast<const Stream&>(object);
        return !stream.built_in && !status(*stream.context);
    }
    if (object.kind == event_kind) return !status(*static_cast<const Event&>(object).context);
    if (object.kind == module_kind) {
        auto& module = static_cast<const Module&>(object);
        return !module.of_library && !status(*module.context);
    }
    if (object.kind == pool_kind) return !static_cast<const Pool&>(object).built_in;
    // Libraries belong to no context, and clients keep them for the life of the process.
    return object.kind == allocation_kind;
}

void after_fork_in_child() {
    // Not under the lock, which the parent may have held.
    if (!state().initialized) return;
    is_forked_child = true;
    silence_report();
}

// What a device of the driver's version, or the test's mode, does not have.
bool is_absent(const Entry& entry) {
    if (environment_lists("TACK_SIM_MISSING", entry.name)) return true;
    if (environment_lists("TACK_SIM_MISSING", entry.base)) return true;
    return entry.version > driver_version();
}

// After all entry points are registered, which have an earlier priority.
__attribute__((constructor)) void prepare() {
    hide_entries(is_absent);
    if (!set_failures(std::getenv("TACK_SIM_FAIL"), unknown_error)) {
        violation("TACK_SIM_FAIL is not <name>:<call>[:<error>],...");
    }
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    Queue::instance().set_errors({illegal_address, launch_failed});
}

}  // namespace

State& state() {
    static State* instance = new State;
    return *instance;
}

bool forked() { return is_forked_child; }

int driver_version() {
    static const int version =
        static_cast<int>(environment_number("TACK_SIM_DRIVER_VERSION", 13000));
    return version;
}

bool pools_supported() {
    static const bool supported =
        !environment_number("TACK_SIM_NO_POOLS", 0) && driver_version() >= 11020;
    return supported;
}

bool vmm_supported() {
    static const bool supported =
        !environment_number("TACK_SIM_NO_VMM", 0) && driver_version() >= 10020;
    return supported;
}

bool concurrent_managed() {
    static const bool concurrent = environment_number("TACK_SIM_CONCURRENT_MANAGED", 1) != 0;
    return concurrent;
}

std::string name_of(const Object& object) {
    char text[64];
    snprintf(text, sizeof text, "%s %p", object.kind, object.handle);
    return text;
}

std::string live_objects() {
    std::string text;
    for (Object* object : state().handles.alive()) {
        if (is_leak(*object) && !is_kept(object->kind)) text += name_of(*object) + '\n';
    }
    for (const RangeRef& range : Memory::instance().all()) {
        bool ruined = range->owner && status(*static_cast<Context*>(range->owner));
        if (range->kind != RangeKind::global && !range->freed && !ruined &&
            !is_kept(range_kind_name(range->kind))) {
            text += describe(*range) + '\n';
        }
    }
    for (const State::ExportedFile& file : state().exported) {
        struct stat now;
        if (fstat(file.descriptor, &now) || now.st_dev != file.device || now.st_ino != file.inode) {
            continue;
        }
        text += "exported file descriptor " + std::to_string(file.descriptor) + '\n';
    }
    return text;
}

Object* checked(const char* call, const void* handle, const char* kind, Result& error) {
    error = kind == context_kind ? invalid_context : invalid_handle;
    if (!handle) return nullptr;
    Object* object = state().handles.find(handle);
    std::string where = std::string(call) + ": ";
    char text[32];
    snprintf(text, sizeof text, "%p", handle);
    if (!object) {
        violation(where + text + " is no handle of this driver, expected a " + kind);
        return nullptr;
    }
    if (object->kind != kind) {
        violation(where + name_of(*object) + " is not a " + kind);
        return nullptr;
    }
    if (object->alive) return object;
    if (kind == context_kind) error = context_is_destroyed;
    if (!object->died_with_context && kind != context_kind) {
        violation(where + name_of(*object) + " was destroyed before");
    }
    return nullptr;
}

ContextStack& context_stack() {
    static thread_local ContextStack stack;
    return stack;
}

Context* current(Result& error) {
    error = invalid_context;
    void* handle = context_stack().top();
    if (!handle) return nullptr;
    auto* context = static_cast<Context*>(state().handles.find(handle));
    error = context->alive ? status(*context) : context_is_destroyed;
    return error ? nullptr : context;
}

Device* device_at(int ordinal) {
    bool exists = ordinal >= 0 && static_cast<size_t>(ordinal) < state().devices.size();
    return exists ? state().devices[static_cast<size_t>(ordinal)].get() : nullptr;
}

static Stream* make_stream(Context& context, bool built_in) {
    auto stream = std::make_shared<Stream>();
    stream->context = &context;
    stream->built_in = built_in;
    stream->id = state().next_id++;
    state().handles.add(stream);
    context.streams.push_back(stream.get());
    return stream.get();
}

Context* make_context(Device& device) {
    auto context = std::make_shared<Context>();
    context->device = &device;
    context->id = state().next_id++;
    state().handles.add(context);
    context->legacy = make_stream(*context, true);
    return context.get();
}

Stream* stream_of(const char* call, const void* handle, Result& error) {
    auto value = reinterpret_cast<uintptr_t>(handle);
    if (value <= 2) {
        Context* context = current(error);
        if (!context) return nullptr;
        if (value < 2) return context->legacy;
        Stream*& stream = context->per_thread[std::this_thread::get_id()];
        if (!stream) stream = make_stream(*context, true);
        return stream;
    }
    Stream* stream = checked<Stream>(call, handle, error);
    if (!stream) return nullptr;
    error = status(*stream->context);
    return error ? nullptr : stream;
}

CommandRef enqueue(Stream& stream, std::string name, std::function<void()> work,
                   std::vector<RangeRef> uses, CommandRef after) {
    Context& context = *stream.context;
    auto command = std::make_shared<Command>();
    command->name = std::move(name);
    command->work = std::move(work);
    command->uses = std::move(uses);
    command->domain = context.domain;
    command->device = context.device->ordinal;
    command->after.push_back(stream.last);
    if (after) command->after.push_back(std::move(after));
    if (&stream == context.legacy) {
        for (Stream* other : context.streams) {
            if (!other->non_blocking()) command->after.push_back(other->last);
        }
    } else if (!stream.non_blocking()) {
        command->after.push_back(context.legacy->last);
    }
    Queue::instance().add(command);
    stream.last = command;
    return command;
}

CommandRef all_work(Context& context) {
    auto command = std::make_shared<Command>();
    command->name = "all work";
    command->domain = context.domain;
    command->device = context.device->ordinal;
    for (Stream* stream : context.streams) command->after.push_back(stream->last);
    for (const CommandRef& orphan : context.orphans) command->after.push_back(orphan);
    context.orphans.clear();
    Queue::instance().add(command);
    context.orphans.push_back(command);
    return command;
}

void end_context(Context& context) {
    context.alive = false;
    for (Object* object : state().handles.alive()) {
        bool dies =
            (object->kind == stream_kind && static_cast<Stream*>(object)->context == &context) ||
            (object->kind == event_kind && static_cast<Event*>(object)->context == &context) ||
            (object->kind == module_kind && static_cast<Module*>(object)->context == &context);
        if (!dies) continue;
        object->alive = false;
        object->died_with_context = true;
        if (object->kind != module_kind) continue;
        auto* module = static_cast<Module*>(object);
        for (auto& [name, function] : module->functions) {
            function->alive = false;
            function->died_with_context = true;
        }
        for (const RangeRef& range : module->globals) Memory::instance().release(range);
        module->globals.clear();
        module->image = nullptr;
    }
    for (const RangeRef& range : Memory::instance().all()) {
        if (range->owner != &context || range->kind == RangeKind::pool) continue;
        if (range->kind == RangeKind::device || range->kind == RangeKind::managed) {
            context.device->bytes -= range->size;
        }
        Memory::instance().release(range);
    }
    context.streams.clear();
    context.per_thread.clear();
    context.orphans.clear();
}

}  // namespace tack_sim::cuda
