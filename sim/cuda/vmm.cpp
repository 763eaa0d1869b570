// Virtual memory management: memory, addresses and mappings apart, and memory as a file descriptor.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "cuda/memory.hpp"

using namespace tack_sim;
using namespace tack_sim::cuda;

namespace tack_sim::cuda {
namespace {

constexpr size_t granularity = 2 << 20;
constexpr int posix_descriptor = 1;
constexpr int device_location = 1;
constexpr int pinned_allocation = 1;

// How a descriptor of another process says what it is: the name of its memfd.
constexpr const char file_prefix[] = "tack-sim-cuda-device-";

struct AllocationProperties {  // CUmemAllocationProp
    int type;
    int handle_types;
    int location_type;
    int location_id;
    void* security;
    unsigned char flags[8];
};
static_assert(sizeof(AllocationProperties) == 32);

struct AccessDescription {  // CUmemAccessDesc
    int location_type;
    int location_id;
    int flags;
};
static_assert(sizeof(AccessDescription) == 12);

void* handle_of(unsigned long long handle) { return reinterpret_cast<void*>(handle); }

Device* device_of(const AllocationProperties* properties) {
    bool known = properties && properties->type == pinned_allocation &&
                 properties->location_type == device_location;
    return known ? device_at(properties->location_id) : nullptr;
}

template <typename Body>
int enter_vmm(Entry& entry, Body&& body) {
    return enter(entry, true,
                 [&](Held&) -> int { return vmm_supported() ? body() : not_supported; });
}

void drop_if_unused(Allocation& allocation) {
    if (allocation.references || allocation.mappings) return;
    if (!allocation.imported) refund(*allocation.device, allocation.size);
    close(allocation.file);
}

// A descriptor of memory that cuMemCreate made, here or in another process: its device, or null.
Device* device_of_file(int file) {
    char path[64], name[128];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    ssize_t length = readlink(path, name, sizeof name - 1);
    if (length < 0) return nullptr;
    name[length] = 0;
    int ordinal = -1;
    std::string pattern = std::string("/memfd:") + file_prefix + "%d";
    return sscanf(name, pattern.c_str(), &ordinal) == 1 ? device_at(ordinal) : nullptr;
}

// The mappings that make up [begin, begin + size) exactly, in order; empty if it is not so.
std::vector<RangeRef> mappings(Address begin, size_t size) {
    std::vector<RangeRef> found;
    Address at = begin;
    while (at < begin + size) {
        RangeRef range = range_at(at);
        if (!range || range->kind != RangeKind::mapped || range->base != at) return {};
        found.push_back(range);
        at += range->size;
    }
    return at == begin + size ? found : std::vector<RangeRef>();
}

}  // namespace
}  // namespace tack_sim::cuda

TACK_SIM_ENTRY(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 10020, size_t* out,
               const AllocationProperties* properties, int) {
    return enter_vmm(cuMemGetAllocationGranularity_entry, [&]() -> int {
        if (!out || !properties) return invalid_value;
        if (!device_of(properties)) return invalid_device;
        *out = granularity;
        return success;
    });
}

TACK_SIM_ENTRY(cuMemCreate, "cuMemCreate", 10020, unsigned long long* out, size_t size,
               const AllocationProperties* properties, unsigned long long flags) {
    return enter_vmm(cuMemCreate_entry, [&]() -> int {
        if (!out || !properties || flags || !size || size % granularity) return invalid_value;
        Device* device = device_of(properties);
        if (!device) return invalid_device;
        if (properties->handle_types & ~posix_descriptor) return not_supported;
        if (!charge(*device, size)) return out_of_memory;
        std::string name = file_prefix + std::to_string(device->ordinal);
        auto allocation = std::make_shared<Allocation>();
        allocation->file = memfd_create(name.c_str(), MFD_CLOEXEC);
        if (allocation->file < 0 || ftruncate(allocation->file, static_cast<off_t>(size))) {
            if (allocation->file >= 0) close(allocation->file);
            refund(*device, size);
            return out_of_memory;
        }
        std::vector<unsigned char> fresh(granularity, fresh_byte);
        for (size_t at = 0; at < std::min(size, 32 * granularity); at += granularity) {
            if (pwrite(allocation->file, fresh.data(), granularity, static_cast<off_t>(at)) < 0)
                break;
        }
        allocation->device = device;
        allocation->size = size;
        allocation->handle_types = properties->handle_types;
        *out = reinterpret_cast<unsigned long long>(state().handles.add(allocation));
        return success;
    });
}

