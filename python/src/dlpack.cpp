#include "tack/dlpack.hpp"

#include <cstring>

#include "bindings.hpp"
#include "borrow.hpp"
#include "exchange.hpp"
#include "interop/dlpack_types.hpp"
#include "interop/host_view.hpp"
#include "managed_tensor.hpp"
#include "numpy_arrays.hpp"
#include "torch_tensors.hpp"

namespace tack::python {
namespace {

using dlpack::ManagedTensor;
using dlpack::ManagedTensorVersioned;

// The two layouts differ in where the tensor lies and in the capsule's name.
template <class Managed>
struct Capsule;
template <>
struct Capsule<ManagedTensor> {
    static constexpr const char* name = "dltensor";
    static constexpr const char* used = "used_dltensor";
};
template <>
struct Capsule<ManagedTensorVersioned> {
    static constexpr const char* name = "dltensor_versioned";
    static constexpr const char* used = "used_dltensor_versioned";
};

// Made once and kept until the process ends.
PyObject* dlpack_method;         // "__dlpack__"
PyObject* dlpack_device_method;  // "__dlpack_device__"
PyObject* max_version_keyword;   // ("max_version",)
PyObject* stream_keyword;        // ("stream",)
PyObject* both_keywords;         // ("max_version", "stream")
PyObject* highest_version;       // (1, 0)
PyObject* host_device;           // (kDLCPU, 0)
struct {
    PyObject *max_version, *copy, *dl_device, *stream, *device;
} keywords;

/// Callers' keywords are nearly always interned: their text is compared only where they are not.
bool is_keyword(PyObject* given, PyObject* interned) {
    if (given == interned) return true;
    return !PyUnicode_CHECK_INTERNED(given) && PyUnicode_Compare(given, interned) == 0;
}

// export

// Runs at interpreter exit too, when nothing of Python but the capsule's own functions is left.
template <class Managed>
void destroy_capsule(PyObject* capsule) {
    // A consumer that has taken the tensor over has renamed the capsule.
    const char* name = PyCapsule_GetName(capsule);
    if (name != Capsule<Managed>::name && !PyCapsule_IsValid(capsule, Capsule<Managed>::name))
        return;
    auto* tensor = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    if (tensor->deleter) tensor->deleter(tensor);
}

template <class Managed>
PyObject* new_capsule(Managed* tensor) {
    PyObject* capsule = PyCapsule_New(tensor, Capsule<Managed>::name, destroy_capsule<Managed>);
    if (!capsule) {
        if (tensor->deleter) tensor->deleter(tensor);
        throw nb::python_error();
    }
    return capsule;
}

bool wants_versioned(PyObject* max_version) {
    if (max_version == Py_None) return false;
    if (!PyTuple_Check(max_version) || PyTuple_GET_SIZE(max_version) != 2 ||
        !PyLong_Check(PyTuple_GET_ITEM(max_version, 0)) ||
        !PyLong_Check(PyTuple_GET_ITEM(max_version, 1)))
        throw Error(ErrorKind::type,
                    "__dlpack__: max_version must be None or a tuple of two ints, "
                    "such as (1, 0), not " +
                        nb::cast<std::string>(nb::repr(max_version)));
    if (PyTuple_GET_ITEM(max_version, 0) == PyTuple_GET_ITEM(highest_version, 0)) return true;
    int overflow = 0;
    const long major = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(max_version, 0), &overflow);
    return overflow > 0 || major >= 1;
}

PyObject* export_capsule(const Array& array, PyObject* max_version) {
    if (wants_versioned(max_version)) return new_capsule(export_versioned(array));
    return new_capsule(while_waiting(array, [&] { return to_dlpack(array); }));
}

// Array.__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)
PyObject* array_dlpack(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* names) {
    return guarded<PyObject*>(nullptr, [&] {
        if (count != 0) throw Error(ErrorKind::type, "__dlpack__: takes keyword arguments only");
        PyObject* max_version = Py_None;
        for (Py_ssize_t k = 0; k < (names ? PyTuple_GET_SIZE(names) : 0); ++k) {
            PyObject* keyword = PyTuple_GET_ITEM(names, k);
            if (is_keyword(keyword, keywords.max_version)) {
                max_version = arguments[k];
            } else if (is_keyword(keyword, keywords.copy)) {
                const int copy = PyObject_IsTrue(arguments[k]);
                if (copy < 0) throw nb::python_error();
                if (copy)
                    throw Error(ErrorKind::buffer,
                                "__dlpack__: copy=True is not offered, an export is always a view. "
                                "Export a.copy()");
            } else if (!is_keyword(keyword, keywords.dl_device) &&
                       !is_keyword(keyword, keywords.stream)) {
                throw Error(ErrorKind::type, "__dlpack__: unexpected keyword argument " +
                                                 nb::cast<std::string>(nb::repr(keyword)));
            }
        }
        return export_capsule(*nb::inst_ptr<Array>(self), max_version);
    });
}

PyObject* array_dlpack_device(PyObject* self, PyObject*) {
    return guarded<PyObject*>(nullptr, [&] {
        const dlpack::Device device = dlpack_device(*nb::inst_ptr<Array>(self));
        if (device.device_type == dlpack::cpu) return Py_NewRef(host_device);
        return nb::make_tuple(device.device_type, device.device_id).release().ptr();
    });
}

// import

constexpr bool is_foreign_major(const ManagedTensor&) { return false; }
bool is_foreign_major(const ManagedTensorVersioned& tensor) { return tensor.version.major > 1; }

template <class Managed>
Array adopt(PyObject* capsule, const Device& device, bool writable) {
    auto* tensor = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Capsule<Managed>::name));
    // All that may be done with it is to call its deleter, which libtack does as it refuses.
    if (is_foreign_major(*tensor)) PyCapsule_SetName(capsule, Capsule<Managed>::used);
    Array array = from_dlpack(tensor, device, writable, delete_with_gil<Managed>);
    PyCapsule_SetName(capsule, Capsule<Managed>::used);
    return array;
}

}  // namespace

