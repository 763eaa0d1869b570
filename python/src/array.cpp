#include "tack/array.hpp"

#include <span>
#include <vector>

#include "bindings.hpp"
#include "element.hpp"
#include "managed_tensor.hpp"

namespace tack::python {

PyTypeObject* array_type;

namespace {

const Array& self_array(PyObject* self) { return *nb::inst_ptr<Array>(self); }

[[noreturn]] void fail_slicing(const Array& array, nb::handle key) {
    throw Error(ErrorKind::type, "Array[...]: " + nb::cast<std::string>(nb::repr(key)) +
                                     " does not name one element of an array of shape " +
                                     array.shape().to_string() +
                                     ": arrays have no slicing. Index every axis with an int, use "
                                     "[...] for the whole, or slice NumPy's view: a.numpy()[...]");
}

void require_writable(const Array& array, const char* operation) {
    if (!array.writable())
        throw Error(ErrorKind::runtime, std::string(operation) +
                                            ": the array is read-only. Write into a copy: "
                                            "a.copy()");
}

bool is_whole(PyObject* key) {
    if (PyTuple_Check(key) && PyTuple_GET_SIZE(key) == 1) key = PyTuple_GET_ITEM(key, 0);
    return key == Py_Ellipsis;
}

// The element's offset; every axis has an index, negative ones count from the end.
std::int64_t element_offset(const Array& array, PyObject* key) {
    const bool is_tuple = PyTuple_Check(key);
    const auto count = static_cast<int>(is_tuple ? PyTuple_GET_SIZE(key) : 1);
    const Shape& shape = array.shape();
    std::int64_t offset = 0;
    for (int axis = 0; axis < count; ++axis) {
        PyObject* item = is_tuple ? PyTuple_GET_ITEM(key, axis) : key;
        if (!PyIndex_Check(item) || PyBool_Check(item)) fail_slicing(array, key);
        const Py_ssize_t given = PyNumber_AsSsize_t(item, PyExc_IndexError);
        if (given == -1 && PyErr_Occurred()) throw nb::python_error();
        if (axis >= shape.ndim()) break;
        const std::int64_t extent = shape[axis];
        const std::int64_t index = given < 0 ? given + extent : given;
        if (index < 0 || index >= extent)
            throw Error(ErrorKind::index, "Array[...]: index " + std::to_string(given) +
                                              " is out of bounds for axis " + std::to_string(axis) +
                                              " with size " + std::to_string(extent));
        offset = offset * extent + index;
    }
    if (count > shape.ndim())
        throw Error(ErrorKind::index, "Array[...]: " + std::to_string(count) +
                                          " indices for an array of shape " + shape.to_string());
    if (count < shape.ndim()) fail_slicing(array, key);
    return offset;
}

/// One element of a device's memory, to be copied from or to there.
Array device_element(const Array& array, std::int64_t offset) {
    auto* first = static_cast<char*>(array.ptr());
    return array_from_ptr(first + offset * itemsize(array.dtype()), array.dtype(), {},
                          array.device(), true);
}

nb::object get_element(const Array& array, std::int64_t offset) {
    return visit(array.dtype(), [&]<class T>(T value) {
        if (on_host(array))
            value = static_cast<const T*>(host_address(array))[offset];
        else
            without_gil(array, [&] { device_element(array, offset).read(&value, sizeof value); });
        return from_element(value);
    });
}

void set_element(const Array& array, std::int64_t offset, nb::handle object) {
    visit(array.dtype(), [&]<class T>(T value) {
        if (on_host(array)) {
            void* first = host_address(array);
            static_cast<T*>(first)[offset] = to_element<T>(object);
            return;
        }
        value = to_element<T>(object);
        without_gil(array, [&] { device_element(array, offset).write(&value, sizeof value); });
    });
}

PyObject* subscript(PyObject* self, PyObject* key) {
    return guarded<PyObject*>(nullptr, [&] {
        if (is_whole(key)) return nb::borrow(self).release().ptr();
        const Array& array = self_array(self);
        return get_element(array, element_offset(array, key)).release().ptr();
    });
}

void assign_whole(PyObject* self, nb::handle value) {
    Array array = self_array(self);
    require_writable(array, "a[...] = value");
    const bool is_number =
        PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr()) || PyBool_Check(value.ptr());
    if (!is_number) return assign_from_numpy(self, value);
    visit(array.dtype(), [&]<class T>(T) {
        fill_with(array, from_element(to_element<T>(value)), "a[...] = value");
    });
}

int assign_subscript(PyObject* self, PyObject* key, PyObject* value) {
    return guarded<int>(-1, [&] {
        if (!value) throw Error(ErrorKind::type, "del a[...]: elements cannot be deleted");
        if (is_whole(key)) {
            assign_whole(self, value);
            return 0;
        }
        const Array& array = self_array(self);
        const std::int64_t offset = element_offset(array, key);
        require_writable(array, "a[i] = value");
        set_element(array, offset, value);
        return 0;
    });
}

Py_ssize_t length(PyObject* self) {
    return guarded<Py_ssize_t>(-1, [&]() -> Py_ssize_t {
        const Array& array = self_array(self);
        if (array.ndim() == 0)
            throw Error(ErrorKind::type, "len: an array of shape () has no length");
        return array.shape()[0];
    });
}

// Python's sequence iterator stops at the IndexError.
PyObject* sequence_item(PyObject* self, Py_ssize_t index) {
    return guarded<PyObject*>(nullptr, [&] {
        const Array& array = self_array(self);
        if (index < 0 || index >= array.shape()[0])
            throw Error(ErrorKind::index, "Array[...]: index out of bounds");
        return get_element(array, index).release().ptr();
    });
}

PyObject* iterate(PyObject* self) {
    return guarded<PyObject*>(nullptr, [&] {
        const Array& array = self_array(self);
        if (array.ndim() != 1)
            throw Error(ErrorKind::type,
                        "iter: only arrays of one axis can be iterated over, not one of shape " +
                            array.shape().to_string() +
                            ". Use a.tolist(), or iterate over NumPy's view: a.numpy()");
        return PySeqIter_New(self);
    });
}

// The struct module's codes, as NumPy gives them for the same dtypes.
const char* buffer_format(DType dtype) {
    switch (dtype) {
        case DType::bool_:
            return "?";
        case DType::int8:
            return "b";
        case DType::int16:
            return "h";
        case DType::int32:
            return "i";
        case DType::int64:
            return sizeof(long) == 8 ? "l" : "q";
        case DType::uint8:
            return "B";
        case DType::uint16:
            return "H";
        case DType::uint32:
            return "I";
        case DType::uint64:
            return sizeof(long) == 8 ? "L" : "Q";
        case DType::float16:
            return "e";
        case DType::float32:
            return "f";
        case DType::float64:
            return "d";
        case DType::bfloat16:
            break;
    }
    throw Error(ErrorKind::buffer,
                "buffer: bfloat16 has no format code. Use a.numpy() with ml_dtypes, or DLPack");
}

bool is_fortran_contiguous(const Array& array) {
    int long_axes = 0;
    for (std::int64_t extent : array.shape()) long_axes += extent > 1;
    return long_axes <= 1 || array.size() == 0;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    view->obj = nullptr;
    return guarded<int>(-1, [&] {
        const Array& array = self_array(self);
        const auto asks = [&](int flag) { return (flags & flag) == flag; };
        if (asks(PyBUF_WRITABLE) && !array.writable())
            throw Error(ErrorKind::buffer, "buffer: the array is read-only");
        if (asks(PyBUF_F_CONTIGUOUS) && !asks(PyBUF_ANY_CONTIGUOUS) &&
            !is_fortran_contiguous(array))
            throw Error(ErrorKind::buffer, "buffer: the array is in C order, not Fortran's");
        if (!on_host(array))
            throw Error(ErrorKind::buffer, "buffer: the array is on " + array.device().to_string() +
                                               ". Use a.numpy() for a copy on the host");
        const char* format = asks(PyBUF_FORMAT) ? buffer_format(array.dtype()) : nullptr;
        Py_ssize_t* strides = nullptr;
        if (asks(PyBUF_STRIDES) && array.ndim() > 0) {
            strides = new Py_ssize_t[static_cast<std::size_t>(array.ndim())];
            const Shape elements = array.shape().c_strides();
            for (int k = 0; k < array.ndim(); ++k)
                strides[k] = elements[k] * itemsize(array.dtype());
        }
        view->buf = host_address(array);
        view->len = array.nbytes();
        view->itemsize = itemsize(array.dtype());
        view->readonly = !array.writable();
        view->format = const_cast<char*>(format);
        view->ndim = asks(PyBUF_ND) ? array.ndim() : 1;
        // The extents live in the array, which the view keeps alive.
        static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
        view->shape =
            asks(PyBUF_ND) && array.ndim() > 0
                ? reinterpret_cast<Py_ssize_t*>(const_cast<std::int64_t*>(array.shape().data()))
                : nullptr;
        view->strides = strides;
        view->suboffsets = nullptr;
        view->internal = strides;
        view->obj = Py_NewRef(self);
        return 0;
    });
}

void release_buffer(PyObject*, Py_buffer* view) {
    delete[] static_cast<Py_ssize_t*>(view->internal);
}

nb::object only_element(const Array& array, const char* operation) {
    if (array.size() != 1)
        throw Error(ErrorKind::value, std::string(operation) + ": an array of shape " +
                                          array.shape().to_string() +
                                          " is not one element. Index one, or use a.tolist()");
    nb::object element = nested_lists(array);
    while (PyList_Check(element.ptr())) element = element[0];
    return element;
}

nb::object item(const Array& array, const nb::args& index) {
    if (index.size() == 0) return only_element(array, "item");
    nb::object key = index.size() == 1 ? nb::object(index[0]) : nb::object(index);
    if (PyTuple_Check(key.ptr()) || array.ndim() == 1)
        return get_element(array, element_offset(array, key.ptr()));
    // As NumPy's: one int counts through all elements in C order.
    return get_element(array, element_offset(array.reshape({array.size()}), key.ptr()));
}

nb::object as_number(const Array& array, PyObject* (*convert)(PyObject*), const char* operation) {
    nb::object result = nb::steal(convert(only_element(array, operation).ptr()));
    if (!result.is_valid()) throw nb::python_error();
    return result;
}

nb::object array_protocol(nb::handle self, nb::handle dtype, nb::handle copy) {
    const Array& array = self_array(self.ptr());
    if (!on_host(array))
        throw Error(ErrorKind::type, "__array__: the array is on " + array.device().to_string() +
                                         ". Use a.numpy() for a copy on the host");
    nb::object view = to_numpy(self);
    const bool must_copy = !copy.is_none() && nb::cast<bool>(nb::bool_(copy));
    if (!dtype.is_none() && !view.attr("dtype").equal(numpy_module().attr("dtype")(dtype))) {
        if (!copy.is_none() && !must_copy)
            throw Error(ErrorKind::value, "__array__: " + std::string(name(array.dtype())) +
                                              " as " + nb::cast<std::string>(nb::str(dtype)) +
                                              " needs a copy, which copy=False forbids");
        return view.attr("astype")(dtype);
    }
    return must_copy ? view.attr("copy")() : view;
}

[[noreturn]] void fail_attribute(const char* why) {
    PyErr_SetString(PyExc_AttributeError, why);
    throw nb::python_error();
}

/// What NumPy's array interface and CUDA's have in common. Its typestr has no bfloat16.
nb::dict interface_of(const Array& array, const void* address) {
    const DType dtype = array.dtype();
    const char kind = dtype == DType::bool_        ? 'b'
                      : is_signed_integer(dtype)   ? 'i'
                      : is_unsigned_integer(dtype) ? 'u'
                                                   : 'f';
    nb::dict interface;
    interface["version"] = 3;
    interface["shape"] = shape_tuple(array.shape());
    interface["typestr"] =
        std::string(itemsize(dtype) == 1 ? "|" : "<") + kind + std::to_string(itemsize(dtype));
    interface["data"] =
        nb::make_tuple(reinterpret_cast<std::uintptr_t>(address), !array.writable());
    interface["strides"] = nb::none();
    return interface;
}

nb::dict array_interface(const Array& array) {
    if (!on_host(array) || array.dtype() == DType::bfloat16)
        fail_attribute("Array has no __array_interface__ for device memory or bfloat16");
    return interface_of(array, host_address(array));
}

nb::dict cuda_array_interface(const Array& array) {
    const Device device = array.device();
    const std::optional<std::int64_t> stream = stream_number(device);
    if (!stream || array.dtype() == DType::bfloat16)
        fail_attribute(
            "Array has a __cuda_array_interface__ on cuda and hip only, and not for bfloat16");
    // An export that is given back at once: the memory stays shared.
    dlpack::ManagedTensorVersioned* exported = export_versioned(array);
    const void* address = exported->dl_tensor.data;
    exported->deleter(exported);
    nb::dict interface = interface_of(array, address);
    // All that was queued has run. The stream is for consumers that order Tack's later work, too.
    interface["stream"] = *stream == 0 ? nb::object(nb::none()) : nb::object(nb::int_(*stream));
    return interface;
}

std::string represent(const Array& array) {
    std::string text = "tack.Array(shape=" + array.shape().to_string() +
                       ", dtype=" + std::string(name(array.dtype())) +
                       ", device=" + array.device().to_string();
    if (!array.writable()) text += ", read-only";
    text += ")";
    if (on_host(array)) text += " " + summary(array);
    return text;
}

Array copy_array(const Array& array) {
    return without_gil(array, [&] { return array.copy(); });
}

nb::tuple reduce(const Array& array) {
    if (!on_host(array))
        throw Error(ErrorKind::type, "pickle: the array is on " + array.device().to_string() +
                                         ". Pickle a.to_device(\"cpu\")");
    return nb::make_tuple(
        nb::module_::import_("tack._core").attr("_from_bytes"),
        nb::make_tuple(nb::bytes(host_address(array), static_cast<std::size_t>(array.nbytes())),
                       dtype_object(array.dtype()), shape_tuple(array.shape())));
}

PyObject* from_bytes(PyObject*, PyObject* arguments) {
    return guarded<PyObject*>(nullptr, [&] {
        PyObject *bytes, *dtype, *shape;
        if (!PyArg_ParseTuple(arguments, "SOO:_from_bytes", &bytes, &dtype, &shape))
            throw nb::python_error();
        Array array =
            empty(to_shape(shape, "unpickle"), to_dtype(dtype, "unpickle"), device("cpu"));
        array.write(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
        return nb::cast(std::move(array)).release().ptr();
    });
}

PyMethodDef functions[] = {
    {"_from_bytes", from_bytes, METH_VARARGS, "An array from its pickled elements."},
    {},
};

PyType_Slot slots[] = {
    {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
    {Py_mp_ass_subscript, reinterpret_cast<void*>(assign_subscript)},
    {Py_mp_length, reinterpret_cast<void*>(length)},
    {Py_sq_length, reinterpret_cast<void*>(length)},
    {Py_sq_item, reinterpret_cast<void*>(sequence_item)},
    {Py_tp_iter, reinterpret_cast<void*>(iterate)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
    {0, nullptr},
};

// The extents where they are exact ints of at most 64 bits, as nearly always.
bool read_extents(PyObject* const* items, Py_ssize_t count, std::int64_t* extents) {
    for (Py_ssize_t k = 0; k < count; ++k) {
        if (!PyLong_CheckExact(items[k])) return false;
        int overflow = 0;
        extents[k] = PyLong_AsLongLongAndOverflow(items[k], &overflow);
        if (overflow != 0) return false;
    }
    return true;
}

// Array.reshape(*shape)
PyObject* reshape(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    return guarded<PyObject*>(nullptr, [&] {
        const bool is_tuple = count == 1 && PyTuple_CheckExact(arguments[0]);
        PyObject* const* items =
            is_tuple ? reinterpret_cast<PyTupleObject*>(arguments[0])->ob_item : arguments;
        const Py_ssize_t ndim = is_tuple ? PyTuple_GET_SIZE(arguments[0]) : count;
        std::int64_t extents[Shape::max_ndim];
        if (ndim <= Shape::max_ndim && read_extents(items, ndim, extents))
            return new_array(self_array(self).reshape(
                Shape(std::span<const std::int64_t>(extents, static_cast<std::size_t>(ndim)))));
        nb::object shape = nb::borrow(arguments[0]);
        if (count != 1) {
            shape = nb::steal(PyTuple_New(count));
            for (Py_ssize_t k = 0; k < count; ++k)
                PyTuple_SET_ITEM(shape.ptr(), k, Py_NewRef(arguments[k]));
        }
        return new_array(self_array(self).reshape(to_shape(shape, "reshape")));
    });
}

PyObject* numpy(PyObject* self, PyObject*) {
    return guarded<PyObject*>(nullptr, [&] { return to_numpy(self).release().ptr(); });
}

PyMethodDef reshape_method = {
    "reshape", as_method(reshape), METH_FASTCALL,
    "reshape($self, /, *shape)\n--\n\n"
    "The same memory under another shape, given as ints or as one tuple.\n\n"
    "One extent may be -1. Raises ValueError when the sizes differ."};
PyMethodDef numpy_method = {
    "numpy", numpy, METH_NOARGS,
    "numpy($self, /)\n--\n\n"
    "A NumPy array over the same host memory, read-only where this array is; a copy of a\n"
    "device's memory.\n\nRaises ImportError for bfloat16 without ml_dtypes."};

}  // namespace

PyObject* new_array(Array array) {
    nb::object object = nb::inst_alloc(reinterpret_cast<PyObject*>(array_type));
    if (!object.is_valid()) throw nb::python_error();
    new (nb::inst_ptr<Array>(object)) Array(std::move(array));
    nb::inst_mark_ready(object);
    return object.release().ptr();
}

void add_method(PyTypeObject* type, PyMethodDef& definition) {
    const nb::object method = nb::steal(PyDescr_NewMethod(type, &definition));
    if (!method.is_valid()) throw nb::python_error();
    nb::handle(reinterpret_cast<PyObject*>(type)).attr(definition.ml_name) = method;
}

nb::tuple shape_tuple(const Shape& shape) {
    nb::object tuple = nb::steal(PyTuple_New(shape.ndim()));
    for (int k = 0; k < shape.ndim(); ++k)
        PyTuple_SET_ITEM(tuple.ptr(), k, PyLong_FromLongLong(shape[k]));
    return nb::borrow<nb::tuple>(tuple);
}

void* host_address(const Array& array) {
    static std::uint64_t nothing;  // consumers of a view take null for a failure
    if (array.size() == 0) return &nothing;
    return visit(array.dtype(),
                 [&]<class T>(T) -> void* { return const_cast<T*>(array.data<const T>()); });
}

Array transfer(const Array& array, const Device& device) {
    const auto copy = [&] { return array.to_device(device); };
    return on_host(array) ? without_gil(array.nbytes(), device, copy) : without_gil(array, copy);
}

void fill_with(Array& array, nb::handle value, const char* operation) {
    double number = 0.0;
    if (PyFloat_Check(value.ptr()) || !PyIndex_Check(value.ptr())) {
        number = PyFloat_AsDouble(value.ptr());
        if (number == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            throw Error(ErrorKind::type, std::string(operation) + ": value must be a number, not " +
                                             class_name(value));
        }
        return without_gil(array, [&] { fill(array, number); });
    }
    nb::object integer = nb::steal(PyNumber_Index(value.ptr()));
    if (!integer.is_valid()) throw nb::python_error();
    int overflow = 0;
    const long long exact = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
    if (overflow == 0) return without_gil(array, [&] { fill(array, std::int64_t{exact}); });
    const unsigned long long wide = PyLong_AsUnsignedLongLong(integer.ptr());
    if (!PyErr_Occurred()) return without_gil(array, [&] { fill(array, std::uint64_t{wide}); });
    PyErr_Clear();
    // Beyond every integer dtype: what a cast gives is decided by the sign and the magnitude.
    number = PyLong_AsDouble(integer.ptr());
    if (PyErr_Occurred()) {
        PyErr_Clear();
        number = overflow * std::numeric_limits<double>::infinity();
    }
    without_gil(array, [&] { fill(array, number); });
}

void bind_array(nb::module_& m) {
    auto type = nb::class_<Array>(
        m, "Array", nb::is_final(), nb::is_weak_referenceable(), nb::pooled(),
        nb::type_slots(slots),
        "C-contiguous elements of one dtype on one device.\n\n"
        "Made by tack.array, empty, zeros, ones, full, arange, from_dlpack and array_from_ptr.\n"
        "a[i, j] reads or writes one element, a[...] = value all of them; there is no slicing.\n"
        "On a device each such access is a copy that waits for queued work.\n"
        "Arrays compare and hash by identity.");
    type.attr("__module__") = "tack";
    array_type = reinterpret_cast<PyTypeObject*>(type.ptr());

    type.def_prop_ro(
            "shape", [](const Array& a) { return shape_tuple(a.shape()); },
            "Extents in elements, outermost first.")
        .def_prop_ro(
            "dtype", [](const Array& a) { return dtype_object(a.dtype()); }, "The element type.")
        .def_prop_ro("ndim", &Array::ndim, "The number of axes.")
        .def_prop_ro("size", &Array::size, "The number of elements.")
        .def_prop_ro("nbytes", &Array::nbytes, "Bytes of all elements.")
        .def_prop_ro(
            "itemsize", [](const Array& a) { return itemsize(a.dtype()); }, "Bytes of one element.")
        .def_prop_ro(
            "strides", [](const Array& a) { return shape_tuple(a.shape().c_strides()); },
            "C-contiguous strides in elements, as DLPack counts them (NumPy's are in bytes).")
        .def_prop_ro(
            "ptr", [](const Array& a) { return reinterpret_cast<std::uintptr_t>(a.ptr()); },
            "The address on the device, as an int; may be 0 where size is 0.")
        .def_prop_ro("device", &Array::device, "The device that holds the elements.")
        .def_prop_ro("writable", &Array::writable,
                     "Whether the elements may be written through this array.")
        .def("copy", &copy_array,
             "New memory with the same elements on the same device, always writable.")
        .def(
            "to_device",
            [](const Array& a, nb::handle name) {
                if (name.is_none())
                    throw Error(ErrorKind::type, "to_device: name a device, such as \"cpu\"");
                const Device target = to_device(name, "to_device");
                return transfer(a, target);
            },
            nb::arg("device").none(),
            "This array if it is there already, else a copy on the device.")
        .def(
            "fill", [](Array& a, nb::handle value) { fill_with(a, value, "fill"); },
            nb::arg("value").none(),
            "Sets every element, converted as a kernel's cast: saturating, NaN to 0.\n\n"
            "Raises RuntimeError for a read-only array.")
        .def("tolist", &nested_lists, "All elements as nested lists of Python's numbers.")
        .def("item", &item, nb::arg("index"),
             "One element as Python's number: the only one, or the one at the index.\n\n"
             "index: an int per axis, or one int that counts in C order.")
        .def(
            "export_memory", [](const Array& a) { return export_memory(a); },
            nb::call_guard<nb::gil_scoped_release>(),
            "The device allocation as an operating system's handle, in plain values.\n\n"
            "An array of empty(..., exportable=True) shares its memory, others a copy of it now.\n"
            "The handle is the array's and closed with it: a consumer that takes it over gets\n"
            "os.dup(record.handle).\n"
            "Raises RuntimeError on a backend that cannot, as on the CPU.")
        .def("__array__", &array_protocol, nb::arg("dtype") = nb::none(),
             nb::arg("copy") = nb::none(), "NumPy 2's conversion: a view unless a copy is needed.")
        .def_prop_ro("__array_interface__", &array_interface, "NumPy's description of host memory.")
        .def_prop_ro("__cuda_array_interface__", &cuda_array_interface,
                     "Numba's and CuPy's description of CUDA and HIP memory, version 3.\n\n"
                     "All work queued on the array has run. stream is the device's, for consumers\n"
                     "that order their work after what is queued there.")
        .def("__bool__",
             [](const Array& a) { return nb::cast<bool>(nb::bool_(only_element(a, "bool"))); })
        .def("__int__", [](const Array& a) { return as_number(a, PyNumber_Long, "int"); })
        .def("__float__", [](const Array& a) { return as_number(a, PyNumber_Float, "float"); })
        .def("__index__", [](const Array& a) { return as_number(a, PyNumber_Index, "index"); })
        .def("__copy__", &copy_array)
        .def(
            "__deepcopy__", [](const Array& a, nb::handle) { return copy_array(a); },
            nb::arg("memo"))
        .def("__reduce__", &reduce)
        .def("__repr__", &represent);

    add_method(array_type, reshape_method);
    add_method(array_type, numpy_method);

    if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw nb::python_error();
}

}  // namespace tack::python
