/// The memory of one device, as arrays share it.
#pragma once

#include <atomic>
#include <cstdint>

#include "tack/array.hpp"
#include "tack/detail/ref.hpp"
#include "tack/error.hpp"

namespace tack {

struct Backend;

/// Owned, wrapped and exportable memory are kinds of buffer: a backend derives what it needs.
/// Any thread may drop the last reference; a destructor must not throw, print or take the GIL
/// while it holds a lock.
struct Buffer : detail::RefCounted {
    Buffer(Backend& backend, void* address, std::int64_t nbytes);
    ~Buffer() override;

    void* const address;
    const std::int64_t nbytes;
    const detail::Ref<Backend> backend;

    /// Waits for the launches queued so far and makes each later launch that uses the buffer
    /// complete before it returns: someone outside Tack may read or write the memory at any time.
    void share();
    bool shared() const noexcept { return shared_.load(std::memory_order_acquire); }

    /// Copies between the buffer and host memory, after the queued work that uses the buffer.
    virtual void read(void* host, std::int64_t bytes) const = 0;
    virtual void write(const void* host, std::int64_t bytes) = 0;
    /// The address as the host may use it, or null: device memory.
    virtual void* host_address() const noexcept { return nullptr; }
    /// Default: throws runtime, "Backend <name> does not support memory export".
    virtual ExportedMemory export_memory();

protected:
    std::atomic<bool> shared_{false};
};
using BufferRef = detail::Ref<Buffer>;

/// What export_memory(), and an allocation that asks for `exportable`, throw on other backends.
[[noreturn]] void refuse_memory_export(const Backend& backend);

/// Keeps the owner of wrapped memory alive: `release(context)` runs exactly once, when the last
/// array over the memory is dropped. Empty for a raw pointer, whose owner is the caller's matter.
struct Hold {
    void (*release)(void* context) noexcept = nullptr;
    void* context = nullptr;

    Hold() = default;
    Hold(void (*release_)(void*) noexcept, void* context_) : release(release_), context(context_) {}
    Hold(Hold&& other) noexcept : release(other.release), context(other.context) {
        other.release = nullptr;
    }
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
        if (release) release(context);
    }
    /// Forgets the owner without releasing it: the caller still has it.
    void disarm() noexcept { release = nullptr; }
};

}  // namespace tack
