// The objects of the simulated CUDA driver, and what every entry point does first.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/calls.hpp"
#include "core/handles.hpp"
#include "core/image.hpp"
#include "core/memory.hpp"
#include "core/queue.hpp"
#include "core/report.hpp"

namespace tack_sim::cuda {

// CUresult, an int in the ABI.
enum Result : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    not_initialized = 3,
    no_device = 100,
    invalid_device = 101,
    invalid_image = 200,
    invalid_context = 201,
    no_binary_for_gpu = 209,
    peer_access_unsupported = 217,
    invalid_handle = 400,
    illegal_state = 401,
    not_found = 500,
    not_ready = 600,
    illegal_address = 700,
    launch_out_of_resources = 701,
    peer_access_already_enabled = 704,
    peer_access_not_enabled = 705,
    primary_context_active = 708,
    context_is_destroyed = 709,
    host_memory_already_registered = 712,
    host_memory_not_registered = 713,
    launch_failed = 719,
    not_permitted = 800,
    not_supported = 801,
    unknown_error = 999,
};

using Address = unsigned long long;  // CUdeviceptr

struct Context;
struct Stream;
struct Pool;

inline constexpr char context_kind[] = "context";
inline constexpr char stream_kind[] = "stream";
inline constexpr char event_kind[] = "event";
inline constexpr char module_kind[] = "module";
inline constexpr char library_kind[] = "library";
inline constexpr char function_kind[] = "function";
inline constexpr char kernel_kind[] = "kernel";
inline constexpr char pool_kind[] = "memory pool";
inline constexpr char allocation_kind[] = "memory allocation handle";

struct Device {
    int ordinal = 0;
    uint64_t bytes = 0;  // allocated
    uint64_t capacity = 0;
    Context* primary = nullptr;
    unsigned retained_before_reset = 0;  // of a primary context that is gone
    unsigned primary_flags = 0;
    Pool* default_pool = nullptr;
    Pool* pool = nullptr;
};

struct Context : Object {
    static constexpr const char* kind_name = context_kind;
    Context() : Object(kind_name) {}
    Device* device = nullptr;
    bool primary = false;
    unsigned retained = 0;  // primary
    unsigned flags = 0;
    unsigned api_version = 3020;
    uint64_t id = 0;
    std::shared_ptr<FaultDomain> domain = std::make_shared<FaultDomain>();
    Stream* legacy = nullptr;
    std::map<std::thread::id, Stream*> per_thread;
    std::vector<Stream*> streams;     // those alive, legacy and per-thread ones too
    std::vector<CommandRef> orphans;  // the last commands of streams destroyed with work queued
};

struct Stream : Object {
    static constexpr const char* kind_name = stream_kind;
    Stream() : Object(kind_name) {}
    Context* context = nullptr;
    CommandRef last;
    unsigned flags = 0;
    int priority = 0;
    uint64_t id = 0;
    uint64_t queries = 0;
    bool built_in = false;  // legacy or per-thread
    bool non_blocking() const { return flags & 1; }
};

struct Event : Object {
    static constexpr const char* kind_name = event_kind;
    Event() : Object(kind_name) {}
    Context* context = nullptr;
    CommandRef recorded;  // null before the first record
    unsigned flags = 0;
    uint64_t queries = 0;
};

struct Function;

struct Module : Object {
    static constexpr const char* kind_name = module_kind;
    Module() : Object(kind_name) {}
    Context* context = nullptr;
    std::shared_ptr<Image> image;
    std::vector<RangeRef> globals;
    std::map<std::string, Function*> functions;
    bool of_library = false;
};

struct Library : Object {
    static constexpr const char* kind_name = library_kind;
    Library() : Object(kind_name) {}
    std::shared_ptr<Image> image;
    std::map<Context*, Module*> modules;
    std::map<std::string, void*> kernels;
    std::string bytes;  // the image, for a module in each context
};

struct Function : Object {
    static constexpr const char* kind_name = function_kind;
    Function() : Object(kind_name) {}
    Module* module = nullptr;
    const tack_sim_kernel* kernel = nullptr;
    int dynamic_shared_limit = 48 << 10;
};

struct Kernel : Object {
    static constexpr const char* kind_name = kernel_kind;
    Kernel() : Object(kind_name) {}
    Library* library = nullptr;
    std::string name;
};

