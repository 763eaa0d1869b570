#include "tack/device.hpp"

#include <nanobind/stl/vector.h>

#include "bindings.hpp"

namespace tack::python {
namespace {

std::uint64_t handle_value(nb::handle object, const std::string& option) {
    nb::object integer;
    if (PyIndex_Check(object.ptr())) integer = nb::steal(PyNumber_Index(object.ptr()));
    if (!integer.is_valid()) {
        PyErr_Clear();
        throw Error(ErrorKind::type, "device: option '" + option +
                                         "' takes an int, a str or a dict of ints, not " +
                                         class_name(object));
    }
    const unsigned long long value = PyLong_AsUnsignedLongLong(integer.ptr());
    if (PyErr_Occurred()) {
        PyErr_Clear();
        throw Error(ErrorKind::value, "device: option '" + option + "' is " +
                                          nb::cast<std::string>(nb::repr(integer)) +
                                          ", which is no 64-bit handle");
    }
    return value;
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
            return device(name, index, to_options(options));
        },
        nb::arg("name"), nb::arg("index") = 0, nb::arg("options"),
        "The device of a backend.\n\n"
        "name: \"cpu\", \"cuda\", ..., or with the index: \"cuda:1\". options: what the backend\n"
        "declares; each an int, a str or a dict of ints. A plain device (no options) is one "
        "device\n"
        "for the whole process; one with options is a device of its own each time.\n"
        "Raises ValueError for an option that the backend does not declare, RuntimeError with the\n"
        "reason for a backend or index that is not there.");
    m.def("set_default_device", &set_default, nb::arg("device").none(), nb::arg("index") = 0,
          nb::arg("options"),
          "Makes a device the process-wide default, the CPU until set, and returns it.\n\n"
          "device: a Device, or a name with what tack.device() takes.");
    m.def("default_device", &default_device, "The process-wide default device.");
    m.def("devices", &devices, "Every device that can be used now.");
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
            for (const BackendStatus& row : backend_status())
                rows.append(nb::make_tuple(row.name, row.state, row.detail));
            return rows;
        },
        "(name, state, detail) of every backend that Tack knows.");
}

}  // namespace tack::python
