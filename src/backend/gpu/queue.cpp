#include "backend/gpu/queue.hpp"

#include <algorithm>
#include <vector>

#include "array/array_state.hpp"
#include "backend/gpu/passes.hpp"
#include "kernel/gil.hpp"
#include "tack/launch.hpp"

namespace tack::gpu {
namespace {

using codegen::GpuParameter;
using codegen::IndexWidth;

/// What narrow code stays below; see codegen::IndexWidth. A counter goes beyond the passes by what
/// all threads do in one round: as many passes, and what the last block has too many of.
constexpr std::int64_t narrow_bytes = std::int64_t{1} << 31;
constexpr std::int64_t narrow_passes = narrow_bytes - 4096;

struct Code {
    codegen::GpuSource source;
    detail::Ref<Module> module;
};

/// A kernel for one kind of arguments. Its code is made at the first launch that needs it, narrow
/// and wide apart.
struct QueuedExecutable final : Executable {
    explicit QueuedExecutable(kernel::Specialization spec_) : spec(std::move(spec_)) {}

    const Code& code(QueuedBackend& backend, IndexWidth width, bool gil_held) {
        auto& made = codes[static_cast<std::size_t>(width)];
        if (const Code* const found = made.load(std::memory_order_acquire)) return *found;
        const kernel::GilRelease release(gil_held);
        const std::lock_guard lock(compiling);
        if (const Code* const found = made.load(std::memory_order_acquire)) return *found;
        auto code = std::make_unique<Code>();
        code->source = backend.emit(spec, width);
        code->module = backend.build(code->source, spec);
        code->source.text = {};
        made.store(code.get(), std::memory_order_release);
        return *code.release();
    }
    ~QueuedExecutable() override {
        for (const auto& code : codes) delete code.load();
    }

    const kernel::Specialization spec;
    std::mutex compiling;
    std::array<std::atomic<const Code*>, 2> codes{};
};

bool is_narrow(std::span<const kernel::Argument> arguments,
               std::span<const std::optional<std::int64_t>> passes) {
    const auto small = [](const std::optional<std::int64_t>& n) { return n && *n < narrow_passes; };
    return std::all_of(passes.begin(), passes.end(), small) &&
           std::all_of(arguments.begin(), arguments.end(), [](const kernel::Argument& a) {
               return a.kind != kernel::Argument::Kind::array || a.array->nbytes < narrow_bytes;
           });
}

/// The queues other than `own` that the arrays' memory belongs to, each once.
std::vector<QueuedBackend*> other_queues(const Backend* own,
                                         std::span<const kernel::Argument> arguments) {
    std::vector<QueuedBackend*> others;
    for (const kernel::Argument& a : arguments) {
        if (a.kind != kernel::Argument::Kind::array) continue;
        Backend* const backend = a.array->buffer->backend.get();
        if (backend == own) continue;
        // One memory domain is one kind of backend.
        auto* const queue = static_cast<QueuedBackend*>(backend);
        if (std::find(others.begin(), others.end(), queue) == others.end()) others.push_back(queue);
    }
    return others;
}

bool uses_shared(std::span<const kernel::Argument> arguments) {
    return std::any_of(arguments.begin(), arguments.end(), [](const kernel::Argument& a) {
        return a.kind == kernel::Argument::Kind::array && a.array->buffer->shared();
    });
}

/// Never destroyed: devices may outlive static destructors.
struct Queues {
    std::mutex mutex;
    std::vector<detail::Ref<Queue>> alive;
};
Queues& queues() {
    static auto* const instance = new Queues;
    return *instance;
}

}  // namespace

std::string Queue::last_queued() const {
    const std::lock_guard lock(mutex_);
    return last_ ? " (queued last: " + last_->kernel.name + ")" : "";
}

void Queue::note_queued(const std::shared_ptr<const ir::Program>& program) {
    queued_.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    last_ = program;
}

QueuedBackend::QueuedBackend(std::string name_, int index_, detail::Ref<Queue> queue)
    : Backend(std::move(name_), index_), queue_(std::move(queue)) {
    const std::lock_guard lock(queues().mutex);
    queues().alive.push_back(queue_);
}

QueuedBackend::~QueuedBackend() {
    const std::lock_guard lock(queues().mutex);
    std::erase(queues().alive, queue_);
}

detail::Ref<Executable> QueuedBackend::compile(const kernel::Specialization& spec) {
    return detail::make_ref<QueuedExecutable>(spec);
}

void QueuedBackend::launch(Executable& executable, const LaunchArguments& launch) {
    auto& kernel = static_cast<QueuedExecutable&>(executable);
    const auto passes = loop_passes(kernel.spec, launch.slots);
    const IndexWidth width =
        is_narrow(launch.arguments, passes) ? IndexWidth::narrow : IndexWidth::wide;
    const Code& code = kernel.code(*this, width, launch.gil_held);

    BufferRef locals;
    BufferRef fault;
    if (code.source.locals_bytes > 0) locals = allocate(code.source.locals_bytes, false);
    if (launch.fault) {
        fault = allocate(sizeof *launch.fault, false);
        fill(*fault, sizeof *launch.fault / 4, 4, 0);
    }
    const void* const locals_address = locals ? locals->address : nullptr;
    const void* const fault_address = fault ? fault->address : nullptr;

    const std::vector<QueuedBackend*> others = other_queues(this, launch.arguments);
    for (QueuedBackend* const other : others) wait_for_queue(*other);
    {
        // A driver whose queue is full makes its caller wait for a kernel to end.
        const kernel::GilRelease release(launch.gil_held && queue_->is_deep());
        std::vector<void*> parameters;
        std::size_t loop = 0;
        for (std::size_t k = 0; k < code.source.entries.size(); ++k) {
            const codegen::GpuEntry& entry = code.source.entries[k];
            const std::optional<std::int64_t> count = entry.loop ? passes[loop++] : 1;
            if (count == 0) continue;
            parameters.clear();
            for (const GpuParameter& p : entry.parameters) {
                const void* at = launch.slots + p.slot;
                if (p.kind == GpuParameter::Kind::fault) at = &fault_address;
                if (p.kind == GpuParameter::Kind::locals) at = &locals_address;
                parameters.push_back(const_cast<void*>(at));
            }
            enqueue(*code.module, k, count, parameters);
            queue_->note_queued(kernel.spec.program);
        }
    }
    for (QueuedBackend* const other : others) {
        try {
            other->wait_for_queue(*this);
        } catch (const Error&) {
            // The kernel is queued: what cannot wait for it by an event finds it done.
            const kernel::GilRelease release(launch.gil_held);
            synchronize();
        }
    }

    // After the queueing: share() marks first and waits then, so that one of the two sees the
    // other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (launch.fault) {
        const kernel::GilRelease release(launch.gil_held);
        fault->read(launch.fault, sizeof *launch.fault);
    } else if (uses_shared(launch.arguments)) {
        const kernel::GilRelease release(launch.gil_held);
        queue_->synchronize();
    }
}

std::string QueuedBackend::source(const kernel::Specialization& spec) {
    return emit(spec, IndexWidth::narrow).text;
}

void synchronize_queues() {
    // The list is not locked during the waits, which may be long.
    std::vector<detail::Ref<Queue>> waited;
    {
        const std::lock_guard lock(queues().mutex);
        waited = queues().alive;
    }
    for (const auto& queue : waited) queue->synchronize();
}

}  // namespace tack::gpu
