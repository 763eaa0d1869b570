#include "tack/device.hpp"

#include <nanobind/stl/vector.h>

#include "bindings.hpp"

namespace tack::python {
namespace {

std::uint64_t handle_value(nb::handle object, const std::string& option) {
    return to_handle(object, "device: option '" + option + "'",
                     "takes an int, a str or a dict of ints");
}

OptionValue to_option(const std::string& option, nb::handle object) {
    if (PyUnicode_Check(object.ptr())) return nb::cast<std::string>(object);
    if (!PyDict_Check(object.ptr())) return handle_value(object, option);
    std::map<std::string, std::uint64_t> handles;
    for (auto [key, value] : nb::borrow<nb::dict>(object)) {
        const std::string name = nb::cast<std::string>(nb::str(key));
        handles[name] = handle_value(value, option + "[" + name + "]");
    }
    return handles;
}

DeviceOptions to_options(const nb::kwargs& keywords) {
    DeviceOptions options;
    for (auto [key, value] : keywords) {
        const std::string name = nb::cast<std::string>(key);
        options[name] = to_option(name, value);
    }
    return options;
}

std::vector<BackendStatus> status_of_backends() {
    const nb::gil_scoped_release release;
    return backend_status();
}

nb::object set_default(nb::handle name, int index, const nb::kwargs& options) {
    Device* given = nullptr;
    if (!nb::try_cast(name, given) || !given)
        return nb::cast(
            set_default_device(nb::cast<std::string>(name), index, to_options(options)));
    if (index != 0 || options.size() != 0)
        throw Error(ErrorKind::type,
                    "set_default_device: a Device takes no index or options; pass its name with "
                    "them");
    return nb::cast(set_default_device(*given));
}

}  // namespace

Device to_device(nb::handle object, const char* operation) {
    if (object.is_none()) return {};
    Device* given = nullptr;
    if (nb::try_cast(object, given) && given) return *given;
    if (PyUnicode_Check(object.ptr())) return device(nb::cast<std::string>(object));
    throw Error(ErrorKind::type, std::string(operation) +
                                     ": device must be a tack.Device, a name like \"cuda:1\" or "
                                     "None, not " +
                                     class_name(object));
}

std::uint64_t to_handle(nb::handle object, const std::string& subject, const char* expected) {
    nb::object integer;
    if (PyIndex_Check(object.ptr()) && !PyBool_Check(object.ptr()))
        integer = nb::steal(PyNumber_Index(object.ptr()));
    if (!integer.is_valid()) {
        PyErr_Clear();
        throw Error(ErrorKind::type, subject + " " + expected + ", not " + class_name(object));
    }
    const unsigned long long value = PyLong_AsUnsignedLongLong(integer.ptr());
    if (PyErr_Occurred()) {
        PyErr_Clear();
        throw Error(ErrorKind::value, subject + " is " + nb::cast<std::string>(nb::repr(integer)) +
                                          ", which is no 64-bit handle");
    }
    return value;
}

std::optional<std::int64_t> stream_number(const Device& device) {
    const auto stream = static_cast<std::int64_t>(device.stream());
    if (device.name() == "hip") return stream;
    if (device.name() != "cuda") return std::nullopt;
    // Either protocol forbids 0, which may mean the legacy stream or the thread's own; 1 is the
    // legacy one.
    return stream == 0 ? 1 : stream;
}

void wait_for_producer(const Device& device, std::uint64_t stream, const char* operation) {
    if (stream == device.stream()) return;
    try {
        device.wait_for_stream(stream);
    } catch (const Error& error) {
        throw Error(error.kind(),
                    std::string(operation) + ": the producer's stream " + std::to_string(stream) +
                        " cannot be waited for, so that its memory is not taken. " + error.what());
    }
}

void bind_device(nb::module_& m) {
    auto type =
        nb::class_<Device>(m, "Device", nb::is_final(),
                           "A device that holds arrays and runs kernels. Made by tack.device().")
            .def_prop_ro(
                "name", [](const Device& d) { return std::string(d.name()); },
                "The backend's name: \"cpu\", \"cuda\", ...")
            .def_prop_ro("index", &Device::index, "Which of the backend's devices, from 0.")
            .def_prop_ro("memory_domain", &Device::memory_domain,
                         "Arrays of two memory domains never meet in one launch: \"cpu\", "
                         "\"cuda:0\", ...")
            .def_prop_ro("shares_external_context", &Device::shares_external_context,
                         "Whether the device runs in a context that another library made.")
            .def(
                "memory_space",
                [](const Device& d, nb::handle ptr) {
                    return d.memory_space(to_address(ptr, "memory_space")).backend;
                },
                nb::arg("ptr").none(),
                "The backend that may wrap an address: \"cpu\", \"cuda\", ... or \"unknown\" where "
                "the driver does not know it.\n\n"
                "ptr: an int, anything with __index__, or a ctypes pointer. It is never read.")
            .def_prop_ro(
                "stream",
                [](const Device& d) -> nb::object {
                    if (const auto number = stream_number(d)) return nb::int_(*number);
                    if (d.stream() != 0) return nb::int_(d.stream());
                    return nb::none();
                },
                nb::sig("def stream(self) -> int | None"),
                "The native handle of the queue that launches go to, an int; None on the host.\n\n"
                "Other libraries queue work there, in order with Tack's, by wrapping it: with\n"
                "torch.cuda.ExternalStream(device.stream), or CuPy's class of the same name.")
            .def(
                "wait_for_stream",
                [](const Device& d, nb::handle stream) {
                    d.wait_for_stream(to_handle(stream, "wait_for_stream: stream"));
                },
                nb::arg("stream").none(),
                "Orders what Tack queues here from now on after what another library has queued\n"
                "so far on its stream of the same device, by an event and without waiting.\n\n"
                "stream: the handle as an int, such as torch.cuda.current_stream().cuda_stream\n"
                "or CuPy's stream.ptr; on CUDA 0 and 1 are the legacy stream, 2 the calling\n"
                "thread's own. Nothing happens on the host.\n"
                "Raises TypeError for what is no int, ValueError for a negative one,\n"
                "RuntimeError for a handle that the driver refuses.")
            .def("synchronize", &Device::synchronize, nb::call_guard<nb::gil_scoped_release>(),
                 "Waits until all work queued on this device has run.")
            .def("__eq__",
                 [](const Device& a, nb::handle other) {
                     Device* b = nullptr;
                     return nb::try_cast(other, b) && b && a == *b;
                 })
            .def("__hash__", [](const Device& d) { return std::hash<const void*>()(&d.backend()); })
            .def("__str__", &Device::to_string)
            .def("__repr__",
                 [](const Device& d) { return "tack.device('" + d.to_string() + "')"; });
    type.attr("__module__") = "tack";

    m.def(
        "device",
        [](const std::string& name, int index, const nb::kwargs& options) {
            const DeviceOptions converted = to_options(options);
            const nb::gil_scoped_release release;  // the first device starts the driver
            return device(name, index, converted);
        },
        nb::arg("name"), nb::arg("index") = 0, nb::arg("options"),
        "The device of a backend.\n\n"
        "name: \"cpu\", \"cuda\", ..., or with the index: \"cuda:1\". options: what the backend\n"
        "declares; each an int, a str or a dict of ints. A plain device (no options) is one "
        "device\n"
        "for the whole process; one with options is a device of its own each time.\n"
        "Raises ValueError for an option that the backend does not declare, RuntimeError with the\n"
        "reason for a backend or index that is not there.");
    m.def(
        "device_options",
        [](const std::string& backend) {
            const std::vector<std::string> names = device_options(backend);
            return nb::frozenset(nb::cast(names));
        },
        nb::arg("backend"),
        "The names of the options that tack.device() takes for a backend: {\"stream\"} for "
        "\"cuda\".\n\n"
        "No driver is started. Raises RuntimeError for a backend that this build has not.");
    m.def("set_default_device", &set_default, nb::arg("device").none(), nb::arg("index") = 0,
          nb::arg("options"),
          "Makes a device the process-wide default, the CPU until set, and returns it.\n\n"
          "device: a Device, or a name with what tack.device() takes.");
    m.def("default_device", &default_device, "The process-wide default device.");
    m.def("devices", &devices, nb::call_guard<nb::gil_scoped_release>(),
          "Every device that can be used now.");
    m.def(
        "synchronize", [] { synchronize(); }, nb::call_guard<nb::gil_scoped_release>(),
        "Waits until all work queued on every device in use has run.");
    m.def("num_threads", &num_threads,
          "Threads that CPU launches use: TACK_NUM_THREADS, else the processors this process may "
          "use.");
    m.def("set_num_threads", &set_num_threads, nb::arg("threads"),
          "Sets how many threads CPU launches use, from the next launch on.\n\n"
          "Raises ValueError below 1.");
    m.def(
        "backend_status",
        [] {
            nb::list rows;
            for (const BackendStatus& row : status_of_backends())
                rows.append(nb::make_tuple(row.name, row.state, row.detail));
            return rows;
        },
        "(name, state, detail) of every backend that Tack knows.");
}

}  // namespace tack::python
