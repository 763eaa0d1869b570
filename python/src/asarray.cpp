#include "view.hpp"

namespace tack::python {
namespace {

enum class Copy { never, if_needed, always };

Copy to_copy(nb::handle copy) {
    if (copy.is_none()) return Copy::if_needed;
    return nb::cast<bool>(nb::bool_(copy)) ? Copy::always : Copy::never;
}

/// A copy on `device` of host memory that cannot be viewed for its strides or alignment.
Array copy_of(PyObject* object, Protocol protocol, const Device& device) {
    const bool speaks_dlpack = protocol == Protocol::dlpack || protocol == Protocol::capsule;
    return speaks_dlpack ? import_copy(object, device) : from_object(object, nb::none(), device);
}

Array asarray(nb::handle object, nb::handle dtype, const Device& device, Copy copy) {
    const Protocol protocol = protocol_of(object.ptr());
    if (protocol == Protocol::none) {
        if (copy == Copy::never)
            throw Error(ErrorKind::value, "asarray: a " + class_name(object) +
                                              " shares no memory, and copy=False forbids a copy. "
                                              "Pass copy=None");
        return from_object(object, dtype, device);
    }
    Array array;
    bool is_new = false;
    try {
        array = view_of(object.ptr(), copy == Copy::never ? device : Device());
    } catch (const Error& error) {
        const bool would_copy =
            error.kind() == ErrorKind::non_contiguous || error.kind() == ErrorKind::value;
        // NumPy, which would copy, does not read a device's memory.
        if (copy == Copy::never || !would_copy || protocol == Protocol::cuda_array_interface) throw;
        try {
            array = copy_of(object.ptr(), protocol, device);
        } catch (const Error& copying) {
            // A device's memory is not copied here; what is wrong with it is what to say.
            if (copying.kind() == ErrorKind::runtime) throw Error(error);
            throw;
        }
        is_new = true;
    }
    if (const DType wanted = dtype.is_none() ? array.dtype() : to_dtype(dtype, "asarray");
        wanted != array.dtype()) {
        if (copy == Copy::never)
            throw Error(ErrorKind::value, "asarray: " + std::string(name(array.dtype())) + " as " +
                                              std::string(name(wanted)) +
                                              " needs a copy, which copy=False forbids. Pass "
                                              "copy=None");
        return from_object(nb::cast(array), dtype, device ? device : array.device());
    }
    if (device && array.device() != device) return transfer(array, device);
    if (copy == Copy::always && !is_new) return without_gil(array, [&] { return array.copy(); });
    return array;
}

/// The same error under the name of the function that the user called.
[[noreturn]] void rethrow_as(const char* operation, const Error& error) {
    const std::string_view text = error.what();
    const std::size_t colon = text.find(": ");
    throw Error(error.kind(), operation + std::string(text.substr(colon == text.npos ? 0 : colon)));
}

}  // namespace

void bind_asarray(nb::module_& m) {
    m.def(
        "asarray",
        [](nb::handle object, nb::handle dtype, nb::handle device, nb::handle copy) {
            try {
                const Array array =
                    asarray(object, dtype, to_device(device, "asarray"), to_copy(copy));
                const Array* own = array_of(object.ptr());
                return own && own->state() == array.state() ? nb::borrow(object) : nb::cast(array);
            } catch (const Error& error) {
                rethrow_as("asarray", error);
            }
        },
        nb::arg("object").none(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
        nb::arg("copy") = nb::none(),
        "An array over the object's memory, by DLPack, the CUDA array interface, NumPy's or the\n"
        "buffer protocol, in this order; an array of Tack's is given back as it is.\n\n"
        "copy: None copies where there is nothing to view (lists, other strides, another dtype or\n"
        "device), False refuses instead, True always copies. A view is as writable as its memory:\n"
        "bytes give a read-only array.\n"
        "Raises ValueError where copy=False forbids the copy (NonContiguousError for strides),\n"
        "TypeError for elements that are no numbers or big-endian, RuntimeError for a device\n"
        "that cannot wrap the memory, and what the producer raises.");
}

}  // namespace tack::python