TACK_SIM_ENTRY(cuMemRelease, "cuMemRelease", 10020, unsigned long long handle) {
    return enter_vmm(cuMemRelease_entry, [&]() -> int {
        Result error = success;
        auto* allocation = checked<Allocation>("cuMemRelease", handle_of(handle), error);
        if (!allocation) return invalid_value;
        if (--allocation->references) return success;
        allocation->alive = false;
        drop_if_unused(*allocation);
        return success;
    });
}

TACK_SIM_ENTRY(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000,
               unsigned long long* out, void* address) {
    return enter_vmm(cuMemRetainAllocationHandle_entry, [&]() -> int {
        RangeRef range = range_at(address_of(address));
        if (!out || !range || range->kind != RangeKind::mapped) return invalid_value;
        auto* allocation = static_cast<Allocation*>(range->memory);
        ++allocation->references;
        allocation->alive = true;
        *out = reinterpret_cast<unsigned long long>(allocation->handle);
        return success;
    });
}

TACK_SIM_ENTRY(cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle",
               10020, AllocationProperties* out, unsigned long long handle) {
    return enter_vmm(cuMemGetAllocationPropertiesFromHandle_entry, [&]() -> int {
        Result error = success;
        auto* allocation =
            checked<Allocation>("cuMemGetAllocationPropertiesFromHandle", handle_of(handle), error);
        if (!allocation || !out) return invalid_value;
        *out = {};
        out->type = pinned_allocation;
        out->handle_types = allocation->handle_types;
        out->location_type = device_location;
        out->location_id = allocation->device->ordinal;
        return success;
    });
}

TACK_SIM_ENTRY(cuMemAddressReserve, "cuMemAddressReserve", 10020, Address* out, size_t size,
               size_t alignment, Address, unsigned long long flags) {
    return enter_vmm(cuMemAddressReserve_entry, [&]() -> int {
        bool aligned = !(alignment & (alignment - 1));
        if (!out || !size || size % granularity || flags || !aligned) return invalid_value;
        RangeRef range = Memory::instance().reserve(size, std::max(alignment, granularity));
        if (!range) return out_of_memory;
        *out = range->base;
        return success;
    });
}

TACK_SIM_ENTRY(cuMemAddressFree, "cuMemAddressFree", 10020, Address address, size_t size) {
    return enter_vmm(cuMemAddressFree_entry, [&]() -> int {
        RangeRef range = Memory::instance().find_reserved(address);
        if (!range || range->base != address || range->size != size) {
            return bad_free("cuMemAddressFree", address);
        }
        for (const RangeRef& other : Memory::instance().all()) {
            if (other->kind != RangeKind::mapped || !range->contains(other->base, 1)) continue;
            violation("cuMemAddressFree: the addresses are still mapped");
            return invalid_value;
        }
        Memory::instance().release(range);
        return success;
    });
}

TACK_SIM_ENTRY(cuMemMap, "cuMemMap", 10020, Address address, size_t size, size_t offset,
               unsigned long long handle, unsigned long long flags) {
    return enter_vmm(cuMemMap_entry, [&]() -> int {
        Result error = success;
        auto* allocation = checked<Allocation>("cuMemMap", handle_of(handle), error);
        if (!allocation) return invalid_value;
        RangeRef reserved = Memory::instance().find_reserved(address);
        if (!reserved || !reserved->contains(address, size) || flags || offset)
            return invalid_value;
        if (!size || size % granularity || address % granularity || size > allocation->size) {
            return invalid_value;
        }
        for (const RangeRef& other : Memory::instance().all()) {
            bool overlaps = other->kind == RangeKind::mapped && other->base < address + size &&
                            address < other->base + other->size;
            if (overlaps) return invalid_value;
        }
        RangeRef range = Memory::instance().map(address, size, allocation->file,
                                                allocation->device->ordinal, allocation);
        if (!range) return out_of_memory;
        ++allocation->mappings;
        return success;
    });
}

