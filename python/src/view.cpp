#include "view.hpp"

#include <cstdlib>
#include <memory>
#include <vector>

#include "backend/backend.hpp"
#include "exchange.hpp"
#include "managed_tensor.hpp"

namespace tack::python {
namespace {

/// A managed tensor that keeps a Python object, and a buffer of it where there is one.
struct Described {
    dlpack::ManagedTensorVersioned managed{};
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;  // in elements
    nb::object owner;
    Py_buffer buffer{};

    Described() {
        managed.version = {1, 3};
        managed.manager_ctx = this;
        managed.deleter = [](dlpack::ManagedTensorVersioned* self) {
            delete static_cast<Described*>(self->manager_ctx);
        };
    }
    Described(const Described&) = delete;
    Described& operator=(const Described&) = delete;
    ~Described() {
        if (buffer.obj) PyBuffer_Release(&buffer);
    }

    /// byte_strides: null means C-contiguous.
    void set_layout(const std::int64_t* byte_strides, std::int64_t itemsize) {
        managed.dl_tensor.ndim = static_cast<std::int32_t>(shape.size());
        managed.dl_tensor.shape = shape.data();
        if (!byte_strides) return;
        for (std::size_t axis = 0; axis < shape.size(); ++axis) {
            if (shape[axis] > 1 && byte_strides[axis] % itemsize != 0)
                throw Error(ErrorKind::non_contiguous,
                            "asarray: the stride of " + std::to_string(byte_strides[axis]) +
                                " bytes in axis " + std::to_string(axis) +
                                " is no whole number of elements of " + std::to_string(itemsize) +
                                " bytes. Pass a contiguous copy, or copy=None");
            strides.push_back(byte_strides[axis] / itemsize);
        }
        managed.dl_tensor.strides = strides.data();
    }
    void set_memory(void* address, dlpack::DataType type, bool read_only) {
        managed.dl_tensor.data = address;
        managed.dl_tensor.device = {dlpack::cpu, 0};
        managed.dl_tensor.dtype = type;
        if (read_only) managed.flags = dlpack::flag_read_only;
    }
};

[[noreturn]] void refuse_elements(const std::string& text, const char* why) {
    throw Error(ErrorKind::type, "asarray: elements of the format '" + text + "' " + why);
}

void require_native_order(char order, std::int64_t itemsize, const std::string& text) {
    if ((order == '>' || order == '!') && itemsize > 1)
        refuse_elements(text,
                        "are big-endian, and arrays have the machine's order. Convert them first: "
                        "x.astype(x.dtype.newbyteorder(\"=\"))");
}

dlpack::DataType element_type(std::uint8_t code, std::int64_t itemsize) {
    if (itemsize < 1 || itemsize > 16)
        throw Error(ErrorKind::type, "asarray: elements of " + std::to_string(itemsize) +
                                         " bytes are no numbers. Pass bool, integers or floats");
    return {code, static_cast<std::uint8_t>(itemsize * 8), 1};
}

/// From a code of the struct module, as the buffer protocol uses them.
dlpack::DataType type_of_format(const std::string& text, std::int64_t itemsize) {
    const bool has_order = !text.empty() && std::string_view("@=<>!").find(text[0]) < 5;
    if (has_order) require_native_order(text[0], itemsize, text);
    const std::string code = text.substr(has_order);
    const auto is_one_of = [&](std::string_view codes) {
        return code.size() == 1 && codes.find(code[0]) != codes.npos;
    };
    if (is_one_of("?")) return element_type(dlpack::code_bool, itemsize);
    if (is_one_of("bhilqn")) return element_type(dlpack::code_int, itemsize);
    if (is_one_of("BHILQN")) return element_type(dlpack::code_uint, itemsize);
    if (is_one_of("efdg")) return element_type(dlpack::code_float, itemsize);
    if (code == "Zf" || code == "Zd") return element_type(dlpack::code_complex, itemsize);
    refuse_elements(text, "are no numbers. Pass bool, integers or floats");
}

/// From a typestr of the array interface: order, kind, bytes.
dlpack::DataType type_of_typestr(nb::handle object, const std::string& text,
                                 std::int64_t itemsize) {
    require_native_order(text[0], itemsize, text);
    switch (text[1]) {
        case 'b':
            return element_type(dlpack::code_bool, itemsize);
        case 'i':
            return element_type(dlpack::code_int, itemsize);
        case 'u':
            return element_type(dlpack::code_uint, itemsize);
        case 'f':
            return element_type(dlpack::code_float, itemsize);
        case 'c':
            return element_type(dlpack::code_complex, itemsize);
        case 'V':
            // How NumPy spells ml_dtypes' bfloat16.
            if (itemsize == 2 && nb::hasattr(object, "dtype") &&
                to_dtype(object.attr("dtype"), "asarray") == DType::bfloat16)
                return element_type(dlpack::code_bfloat, 2);
            break;
        default:
            break;
    }
    refuse_elements(text, "are no numbers. Pass bool, integers or floats");
}

bool has_attribute(PyObject* object, const char* name) {
    return PyObject_HasAttrString(object, name) != 0;
}

// The array interface of a NumPy scalar names memory that is gone before one can look.
bool is_numpy_scalar(PyObject* object) {
    const nb::object numpy = loaded_module("numpy");
    return numpy.is_valid() && PyObject_IsInstance(object, numpy.attr("generic").ptr()) == 1;
}

}  // namespace

Protocol protocol_after_dlpack(PyObject* object) {
    if (has_attribute(object, "__cuda_array_interface__")) return Protocol::cuda_array_interface;
    if (has_attribute(object, "__array_interface__")) return Protocol::array_interface;
    return PyObject_CheckBuffer(object) ? Protocol::buffer : Protocol::none;
}

Protocol protocol_of(PyObject* object) {
    if (array_of(object)) return Protocol::tack;
    if (PyCapsule_CheckExact(object)) return Protocol::capsule;
    // A type has what its objects have.
    if (PyType_Check(object) || is_numpy_scalar(object)) return Protocol::none;
    if (array_kind(object).api || has_attribute(object, "__dlpack__")) return Protocol::dlpack;
    return protocol_after_dlpack(object);
}

namespace {

bool has_address(nb::handle interface) {
    const nb::object data = interface.attr("get")("data");
    return PyTuple_Check(data.ptr()) && PyTuple_GET_SIZE(data.ptr()) == 2;
}

/// From NumPy's array interface or CUDA's, which describe memory in the same way.
std::unique_ptr<Described> described_by(PyObject* object, const char* attribute,
                                        const nb::object& interface) {
    const std::string whose =
        std::string("asarray: the ") + attribute + " of a " + class_name(object);
    if (!has_address(interface))
        throw Error(ErrorKind::type, whose + " gives no address. Pass an array made of it");
    const nb::object data = interface.attr("get")("data");
    if (!interface.attr("get")("mask").is_none())
        throw Error(
            ErrorKind::type,
            whose + " has a mask, which arrays do not. Fill what is masked, or pass the data");
    const auto text = nb::cast<std::string>(nb::str(nb::object(interface["typestr"])));
    if (text.size() < 3) refuse_elements(text, "are no numbers. Pass bool, integers or floats");
    const std::int64_t itemsize = std::strtoll(text.c_str() + 2, nullptr, 10);
    const Shape shape = to_shape(interface["shape"], "asarray");
    const nb::object given = interface.attr("get")("strides");
    const Shape strides = given.is_none() ? Shape() : to_shape(given, "asarray");
    if (!given.is_none() && strides.ndim() != shape.ndim())
        throw Error(ErrorKind::value, whose + " has strides " + strides.to_string() +
                                          " for the shape " + shape.to_string() +
                                          ". Give one for each extent");

    auto described = std::make_unique<Described>();
    // The dict too, since the address may be of something that only it holds.
    described->owner = nb::make_tuple(nb::handle(object), interface);
    described->shape.assign(shape.begin(), shape.end());
    described->set_memory(to_address(nb::object(data[0]), "asarray"),
                          type_of_typestr(object, text, itemsize),
                          nb::cast<bool>(nb::bool_(nb::object(data[1]))));
    described->set_layout(given.is_none() ? nullptr : strides.data(), itemsize);
    return described;
}

/// The next device of the same backend, or an empty handle.
Device candidate_after(const Device& last, const Device& first) {
    for (int index = last == first ? 0 : last.index() + 1;; ++index) {
        if (index == first.index()) continue;
        try {
            return device(first.name(), index);
        } catch (const Error& error) {
            if (error.kind() != ErrorKind::runtime) throw;
            return {};
        }
    }
}

bool knows(const Device& device, const void* address) {
    try {
        device.backend().check_wrappable(address, 1, false, "asarray");
        return true;
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::value) throw;
        return false;
    }
}

/// Where the memory is, which CUDA's array interface does not say: on `wanted`, else on the default
/// device or the first CUDA device, or on another one of theirs that knows the address.
Device device_of(const void* address, const Device& wanted) {
    if (wanted) return wanted;
    Device first = default_device();
    if (!stream_number(first)) first = importing_device({dlpack::cuda, 0});
    // Of an address that the driver does not know no device is asked for, since that starts it.
    if (!address || first.memory_space(address).backend != first.name()) return first;
    for (Device device = first; device; device = candidate_after(device, first))
        if (knows(device, address)) return device;
    return first;
}

}  // namespace

