/// Host memory, Tack's own and other owners'.
#pragma once

#include <utility>

#include "array/buffer.hpp"

namespace tack::cpu {

struct HostBuffer : Buffer {
    using Buffer::Buffer;
    void read(void* host, std::int64_t bytes) const override;
    void write(const void* host, std::int64_t bytes) override;
    void* host_address() const noexcept override { return address; }
};

/// Memory inside a block from std::malloc, which is freed with the buffer.
struct OwnedBuffer final : HostBuffer {
    OwnedBuffer(Backend& backend_, void* address_, std::int64_t nbytes_, void* block_)
        : HostBuffer(backend_, address_, nbytes_), block(block_) {}
    ~OwnedBuffer() override;
    void* const block;
};

struct WrappedBuffer final : HostBuffer {
    WrappedBuffer(Backend& backend_, void* address_, std::int64_t nbytes_, Hold&& hold_)
        : HostBuffer(backend_, address_, nbytes_), hold(std::move(hold_)) {
        shared_.store(true, std::memory_order_relaxed);
    }
    const Hold hold;
};

}  // namespace tack::cpu
