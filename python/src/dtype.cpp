#include "bindings.hpp"

namespace tack::python {
namespace {

struct DTypeObject {
    PyObject head;
    DType value;
};

// One object per dtype, kept until the process ends, as Python's own constants are.
PyTypeObject* dtype_type;
PyObject* dtype_objects[dtype_count];

DType value_of(PyObject* self) { return reinterpret_cast<DTypeObject*>(self)->value; }

nb::str name_of(DType dtype) {
    const std::string_view text = name(dtype);
    return nb::str(text.data(), text.size());
}

DType from_numpy_dtype(nb::handle dtype, const char* operation) {
    const std::string text = nb::cast<std::string>(nb::str(dtype));
    if (!nb::cast<bool>(dtype.attr("isnative")))
        throw Error(ErrorKind::type, std::string(operation) + ": dtype '" + text +
                                         "' is big-endian, which Tack does not hold. Convert with "
                                         "x.astype(x.dtype.newbyteorder('='))");
    const std::string canonical = nb::cast<std::string>(dtype.attr("name"));
    for (int k = 0; k < dtype_count; ++k)
        if (name(static_cast<DType>(k)) == canonical) return static_cast<DType>(k);
    throw Error(ErrorKind::type,
                std::string(operation) + ": Tack has no dtype for NumPy's '" + text +
                    "'. It has bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32 "
                    "and float64; convert with x.astype(...)");
}

[[noreturn]] void fail_not_a_dtype(nb::handle object, const char* operation) {
    throw Error(ErrorKind::type, std::string(operation) + ": " +
                                     nb::cast<std::string>(nb::repr(object)) +
                                     " is not a dtype. Pass one like tack.float32, numpy.float32 "
                                     "or \"float32\"");
}

PyObject* dtype_new(PyTypeObject*, PyObject* arguments, PyObject* keywords) {
    return guarded<PyObject*>(nullptr, [&] {
        PyObject* object = nullptr;
        static const char* names[] = {"", nullptr};
        if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:DType", const_cast<char**>(names),
                                         &object))
            throw nb::python_error();
        return dtype_object(to_dtype(object, "DType")).inc_ref().ptr();
    });
}

PyObject* dtype_repr(PyObject* self) {
    return guarded<PyObject*>(
        nullptr, [&] { return (nb::str("tack.") + name_of(value_of(self))).release().ptr(); });
}

Py_hash_t dtype_hash(PyObject* self) {
    return guarded<Py_hash_t>(-1, [&] { return PyObject_Hash(name_of(value_of(self)).ptr()); });
}

PyObject* dtype_compare(PyObject* self, PyObject* other, int operation) {
    if (operation != Py_EQ && operation != Py_NE) Py_RETURN_NOTIMPLEMENTED;
    bool equal = self == other;
    if (!equal && !Py_IS_TYPE(other, dtype_type)) {
        const bool is_string = PyUnicode_Check(other);
        // Nothing but a string can mean a dtype unless NumPy is there, which == must not import.
        if (!is_string && !loaded_module("numpy").is_valid()) Py_RETURN_NOTIMPLEMENTED;
        try {
            equal = to_dtype(other, "==") == value_of(self);
        } catch (const Error&) {
            equal = false;
        } catch (nb::python_error&) {
            equal = false;
        }
    }
    return PyBool_FromLong(equal == (operation == Py_EQ));
}

PyObject* dtype_call(PyObject* self, PyObject* arguments, PyObject* keywords) {
    return guarded<PyObject*>(nullptr, [&] {
        nb::object scalar_type = numpy_dtype(value_of(self)).attr("type");
        PyObject* result = PyObject_Call(scalar_type.ptr(), arguments, keywords);
        if (!result) throw nb::python_error();
        return result;
    });
}

PyObject* dtype_reduce(PyObject* self, PyObject*) {
    return guarded<PyObject*>(nullptr, [&] { return name_of(value_of(self)).release().ptr(); });
}

