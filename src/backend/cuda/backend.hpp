/// An NVIDIA GPU through the CUDA driver.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/context.hpp"
#include "device/registry.hpp"

namespace tack::cuda {

/// What a device can do, asked once.
struct Traits {
    int architecture = 0;  // 90 is compute capability 9.0
    int multiprocessors = 1;
    int threads_per_block = 1024;
    bool pools = false;
    bool virtual_memory = false;
    HandleType export_type = handle_none;
};

struct CudaBackend final : gpu::QueuedBackend {
    CudaBackend(detail::Ref<StreamQueue> queue, const Traits& traits);  // backend.cpp
    ~CudaBackend() override;

    // memory: buffer.cpp
    BufferRef allocate(std::int64_t nbytes, bool exportable) override;
    BufferRef wrap(void* address, std::int64_t nbytes, Hold&& hold) override;
    MemorySpace memory_space(const void* address) const override;
    void check_wrappable(const void* address, std::int64_t nbytes, bool writable,
                         const char* operation) const override;
    bool copy(Buffer& to, const Buffer& from) override;
    bool fill(Buffer& to, std::int64_t count, std::int64_t width, std::uint64_t element) override;
    BufferRef import_memory(const ExportedMemory& memory, std::int64_t nbytes) override;

    // work: launch.cpp
    void launch(Executable& executable, const LaunchArguments& arguments) override;
    codegen::GpuSource emit(const kernel::Specialization& kernel,
                            codegen::IndexWidth width) const override;
    detail::Ref<gpu::Module> build(const codegen::GpuSource& source,
                                   const kernel::Specialization& kernel) override;
    void enqueue(gpu::Module& module, std::size_t entry, std::optional<std::int64_t> passes,
                 std::span<void* const> parameters) override;
    void synchronize() override;
    std::string assembly(const kernel::Specialization& kernel) override;

    // order: backend.cpp
    std::uint64_t stream() const noexcept override;
    void wait_for_stream(std::uint64_t other) override;
    void wait_for_queue(gpu::QueuedBackend& other) override;

    // exchange: backend.cpp
    std::int32_t dlpack_device_type() const noexcept override;
    bool shares_external_context() const noexcept override { return context.adopted; }

    /// Memory from the device's pool, or plain where there is none. Throws memory, with the sizes.
    DevicePtr allocate_device(std::int64_t nbytes);
    /// Gives it back after the work that is queued now. For destructors: what fails is ignored.
    void free_device(DevicePtr address) noexcept;
    /// driver.check() for calls that may report the failure of work queued before: names its
    /// kernel.
    template <class Doing>
    void check(Status status, Doing&& doing) const {
        if (!status) return;
        driver.fail(status,
                    doing() + (loses_context(status.code) ? queue->last_queued() : std::string()));
    }
    /// "cuda:1"
    std::string device_name() const { return memory_domain(); }

    const detail::Ref<StreamQueue> queue;
    OwnContext& context;  // the queue's
    Driver& driver;
    const Traits traits;

private:
    bool retire(DevicePtr address) noexcept;
    void reclaim(bool wait) noexcept;

    Pool pool_ = nullptr;
    // Plain memory whose last work may be queued yet, with the event behind that.
    struct Retired {
        DevicePtr address;
        std::unique_ptr<Mark> after;
    };
    std::mutex retiring_;
    std::vector<Retired> retired_;
};

extern const BackendEntry entry;  // backend.cpp

}  // namespace tack::cuda