bool buffer_is_read_only(PyObject* source) {
    if (!PyObject_CheckBuffer(source)) return false;
    Py_buffer view;
    if (PyObject_GetBuffer(source, &view, PyBUF_FULL) != 0) {
        PyErr_Clear();
        return true;
    }
    PyBuffer_Release(&view);
    return false;
}

std::optional<dlpack::Device> producer_device(PyObject* source) {
    if (PyCapsule_CheckExact(source) || Py_TYPE(source) == numpy_array_type) return std::nullopt;
    const nb::object pair =
        nb::steal(PyObject_VectorcallMethod(dlpack_device_method, &source, 1, nullptr));
    if (!pair.is_valid()) {
        // What is wrong with the tensor its __dlpack__ will say.
        if (!PyErr_ExceptionMatches(PyExc_Exception)) throw nb::python_error();
        PyErr_Clear();
        return std::nullopt;
    }
    dlpack::Device device;
    if (!PyTuple_Check(pair.ptr()) || PyTuple_GET_SIZE(pair.ptr()) != 2 ||
        !nb::try_cast(nb::object(pair[0]), device.device_type) ||
        !nb::try_cast(nb::object(pair[1]), device.device_id))
        return std::nullopt;
    return device;
}

nb::object request_capsule(PyObject* source, std::optional<std::int64_t> stream) {
    if (PyCapsule_CheckExact(source)) return nb::borrow(source);
    const ArrayKind kind = array_kind(source);
    if (kind.is_torch) require_plain_torch_tensor(source);
    const nb::object number = stream ? nb::object(nb::int_(*stream)) : nb::object();
    // A producer that predates DLPack 1.0 does not know max_version, and some know no stream: a
    // TypeError says so. NumPy refuses any stream, so that producers of host memory get none.
    struct Form {
        PyObject* keywords;
        PyObject* first;
        PyObject* second;
    };
    const Form forms[] = {{both_keywords, highest_version, number.ptr()},
                          {stream_keyword, number.ptr(), nullptr},
                          {max_version_keyword, highest_version, nullptr},
                          {nullptr, nullptr, nullptr}};
    std::optional<nb::python_error> refusal;
    for (const Form* form = stream ? forms : forms + 2;; ++form) {
        PyObject* arguments[] = {source, form->first, form->second};
        PyObject* capsule = PyObject_VectorcallMethod(dlpack_method, arguments, 1, form->keywords);
        if (capsule) return nb::steal(capsule);
        if (kind.is_torch && !PyErr_ExceptionMatches(PyExc_TypeError))
            throw_export_error(source, true);
        nb::python_error error;
        if (error.matches(PyExc_AttributeError) && !PyObject_HasAttr(source, dlpack_method)) {
            if (kind.api) return nb::steal(new_capsule(export_exchange(source, kind)));
            throw Error(ErrorKind::type, "from_dlpack: " + class_name(source) +
                                             " has no __dlpack__ method and is no capsule. Use "
                                             "tack.array() for a copy of what NumPy reads");
        }
        if (refusal) PyException_SetCause(error.value().ptr(), refusal->value().inc_ref().ptr());
        if (!error.matches(PyExc_TypeError) || form == std::end(forms) - 1) throw error;
        if (!refusal) refusal.emplace(error);
    }
}

