// The memory of simulated devices. To the host it is PROT_NONE; the thread that runs commands opens
// a range when a command touches it, and closes all when it is done. Freed addresses never return.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tack_sim {

enum class RangeKind {
    device,      // an allocation of its own
    pool,        // the same, ordered by a stream
    pinned,      // host memory of the driver
    registered,  // host memory of the client
    managed,     // both
    global,      // a variable of a loaded image; the host can read it
    reserved,    // addresses without memory
    mapped,      // memory mapped into reserved addresses
};

const char* range_kind_name(RangeKind kind);

constexpr unsigned char fresh_byte = 0xCB;
constexpr size_t guard_size = 1 << 16;

struct Range {
    uintptr_t base = 0;
    size_t size = 0;  // as asked for
    RangeKind kind = RangeKind::device;
    int device = 0;
    uint64_t devices = 0;  // bit per device that may touch it
    uint64_t id = 0;       // of this allocation, never used twice in a process
    void* owner = nullptr;
    void* memory = nullptr;  // mapped: what lies behind it
    uint64_t flags = 0;      // for the face of the driver
    size_t queued = 0;       // commands that use it and have not run
    bool live = true;        // false before a stream-ordered allocation and after a free
    bool freed = false;      // its free was called, though it may still be queued

    bool contains(uintptr_t address, size_t bytes) const {
        return address >= base && address - base <= size && bytes <= size - (address - base);
    }

private:
    friend class Memory;
    uintptr_t pages = 0;  // the whole pages it covers
    size_t pages_size = 0;
    bool open = false;
};

using RangeRef = std::shared_ptr<Range>;

class Memory {
public:
    // Memory filled with fresh_byte (of large ranges only both ends), between guard pages. It ends
    // at a guard page, but for the rounding of its size up to 256 bytes. Null: out of memory.
    RangeRef allocate(size_t size, RangeKind kind, int device, void* owner);

    // Addresses without memory, a multiple of `alignment`. Null: none left.
    RangeRef reserve(size_t size, size_t alignment);

    // Maps a file's pages at base, inside a reserved range; no device may touch it at first.
    // Null: the file cannot be mapped.
    RangeRef map(uintptr_t base, size_t size, int file, int device, void* memory);

    // Notes memory that is not of this class's making.
    RangeRef note(uintptr_t base, size_t size, RangeKind kind, int device, void* owner);

    // The range's addresses fault from now on. What was written beyond its ends, on
    // its own pages, is a violation.
    void release(const RangeRef& range);

    // The range that holds `address`; null if none does. Not a reserved one.
    RangeRef find(uintptr_t address);
    RangeRef find_reserved(uintptr_t address);

    // From the fault handler: opens the live range that holds `address` to a command of `device`.
    static constexpr int any_device = -1;
    bool open(uintptr_t address, int device);
    void close_all();

    // Whether the host may touch managed memory (where it may not do so while work is queued).
    void set_managed_access(bool host_may);

    // Every range that is not released, in the order of allocation.
    std::vector<RangeRef> all();

    static Memory& instance();

private:
    struct Impl;
    Memory();
    RangeRef insert(Range range, uintptr_t pages, size_t pages_size);
    Impl* impl_;
};

}  // namespace tack_sim
