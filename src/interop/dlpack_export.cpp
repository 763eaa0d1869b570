#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>

#include "array/array_state.hpp"
#include "backend/backend.hpp"
#include "interop/dlpack_types.hpp"

namespace tack {
namespace {

/// Each thread counts in a cell of its own, which takes no locked instruction. A cell alone says
/// nothing: tensors are given back on other threads than they were exported on.
struct Cell {
    std::atomic<std::int64_t> count{0};
    Cell* next = nullptr;       // of all
    Cell* next_free = nullptr;  // of those whose threads have ended
};

struct Cells {
    std::mutex mutex;
    Cell* all = nullptr;
    Cell* free = nullptr;
    std::atomic<std::int64_t> rest{0};  // counted by threads without memory for a cell
};
/// Never destroyed: tensors may be given back after static destructors have begun to run.
Cells& cells() {
    alignas(Cells) static std::byte room[sizeof(Cells)];
    static auto* const instance = new (room) Cells;
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

bool take_cell() {
    {
        const std::lock_guard lock(cells().mutex);
        if ((own_cell = cells().free)) {
            cells().free = own_cell->next_free;
        } else {
            own_cell = new (std::nothrow) Cell;
            if (!own_cell) return false;
            own_cell->next = cells().all;
            cells().all = own_cell;
        }
    }
    [[maybe_unused]] static thread_local const GivesCellBack at_exit;
    return true;
}

void count_export(std::int64_t change) noexcept {
    if (own_cell || take_cell()) {
        std::atomic<std::int64_t>& count = own_cell->count;
        count.store(count.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
    } else {
        cells().rest.fetch_add(change, std::memory_order_relaxed);
    }
}

template <class Managed>
void release(Managed* managed) {
    const auto* state = static_cast<const ArrayState*>(managed->manager_ctx);
    if (static_cast<const void*>(managed) != state->export_record) ::operator delete(managed);
    count_export(-1);
    state->release_export();
}

dlpack::Tensor describe(const Array& array, std::int64_t* shape, std::int64_t* strides) {
    const ArrayState& state = *array.state();
    return {
        .data = state.size == 0 ? nullptr : state.address(),
        .device = dlpack_device(array),
        .ndim = state.shape.ndim(),
        .dtype = to_dlpack_type(state.dtype),
        .shape = shape,
        .strides = strides,
        .byte_offset = 0,
    };
}

/// Behind the managed tensor lie its shape and strides, so that a consumer may write to all of it.
template <class Managed>
Managed* export_as(const Array& array) {
    ArrayState& state = *array.state();
    const int ndim = state.shape.ndim();
    state.buffer->share();

    void* memory = state.export_record;
    if (!state.acquire_export() || ndim > ArrayState::record_ndim) {
        const std::size_t extents = 2 * static_cast<std::size_t>(ndim) * sizeof(std::int64_t);
        memory = ::operator new(sizeof(Managed) + extents, std::nothrow);
        if (!memory) {
            state.release_export();
            throw std::bad_alloc();
        }
    }
    auto* managed = new (memory) Managed{};
    auto* shape = reinterpret_cast<std::int64_t*>(managed + 1);
    auto* strides = shape + ndim;
    for (int axis = 0; axis < ndim; ++axis) {
        shape[axis] = state.shape[axis];
        strides[axis] = state.strides[axis];
    }
    managed->manager_ctx = &state;
    managed->deleter = release<Managed>;
    managed->dl_tensor = describe(array, shape, strides);
    count_export(1);
    return managed;
}

}  // namespace

dlpack::ManagedTensor* to_dlpack(const Array& array) {
    return export_as<dlpack::ManagedTensor>(array);
}

dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Array& array) {
    auto* managed = export_as<dlpack::ManagedTensorVersioned>(array);
    managed->version = {1, 3};
    managed->flags = array.writable() ? 0 : dlpack::flag_read_only;
    return managed;
}

dlpack::Tensor to_dlpack_tensor(const Array& array) {
    if (!array.writable()) {
        throw Error(ErrorKind::buffer,
                    "to_dlpack_tensor: the array is read-only, which a tensor without flags cannot "
                    "say. Take a versioned managed tensor of it, or pass a.copy()");
    }
    const ArrayState& state = *array.state();
    state.buffer->share();
    return describe(array, const_cast<std::int64_t*>(state.shape.data()),
                    const_cast<std::int64_t*>(state.strides.data()));
}

dlpack::Device dlpack_device(const Array& array) {
    const Backend& backend = *array.state()->buffer->backend;
    return {backend.dlpack_device_type(), backend.index};
}

std::int64_t live_exports() noexcept {
    const std::lock_guard lock(cells().mutex);
    std::int64_t sum = cells().rest.load(std::memory_order_relaxed);
    for (const Cell* cell = cells().all; cell; cell = cell->next)
        sum += cell->count.load(std::memory_order_relaxed);
    return sum;
}

}  // namespace tack
