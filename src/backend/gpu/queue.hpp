/// What the backends share whose launches are queued: launching, ordering and waiting.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "backend/backend.hpp"
#include "codegen/gpu_source.hpp"
#include "kernel/specialization.hpp"

namespace tack::gpu {

/// Compiled code on one device, as the backend that built it knows it.
struct Module : detail::RefCounted {};

/// Where a backend's work is queued; apart from the backend, so that waiting for all queues keeps
/// none of those alive.
struct Queue : detail::RefCounted {
    /// See Backend::synchronize().
    void synchronize() {
        wait();
        queued_.store(0, std::memory_order_relaxed);
    }
    /// Whether so much is queued that the driver may make a launch wait for room.
    bool is_deep() const noexcept { return queued_.load(std::memory_order_relaxed) > 256; }

    /// The kernel that was queued last, for messages about work that failed: " (queued last:
    /// saxpy)", or nothing.
    std::string last_queued() const;
    void note_queued(const std::shared_ptr<const ir::Program>& program);

protected:
    virtual void wait() = 0;

private:
    std::atomic<int> queued_{0};  // since the last wait
    mutable std::mutex mutex_;
    std::shared_ptr<const ir::Program> last_;
};

/// A device that queues its work, in order. Launches return at once, but for those that use a
/// shared buffer or check bounds. Source: specification, "DLPack export".
struct QueuedBackend : Backend {
    QueuedBackend(std::string name, int index, detail::Ref<Queue> queue);
    ~QueuedBackend() override;

    detail::Ref<Executable> compile(const kernel::Specialization& kernel) final;
    void launch(Executable& executable, const LaunchArguments& arguments) override;
    void synchronize() override { queue_->synchronize(); }
    std::string source(const kernel::Specialization& kernel) final;

    // What each backend does its own way.
    virtual codegen::GpuSource emit(const kernel::Specialization& kernel,
                                    codegen::IndexWidth width) const = 0;
    virtual detail::Ref<Module> build(const codegen::GpuSource& source,
                                      const kernel::Specialization& kernel) = 0;
    /// Queues one entry of a module. passes: of its loop, where known; 1 for one without a loop.
    /// parameters: where each one's bytes are; copied before this returns.
    virtual void enqueue(Module& module, std::size_t entry, std::optional<std::int64_t> passes,
                         std::span<void* const> parameters) = 0;
    /// Work queued here from now on runs after all that is queued on `other`, of the same domain.
    virtual void wait_for_queue(QueuedBackend& other) = 0;

private:
    const detail::Ref<Queue> queue_;
};

/// Waits for every queue that is alive.
void synchronize_queues();

}  // namespace tack::gpu