void fail_capsule(nb::handle capsule) {
    if (!PyCapsule_CheckExact(capsule.ptr()))
        throw Error(ErrorKind::type, "from_dlpack: __dlpack__ returned " + class_name(capsule) +
                                         " instead of a capsule");
    const char* name = PyCapsule_GetName(capsule.ptr());
    const std::string text = name ? name : "without a name";
    throw Error(ErrorKind::value,
                text.starts_with("used_dltensor")
                    ? "from_dlpack: the capsule has been consumed already (it is named '" + text +
                          "'). Ask the producer for another"
                    : "from_dlpack: a capsule named '" + text +
                          "' holds no DLPack tensor (expected dltensor or dltensor_versioned)");
}

namespace {

bool holds_device_memory(PyObject* capsule) {
    const dlpack::Tensor* tensor = nullptr;
    if (PyCapsule_IsValid(capsule, Capsule<ManagedTensorVersioned>::name)) {
        const auto* managed = static_cast<const ManagedTensorVersioned*>(
            PyCapsule_GetPointer(capsule, Capsule<ManagedTensorVersioned>::name));
        if (!is_foreign_major(*managed)) tensor = &managed->dl_tensor;
    } else if (PyCapsule_IsValid(capsule, Capsule<ManagedTensor>::name)) {
        tensor = &static_cast<const ManagedTensor*>(
                      PyCapsule_GetPointer(capsule, Capsule<ManagedTensor>::name))
                      ->dl_tensor;
    }
    return tensor && !is_host_memory(tensor->device.device_type);
}

/// A capsule whose producer has ordered its queued work before that of the importing device.
/// Asking each object where its memory is would take JAX, for one, half as long as its capsule.
nb::object request_ordered(PyObject* source, const Device& wanted) {
    nb::object capsule;
    if (PyCapsule_CheckExact(source) || array_kind(source).on_host) {
        capsule = request_capsule(source);
        if (PyCapsule_CheckExact(source) || !holds_device_memory(capsule.ptr())) return capsule;
    }
    const std::optional<dlpack::Device> where = producer_device(source);
    const bool host = !where || is_host_memory(where->device_type);
    learn_place(Py_TYPE(source), host);
    if (host) return capsule.is_valid() ? capsule : request_capsule(source);
    std::optional<std::int64_t> stream;
    {
        const nb::gil_scoped_release release;  // the first use of a device starts its driver
        stream = stream_number(importing_device(*where, wanted));
    }
    capsule.reset();
    return request_capsule(source, stream);
}

}  // namespace

Array import_dlpack(PyObject* source, const Device& device, bool writable) {
    kernel::HostView view;
    if (borrow(source, view) || (learn_type(Py_TYPE(source)) && borrow(source, view))) {
        view.writable = view.writable && writable;
        return wrap_host(view, device, Hold(drop_reference, Py_NewRef(source)));
    }
    if (const ArrayKind kind = array_kind(source); kind.api)
        return import_exchange(source, kind, device, writable);
    nb::object capsule = request_ordered(source, device);
    if (PyCapsule_IsValid(capsule.ptr(), Capsule<ManagedTensorVersioned>::name))
        return adopt<ManagedTensorVersioned>(capsule.ptr(), device, writable);
    if (PyCapsule_IsValid(capsule.ptr(), Capsule<ManagedTensor>::name))
        return adopt<ManagedTensor>(capsule.ptr(), device,
                                    writable && !buffer_is_read_only(source));
    fail_capsule(capsule);
}

