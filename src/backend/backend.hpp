/// All that a backend owes. See src/device/registry.cpp for the row that names it.
#pragma once

#include <span>
#include <string>

#include "array/buffer.hpp"
#include "tack/device.hpp"

namespace tack {

namespace kernel {
struct Argument;
struct BoundsFault;
struct Specialization;
}  // namespace kernel

/// A compiled kernel on one backend; the backend that made it knows what it is.
struct Executable : detail::RefCounted {};

/// The values of one launch: for each parameter in order an array's address followed by its
/// extents, or a scalar's eight bytes (low bytes first, as in memory).
struct LaunchArguments {
    const std::uint64_t* slots;
    bool gil_held;  // the caller holds Python's GIL and lets it be released for long work
    kernel::BoundsFault* fault = nullptr;  // for check_bounds, whose launch has run on return
    // What the slots were made of, for backends that look at the arrays' buffers.
    std::span<const kernel::Argument> arguments = {};
};

/// One device. Functions throw tack::Error, never print or abort, and may be called on any thread,
/// without the GIL or the registry's lock.
struct Backend : detail::RefCounted {
    Backend(std::string name_, int index_, std::int64_t large_bytes_ = INT64_MAX)
        : name(std::move(name_)), index(index_), large_bytes(large_bytes_) {}

    const std::string name;
    const int index;
    /// Launches over more bytes of arrays than this get code of their own, with forms that pay off
    /// for them alone, so that kernels over small arrays compile faster.
    const std::int64_t large_bytes;
    /// What compiled kernels belong to and keep: devices that share it share them too.
    detail::RefCounted* executable_scope = this;

    // memory
    virtual BufferRef allocate(std::int64_t nbytes, bool exportable) = 0;  // uninitialised
    /// Wraps `address`, which check_wrappable() has accepted or DLPack vouches for; the buffer is
    /// shared from the start. Takes `hold` over only if it returns: on a throw the caller has it.
    virtual BufferRef wrap(void* address, std::int64_t nbytes, Hold&& hold) = 0;
    virtual MemorySpace memory_space(const void* address) const = 0;  // never reads *address
    /// Throws value, beginning with `operation`, unless [address, address + nbytes) can be wrapped.
    virtual void check_wrappable(const void* address, std::int64_t nbytes, bool writable,
                                 const char* operation) const = 0;

    // work: one in-order queue
    virtual detail::Ref<Executable> compile(const kernel::Specialization& kernel) = 0;
    virtual void launch(Executable& executable, const LaunchArguments& arguments) = 0;
    virtual void synchronize() = 0;  // all queued work has run

    // exchange
    virtual std::int32_t dlpack_device_type() const noexcept = 0;

    // optional: memory
    /// Queues a copy of all of `from`, a buffer of this memory domain, or returns false: not here.
    virtual bool copy(Buffer& to, const Buffer& from);
    /// Queues `count` elements of `width` bytes each, or returns false: not here.
    virtual bool fill(Buffer& to, std::int64_t count, std::int64_t width, std::uint64_t element);
    /// Maps an allocation of another process or API. Never closes the handle.
    virtual BufferRef import_memory(const ExportedMemory& memory,
                                    std::int64_t nbytes);  // default: throws runtime

    // optional: the queue as other libraries see it
    /// The native handle of the queue, as DLPack and the CUDA array interface carry it.
    virtual std::uint64_t stream() const noexcept { return 0; }
    /// Work queued from now on runs after what `other`, a native handle, has queued so far.
    virtual void wait_for_stream(std::uint64_t other);  // default: nothing to order

    // optional
    virtual std::string memory_domain() const { return name + ":" + std::to_string(index); }
    virtual bool shares_external_context() const noexcept { return false; }
    /// Source or assembly of a kernel, as compile() would use it: kernel.inspect().
    virtual std::string source(const kernel::Specialization& kernel);    // default: throws runtime
    virtual std::string assembly(const kernel::Specialization& kernel);  // default: throws runtime
};

}  // namespace tack
