#include "tack/shape.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "tack/error.hpp"

namespace tack {

Shape::Shape(std::span<const std::int64_t> extents) {
    if (extents.size() > max_ndim) {
        throw Error(ErrorKind::value, "shape: " + std::to_string(extents.size()) +
                                          " dimensions; an array has at most " +
                                          std::to_string(max_ndim));
    }
    const int ndim = static_cast<int>(extents.size());
    std::int64_t* to = inline_;
    if (ndim > inline_capacity) to = heap_ = new std::int64_t[extents.size()];
    ndim_ = ndim;
    std::copy(extents.begin(), extents.end(), to);
}

Shape::Shape(Shape&& other) noexcept : ndim_(other.ndim_) {
    if (ndim_ > inline_capacity) {
        heap_ = other.heap_;
        other.ndim_ = 0;
    } else {
        std::copy_n(other.inline_, ndim_, inline_);
    }
}

Shape& Shape::operator=(Shape other) noexcept {
    this->~Shape();
    return *new (this) Shape(std::move(other));
}

std::int64_t Shape::checked_size(std::int64_t itemsize, const char* operation) const {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorKind::value,
                    std::string(operation) + ": shape " + to_string() + " " + why);
    };
    bool overflow = false;
    bool empty = false;
    std::int64_t size = 1;
    std::int64_t bytes = itemsize;
    for (const std::int64_t extent : *this) {
        if (extent < 0) refuse("has a negative extent; extents are counts of elements, from 0 up");
        if (extent == 0) {
            empty = true;
        } else if (!overflow) {
            overflow = __builtin_mul_overflow(bytes, extent, &bytes);
            if (!overflow) size *= extent;
        }
    }
    if (empty) return 0;
    if (overflow) {
        refuse("of " + std::to_string(itemsize) +
               "-byte elements has more bytes than a 64-bit integer can count; check its extents");
    }
    return size;
}

Shape Shape::c_strides() const {
    Shape strides;
    std::int64_t* to = strides.inline_;
    if (ndim_ > inline_capacity) {
        to = strides.heap_ = new std::int64_t[static_cast<std::size_t>(ndim_)];
    }
    strides.ndim_ = ndim_;
    // Unsigned, and zeros taken as ones, since the other extents of an empty array may be anything.
    std::uint64_t stride = 1;
    for (int axis = ndim_ - 1; axis >= 0; --axis) {
        to[axis] = static_cast<std::int64_t>(stride);
        stride *= static_cast<std::uint64_t>(std::max<std::int64_t>((*this)[axis], 1));
    }
    return strides;
}

std::string Shape::to_string() const {
    std::string text = "(";
    for (int axis = 0; axis < ndim_; ++axis) {
        if (axis > 0) text += ", ";
        text += std::to_string((*this)[axis]);
    }
    return text + (ndim_ == 1 ? ",)" : ")");
}

}  // namespace tack