PyObject* get_name(PyObject* self, void*) { return dtype_reduce(self, nullptr); }
PyObject* get_itemsize(PyObject* self, void*) {
    return PyLong_FromLongLong(itemsize(value_of(self)));
}

PyGetSetDef dtype_getset[] = {
    {"name", get_name, nullptr, "NumPy's name of the dtype, such as \"float32\".", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {},
};
PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, "Pickles by name."},
    {},
};
PyType_Slot dtype_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("DType(object, /)\n--\n\n"
                       "The element type of an array: one of tack.bool, int8 ... uint64, float16,\n"
                       "bfloat16, float32 and float64.\n\n"
                       "Equal to NumPy's dtype and to the name. Calling one converts a number to\n"
                       "NumPy's scalar of it; inside a kernel it is a cast.\n"
                       "Raises TypeError for an object that means no dtype that Tack has.")},
    {Py_tp_new, reinterpret_cast<void*>(dtype_new)},
    {Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
    {Py_tp_hash, reinterpret_cast<void*>(dtype_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(dtype_compare)},
    {Py_tp_call, reinterpret_cast<void*>(dtype_call)},
    {Py_tp_getset, dtype_getset},
    {Py_tp_methods, dtype_methods},
    {0, nullptr},
};
PyType_Spec dtype_spec = {"tack.DType", sizeof(DTypeObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, dtype_slots};

}  // namespace

nb::handle dtype_object(DType dtype) { return dtype_objects[static_cast<int>(dtype)]; }

bool is_dtype_object(nb::handle object, DType& dtype) noexcept {
    if (!Py_IS_TYPE(object.ptr(), dtype_type)) return false;
    dtype = value_of(object.ptr());
    return true;
}

DType to_dtype(nb::handle object, const char* operation) {
    DType dtype;
    if (is_dtype_object(object, dtype)) return dtype;
    if (PyUnicode_Check(object.ptr())) {
        const std::string text = nb::cast<std::string>(object);
        for (int k = 0; k < dtype_count; ++k)
            if (name(static_cast<DType>(k)) == text) return static_cast<DType>(k);
    } else if (object.is(&PyBool_Type)) {
        return DType::bool_;
    } else if (object.is(&PyLong_Type)) {
        return DType::int64;
    } else if (object.is(&PyFloat_Type)) {
        return DType::float64;
    } else if (nb::object numpy = loaded_module("numpy"); !numpy.is_valid()) {
        fail_not_a_dtype(object, operation);
    } else if (nb::isinstance(object, numpy.attr("dtype"))) {
        return from_numpy_dtype(object, operation);
    } else if (!PyType_Check(object.ptr()) ||
               !nb::cast<bool>(nb::module_::import_("builtins")
                                   .attr("issubclass")(object, numpy.attr("generic")))) {
        fail_not_a_dtype(object, operation);
    }
    nb::object converted;
    try {
        converted = numpy_module().attr("dtype")(object);
    } catch (nb::python_error& error) {
        if (!error.matches(PyExc_TypeError)) throw;
        fail_not_a_dtype(object, operation);
    }
    return from_numpy_dtype(converted, operation);
}

void bind_dtype(nb::module_& m) {
    dtype_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&dtype_spec));
    if (!dtype_type) throw nb::python_error();
    m.attr("DType") = nb::handle(reinterpret_cast<PyObject*>(dtype_type));
    for (int k = 0; k < dtype_count; ++k) {
        PyObject* object = dtype_type->tp_alloc(dtype_type, 0);
        if (!object) throw nb::python_error();
        const auto dtype = static_cast<DType>(k);
        reinterpret_cast<DTypeObject*>(object)->value = dtype;
        dtype_objects[k] = object;
        nb::setattr(m, name_of(dtype), nb::handle(object));
    }
}

}  // namespace tack::python