namespace {

// Copies elements in C order from any strides; returns where the next ones go.
char* gather(char* target, const char* source, const dlpack::Tensor& tensor, std::int64_t itemsize,
             int axis) {
    if (axis == tensor.ndim) {
        std::memcpy(target, source, static_cast<std::size_t>(itemsize));
        return target + itemsize;
    }
    for (std::int64_t k = 0; k < tensor.shape[axis]; ++k)
        target = gather(target, source + k * tensor.strides[axis] * itemsize, tensor, itemsize,
                        axis + 1);
    return target;
}

template <class Managed>
Array copy_tensor(PyObject* capsule, const Device& device) {
    auto* tensor = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Capsule<Managed>::name));
    if (is_foreign_major(*tensor)) return adopt<Managed>(capsule, device, true);
    const dlpack::Tensor source = tensor->dl_tensor;
    const std::int32_t type = source.device.device_type;
    if (!is_host_memory(type))
        throw Error(
            ErrorKind::runtime,
            "from_dlpack: copy=True takes host memory, not a tensor of " + device_type_name(type) +
                ". Import it where it is, contiguous, and copy: from_dlpack(x).to_device(...)");

    // A contiguous stand-in lets libtack judge the dtype and shape; its elements are never read.
    Managed stand_in = *tensor;
    alignas(16) static char no_elements[16];
    stand_in.deleter = nullptr;
    stand_in.dl_tensor.device = {dlpack::cpu, 0};
    if (source.data) stand_in.dl_tensor.data = no_elements;
    stand_in.dl_tensor.strides = nullptr;
    stand_in.dl_tensor.byte_offset = 0;
    const Device host = tack::device("cpu");
    const Array layout = from_dlpack(&stand_in, host);

    Array copy = empty(layout.shape(), layout.dtype(), host);
    // Taken over, so that no other thread's consumer can release it during the copy.
    PyCapsule_SetName(capsule, Capsule<Managed>::used);
    without_gil(copy, [&] {
        if (copy.size() == 0) return;
        const auto* first = static_cast<const char*>(source.data) + source.byte_offset;
        auto* target = static_cast<char*>(host_address(copy));
        if (source.strides)
            gather(target, first, source, itemsize(copy.dtype()), 0);
        else
            std::memcpy(target, first, static_cast<std::size_t>(copy.nbytes()));
    });
    delete_with_gil<Managed>(tensor);
    return copy.to_device(device ? device : default_device());
}

}  // namespace

Array import_copy(PyObject* source, const Device& device) {
    nb::object numpy = loaded_module("numpy");
    if (numpy.is_valid() && nb::isinstance(nb::handle(source), numpy.attr("ndarray")))
        return from_object(source, nb::none(), device);
    nb::object capsule = request_capsule(source);
    if (PyCapsule_IsValid(capsule.ptr(), Capsule<ManagedTensorVersioned>::name))
        return copy_tensor<ManagedTensorVersioned>(capsule.ptr(), device);
    if (PyCapsule_IsValid(capsule.ptr(), Capsule<ManagedTensor>::name))
        return copy_tensor<ManagedTensor>(capsule.ptr(), device);
    fail_capsule(capsule);
}

