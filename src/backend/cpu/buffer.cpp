#include "backend/cpu/buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "backend/cpu/backend.hpp"

namespace tack::cpu {
namespace {

// JAX copies silently what is aligned to less.
constexpr std::size_t alignment = 64;

// Memory of this size is worth huge pages, without which walking it costs address translations.
constexpr std::size_t huge = std::size_t{4} << 20;

// Linux 5.14's values, for older C libraries.
constexpr int madv_populate_read = 22;
constexpr int madv_populate_write = 23;

std::uintptr_t page_of(std::uintptr_t address) {
    static const auto page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    return address & ~(page_size - 1);
}

/// What /proc/self/maps says of the address: true where it cannot be read at all.
bool listed_as_mapped(std::uintptr_t address, bool writable) {
    std::ifstream maps("/proc/self/maps");
    if (!maps) return true;
    for (std::string line; std::getline(maps, line);) {
        std::uintptr_t first = 0;
        std::uintptr_t last = 0;
        const char* end = line.data() + line.size();
        const auto start = std::from_chars(line.data(), end, first, 16);
        const auto stop = std::from_chars(start.ptr + 1, end, last, 16);
        if (address < first || address >= last) continue;
        const char* permissions = stop.ptr + 1;
        return permissions[0] == 'r' && (!writable || permissions[1] == 'w');
    }
    return false;
}

/// Whether the address's page can be read (and written). Touches no data.
bool is_mapped(std::uintptr_t address, bool writable) {
    void* page = reinterpret_cast<void*>(page_of(address));
    const int kept_errno = errno;
    const int failed = madvise(page, 1, writable ? madv_populate_write : madv_populate_read);
    const int reason = errno;
    errno = kept_errno;
    if (!failed) return true;
    // EINVAL is a kernel without this advice, memory of a device driver, or missing permissions.
    return reason == EINVAL && listed_as_mapped(address, writable);
}

/// Of no consequence where the system does not follow the advice.
void advise_huge_pages(void* address, std::int64_t nbytes) {
    const std::uintptr_t first = page_of(reinterpret_cast<std::uintptr_t>(address));
    const std::uintptr_t last =
        page_of(reinterpret_cast<std::uintptr_t>(address) + static_cast<std::uintptr_t>(nbytes));
    const int kept_errno = errno;
    madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
    errno = kept_errno;
}

std::string hexadecimal(std::uintptr_t address) {
    char text[2 + 2 * sizeof address + 1];
    std::snprintf(text, sizeof text, "0x%zx", static_cast<std::size_t>(address));
    return text;
}

/// The backend, of those in use, whose driver knows the address as its own; or empty.
std::string device_of(std::uintptr_t address) {
    for (const BackendEntry& entry : backend_entries()) {
        if (entry.name == cpu::entry.name) continue;
        const Device device = existing_plain_device(entry.name, 0);
        if (!device) continue;
        try {
            std::string owner = device.memory_space(reinterpret_cast<const void*>(address)).backend;
            if (owner == entry.name) return owner;
        } catch (const Error&) {
            // A device that is lost owns nothing.
        }
    }
    return {};
}

}  // namespace

void HostBuffer::read(void* host, std::int64_t bytes) const {
    std::memcpy(host, address, static_cast<std::size_t>(bytes));
}

void HostBuffer::write(const void* host, std::int64_t bytes) {
    std::memcpy(address, host, static_cast<std::size_t>(bytes));
}

OwnedBuffer::~OwnedBuffer() { std::free(block); }

BufferRef CpuBackend::allocate(std::int64_t nbytes, bool exportable) {
    if (exportable) refuse_memory_export(*this);
    void* block = nullptr;
    void* address = nullptr;
    if (nbytes > 0) {
        // Aligned by hand: for small sizes std::aligned_alloc takes several times as long.
        std::size_t space = static_cast<std::size_t>(nbytes) + alignment - 1;
        address = block = std::malloc(space);
        if (!block) {
            throw Error(ErrorKind::memory,
                        "allocate: the host has no " + std::to_string(nbytes) +
                            " bytes of memory for an array; free other arrays or take fewer "
                            "elements");
        }
        std::align(alignment, static_cast<std::size_t>(nbytes), address, space);
        if (static_cast<std::size_t>(nbytes) >= huge) advise_huge_pages(address, nbytes);
    }
    try {
        return detail::make_ref<OwnedBuffer>(*this, address, nbytes, block);
    } catch (...) {
        std::free(block);
        throw;
    }
}

BufferRef CpuBackend::wrap(void* address, std::int64_t nbytes, Hold&& hold) {
    return detail::make_ref<WrappedBuffer>(*this, address, nbytes, std::move(hold));
}

MemorySpace CpuBackend::memory_space(const void* address) const {
    if (!is_mapped(reinterpret_cast<std::uintptr_t>(address), false)) return {"unknown", {}};
    return {name, MemoryKind::host};
}

void CpuBackend::check_wrappable(const void* address, std::int64_t nbytes, bool writable,
                                 const char* operation) const {
    if (nbytes == 0) return;
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t last = first + static_cast<std::uintptr_t>(nbytes) - 1;
    for (const std::uintptr_t byte : {first, last}) {
        if (byte != first && page_of(byte) == page_of(first)) continue;
        if (is_mapped(byte, writable)) continue;
        if (const std::string owner = device_of(byte); !owner.empty())
            throw Error(ErrorKind::value, std::string(operation) + ": address " +
                                              hexadecimal(byte) + " is memory of " + owner +
                                              ", not of cpu; pass device=\"" + owner + "\"");
        throw Error(ErrorKind::value,
                    std::string(operation) + ": address " + hexadecimal(byte) + " of the " +
                        std::to_string(nbytes) + " bytes from " + hexadecimal(first) +
                        " is not mapped for " + (writable ? "writing" : "reading") +
                        " in this process; pass host memory that is alive" +
                        (writable ? ", or writable=false where it is read-only" : "") +
                        ", or the device that the address belongs to");
    }
}

}  // namespace tack::cpu
