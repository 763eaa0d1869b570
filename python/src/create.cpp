#include <vector>

#include "bindings.hpp"

namespace tack::python {
namespace {

Array empty_array(nb::handle shape, nb::handle dtype, nb::handle device, bool exportable) {
    return empty(to_shape(shape, "empty"), to_dtype(dtype, "empty"), to_device(device, "empty"),
                 exportable);
}

Array zeros_array(nb::handle shape, nb::handle dtype, nb::handle device) {
    const Shape extents = to_shape(shape, "zeros");
    const DType element = to_dtype(dtype, "zeros");
    const Device target = device.is_none() ? default_device() : to_device(device, "zeros");
    return without_gil(extents.checked_size(itemsize(element), "zeros") * itemsize(element), target,
                       [&] { return zeros(extents, element, target); });
}

Array filled(nb::handle shape, nb::handle value, nb::handle dtype, nb::handle device,
             const char* operation) {
    Array array =
        empty(to_shape(shape, operation), to_dtype(dtype, operation), to_device(device, operation));
    fill_with(array, value, operation);
    return array;
}

Array wrap_pointer(nb::handle ptr, nb::handle dtype, nb::handle shape, bool writable,
                   nb::handle device) {
    constexpr const char* operation = "array_from_ptr";
    return array_from_ptr(to_address(ptr, operation), to_dtype(dtype, operation),
                          to_shape(shape, operation), to_device(device, operation), writable);
}

Array arange(nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype,
             nb::handle device) {
    nb::object numpy = numpy_module();
    nb::object values = stop.is_none() ? numpy.attr("arange")(nb::int_(0), start, step)
                                       : numpy.attr("arange")(start, stop, step);
    return from_object(values, dtype, to_device(device, "arange"));
}

}  // namespace

Shape to_shape(nb::handle object, const char* operation) {
    const auto extent = [&](PyObject* item) {
        if (!PyIndex_Check(item))
            throw Error(ErrorKind::type, std::string(operation) +
                                             ": shape must be an int or a tuple of ints, not " +
                                             nb::cast<std::string>(nb::repr(object)));
        nb::object integer = nb::steal(PyNumber_Index(item));
        if (!integer.is_valid()) throw nb::python_error();
        const long long value = PyLong_AsLongLong(integer.ptr());
        if (value == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            throw Error(ErrorKind::value, std::string(operation) + ": the extent " +
                                              nb::cast<std::string>(nb::str(integer)) +
                                              " is beyond 64 bits");
        }
        return std::int64_t{value};
    };
    if (PyIndex_Check(object.ptr())) return {extent(object.ptr())};
    // A string is a sequence too, of what are no ints.
    nb::object items = nb::steal(PySequence_Fast(object.ptr(), ""));
    if (!items.is_valid()) {
        PyErr_Clear();
        extent(object.ptr());
    }
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.ptr());
    std::vector<std::int64_t> extents(static_cast<std::size_t>(count));
    for (Py_ssize_t k = 0; k < count; ++k)
        extents[static_cast<std::size_t>(k)] = extent(PySequence_Fast_GET_ITEM(items.ptr(), k));
    return Shape(std::span<const std::int64_t>(extents));
}

void bind_create(nb::module_& m) {
    const nb::handle float32 = dtype_object(DType::float32);
    m.def(
        "array",
        [](nb::handle object, nb::handle dtype, nb::handle device) {
            return from_object(object, dtype, to_device(device, "array"));
        },
        nb::arg("object").none(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
        "A new array with a copy of anything that NumPy reads: lists, numbers, other arrays.\n\n"
        "dtype: NumPy's choice unless given. Big-endian data is TypeError.");
    m.def(
        "empty", &empty_array, nb::arg("shape").none(), nb::arg("dtype").none() = float32,
        nb::arg("device") = nb::none(), nb::arg("exportable") = false,
        "A new array whose elements are not set.\n\n"
        "shape: an int or a tuple, in elements. exportable: memory that export_memory() can hand\n"
        "out without a copy; RuntimeError on a backend that cannot.\n"
        "Raises ValueError for a negative shape, MemoryError when there is too little memory.");
    m.def("zeros", &zeros_array, nb::arg("shape").none(), nb::arg("dtype").none() = float32,
          nb::arg("device") = nb::none(), "A new array of zeros.");
    m.def(
        "ones",
        [](nb::handle shape, nb::handle dtype, nb::handle device) {
            return filled(shape, nb::int_(1), dtype, device, "ones");
        },
        nb::arg("shape").none(), nb::arg("dtype").none() = float32, nb::arg("device") = nb::none(),
        "A new array of ones.");
    m.def(
        "full",
        [](nb::handle shape, nb::handle value, nb::handle dtype, nb::handle device) {
            return filled(shape, value, dtype, device, "full");
        },
        nb::arg("shape").none(), nb::arg("value").none(), nb::arg("dtype").none() = float32,
        nb::arg("device") = nb::none(),
        "A new array of one value, converted as a kernel's cast: saturating, NaN to 0.");
    m.def("arange", &arange, nb::arg("start").none(), nb::arg("stop") = nb::none(),
          nb::arg("step") = 1, nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
          "Evenly spaced values as numpy.arange gives them; one argument is the stop.");
    m.def("array_from_ptr", &wrap_pointer, nb::arg("ptr").none(), nb::arg("dtype").none(),
          nb::arg("shape").none(), nb::arg("writable") = false, nb::arg("device") = nb::none(),
          "Wraps memory that the caller keeps alive until the last array over it is gone.\n\n"
          "ptr: the address as an int, anything with __index__, or a ctypes pointer, aligned for\n"
          "dtype; 0 is legal where the size is 0. shape: extents in elements, C-contiguous.\n"
          "Raises TypeError for a bool, a float or another object; ValueError for an address that\n"
          "is zero, negative, misaligned, not mapped or of another memory space, and for a shape\n"
          "that overflows.");
}

}  // namespace tack::python
