#include "backend/cuda/buffer.hpp"

#include <memory>
#include <utility>

#ifndef _WIN32
#include <unistd.h>
#endif

#include "tack/error.hpp"

namespace tack::cuda {
namespace {

std::string bytes_text(std::int64_t nbytes) { return std::to_string(nbytes) + " bytes"; }

/// The handle that an export or an import is about, as the driver takes and gives it.
void* as_os_handle(std::uint64_t handle) {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(handle));
}

void close_handle(HandleType type, std::uint64_t handle) noexcept {
#ifndef _WIN32
    if (type == handle_posix_fd) ::close(static_cast<int>(handle));
#else
    static_cast<void>(type);
    static_cast<void>(handle);
#endif
    // A KMT handle is no kernel handle: nothing is to be closed.
}

const char* type_name(HandleType type) {
    return type == handle_posix_fd ? "posix_fd" : "win32_kmt";
}

/// Takes physical memory apart again, as far as it was put together. For destructors and for what
/// failed half way.
void unmap(const CudaBackend& backend, const Mapping& m, bool mapped) noexcept {
    const Driver& driver = backend.driver;
    const bool still_mapped = mapped && driver.unmap(m.address, m.size);
    if (m.address && !still_mapped) driver.unreserve(m.address, m.size);
    if (m.allocation) driver.release(m.allocation);
}

/// Maps `m.allocation`, which it takes over also where it throws.
Mapping map(const CudaBackend& backend, Mapping m, const std::string& doing) {
    const Driver& driver = backend.driver;
    const auto what = [&] { return doing; };
    bool mapped = false;
    try {
        driver.check(driver.reserve(&m.address, m.size, 0, 0, 0), what);
        driver.check(driver.map(m.address, m.size, 0, m.allocation, 0), what);
        mapped = true;
        AccessDesc access;
        access.location.id = backend.context.device;
        driver.check(driver.set_access(m.address, m.size, &access, 1), what);
    } catch (...) {
        unmap(backend, m, mapped);
        throw;
    }
    return m;
}

AllocationProp exportable_memory(const CudaBackend& backend) {
    AllocationProp prop;
    prop.handle_types = backend.traits.export_type;
    prop.location.id = backend.context.device;
    return prop;
}

[[noreturn]] void refuse_export(const CudaBackend& backend, const std::string& doing) {
    throw Error(ErrorKind::runtime,
                doing + ": " + backend.device_name() + " has no memory that can be exported: " +
                    (backend.traits.virtual_memory
                         ? "its driver offers no handle for it on this system"
                         : "its driver offers no virtual memory management, which needs CUDA 10.2 "
                           "and, on Windows, a GPU in WDDM mode"));
}

std::size_t rounded(std::int64_t nbytes, std::size_t granularity) {
    const auto size = static_cast<std::size_t>(nbytes);
    return (size + granularity - 1) / granularity * granularity;
}

BufferRef allocate_exportable(CudaBackend& backend, std::int64_t nbytes, const std::string& doing) {
    if (backend.traits.export_type == handle_none) refuse_export(backend, doing);
    const Driver& driver = backend.driver;
    const auto what = [&] { return doing; };
    const Current current(backend.context);
    const AllocationProp prop = exportable_memory(backend);
    std::size_t granularity = 0;
    driver.check(driver.granularity(&granularity, &prop, granularity_minimum), what);
    Mapping m;
    m.size = rounded(std::max<std::int64_t>(nbytes, 1), granularity);
    driver.check(driver.create(&m.allocation, m.size, &prop, 0), what);
    m = map(backend, m, doing);
    try {
        return detail::make_ref<ExportableBuffer>(backend, nbytes, m);
    } catch (...) {
        unmap(backend, m, true);
        throw;
    }
}

std::string hexadecimal(const std::vector<std::uint8_t>& bytes) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : bytes) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

/// What the driver says of an address; `known` is false where it knows nothing.
struct PointerFacts {
    bool known = false;
    bool managed = false;
    bool device = false;
    DeviceId ordinal = -1;
    std::uintptr_t end = 0;  // of the allocation, where the driver says
};

