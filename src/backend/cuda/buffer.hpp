/// Device memory: Tack's own, other owners', and what other processes and APIs can map.
#pragma once

#include <mutex>
#include <string>

#include "backend/cuda/backend.hpp"

namespace tack::cuda {

struct DeviceBuffer : Buffer {
    DeviceBuffer(CudaBackend& backend_, DevicePtr address_, std::int64_t nbytes_)
        : Buffer(backend_, reinterpret_cast<void*>(address_), nbytes_), cuda(backend_) {}

    void read(void* host, std::int64_t bytes) const override;
    void write(const void* host, std::int64_t bytes) override;
    /// A copy of the memory as it is now, made once, since neither pools nor other owners' memory
    /// can be exported: later writes do not appear in it.
    ExportedMemory export_memory() override;

    DevicePtr pointer() const noexcept { return reinterpret_cast<DevicePtr>(address); }
    /// "400 bytes of cuda:0"
    std::string describe() const;

    CudaBackend& cuda;

private:
    std::mutex exporting_;
    BufferRef exported_;
};

/// Memory from the pool, or plain.
struct OwnedBuffer final : DeviceBuffer {
    OwnedBuffer(CudaBackend& backend_, std::int64_t nbytes_);
    ~OwnedBuffer() override;
};

struct WrappedBuffer final : DeviceBuffer {
    WrappedBuffer(CudaBackend& backend_, void* address_, std::int64_t nbytes_, Hold&& hold_);
    const Hold hold;
};

/// A mapping of physical memory, which a handle can name.
struct Mapping {
    DevicePtr address = 0;
    std::size_t size = 0;  // rounded up to the granularity
    Allocation allocation = 0;
};

/// Memory that is exported without a copy. The handle is made once and closed with the buffer.
struct ExportableBuffer final : DeviceBuffer {
    ExportableBuffer(CudaBackend& backend_, std::int64_t nbytes_, Mapping mapping_);
    ~ExportableBuffer() override;
    ExportedMemory export_memory() override;

    const Mapping mapping;

private:
    std::mutex handing_out_;
    bool has_handle_ = false;
    std::uint64_t handle_ = 0;
};

/// Another process's or API's memory. It shares that one's handle, so that it cannot be exported
/// again but by a copy.
struct ImportedBuffer final : DeviceBuffer {
    ImportedBuffer(CudaBackend& backend_, std::int64_t nbytes_, Mapping mapping_);
    ~ImportedBuffer() override;

    const Mapping mapping;
};

/// Where a handle would be used, and what the device says of itself.
enum class Platform { linux, windows };
#ifdef _WIN32
inline constexpr Platform this_platform = Platform::windows;
#else
inline constexpr Platform this_platform = Platform::linux;
#endif
struct ExportAttributes {
    bool virtual_memory = false;
    bool posix_fd = false;
    bool win32_kmt = false;
    bool tcc = false;  // Windows' mode for GPUs without a display, which has no such memory
};
/// handle_none where the device cannot export. Source: specification, "Exporting device memory".
HandleType export_type(Platform platform, const ExportAttributes& attributes) noexcept;

}  // namespace tack::cuda
