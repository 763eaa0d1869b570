/// What the binding files share. Each file binds one topic; module.cpp calls them in order.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tack/array.hpp"
#include "tack/device.hpp"
#include "tack/dlpack.hpp"
#include "tack/dtype.hpp"
#include "tack/error.hpp"

namespace tack::python {

namespace nb = nanobind;

void bind_errors(nb::module_& m);
void bind_dtype(nb::module_& m);
void bind_device(nb::module_& m);
void bind_array(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_create(nb::module_& m);
void bind_dlpack(nb::module_& m);
void bind_exchange_api(nb::module_& m);
void bind_asarray(nb::module_& m);
void bind_explain(nb::module_& m);
void bind_cache(nb::module_& m);
void bind_buffer_capsule(nb::module_& m);

// Conversions of arguments. Each throws Error of kind type or value, or nb::python_error; the text
// begins with `operation`.

/// Tack's and NumPy's dtypes, NumPy's scalar types, Python's bool, int and float, and names.
DType to_dtype(nb::handle object, const char* operation);
/// None is the empty handle, which means the default device. Else a Device or a name.
Device to_device(nb::handle object, const char* operation);
/// An int or a sequence of ints.
Shape to_shape(nb::handle object, const char* operation);
/// An int, anything with __index__, or a ctypes pointer.
void* to_address(nb::handle object, const char* operation);
/// A native handle: an int of 64 bits, from 0, and no bool. `subject` says whose value it is and
/// begins with the operation, `expected` what the value may be.
std::uint64_t to_handle(nb::handle object, const std::string& subject,
                        const char* expected = "must be an int");

/// The device's stream as DLPack and the CUDA array interface number it; none where they have no
/// numbers for it.
std::optional<std::int64_t> stream_number(const Device& device);
/// What the device does from now on comes after what a producer has queued on its stream.
void wait_for_producer(const Device& device, std::uint64_t stream, const char* operation);

/// The one Python object of a dtype: tack.float32.
nb::handle dtype_object(DType dtype);
/// The dtype of such an object; false for any other.
bool is_dtype_object(nb::handle object, DType& dtype) noexcept;

/// tack.Array, which cannot be derived from.
extern PyTypeObject* array_type;
/// The array in a tack.Array, or null for any other object. Borrowed from it.
inline Array* array_of(PyObject* object) noexcept {
    return Py_TYPE(object) == array_type ? nb::inst_ptr<Array>(object) : nullptr;
}
/// A new tack.Array, without nanobind's search for one that is at the address of `array` already.
PyObject* new_array(Array array);
nb::tuple shape_tuple(const Shape& shape);
/// Whether the host reaches memory of a DLPack device type at its address.
inline bool is_host_memory(std::int32_t device_type) noexcept {
    return device_type == dlpack::cpu || device_type == dlpack::cuda_host ||
           device_type == dlpack::rocm_host;
}
/// Whether the host may read and write the memory in place.
inline bool on_host(const Array& array) { return is_host_memory(dlpack_device(array).device_type); }
/// The address of host memory, never null: also where the size is 0. Throws runtime for a device's.
void* host_address(const Array& array);
/// array.to_device(device), which copies where the array is not there already.
Array transfer(const Array& array, const Device& device);
/// All elements, as `value` converts by the rules of a kernel's cast.
void fill_with(Array& array, nb::handle value, const char* operation);

/// An array over the memory of a DLPack producer or capsule, never a copy.
Array import_dlpack(PyObject* source, const Device& device, bool writable);
/// A writable copy on `device` or the default device of a producer's host memory, of any strides.
Array import_copy(PyObject* source, const Device& device);
/// Where a producer says that its memory is: none for a capsule and for one that does not say.
std::optional<dlpack::Device> producer_device(PyObject* source);
/// A producer's capsule, or the capsule that `source` is. stream: which the producer orders its
/// queued work before, as stream_number() gives it, or -1 for no order; none for host memory.
nb::object request_capsule(PyObject* source, std::optional<std::int64_t> stream = std::nullopt);
/// Throws what is wrong with what request_capsule() gave.
[[noreturn]] void fail_capsule(nb::handle capsule);
/// An exporter that refuses writable access is read-only, though a legacy capsule cannot say so.
bool buffer_is_read_only(PyObject* source);

// numpy_bridge.cpp; NumPy is imported by the first call.
nb::object numpy_module();
/// The module if something has imported it already, else null.
nb::object loaded_module(const char* name);
/// Throws ImportError for bfloat16 without ml_dtypes.
nb::object numpy_dtype(DType dtype);
/// A view of host memory (read-only where the array is), a copy of a device's.
nb::object to_numpy(nb::handle array);
/// NumPy's assignment: a[...] = value with its broadcasting and casting.
void assign_from_numpy(nb::handle array, nb::handle value);
/// A new array with the elements of anything that NumPy reads.
Array from_object(nb::handle object, nb::handle dtype, const Device& device);

inline std::string class_name(nb::handle object) {
    return nb::cast<std::string>(nb::object(object.type().attr("__name__")));
}

/// A function that takes its arguments as a C array, for a PyMethodDef.
template <class F>
PyCFunction as_method(F* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
/// Adds a method that nanobind would be slow to call.
void add_method(PyTypeObject* type, PyMethodDef& definition);

/// Sets the Python error of the exception being handled.
void set_python_error() noexcept;
/// Before 3.14, Python ends a thread that wants the GIL while the interpreter closes by unwinding
/// it, which would end the process where C++ lets nothing out. Such a thread stops here for good.
[[noreturn]] inline void stop_thread() noexcept {
    for (;;) pause();
}

/// The border of a function that Python calls without nanobind's help.
template <class R, class Body>
R guarded(R failure, Body&& body) noexcept {
    try {
        return body();
    } catch (abi::__forced_unwind&) {
        stop_thread();
    } catch (...) {
        set_python_error();
        return failure;
    }
}

template <class Body>
decltype(auto) without_gil_if(bool wanted, Body&& body) {
    if (!wanted) return body();
    nb::gil_scoped_release release;
    return body();
}
/// Whether others would notice that the GIL is kept during work on memory: on so many bytes, or on
/// a device's, which comes after all that is queued there.
inline bool is_noticeable(std::int64_t nbytes, bool of_host) noexcept {
    return nbytes >= (1 << 20) || !of_host;
}
/// Lets go of the GIL around noticeable work on the array.
template <class Body>
decltype(auto) without_gil(const Array& array, Body&& body) {
    return without_gil_if(is_noticeable(array.nbytes(), on_host(array)), body);
}
/// The same for an array that `body` makes on `target`.
template <class Body>
decltype(auto) without_gil(std::int64_t nbytes, const Device& target, Body&& body) {
    return without_gil_if(is_noticeable(nbytes, target.name() == "cpu"), body);
}
/// Lets go of the GIL around what waits for the work that is queued on the array's device.
template <class Body>
decltype(auto) while_waiting(const Array& array, Body&& body) {
    return without_gil_if(!on_host(array), body);
}

/// Calls `body` with a value of the C++ type of `dtype`.
template <class Body>
decltype(auto) visit(DType dtype, Body&& body) {
    switch (dtype) {
        case DType::bool_:
            return body(bool{});
        case DType::int8:
            return body(std::int8_t{});
        case DType::int16:
            return body(std::int16_t{});
        case DType::int32:
            return body(std::int32_t{});
        case DType::int64:
            return body(std::int64_t{});
        case DType::uint8:
            return body(std::uint8_t{});
        case DType::uint16:
            return body(std::uint16_t{});
        case DType::uint32:
            return body(std::uint32_t{});
        case DType::uint64:
            return body(std::uint64_t{});
        case DType::float16:
            return body(float16{});
        case DType::bfloat16:
            return body(bfloat16{});
        case DType::float32:
            return body(float{});
        case DType::float64:
            break;
    }
    return body(double{});
}

}  // namespace tack::python