struct Pool : Object {
    static constexpr const char* kind_name = pool_kind;
    Pool() : Object(kind_name) {}
    Device* device = nullptr;
    bool built_in = false;
    uint64_t attributes[9] = {};
    uint64_t used = 0;
};

// CUmemGenericAllocationHandle: the memory lives until it is released and nowhere mapped.
struct Allocation : Object {
    static constexpr const char* kind_name = allocation_kind;
    Allocation() : Object(kind_name) {}
    Device* device = nullptr;
    size_t size = 0;
    int file = -1;
    int handle_types = 0;
    unsigned references = 1;
    unsigned mappings = 0;
    bool imported = false;
};

struct State {
    bool initialized = false;
    std::vector<std::unique_ptr<Device>> devices;
    Handles handles;
    uint64_t next_id = 1;
    struct ExportedFile {
        int descriptor;
        uint64_t device, inode;
    };
    std::vector<ExportedFile> exported;
};

State& state();

// Set in a child of a process that had initialised the driver.
bool forked();

int driver_version();
bool pools_supported();
bool vmm_supported();
bool concurrent_managed();

// A lookup of one handle of a call. Null: `error` is what the call returns, and the report has a
// line unless the object died with its context.
Object* checked(const char* call, const void* handle, const char* kind, Result& error);

template <typename T>
T* checked(const char* call, const void* handle, Result& error) {
    return static_cast<T*>(checked(call, handle, T::kind_name, error));
}

// The context current on this thread; null, and `error`, if there is none that works.
Context* current(Result& error);

// Without a destructor, as clients call from exit handlers, when a thread's own objects are gone.
struct ContextStack {
    static constexpr int most = 64;
    void* contexts[most];
    int count;
    void* top() const { return count ? contexts[count - 1] : nullptr; }
    bool push(void* context) {
        if (count == most) return false;
        contexts[count++] = context;
        return true;
    }
    void pop() { --count; }
};

// This thread's.
ContextStack& context_stack();

// The stream a handle stands for, 0, 1 and 2 too; its context works.
Stream* stream_of(const char* call, const void* handle, Result& error);

// Adds a command to a stream in the order that CUDA promises.
CommandRef enqueue(Stream& stream, std::string name, std::function<void()> work,
                   std::vector<RangeRef> uses, CommandRef after = nullptr);

// A mark after everything queued in the context.
CommandRef all_work(Context& context);

// Objects die with a context; its memory too.
void end_context(Context& context);

Context* make_context(Device& device);
Device* device_at(int ordinal);
std::string name_of(const Object& object);

using Held = std::unique_lock<std::mutex>;

// Every entry point: counts the call, fails it if it is to fail, and calls `body` under the lock.
// needs_init: CUDA_ERROR_NOT_INITIALIZED before cuInit.
template <typename Body>
int enter(Entry& entry, bool needs_init, Body&& body) {
    if (int error = entry.count()) return error;
    if (forked()) return not_initialized;
    if (Queue::on_executor()) return not_permitted;
    try {
        Held held = Queue::instance().lock();
        if (needs_init && !state().initialized) return not_initialized;
        Queue::instance().make_room(held);
        return body(held);
    } catch (const std::bad_alloc&) {
        return out_of_memory;
    }
}

// The same for one that works in the current context: body(held, context).
template <typename Body>
int enter_context(Entry& entry, Body&& body) {
    return enter(entry, true, [&](Held& held) -> int {
        Result error = success;
        Context* context = current(error);
        if (!context) return error;
        return body(held, *context);
    });
}

// The error of an asynchronous command, which every later call in its context returns.
inline Result status(const Context& context) {
    return static_cast<Result>(context.domain->sticky_error);
}

}  // namespace tack_sim::cuda

// Declares, registers and begins the definition of an entry point. exported: its symbol; base: the
// name it is looked up by; since: the CUDA version that brought it. Its Entry is exported##_entry.
#define TACK_SIM_ENTRY(exported, base, since, ...)                                \
    extern "C" __attribute__((visibility("default"))) int exported(__VA_ARGS__);  \
    __attribute__((init_priority(1000))) static tack_sim::Entry exported##_entry( \
        #exported, base, since, reinterpret_cast<void*>(&exported));              \
    extern "C" __attribute__((visibility("default"))) int exported(__VA_ARGS__)
