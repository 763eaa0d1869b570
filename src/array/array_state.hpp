/// What an Array handle points at.
#pragma once

#include "array/buffer.hpp"
#include "tack/array.hpp"

namespace tack {

/// Immutable but for the elements. The hold of an import lives in the (wrapped) buffer, which
/// reshapes and exports share, so that the owner is released with the last of them.
struct ArrayState final : detail::RefCounted {
    ArrayState(BufferRef buffer_, Shape shape_, DType dtype_, std::int64_t size_, bool writable_)
        : buffer(std::move(buffer_)),
          shape(std::move(shape_)),
          strides(shape.c_strides()),
          size(size_),
          nbytes(size_ * itemsize(dtype_)),
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
};

inline Array make_array(BufferRef buffer, Shape shape, DType dtype, std::int64_t size,
                        bool writable) {
    return Array(
        detail::make_ref<ArrayState>(std::move(buffer), std::move(shape), dtype, size, writable));
}

}  // namespace tack
