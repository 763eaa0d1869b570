#include <new>

#include "array/array_state.hpp"
#include "backend/backend.hpp"
#include "interop/dlpack_types.hpp"
#include "interop/export_count.hpp"

namespace tack {
namespace {

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

}  // namespace tack
