#include "interop/export_count.hpp"

#include <atomic>
#include <mutex>

#include "tack/dlpack.hpp"

namespace tack {
namespace {

/// Each thread counts in a cell of its own, which takes no locked instruction. A cell alone says
/// nothing: tensors are given back on other threads than they were exported on.
struct Cell {
    std::atomic<std::int64_t> count{0};
    Cell* next = nullptr;       // of all
    Cell* next_free = nullptr;  // of those whose threads have ended
};

/// Never destroyed: tensors may be given back after static destructors have begun to run.
struct Cells {
    std::mutex mutex;
    Cell* all = nullptr;
    Cell* free = nullptr;
};
Cells& cells() {
    static auto* const instance = new Cells;
    return *instance;
}

// No destructor of its own, so that it is there for tensors that are given back as a thread ends.
[[gnu::tls_model("initial-exec")]] thread_local Cell* own_cell = nullptr;

struct GivesCellBack {
    ~GivesCellBack() {
        const std::lock_guard lock(cells().mutex);
        own_cell->next_free = cells().free;
        cells().free = own_cell;
        own_cell = nullptr;
    }
};

void take_cell() {
    {
        const std::lock_guard lock(cells().mutex);
        if (Cell* reused = cells().free) {
            own_cell = reused;
            cells().free = reused->next_free;
        } else {
            own_cell = new Cell;
            own_cell->next = cells().all;
            cells().all = own_cell;
        }
    }
    [[maybe_unused]] static thread_local const GivesCellBack at_exit;
}

}  // namespace

void count_export(std::int64_t change) noexcept {
    if (!own_cell) take_cell();
    std::atomic<std::int64_t>& count = own_cell->count;
    count.store(count.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
}

std::int64_t live_exports() noexcept {
    const std::lock_guard lock(cells().mutex);
    std::int64_t sum = 0;
    for (const Cell* cell = cells().all; cell; cell = cell->next)
        sum += cell->count.load(std::memory_order_relaxed);
    return sum;
}

}  // namespace tack