PointerFacts facts_of(const CudaBackend& backend, const void* address, const char* operation) {
    // The plural form, which takes unknown addresses and leaves no error behind.
    unsigned type = 0;
    unsigned managed = 0;
    DeviceId ordinal = -1;
    DevicePtr start = 0;
    std::size_t size = 0;
    int attributes[] = {is_managed, memory_type, device_ordinal, range_start, range_size};
    void* values[] = {&managed, &type, &ordinal, &start, &size};
    const Current current(backend.context);
    backend.driver.check(backend.driver.pointer_attributes(5, attributes, values,
                                                           reinterpret_cast<DevicePtr>(address)),
                         [&] {
                             return std::string(operation) + ": address " +
                                    std::to_string(reinterpret_cast<std::uintptr_t>(address));
                         });
    return {.known = type != 0,
            .managed = (managed & 1) != 0,
            .device = type == memory_device,
            .ordinal = ordinal,
            .end = static_cast<std::uintptr_t>(start) + size};
}

MemorySpace space_of(const PointerFacts& facts) {
    // Managed memory says that it is device memory too, so that it comes first.
    if (facts.known && facts.managed) return {"cuda", MemoryKind::managed};
    if (facts.known && facts.device) return {"cuda", MemoryKind::device};
    if (facts.known) return {"cpu", MemoryKind::pinned};
    return {"unknown", MemoryKind::unknown};
}

}  // namespace

HandleType export_type(Platform platform, const ExportAttributes& attributes) noexcept {
    if (!attributes.virtual_memory) return handle_none;
    if (platform == Platform::windows)
        return attributes.win32_kmt && !attributes.tcc ? handle_win32_kmt : handle_none;
    return attributes.posix_fd ? handle_posix_fd : handle_none;
}

// Buffers

std::string DeviceBuffer::describe() const {
    return bytes_text(nbytes) + " of " + cuda.device_name();
}

void DeviceBuffer::read(void* host, std::int64_t bytes) const {
    const Current current(cuda.context);
    cuda.check(
        cuda.driver.copy_from(host, pointer(), static_cast<std::size_t>(bytes), cuda.queue->stream),
        [&] { return "reading " + describe(); });
    cuda.synchronize();
}

void DeviceBuffer::write(const void* host, std::int64_t bytes) {
    const Current current(cuda.context);
    cuda.check(
        cuda.driver.copy_to(pointer(), host, static_cast<std::size_t>(bytes), cuda.queue->stream),
        [&] { return "writing " + describe(); });
    // The caller may change the host memory at once, which page-locked memory shows.
    cuda.synchronize();
}

ExportedMemory DeviceBuffer::export_memory() {
    const std::lock_guard lock(exporting_);
    if (!exported_) {
        BufferRef made = allocate_exportable(cuda, nbytes, "export_memory: copy of " + describe());
        if (nbytes > 0) cuda.copy(*made, *this);
        cuda.synchronize();
        exported_ = std::move(made);
    }
    return exported_->export_memory();
}

OwnedBuffer::OwnedBuffer(CudaBackend& backend_, std::int64_t nbytes_)
    : DeviceBuffer(backend_, nbytes_ > 0 ? backend_.allocate_device(nbytes_) : 0, nbytes_) {}

OwnedBuffer::~OwnedBuffer() {
    if (!address) return;
    // Who took it over may have work on it queued on any stream, of which the pool knows nothing.
    if (shared()) cuda.context.wait_for_all();
    cuda.free_device(pointer());
}

WrappedBuffer::WrappedBuffer(CudaBackend& backend_, void* address_, std::int64_t nbytes_,
                             Hold&& hold_)
    : DeviceBuffer(backend_, reinterpret_cast<DevicePtr>(address_), nbytes_),
      hold(std::move(hold_)) {
    shared_.store(true, std::memory_order_relaxed);
}

ExportableBuffer::ExportableBuffer(CudaBackend& backend_, std::int64_t nbytes_, Mapping mapping_)
    : DeviceBuffer(backend_, mapping_.address, nbytes_), mapping(mapping_) {}

namespace {

/// Unmapping does not wait for queued work of its own, and such memory is of no context.
void unmap_after_work(CudaBackend& backend, const Mapping& mapping) noexcept {
    backend.context.wait_for_all();
    unmap(backend, mapping, true);
}

}  // namespace

ExportableBuffer::~ExportableBuffer() {
    unmap_after_work(cuda, mapping);
    if (has_handle_) close_handle(cuda.traits.export_type, handle_);
}