dlpack::ManagedTensorVersioned* interface_tensor(PyObject* object) {
    constexpr const char* attribute = "__array_interface__";
    const nb::object interface = nb::handle(object).attr(attribute);
    if (!has_address(interface) && PyObject_CheckBuffer(object)) return buffer_tensor(object);
    return &described_by(object, attribute, interface).release()->managed;
}

CudaArray cuda_array(PyObject* object) {
    constexpr const char* attribute = "__cuda_array_interface__";
    const nb::object interface = nb::handle(object).attr(attribute);
    CudaArray result;
    const nb::object stream = interface.attr("get")("stream");
    if (!stream.is_none()) {
        const std::string whose =
            "asarray: the stream in the __cuda_array_interface__ of a " + class_name(object);
        result.stream = to_handle(stream, whose);
        if (*result.stream == 0)
            throw Error(ErrorKind::value,
                        whose +
                            " is 0, which the interface forbids: it could be the legacy "
                            "stream, 1, or the calling thread's own, 2. Give one of these, or "
                            "None where there is no work to wait for");
    }
    std::unique_ptr<Described> described = described_by(object, attribute, interface);
    described->managed.dl_tensor.device = {dlpack::cuda, 0};
    result.tensor = &described.release()->managed;
    return result;
}

Device place_cuda_array(dlpack::ManagedTensorVersioned* tensor, const Device& wanted) {
    const Device device = device_of(tensor->dl_tensor.data, wanted);
    const auto type = device.name() == "hip" ? dlpack::rocm : dlpack::cuda;
    // Another backend refuses what is CUDA's, on whichever of its devices.
    tensor->dl_tensor.device = {type, stream_number(device) ? device.index() : 0};
    return device;
}

