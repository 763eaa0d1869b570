/// Single elements between C++ and Python, and indices into an array.
#pragma once

#include <charconv>
#include <limits>

#include "bindings.hpp"

namespace tack::python {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

template <class T>
nb::object from_element(T value) {
    if constexpr (std::is_same_v<T, bool>)
        return nb::bool_(value);
    else if constexpr (std::is_integral_v<T>)
        return nb::int_(value);
    else if constexpr (is_half<T>)
        return nb::float_(static_cast<float>(value));
    else
        return nb::float_(value);
}

/// By NumPy's rules for a Python scalar: floats are truncated to integers, an integer beyond the
/// dtype's range is OverflowError and NaN as an integer ValueError.
template <class T>
T to_element(nb::handle value) {
    if constexpr (std::is_same_v<T, bool>) {
        const int truth = PyObject_IsTrue(value.ptr());
        if (truth < 0) throw nb::python_error();
        return truth != 0;
    } else if constexpr (std::is_integral_v<T>) {
        nb::object integer;
        if (PyIndex_Check(value.ptr())) {
            integer = nb::steal(PyNumber_Index(value.ptr()));
        } else {
            const double number = PyFloat_AsDouble(value.ptr());
            if (number == -1.0 && PyErr_Occurred()) throw nb::python_error();
            integer = nb::steal(PyLong_FromDouble(number));
        }
        if (!integer.is_valid()) throw nb::python_error();
        using Widest = std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>;
        Widest wide;
        if constexpr (std::is_signed_v<T>)
            wide = PyLong_AsLongLong(integer.ptr());
        else
            wide = PyLong_AsUnsignedLongLong(integer.ptr());
        const bool too_wide = PyErr_Occurred() != nullptr;
        if (too_wide || wide < std::numeric_limits<T>::min() ||
            wide > std::numeric_limits<T>::max()) {
            PyErr_Clear();
            PyErr_Format(PyExc_OverflowError, "%S is out of range for %s", integer.ptr(),
                         name(dtype_of<T>).data());
            throw nb::python_error();
        }
        return static_cast<T>(wide);
    } else {
        const double number = PyFloat_AsDouble(value.ptr());
        if (number == -1.0 && PyErr_Occurred()) throw nb::python_error();
        return static_cast<T>(number);
    }
}

/// The shortest text that reads back as the same element: "0.1", "True", "-3".
template <class T>
void append_element(std::string& text, T value) {
    if constexpr (std::is_same_v<T, bool>) {
        text += value ? "True" : "False";
    } else if constexpr (is_half<T>) {
        append_element(text, static_cast<float>(value));
    } else {
        char buffer[32];
        char* end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
        const std::string_view digits(buffer, static_cast<std::size_t>(end - buffer));
        text += digits;
        if (std::is_floating_point_v<T> && digits.find_first_of(".en") == digits.npos) text += ".0";
    }
}

/// All elements as Python's nested lists.
nb::object nested_lists(const Array& array);
/// The elements on one line, those in the middle of long axes left out.
std::string summary(const Array& array);

}  // namespace tack::python
