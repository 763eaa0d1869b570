/// The extents of an array.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tack/config.hpp"

namespace tack {

/// Extents in elements, outermost first; empty for a zero-dimensional array of one element.
/// Up to 8 extents live in the object itself. An extent may be -1 only in Array::reshape.
class TACK_API Shape {
public:
    /// NumPy's own limit. More extents throw value.
    static constexpr int max_ndim = 64;

    Shape() noexcept = default;
    Shape(std::initializer_list<std::int64_t> extents)
        : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}
    explicit Shape(std::span<const std::int64_t> extents);
    Shape(const Shape& other) : Shape(other.span()) {}
    Shape(Shape&& other) noexcept;
    Shape& operator=(Shape other) noexcept;
    ~Shape() {
        if (ndim_ > inline_capacity) delete[] heap_;
    }

    int ndim() const noexcept { return ndim_; }
    const std::int64_t* data() const noexcept { return ndim_ > inline_capacity ? heap_ : inline_; }
    std::int64_t operator[](int axis) const noexcept { return data()[axis]; }
    std::span<const std::int64_t> span() const noexcept {
        return {data(), static_cast<std::size_t>(ndim_)};
    }
    const std::int64_t* begin() const noexcept { return data(); }
    const std::int64_t* end() const noexcept { return data() + ndim_; }

    /// The number of elements: the product of the extents, 0 if any is 0.
    /// Throws value, beginning with `operation`, for a negative extent or a product whose byte
    /// count at `itemsize` bytes an element is beyond int64.
    std::int64_t checked_size(std::int64_t itemsize, const char* operation) const;
    /// C-contiguous strides in elements.
    Shape c_strides() const;
    /// As Python writes a tuple: "()", "(3,)", "(2, 3)".
    std::string to_string() const;

    friend bool operator==(const Shape& a, const Shape& b) noexcept {
        if (a.ndim_ != b.ndim_) return false;
        for (int k = 0; k < a.ndim_; ++k)
            if (a[k] != b[k]) return false;
        return true;
    }

private:
    static constexpr int inline_capacity = 8;
    std::int32_t ndim_ = 0;
    union {
        std::int64_t inline_[inline_capacity];
        std::int64_t* heap_;
    };
};

}  // namespace tack