namespace {

// from_dlpack(source, /, *, device=None, copy=False)
PyObject* from_dlpack_function(PyObject*, PyObject* const* arguments, Py_ssize_t count,
                               PyObject* names) {
    return guarded<PyObject*>(nullptr, [&] {
        if (count != 1)
            throw Error(ErrorKind::type,
                        "from_dlpack: takes one positional argument, not " + std::to_string(count));
        Device device;
        bool copy = false;
        for (Py_ssize_t k = 0; k < (names ? PyTuple_GET_SIZE(names) : 0); ++k) {
            PyObject* keyword = PyTuple_GET_ITEM(names, k);
            PyObject* value = arguments[count + k];
            if (is_keyword(keyword, keywords.device)) {
                device = to_device(value, "from_dlpack");
            } else if (is_keyword(keyword, keywords.copy)) {
                const int truth = PyObject_IsTrue(value);
                if (truth < 0) throw nb::python_error();
                copy = truth != 0;
            } else {
                throw Error(ErrorKind::type, "from_dlpack: unexpected keyword argument " +
                                                 nb::cast<std::string>(nb::repr(keyword)));
            }
        }
        return new_array(copy ? import_copy(arguments[0], device)
                              : import_dlpack(arguments[0], device, true));
    });
}

PyMethodDef functions[] = {
    {"from_dlpack", as_method(from_dlpack_function), METH_FASTCALL | METH_KEYWORDS,
     "from_dlpack($module, source, /, *, device=None, copy=False)\n--\n\n"
     "An array over another library's memory, without a copy unless copy=True.\n\n"
     "source: an object with __dlpack__, or a capsule. device: where to import; by default the\n"
     "default device where it can wrap the tensor, else the tensor's own. The array is writable\n"
     "unless the producer says otherwise. copy=True copies any host tensor to device= or the\n"
     "default device.\n"
     "Raises NonContiguousError for strides other than C order; ValueError for a consumed capsule\n"
     "and for null or misaligned data; TypeError for a dtype that Tack does not have and for an\n"
     "object that does not speak DLPack; RuntimeError for a device that cannot wrap the tensor."},
    {},
};

PyMethodDef array_dlpack_definition = {
    "__dlpack__", as_method(array_dlpack), METH_FASTCALL | METH_KEYWORDS,
    "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
    "A DLPack capsule over the array's memory, which stays alive until the consumer is done.\n\n"
    "max_version: (1, 0) and above give a versioned capsule, which says whether the array is\n"
    "read-only. stream and dl_device are accepted and not used: all work on the array has run.\n"
    "Raises BufferError for copy=True."};
PyMethodDef array_device_definition = {"__dlpack_device__", array_dlpack_device, METH_NOARGS,
                                       "__dlpack_device__($self, /)\n--\n\n"
                                       "The DLPack device type and the device's index."};

PyObject* checked(PyObject* object) {
    if (!object) throw nb::python_error();
    return object;
}

}  // namespace

void bind_dlpack(nb::module_& m) {
    const auto intern = [](const char* text) { return checked(PyUnicode_InternFromString(text)); };
    dlpack_method = intern("__dlpack__");
    dlpack_device_method = intern("__dlpack_device__");
    keywords = {intern("max_version"), intern("copy"), intern("dl_device"), intern("stream"),
                intern("device")};
    max_version_keyword = checked(PyTuple_Pack(1, keywords.max_version));
    stream_keyword = checked(PyTuple_Pack(1, keywords.stream));
    both_keywords = checked(PyTuple_Pack(2, keywords.max_version, keywords.stream));
    highest_version = nb::make_tuple(1, 0).release().ptr();
    host_device = nb::make_tuple(static_cast<int>(dlpack::cpu), 0).release().ptr();

    add_method(array_type, array_dlpack_definition);
    add_method(array_type, array_device_definition);
    if (PyModule_AddFunctions(m.ptr(), functions) != 0) throw nb::python_error();
    m.def(
        "array_to_dlpack",
        [](const Array& array, nb::handle max_version) {
            return nb::steal(export_capsule(array, max_version.ptr()));
        },
        nb::arg("array"), nb::arg("max_version") = nb::none(),
        "A DLPack capsule over the array's memory; what Array.__dlpack__ returns.");
    m.def(
        "dlpack_to_array",
        [](nb::handle source, bool writable, nb::handle device) {
            return import_dlpack(source.ptr(), to_device(device, "dlpack_to_array"), writable);
        },
        nb::arg("source").none(), nb::arg("writable") = true, nb::arg("device") = nb::none(),
        "An array over the memory of a DLPack producer or capsule, never a copy.\n\n"
        "writable: False makes the array read-only whatever the producer says.");
    m.def("live_exports", &live_exports,
          "How many exported tensors have not been given back through their deleter.");
}

}  // namespace tack::python
