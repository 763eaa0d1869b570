#include <algorithm>
#include <atomic>
#include <new>

#include "array/array_state.hpp"
#include "backend/backend.hpp"
#include "interop/dlpack_types.hpp"

namespace tack {
namespace {

std::atomic<std::int64_t> exports{0};

/// One allocation: the managed tensor, the reference that keeps the memory alive, and behind them
/// the shape and the strides.
template <class Managed>
struct Export {
    Managed managed{};
    Array array;

    std::int64_t* extents() { return reinterpret_cast<std::int64_t*>(this + 1); }

    static void release(Managed* managed) {
        auto* self = static_cast<Export*>(managed->manager_ctx);
        self->~Export();
        ::operator delete(self);
        exports.fetch_sub(1, std::memory_order_relaxed);
    }
};

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

template <class Managed>
Managed* export_as(const Array& array) {
    const ArrayState& state = *array.state();
    const auto ndim = static_cast<std::size_t>(state.shape.ndim());
    state.buffer->share();

    void* memory = ::operator new(sizeof(Export<Managed>) + 2 * ndim * sizeof(std::int64_t));
    auto* self = new (memory) Export<Managed>{{}, array};
    std::int64_t* extents = self->extents();
    std::copy(state.shape.begin(), state.shape.end(), extents);
    std::copy(state.strides.begin(), state.strides.end(), extents + ndim);

    Managed& managed = self->managed;
    managed.manager_ctx = self;
    managed.deleter = Export<Managed>::release;
    managed.dl_tensor = describe(array, extents, extents + ndim);
    exports.fetch_add(1, std::memory_order_relaxed);
    return &managed;
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

std::int64_t live_exports() noexcept { return exports.load(std::memory_order_relaxed); }

}  // namespace tack
