/// What an Array handle points at.
#pragma once

#include <cstddef>

#include "array/buffer.hpp"
#include "tack/array.hpp"
#include "tack/dlpack.hpp"

namespace tack {

/// Immutable but for the elements. The hold of an import lives in the (wrapped) buffer, which
/// reshapes and exports share, so that the owner is released with the last of them.
struct ArrayState final : detail::RefCounted {
    ArrayState(BufferRef buffer_, Shape shape_, DType dtype_, std::int64_t size_, bool writable_)
        : buffer(std::move(buffer_)),
          shape(std::move(shape_)),
          strides(shape.c_strides()),
          size(size_),
          nbytes(buffer->nbytes),
          dtype(dtype_),
          writable(writable_) {}

    const BufferRef buffer;
    const Shape shape;
    const Shape strides;        // elements; a DLPack tensor that owns nothing borrows them
    const std::int64_t size;    // elements
    const std::int64_t nbytes;  // bytes
    const DType dtype;
    const bool writable;

    void* address() const noexcept { return buffer->address; }

    /// An export keeps the state. The first at a time has `export_record` for its managed tensor,
    /// which saves an allocation; true where that is the caller's until release_export().
    bool acquire_export() const noexcept { return acquire_second(); }
    void release_export() const noexcept { release_second(); }
    static constexpr int record_ndim = 8;
    alignas(8) std::byte export_record[sizeof(dlpack::ManagedTensorVersioned) +
                                       2 * record_ndim * sizeof(std::int64_t)];
};

inline Array make_array(BufferRef buffer, Shape shape, DType dtype, std::int64_t size,
                        bool writable) {
    return Array(
        detail::make_ref<ArrayState>(std::move(buffer), std::move(shape), dtype, size, writable));
}

}  // namespace tack