ExportedMemory ExportableBuffer::export_memory() {
    share();
    const HandleType type = cuda.traits.export_type;
    ExportedMemory record{.backend = "cuda",
                          .size = nbytes,
                          .allocation_size = static_cast<std::int64_t>(mapping.size),
                          .handle = 0,
                          .handle_type = type_name(type),
                          .device_uuid = {}};
    const Current current(cuda.context);
    record.device_uuid = cuda.driver.uuid(cuda.context.device, "export_memory");
    const std::lock_guard lock(handing_out_);
    if (!has_handle_) {
        std::uint64_t handle = 0;  // a descriptor fills its lower half
        cuda.driver.check(cuda.driver.export_handle(&handle, mapping.allocation, type, 0),
                          [&] { return "export_memory: " + describe(); });
        handle_ = handle;
        has_handle_ = true;
    }
    record.handle = handle_;
    return record;
}

ImportedBuffer::ImportedBuffer(CudaBackend& backend_, std::int64_t nbytes_, Mapping mapping_)
    : DeviceBuffer(backend_, mapping_.address, nbytes_), mapping(mapping_) {
    shared_.store(true, std::memory_order_relaxed);
}

ImportedBuffer::~ImportedBuffer() { unmap_after_work(cuda, mapping); }

// The backend's memory functions

BufferRef CudaBackend::allocate(std::int64_t nbytes, bool exportable) {
    if (exportable)
        return allocate_exportable(
            *this, nbytes, "empty: exportable " + bytes_text(nbytes) + " on " + device_name());
    return detail::make_ref<OwnedBuffer>(*this, nbytes);
}

DevicePtr CudaBackend::allocate_device(std::int64_t nbytes) {
    const Current current(context);
    const auto size = static_cast<std::size_t>(nbytes);
    DevicePtr address = 0;
    const auto attempt = [&] {
        return pool_ ? driver.pool_alloc(&address, size, pool_, queue->stream)
                     : driver.alloc(&address, size);
    };
    reclaim(false);
    Status failed = attempt();
    if (failed.code == out_of_memory) {
        // What was freed may be held back for queued work, or kept for the next arrays.
        driver.stream_synchronize(queue->stream);
        reclaim(true);
        if (pool_) driver.pool_trim(pool_, 0);
        failed = attempt();
    }
    check(failed, [&] {
        std::size_t free = 0;
        std::size_t total = 0;
        driver.memory_info(&free, &total);
        return "allocating " + bytes_text(nbytes) + " on " + device_name() + ", which has " +
               std::to_string(free) + " of " + std::to_string(total) + " bytes free";
    });
    return address;
}

void CudaBackend::free_device(DevicePtr address) noexcept {
    try {
        const Current current(context);
        if (pool_ && !driver.pool_free(address, queue->stream)) return;
        const bool idle = !driver.stream_query(queue->stream);
        if (!pool_ && !idle && retire(address)) return;
        if (!idle) driver.stream_synchronize(queue->stream);
        driver.free(address);
    } catch (const Error&) {
        // The context is gone, and its plain memory with it. A pool's is lost: it is given back on
        // a stream alone, and there is none.
    }
}

