#include "arguments.hpp"

#include "view.hpp"

namespace tack::python {

namespace {

/// The bytes of a NumPy (or ml_dtypes) scalar, through the array that any of them makes.
kernel::Argument numpy_scalar(PyObject* object) {
    const nb::object array = numpy_module().attr("asarray")(nb::handle(object));
    const DType dtype = to_dtype(array.attr("dtype"), "scalar");
    const nb::bytes bytes = nb::cast<nb::bytes>(array.attr("tobytes")());
    return kernel::Argument::scalar(dtype, bytes.c_str());
}

bool is_numpy_scalar(PyObject* object) {
    const nb::object numpy = loaded_module("numpy");
    return numpy.is_valid() && PyObject_IsInstance(object, numpy.attr("generic").ptr()) == 1;
}

/// The same error, saying which argument of what it is about.
[[noreturn]] void rethrow_for(const char* kernel, PyObject* name) {
    const std::string prefix =
        std::string(kernel) + ": parameter '" + nb::cast<std::string>(nb::handle(name)) + "': ";
    try {
        throw;
    } catch (const Error& error) {
        throw Error(error.kind(), prefix + error.what());
    } catch (nb::python_error& error) {
        // How a producer says that DLPack cannot describe its memory.
        if (!error.matches(PyExc_BufferError)) throw;
        throw Error(ErrorKind::buffer, prefix + nb::cast<std::string>(nb::str(error.value())));
    }
}

}  // namespace

Arguments::Arguments(const char* kernel, PyObject* names, PyObject* const* objects,
                     std::size_t count)
    : count_(count) {
    if (count > inline_capacity) {
        more_.resize(count);
        data_ = more_.data();
        more_views_.resize(count);
        views_ = more_views_.data();
    }
    for (std::size_t k = 0; k < count; ++k) {
        PyObject* object = objects[k];
        if (const Array* array = array_of(object)) {
            data_[k] = kernel::Argument(*array);
        } else if (PyFloat_CheckExact(object)) {
            data_[k] = kernel::Argument::weak(PyFloat_AS_DOUBLE(object));
        } else if (PyLong_CheckExact(object) || !borrow(object, data_[k], views_[k])) {
            try {
                data_[k] = convert(object, views_[k]);
            } catch (...) {
                rethrow_for(kernel, PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(k)));
            }
        }
    }
}

kernel::Argument Arguments::convert(PyObject* object, kernel::HostView& view) {
    if (PyBool_Check(object)) {
        const bool value = object == Py_True;
        return kernel::Argument::scalar(DType::bool_, &value);
    }
    if (PyLong_Check(object)) return convert_integer(object);
    kernel::Argument borrowed;
    if (learn_type(Py_TYPE(object)) && borrow(object, borrowed, view)) return borrowed;
    if (is_numpy_scalar(object)) return numpy_scalar(object);
    if (PyFloat_Check(object)) return kernel::Argument::weak(PyFloat_AS_DOUBLE(object));
    return convert_other(object);
}

kernel::Argument Arguments::convert_integer(PyObject* object) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (!overflow) return kernel::Argument::weak(static_cast<std::int64_t>(value));
    if (overflow > 0) {
        const unsigned long long large = PyLong_AsUnsignedLongLong(object);
        if (!PyErr_Occurred()) return kernel::Argument::weak(static_cast<std::uint64_t>(large));
        PyErr_Clear();
    }
    throw Error(ErrorKind::value, "the int " + nb::cast<std::string>(nb::str(nb::handle(object))) +
                                      " has more than 64 bits; pass a float");
}

kernel::Argument Arguments::convert_other(PyObject* object) {
    if (protocol_of(object) == Protocol::none)
        throw Error(ErrorKind::type, "expected an array or a number, not a " + class_name(object) +
                                         "; make one with tack.array(...)");
    imported_.push_back(view_of(object));
    const Array& array = imported_.back();
    // Other libraries' zero-dimensional arrays are their scalars.
    if (array.ndim() == 0 && on_host(array))
        return kernel::Argument::scalar(array.dtype(), host_address(array));
    return kernel::Argument(array);
}

}  // namespace tack::python
