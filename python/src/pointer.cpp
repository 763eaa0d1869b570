#include "bindings.hpp"

namespace tack::python {
namespace {

// c_void_p and POINTER(T); null for anything else. Nothing is one unless ctypes is loaded.
nb::object ctypes_address(nb::handle object) {
    nb::object ctypes = loaded_module("ctypes");
    if (!ctypes.is_valid()) return {};
    nb::object void_pointer = ctypes.attr("c_void_p");
    nb::object value;
    if (nb::isinstance(object, void_pointer))
        value = object.attr("value");
    else if (nb::isinstance(object, ctypes.attr("_Pointer")))
        value = ctypes.attr("cast")(object, void_pointer).attr("value");
    else
        return {};
    return value.is_none() ? nb::object(nb::int_(0)) : value;
}

}  // namespace

void* to_address(nb::handle object, const char* operation) {
    nb::object integer;
    if (!PyBool_Check(object.ptr())) {
        if (PyIndex_Check(object.ptr())) {
            integer = nb::steal(PyNumber_Index(object.ptr()));
            if (!integer.is_valid()) PyErr_Clear();
        } else {
            integer = ctypes_address(object);
        }
    }
    if (!integer.is_valid())
        throw Error(ErrorKind::type, std::string(operation) +
                                         ": ptr must be an int, an object with __index__ or a "
                                         "ctypes pointer, not " +
                                         class_name(object));
    const unsigned long long address = PyLong_AsUnsignedLongLong(integer.ptr());
    if (PyErr_Occurred()) {
        PyErr_Clear();
        throw Error(ErrorKind::value, std::string(operation) + ": " +
                                          nb::cast<std::string>(nb::str(integer)) +
                                          " is not an address: it is negative or beyond 64 bits");
    }
    return reinterpret_cast<void*>(address);
}

}  // namespace tack::python
