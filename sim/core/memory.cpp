#include "core/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "core/report.hpp"

namespace tack_sim {
namespace {

constexpr size_t page_size = 4096;
constexpr size_t arena_size = size_t{64} << 30;
constexpr size_t filled_whole = 64 << 20;
constexpr size_t filled_end = 1 << 20;

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

void protect(uintptr_t begin, size_t size, int protection) {
    mprotect(reinterpret_cast<void*>(begin), size, protection);
}

// Gives the pages back and leaves the addresses taken.
void vacate(uintptr_t begin, size_t size) {
    mmap(reinterpret_cast<void*>(begin), size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

// Nothing of the client's lies in [begin, end): there is what was put there when it was fresh.
void check_padding(const Range& range, uintptr_t begin, uintptr_t end) {
    for (uintptr_t at = begin; at < end; ++at) {
        if (*reinterpret_cast<const unsigned char*>(at) == fresh_byte) continue;
        violation("overrun: byte " + std::to_string(static_cast<intptr_t>(at - range.base)) +
                  " of " + range_kind_name(range.kind) + " of " + std::to_string(range.size) +
                  " bytes was written");
        return;
    }
}

}  // namespace

const char* range_kind_name(RangeKind kind) {
    switch (kind) {
        case RangeKind::device:
            return "device memory";
        case RangeKind::pool:
            return "pool memory";
        case RangeKind::pinned:
            return "pinned memory";
        case RangeKind::registered:
            return "registered host memory";
        case RangeKind::managed:
            return "managed memory";
        case RangeKind::global:
            return "a module's variable";
        case RangeKind::reserved:
            return "an address reservation";
        case RangeKind::mapped:
            return "a mapping";
    }
    return "";
}

struct Memory::Impl {
    std::mutex mutex;  // never held where a command may fault
    std::map<uintptr_t, RangeRef> ranges;
    std::map<uintptr_t, RangeRef> reservations;
    std::vector<Range*> opened;
    uintptr_t arena = 0;
    size_t arena_left = 0;
    uint64_t next_id = 1;
    bool managed_for_host = true;

    // Addresses that were never used, PROT_NONE, after a guard page and before one.
    uintptr_t take(size_t size, size_t alignment) {
        size_t needed = size + alignment + 2 * guard_size;
        if (needed < size) return 0;
        if (needed > arena_left) {
            size_t bytes = std::max(arena_size, needed);
            void* fresh =
                mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (fresh == MAP_FAILED) return 0;
            arena_left = bytes;
            arena = reinterpret_cast<uintptr_t>(fresh);
        }
        uintptr_t begin = round_up(arena + guard_size, alignment);
        uintptr_t end = begin + size + guard_size;
        arena_left -= end - arena;
        arena = end;
        return begin;
    }

    RangeRef find(std::map<uintptr_t, RangeRef>& map, uintptr_t address) {
        auto after = map.upper_bound(address);
        if (after == map.begin()) return nullptr;
        RangeRef range = std::prev(after)->second;
        return address - range->base < std::max<size_t>(range->size, 1) ? range : nullptr;
    }
};

Memory::Memory() : impl_(new Impl) { impl_->opened.reserve(1024); }

Memory& Memory::instance() {
    static Memory* memory = new Memory;
    return *memory;
}

RangeRef Memory::insert(Range range, uintptr_t pages, size_t pages_size) {
    auto ref = std::make_shared<Range>(range);
    ref->pages = pages;
    ref->pages_size = pages_size;
    ref->id = impl_->next_id++;
    auto& map = ref->kind == RangeKind::reserved ? impl_->reservations : impl_->ranges;
    map[ref->base] = ref;
    return ref;
}

RangeRef Memory::allocate(size_t size, RangeKind kind, int device, void* owner) {
    size_t rounded = round_up(size, 256);
    size_t pages_size = round_up(rounded, page_size);
    if (pages_size < size) return nullptr;
    std::lock_guard lock(impl_->mutex);
    uintptr_t pages = impl_->take(pages_size, page_size);
    if (!pages) return nullptr;
    if (mprotect(reinterpret_cast<void*>(pages), pages_size, PROT_READ | PROT_WRITE)) {
        return nullptr;
    }
    auto* bytes = reinterpret_cast<unsigned char*>(pages);
    if (pages_size <= filled_whole) {
        std::memset(bytes, fresh_byte, pages_size);
    } else {
        std::memset(bytes, fresh_byte, filled_end);
        std::memset(bytes + pages_size - filled_end, fresh_byte, filled_end);
    }
    bool host =
        kind == RangeKind::pinned || (kind == RangeKind::managed && impl_->managed_for_host);
    if (!host) protect(pages, pages_size, PROT_NONE);
    Range range;
    range.base = pages + pages_size - rounded;
    range.size = size;
    range.kind = kind;
    range.device = device;
    range.owner = owner;
    range.devices = kind == RangeKind::pinned || kind == RangeKind::managed ? ~uint64_t{0}
                                                                            : uint64_t{1} << device;
    return insert(range, pages, pages_size);
}

RangeRef Memory::reserve(size_t size, size_t alignment) {
    std::lock_guard lock(impl_->mutex);
    Range range;
    range.base = impl_->take(size, alignment);
    if (!range.base) return nullptr;
    range.size = size;
    range.kind = RangeKind::reserved;
    return insert(range, range.base, size);
}

RangeRef Memory::map(uintptr_t base, size_t size, int file, int device, void* memory) {
    std::lock_guard lock(impl_->mutex);
    if (mmap(reinterpret_cast<void*>(base), size, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0) ==
        MAP_FAILED) {
        return nullptr;
    }
    Range range;
    range.base = base;
    range.size = size;
    range.kind = RangeKind::mapped;
    range.device = device;
    range.memory = memory;
    return insert(range, base, size);
}

RangeRef Memory::note(uintptr_t base, size_t size, RangeKind kind, int device, void* owner) {
    std::lock_guard lock(impl_->mutex);
    Range range;
    range.base = base;
    range.size = size;
    range.kind = kind;
    range.device = device;
    range.devices = ~uint64_t{0};
    range.owner = owner;
    return insert(range, 0, 0);
}

void Memory::release(const RangeRef& range) {
    std::lock_guard lock(impl_->mutex);
    range->live = false;
    range->freed = true;
    if (range->kind == RangeKind::reserved) {
        impl_->reservations.erase(range->base);
        return;
    }
    impl_->ranges.erase(range->base);
    if (!range->pages_size) return;
    if (range->kind != RangeKind::mapped) {
        protect(range->pages, range->pages_size, PROT_READ);
        check_padding(*range, range->pages, range->base);
        check_padding(*range, range->base + range->size, range->pages + range->pages_size);
    }
    vacate(range->pages, range->pages_size);
    std::erase(impl_->opened, range.get());
}

RangeRef Memory::find(uintptr_t address) {
    std::lock_guard lock(impl_->mutex);
    return impl_->find(impl_->ranges, address);
}

RangeRef Memory::find_reserved(uintptr_t address) {
    std::lock_guard lock(impl_->mutex);
    return impl_->find(impl_->reservations, address);
}

bool Memory::open(uintptr_t address, int device) {
    std::lock_guard lock(impl_->mutex);
    // By whole pages: the bytes before an end-aligned range belong to its first page.
    auto after = impl_->ranges.upper_bound(address + page_size);
    while (after != impl_->ranges.begin()) {
        Range& range = *(--after)->second;
        if (!range.pages_size) continue;
        if (address < range.pages) continue;
        if (address - range.pages >= range.pages_size) return false;
        bool reaches = range.devices && (device == any_device || range.devices >> device & 1);
        bool may = range.live && reaches && !range.open;
        // Below the base lies nothing of the client's.
        if (!may || address < range.base) return false;
        protect(range.pages, range.pages_size, PROT_READ | PROT_WRITE);
        range.open = true;
        impl_->opened.push_back(&range);
        return true;
    }
    return false;
}

void Memory::close_all() {
    std::lock_guard lock(impl_->mutex);
    for (Range* range : impl_->opened) {
        range->open = false;
        bool host = range->kind == RangeKind::managed && impl_->managed_for_host;
        if (!host) protect(range->pages, range->pages_size, PROT_NONE);
    }
    impl_->opened.clear();
}

void Memory::set_managed_access(bool host_may) {
    std::lock_guard lock(impl_->mutex);
    if (impl_->managed_for_host == host_may) return;
    impl_->managed_for_host = host_may;
    for (auto& [base, range] : impl_->ranges) {
        if (range->kind != RangeKind::managed || range->open) continue;
        protect(range->pages, range->pages_size, host_may ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
}

std::vector<RangeRef> Memory::all() {
    std::lock_guard lock(impl_->mutex);
    std::vector<RangeRef> found;
    for (auto* map : {&impl_->ranges, &impl_->reservations}) {
        for (auto& [base, range] : *map) found.push_back(range);
    }
    std::sort(found.begin(), found.end(),
              [](const RangeRef& a, const RangeRef& b) { return a->id < b->id; });
    return found;
}

}  // namespace tack_sim
