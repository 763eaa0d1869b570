#include <vector>

#include "bindings.hpp"
#include "numpy_arrays.hpp"

namespace tack::python {
namespace {

// The contiguous bytes of an object with the buffer protocol.
struct Bytes {
    Py_buffer view;

    explicit Bytes(nb::handle object, int flags = PyBUF_SIMPLE) {
        if (PyObject_GetBuffer(object.ptr(), &view, flags) != 0) throw nb::python_error();
    }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    ~Bytes() { PyBuffer_Release(&view); }
};

void write_bytes(Array& array, nb::handle contiguous) {
    const Bytes bytes(contiguous);
    without_gil(array, [&] { array.write(bytes.view.buf, bytes.view.len); });
}

// bfloat16 without ml_dtypes: from float64, so that each value is rounded once.
void write_as_bfloat16(Array& array, nb::handle values) {
    const Bytes bytes(values);
    const auto* doubles = static_cast<const double*>(bytes.view.buf);
    std::vector<bfloat16> rounded(static_cast<std::size_t>(array.size()));
    for (std::size_t k = 0; k < rounded.size(); ++k) rounded[k] = bfloat16(doubles[k]);
    without_gil(array, [&] { array.write(rounded.data(), array.nbytes()); });
}

// The bytes of ml_dtypes' bfloat16 cannot be had through the buffer protocol.
nb::object as_bytes(nb::object values, DType dtype) {
    return dtype == DType::bfloat16 ? nb::object(values.attr("view")("uint16")) : values;
}

Shape shape_of(nb::handle numpy_array) { return to_shape(numpy_array.attr("shape"), "array"); }

nb::object c_ordered(nb::handle object, nb::handle dtype) {
    return numpy_module().attr("array")(object, dtype, nb::arg("order") = "C");
}

}  // namespace

nb::object numpy_module() { return nb::module_::import_("numpy"); }

nb::object loaded_module(const char* name) {
    nb::object module = nb::steal(PyImport_GetModule(nb::str(name).ptr()));
    if (!module.is_valid() && PyErr_Occurred()) throw nb::python_error();
    return module;
}

nb::object numpy_dtype(DType dtype) {
    nb::object numpy = numpy_module();
    if (dtype != DType::bfloat16) {
        const std::string_view text = name(dtype);
        return numpy.attr("dtype")(nb::str(text.data(), text.size()));
    }
    try {
        return numpy.attr("dtype")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
    } catch (nb::python_error& error) {
        if (!error.matches(PyExc_ImportError)) throw;
        nb::raise_from(error, PyExc_ImportError,
                       "numpy: NumPy has no bfloat16 of its own. Install ml_dtypes, or convert to "
                       "float32");
    }
}

nb::object to_numpy(nb::handle object) {
    const Array& array = *array_of(object.ptr());
    const bool in_place = on_host(array);
    if (nb::object view = in_place ? numpy_view(object) : nb::object(); view.is_valid())
        return view;
    nb::object numpy = numpy_module();
    nb::object dtype = numpy_dtype(array.dtype());
    nb::tuple shape = shape_tuple(array.shape());
    if (in_place) return numpy.attr("ndarray")(shape, dtype, nb::arg("buffer") = object);
    nb::object copy = numpy.attr("empty")(shape, dtype);
    const Bytes bytes(as_bytes(copy, array.dtype()), PyBUF_WRITABLE);
    without_gil(array, [&] { array.read(bytes.view.buf, array.nbytes()); });
    return copy;
}

void assign_from_numpy(nb::handle object, nb::handle value) {
    Array& array = *array_of(object.ptr());
    nb::object source = array_of(value.ptr()) ? to_numpy(value) : nb::borrow(value);
    const bool in_place = on_host(array);
    nb::object target = in_place ? to_numpy(object)
                                 : nb::object(numpy_module().attr("empty")(
                                       shape_tuple(array.shape()), numpy_dtype(array.dtype())));
    target[nb::ellipsis()] = source;
    if (!in_place) write_bytes(array, as_bytes(target, array.dtype()));
}

Array from_object(nb::handle object, nb::handle dtype, const Device& device) {
    constexpr const char* operation = "array";
    const Device target = device ? device : default_device();
    const DType wanted = dtype.is_none() ? DType::bool_ : to_dtype(dtype, operation);
    if (const Array* array = array_of(object.ptr());
        array && (dtype.is_none() || wanted == array->dtype()))
        return array->device() == target ? without_gil(*array, [&] { return array->copy(); })
                                         : transfer(*array, target);
    nb::object source = array_of(object.ptr()) ? to_numpy(object) : nb::borrow(object);
    if (!dtype.is_none() && wanted == DType::bfloat16) {
        nb::object values = c_ordered(source, numpy_dtype(DType::float64));
        Array result = empty(shape_of(values), wanted, target);
        write_as_bfloat16(result, values);
        return result;
    }
    nb::object values = c_ordered(source, dtype.is_none() ? nb::none() : numpy_dtype(wanted));
    Array result = empty(shape_of(values), to_dtype(values.attr("dtype"), operation), target);
    write_bytes(result, as_bytes(values, result.dtype()));
    return result;
}

}  // namespace tack::python
