#include "kernel/types.hpp"

#include <algorithm>

namespace tack::kernel {

namespace {

int bits(DType d) { return static_cast<int>(itemsize(d)) * 8; }

DType signed_of(int width) {
    return width == 8    ? DType::int8
           : width == 16 ? DType::int16
           : width == 32 ? DType::int32
                         : DType::int64;
}

/// An integer beside a 16-, 32- or 64-bit float: the float must hold the integer's values.
DType promote_with_float(DType floating, DType integer) {
    const int width = bits(integer);
    if (floating == DType::float64 || width >= 32) return DType::float64;
    if (floating == DType::float32 || width == 16) return DType::float32;
    return floating;
}

}  // namespace

DType promote(DType a, DType b) {
    if (a == b) return a;
    if (a == DType::bool_) return b;
    if (b == DType::bool_) return a;
    if (is_floating(a) && is_floating(b)) {
        if (bits(a) != bits(b)) return bits(a) > bits(b) ? a : b;
        return DType::float32;  // float16 and bfloat16
    }
    if (is_floating(a)) return promote_with_float(a, b);
    if (is_floating(b)) return promote_with_float(b, a);
    if (is_signed_integer(a) == is_signed_integer(b)) return bits(a) > bits(b) ? a : b;
    const DType s = is_signed_integer(a) ? a : b;
    const DType u = is_signed_integer(a) ? b : a;
    if (bits(s) > bits(u)) return s;
    return bits(u) == 64 ? DType::float64 : signed_of(bits(u) * 2);
}

Type promote(Type a, Type b) {
    if (!a.known) return b;
    if (!b.known) return a;
    if (a.weak == Weak::none && b.weak == Weak::none) return strong(promote(a.dtype, b.dtype));
    if (a.weak != Weak::none && b.weak != Weak::none) {
        // floating over index over integer
        if (a.weak == Weak::floating || b.weak == Weak::floating) return weak_float_type;
        return a.weak == Weak::index || b.weak == Weak::index ? index_type : weak_int_type;
    }
    const Type w = a.weak != Weak::none ? a : b;
    const DType d = a.weak != Weak::none ? b.dtype : a.dtype;
    if (is_floating(d)) return strong(d);
    switch (w.weak) {
        case Weak::floating:
            return strong(DType::float64);
        case Weak::index:
            return strong(d == DType::uint64 ? d : DType::int64);
        default:
            return strong(d == DType::bool_ ? DType::int64 : d);
    }
}

Type join(Type local, Type value) {
    // A literal above int64 has only uint64 to live in.
    if (value.weak == Weak::integer)
        value = value.dtype == DType::uint64 ? strong(DType::uint64) : index_type;
    return local.known ? promote(local, value) : value;
}

Type to_floating(Type type) {
    if (!type.known || is_floating(type.dtype)) return type;
    return type.weak == Weak::none ? strong(DType::float64) : weak_float_type;
}

bool fits(DType dtype, std::int64_t value, bool is_unsigned) {
    if (is_unsigned && value < 0) return dtype == DType::uint64 || is_floating(dtype);
    const int width = bits(dtype);
    if (is_signed_integer(dtype))
        return width == 64 || (value >= -(1LL << (width - 1)) && value < (1LL << (width - 1)));
    if (is_unsigned_integer(dtype)) return value >= 0 && (width == 64 || value < (1LL << width));
    return true;
}

}  // namespace tack::kernel