/// Puts plain memory aside until the work queued now has run; false where that cannot be.
bool CudaBackend::retire(DevicePtr address) noexcept {
    try {
        auto after = std::make_unique<Mark>(driver, queue->stream, "freeing");
        const std::lock_guard lock(retiring_);
        retired_.push_back({address, std::move(after)});
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

/// Frees what retired behind work that has run. wait: the stream is idle, so that all has.
void CudaBackend::reclaim(bool wait) noexcept {
    const std::lock_guard lock(retiring_);
    std::erase_if(retired_, [&](const Retired& r) {
        if (!wait && driver.event_query(r.after->event()).code == not_ready) return false;
        driver.free(r.address);
        return true;
    });
}

BufferRef CudaBackend::wrap(void* address, std::int64_t nbytes, Hold&& hold) {
    return detail::make_ref<WrappedBuffer>(*this, address, nbytes, std::move(hold));
}

MemorySpace CudaBackend::memory_space(const void* address) const {
    return space_of(facts_of(*this, address, "memory_space"));
}

void CudaBackend::check_wrappable(const void* address, std::int64_t nbytes, bool,
                                  const char* operation) const {
    // Of one allocation or of several side by side, such as virtual memory is made of: the ends
    // tell.
    const Current current(context);
    const void* const last = static_cast<const char*>(address) + (nbytes - 1);
    for (const void* const end : {address, last}) {
        const PointerFacts facts = facts_of(*this, end, operation);
        const MemorySpace space = space_of(facts);
        const bool elsewhere = facts.device && !facts.managed && facts.ordinal != index;
        if (space.backend == name && !elsewhere) {
            if (reinterpret_cast<std::uintptr_t>(last) < facts.end) return;
            continue;
        }
        const std::string where = elsewhere ? "memory of cuda:" + std::to_string(facts.ordinal)
                                  : space.kind == MemoryKind::unknown
                                      ? "unknown to the driver"
                                      : "memory of cpu (page-locked host memory)";
        throw Error(ErrorKind::value,
                    std::string(operation) + ": address " +
                        std::to_string(reinterpret_cast<std::uintptr_t>(end)) +
                        (end == address ? "" : ", the last of " + bytes_text(nbytes) + ",") +
                        " is " + where + ", not of " + device_name() +
                        "; pass the device that the memory is of, or check the address");
    }
}

bool CudaBackend::copy(Buffer& to, const Buffer& from) {
    // Memory of another stream of this device: that stream's work comes first, and what it does
    // next, such as freeing, comes after.
    auto& source = static_cast<const DeviceBuffer&>(from);
    if (&source.cuda != this) wait_for_queue(source.cuda);
    {
        const Current current(context);
        check(driver.copy_within(reinterpret_cast<DevicePtr>(to.address), source.pointer(),
                                 static_cast<std::size_t>(from.nbytes), queue->stream),
              [&] { return "copying " + source.describe(); });
    }
    if (&source.cuda != this) source.cuda.wait_for_queue(*this);
    if (source.shared() || to.shared()) synchronize();
    return true;
}

bool CudaBackend::fill(Buffer& to, std::int64_t count, std::int64_t width, std::uint64_t element) {
    const Current current(context);
    const auto address = reinterpret_cast<DevicePtr>(to.address);
    const auto n = static_cast<std::size_t>(count);
    const auto doing = [&] { return "filling " + static_cast<DeviceBuffer&>(to).describe(); };
    const auto low = static_cast<unsigned>(element);
    const auto high = static_cast<unsigned>(element >> 32);
    const Stream stream = queue->stream;
    if (width == 1) {
        check(driver.set_8(address, static_cast<unsigned char>(low), n, stream), doing);
    } else if (width == 2) {
        check(driver.set_16(address, static_cast<unsigned short>(low), n, stream), doing);
    } else if (width == 4 || low == high) {
        const std::size_t words = width == 4 ? n : 2 * n;
        check(driver.set_32(address, low, words, stream), doing);
    } else if (n > 0) {
        // The driver sets no wider words: what is there doubles until it is all.
        check(driver.set_32(address, low, 1, stream), doing);
        check(driver.set_32(address + 4, high, 1, stream), doing);
        for (std::size_t there = 1; there < n; there *= 2)
            check(driver.copy_within(address + 8 * there, address, 8 * std::min(there, n - there),
                                     stream),
                  doing);
    }
    if (to.shared()) synchronize();
    return true;
}

BufferRef CudaBackend::import_memory(const ExportedMemory& memory, std::int64_t nbytes) {
    const std::string doing = "import_memory: " + memory.handle_type + " " +
                              std::to_string(memory.handle) + " on " + device_name();
    if (traits.export_type == handle_none) refuse_export(*this, doing);
    if (memory.handle_type != type_name(traits.export_type)) {
        throw Error(ErrorKind::value, doing + ": this system's handles are of type " +
                                          type_name(traits.export_type) +
                                          "; pass one, as its exporter gave it");
    }
    const Current current(context);
    if (!memory.device_uuid.empty()) {
        const std::vector<std::uint8_t> own = driver.uuid(context.device, "import_memory");
        if (memory.device_uuid != own) {
            throw Error(ErrorKind::value, doing + ": the memory is of the device with UUID " +
                                              hexadecimal(memory.device_uuid) + ", this one's is " +
                                              hexadecimal(own) + "; pass device= with the other");
        }
    }
    Mapping m;
    m.size = static_cast<std::size_t>(memory.allocation_size);
    driver.check(
        driver.import_handle(&m.allocation, as_os_handle(memory.handle), traits.export_type),
        [&] { return doing; });
    m = map(*this, m, doing);
    try {
        return detail::make_ref<ImportedBuffer>(*this, nbytes, m);
    } catch (...) {
        unmap(*this, m, true);
        throw;
    }
}

}  // namespace tack::cuda