dlpack::ManagedTensorVersioned* buffer_tensor(PyObject* object) {
    auto described = std::make_unique<Described>();
    Py_buffer& buffer = described->buffer;
    if (PyObject_GetBuffer(object, &buffer, PyBUF_RECORDS_RO) != 0) throw nb::python_error();
    described->shape.assign(buffer.shape, buffer.shape + buffer.ndim);
    const std::vector<std::int64_t> strides(buffer.strides,
                                            buffer.strides + (buffer.strides ? buffer.ndim : 0));
    described->set_memory(buffer.buf,
                          type_of_format(buffer.format ? buffer.format : "B", buffer.itemsize),
                          buffer.readonly != 0);
    described->set_layout(buffer.strides ? strides.data() : nullptr, buffer.itemsize);
    return &described.release()->managed;
}

namespace {

Array view_cuda_array(PyObject* object, const Device& wanted) {
    const CudaArray source = cuda_array(object);
    Device device;
    try {
        device = place_cuda_array(source.tensor, wanted);
    } catch (...) {
        source.tensor->deleter(source.tensor);
        throw;
    }
    Array array = adopt_tensor(source.tensor, device, true);
    if (source.stream) wait_for_producer(device, *source.stream, "asarray");
    return array;
}

}  // namespace

Array view_of(PyObject* object, const Device& device) {
    Protocol protocol = protocol_of(object);
    if (protocol == Protocol::dlpack || protocol == Protocol::capsule) {
        try {
            return import_dlpack(object, device, true);
        } catch (nb::python_error& refusal) {
            // NumPy gives no capsule of bfloat16, which the array interface can describe.
            protocol = protocol_after_dlpack(object);
            if (!refusal.matches(PyExc_BufferError) || protocol == Protocol::none) throw;
        }
    }
    switch (protocol) {
        case Protocol::tack:
            if (const Array& array = *array_of(object); !device || array.device() == device)
                return array;
            return import_dlpack(object, device, true);
        case Protocol::cuda_array_interface:
            return view_cuda_array(object, device);
        case Protocol::array_interface:
            return adopt_tensor(interface_tensor(object), device, true);
        case Protocol::buffer:
            return adopt_tensor(buffer_tensor(object), device, true);
        default:
            throw Error(ErrorKind::type, "asarray: a " + class_name(object) +
                                             " shares no memory: it has neither __dlpack__ nor "
                                             "__cuda_array_interface__ nor __array_interface__ nor "
                                             "a buffer. Use tack.array() for a copy");
    }
}

}  // namespace tack::python