TACK_SIM_ENTRY(cuMemUnmap, "cuMemUnmap", 10020, Address address, size_t size) {
    return enter_vmm(cuMemUnmap_entry, [&]() -> int {
        std::vector<RangeRef> ranges = mappings(address, size);
        if (ranges.empty()) return bad_free("cuMemUnmap", address);
        for (const RangeRef& range : ranges) {
            check_unused("cuMemUnmap", *range);
            auto* allocation = static_cast<Allocation*>(range->memory);
            Memory::instance().release(range);
            --allocation->mappings;
            drop_if_unused(*allocation);
        }
        return success;
    });
}

TACK_SIM_ENTRY(cuMemSetAccess, "cuMemSetAccess", 10020, Address address, size_t size,
               const AccessDescription* descriptions, size_t count) {
    return enter_vmm(cuMemSetAccess_entry, [&]() -> int {
        if (!descriptions || !count) return invalid_value;
        std::vector<RangeRef> ranges = mappings(address, size);
        if (ranges.empty()) return invalid_value;
        for (size_t i = 0; i < count; ++i) {
            const AccessDescription& one = descriptions[i];
            constexpr int none = 0, read = 1, read_write = 3;
            if (one.flags != none && one.flags != read && one.flags != read_write) {
                return invalid_value;
            }
            if (one.location_type != device_location) return not_supported;
            if (!device_at(one.location_id)) return invalid_device;
            for (const RangeRef& range : ranges) {
                uint64_t bit = uint64_t{1} << one.location_id;
                range->devices = one.flags ? range->devices | bit : range->devices & ~bit;
            }
        }
        return success;
    });
}

TACK_SIM_ENTRY(cuMemGetAccess, "cuMemGetAccess", 10020, unsigned long long* flags,
               const int* location, Address address) {
    return enter_vmm(cuMemGetAccess_entry, [&]() -> int {
        RangeRef range = range_at(address);
        if (!flags || !location || !range || range->kind != RangeKind::mapped) return invalid_value;
        if (location[0] != device_location || !device_at(location[1])) return invalid_value;
        *flags = range->devices >> location[1] & 1 ? 3 : 0;
        return success;
    });
}

TACK_SIM_ENTRY(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020, void* out,
               unsigned long long handle, int type, unsigned long long flags) {
    return enter_vmm(cuMemExportToShareableHandle_entry, [&]() -> int {
        Result error = success;
        auto* allocation =
            checked<Allocation>("cuMemExportToShareableHandle", handle_of(handle), error);
        if (!allocation || !out || flags) return invalid_value;
        if (type != posix_descriptor) return not_supported;
        if (!(allocation->handle_types & type)) return invalid_value;
        int file = fcntl(allocation->file, F_DUPFD_CLOEXEC, 3);
        struct stat status_of_file;
        if (file < 0 || fstat(file, &status_of_file)) return out_of_memory;
        state().exported.push_back({file, status_of_file.st_dev, status_of_file.st_ino});
        std::memcpy(out, &file, sizeof file);
        return success;
    });
}

TACK_SIM_ENTRY(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020,
               unsigned long long* out, void* os_handle, int type) {
    return enter_vmm(cuMemImportFromShareableHandle_entry, [&]() -> int {
        if (!out) return invalid_value;
        if (type != posix_descriptor) return not_supported;
        // By value, not by address.
        auto value = reinterpret_cast<uintptr_t>(os_handle);
        int theirs = static_cast<int>(value);
        Device* device = value > 0x7fffffff ? nullptr : device_of_file(theirs);
        struct stat status_of_file;
        if (!device || fstat(theirs, &status_of_file)) return invalid_value;
        auto size = static_cast<size_t>(status_of_file.st_size);
        if (!size || size % granularity) return invalid_value;
        auto allocation = std::make_shared<Allocation>();
        allocation->file = fcntl(theirs, F_DUPFD_CLOEXEC, 3);
        if (allocation->file < 0) return out_of_memory;
        allocation->device = device;
        allocation->size = size;
        allocation->handle_types = type;
        allocation->imported = true;
        *out = reinterpret_cast<unsigned long long>(state().handles.add(allocation));
        return success;
    });
}
