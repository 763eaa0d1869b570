#include "element.hpp"

namespace tack::python {
namespace {

template <class T>
nb::object nested(const Shape& shape, int axis, const T*& next) {
    if (axis == shape.ndim()) return from_element(*next++);
    nb::list list;
    for (std::int64_t k = 0; k < shape[axis]; ++k) list.append(nested(shape, axis + 1, next));
    return list;
}

template <class T>
void append_nested(std::string& text, const Shape& shape, const Shape& strides, int axis,
                   const T* first, std::int64_t edge) {
    if (axis == shape.ndim()) return append_element(text, *first);
    const std::int64_t extent = shape[axis];
    text += '[';
    for (std::int64_t k = 0; k < extent; ++k) {
        if (k > 0) text += ", ";
        if (k == edge && extent > 2 * edge) {
            text += "..., ";
            k = extent - edge;
        }
        append_nested(text, shape, strides, axis + 1, first + k * strides[axis], edge);
    }
    text += ']';
}

// Device memory is copied as a whole; host memory is read where it is.
template <class T, class Body>
auto with_elements(const Array& array, Body&& body) {
    if (on_host(array)) return body(static_cast<const T*>(host_address(array)));
    std::vector<char> bytes(static_cast<std::size_t>(array.nbytes()));
    without_gil(array, [&] { array.read(bytes.data(), array.nbytes()); });
    return body(reinterpret_cast<const T*>(bytes.data()));
}

}  // namespace

nb::object nested_lists(const Array& array) {
    return visit(array.dtype(), [&]<class T>(T) {
        return with_elements<T>(array,
                                [&](const T* first) { return nested(array.shape(), 0, first); });
    });
}

std::string summary(const Array& array) {
    constexpr int most_axes = 4;  // the text doubles or worse with each
    if (array.ndim() > most_axes) return "[...]";
    const std::int64_t edge = array.size() <= 32 ? 32 : array.ndim() <= 2 ? 3 : 1;
    std::string text;
    visit(array.dtype(), [&]<class T>(T) {
        append_nested(text, array.shape(), array.shape().c_strides(), 0,
                      static_cast<const T*>(host_address(array)), edge);
    });
    return text;
}

}  // namespace tack::python
