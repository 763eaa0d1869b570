#include "numpy_arrays.hpp"

#include <array>

namespace tack::python {

PyTypeObject* numpy_array_type;

namespace {

// What NumPy's macros PyArray_DATA() and the like read in every extension module that is compiled
// against NumPy 1 or 2. Source: NumPy C API, "PyArrayObject", "Array Scalars".
struct NumpyArray {
    PyObject_HEAD char* data;
    int nd;
    Py_ssize_t* dimensions;
    Py_ssize_t* strides;
    PyObject* base;
    PyObject* descr;
    int flags;
};
struct NumpyScalar {
    PyObject_HEAD char value[8];
};
constexpr int c_contiguous = 0x1, aligned = 0x100, writeable = 0x400, warn_on_write = 1 << 31;

// Entries of the table that numpy.import_array() reads. Source: NumPy C API, "Array API".
using NewFromDescr = PyObject* (*)(PyTypeObject*, PyObject* descr, int nd, const Py_ssize_t* dims,
                                   const Py_ssize_t* strides, void* data, int flags, PyObject*);
using SetBaseObject = int (*)(PyObject* array, PyObject* base);
constexpr int new_from_descr_entry = 94, set_base_object_entry = 282;

/// NumPy's objects for one of Tack's dtypes, which live as long as NumPy.
struct NumpyDtype {
    PyObject* descr;  // of native byte order
    PyObject* scalar_type;
    DType dtype;
};
// The usual ones first: they are searched in this order. bfloat16 is not NumPy's own.
constexpr std::array searched = {DType::float32, DType::float64, DType::int32,  DType::int64,
                                 DType::uint8,   DType::bool_,   DType::int8,   DType::int16,
                                 DType::uint16,  DType::uint32,  DType::uint64, DType::float16};
std::array<NumpyDtype, searched.size()> dtypes;
NewFromDescr new_from_descr;
SetBaseObject set_base_object;

const NumpyDtype* find_scalar_type(PyTypeObject* type) noexcept {
    if (!numpy_array_type) return nullptr;
    for (const NumpyDtype& entry : dtypes)
        if (entry.scalar_type == reinterpret_cast<PyObject*>(type)) return &entry;
    return nullptr;
}

/// The module that has NumPy's C API; null for a major version that is not known.
const char* core_module(nb::handle numpy) {
    const std::string version =
        nb::cast<std::string>(nb::str(nb::getattr(numpy, "__version__", nb::none())));
    if (version.starts_with("1.")) return "numpy.core._multiarray_umath";
    if (version.starts_with("2.")) return "numpy._core._multiarray_umath";
    return nullptr;
}

}  // namespace

bool learn_numpy() {
    if (numpy_array_type) return true;
    const nb::object numpy = loaded_module("numpy");
    // A module that is being imported does not have them all yet.
    if (!numpy.is_valid() || !nb::hasattr(numpy, "ndarray")) return false;
    const char* const core = core_module(numpy);
    if (!core) return false;
    void** const table = static_cast<void**>(PyCapsule_GetPointer(
        nb::object(nb::module_::import_(core).attr("_ARRAY_API")).ptr(), nullptr));
    if (!table) throw nb::python_error();
    new_from_descr = reinterpret_cast<NewFromDescr>(table[new_from_descr_entry]);
    set_base_object = reinterpret_cast<SetBaseObject>(table[set_base_object_entry]);
    for (std::size_t k = 0; k < searched.size(); ++k) {
        const nb::object descr = numpy_dtype(searched[k]);
        dtypes[k] = {nb::borrow(descr).release().ptr(),
                     nb::object(descr.attr("type")).release().ptr(), searched[k]};
    }
    numpy_array_type =
        reinterpret_cast<PyTypeObject*>(nb::object(numpy.attr("ndarray")).release().ptr());
    return true;
}

bool read_numpy_array(PyObject* object, kernel::HostView& view) noexcept {
    const auto& array = *reinterpret_cast<const NumpyArray*>(object);
    constexpr int needed = c_contiguous | aligned;
    if ((array.flags & (needed | warn_on_write)) != needed) return false;
    for (const NumpyDtype& known : dtypes) {
        if (known.descr != array.descr) continue;
        static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
        view.extents = reinterpret_cast<const std::int64_t*>(array.dimensions);
        view.nbytes = itemsize(known.dtype);
        for (int axis = 0; axis < array.nd; ++axis) view.nbytes *= view.extents[axis];
        view.address = array.data;
        view.ndim = array.nd;
        view.dtype = known.dtype;
        view.writable = (array.flags & writeable) != 0;
        return true;
    }
    return false;
}

const void* read_numpy_scalar(PyObject* object, DType& dtype) noexcept {
    const NumpyDtype* known = find_scalar_type(Py_TYPE(object));
    if (!known) return nullptr;
    dtype = known->dtype;
    return reinterpret_cast<NumpyScalar*>(object)->value;
}

bool is_numpy_scalar_type(PyTypeObject* type) noexcept { return find_scalar_type(type) != nullptr; }

nb::object numpy_view(nb::handle object) {
    if (!learn_numpy()) return {};
    const Array& array = *array_of(object.ptr());
    for (const NumpyDtype& known : dtypes) {
        if (known.dtype != array.dtype()) continue;
        const int flags = c_contiguous | aligned | (array.writable() ? writeable : 0);
        const auto* extents = reinterpret_cast<const Py_ssize_t*>(array.shape().data());
        void* address = host_address(array);
        nb::object view =
            nb::steal(new_from_descr(numpy_array_type, Py_NewRef(known.descr), array.ndim(),
                                     extents, nullptr, address, flags, nullptr));
        if (!view.is_valid() || set_base_object(view.ptr(), Py_NewRef(object.ptr())) != 0)
            throw nb::python_error();
        return view;
    }
    return {};
}

}  // namespace tack::python
