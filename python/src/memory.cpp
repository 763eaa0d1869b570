// Device memory as handles of the operating system, which other processes and APIs map.
#include <nanobind/stl/string.h>

#include "bindings.hpp"

namespace tack::python {
namespace {

constexpr const char* native_handle_type = "posix_fd";
constexpr std::size_t uuid_size = 16;

std::int64_t to_bytes(nb::handle object, const std::string& subject) {
    const std::uint64_t bytes = to_handle(object, subject, "must be an int, in bytes");
    if (bytes > INT64_MAX)
        throw Error(ErrorKind::value,
                    subject + " is " + std::to_string(bytes) + " bytes, beyond 63 bits");
    return static_cast<std::int64_t>(bytes);
}

std::vector<std::uint8_t> to_uuid(nb::handle object) {
    if (object.is_none()) return {};
    if (!PyBytes_Check(object.ptr()))
        throw Error(ErrorKind::type,
                    "ExportedMemory: device_uuid must be bytes or None, not " + class_name(object));
    const nb::bytes bytes = nb::borrow<nb::bytes>(object);
    if (bytes.size() != uuid_size)
        throw Error(ErrorKind::value, "ExportedMemory: device_uuid has " +
                                          std::to_string(bytes.size()) +
                                          " bytes, a UUID has 16. Pass None where there is none");
    const auto* first = static_cast<const std::uint8_t*>(bytes.data());
    return {first, first + bytes.size()};
}

nb::object uuid(const ExportedMemory& memory) {
    if (memory.device_uuid.empty()) return nb::none();
    return nb::bytes(memory.device_uuid.data(), memory.device_uuid.size());
}

void make_record(ExportedMemory* place, const std::string& backend, nb::handle size,
                 nb::handle allocation_size, nb::handle handle, const std::string& handle_type,
                 nb::handle device_uuid) {
    new (place) ExportedMemory{
        .backend = backend,
        .size = to_bytes(size, "ExportedMemory: size"),
        .allocation_size = to_bytes(allocation_size, "ExportedMemory: allocation_size"),
        .handle = to_handle(handle, "ExportedMemory: handle"),
        .handle_type = handle_type,
        .device_uuid = to_uuid(device_uuid)};
}

nb::tuple fields(const ExportedMemory& memory) {
    return nb::make_tuple(memory.backend, memory.size, memory.allocation_size, memory.handle,
                          memory.handle_type, uuid(memory));
}

nb::str represent(const ExportedMemory& memory) {
    return nb::str(
               "ExportedMemory(backend={!r}, size={}, allocation_size={}, handle={}, "
               "handle_type={!r}, device_uuid={!r})")
        .format(*fields(memory));
}

/// What the caller has: a record, or a handle alone with the size of what it names.
ExportedMemory to_record(nb::handle object, nb::handle allocation_size, const Device& device) {
    ExportedMemory* record = nullptr;
    if (nb::try_cast(object, record) && record) {
        if (!allocation_size.is_none())
            throw Error(ErrorKind::type,
                        "import_memory: allocation_size is the record's. Pass it with a bare "
                        "handle only");
        return *record;
    }
    ExportedMemory memory;
    memory.handle = to_handle(object, "import_memory: memory",
                              "must be an ExportedMemory or a handle as an int");
    if (allocation_size.is_none())
        throw Error(ErrorKind::type,
                    "import_memory: a bare handle does not say how large the allocation is. Pass "
                    "allocation_size=, in bytes, as its exporter gave it");
    memory.allocation_size = to_bytes(allocation_size, "import_memory: allocation_size");
    memory.size = memory.allocation_size;
    memory.handle_type = native_handle_type;
    memory.backend = device ? device.name() : "cuda";
    return memory;
}

Array import_array(nb::handle object, nb::handle dtype, nb::handle shape,
                   nb::handle allocation_size, nb::handle device_or_name, bool writable) {
    constexpr const char* operation = "import_memory";
    const DType element = to_dtype(dtype, operation);
    const Shape extents = to_shape(shape, operation);
    const Device device = to_device(device_or_name, operation);
    const ExportedMemory memory = to_record(object, allocation_size, device);
    const nb::gil_scoped_release release;
    return import_memory(memory, element, extents, device, writable);
}

}  // namespace

void bind_memory(nb::module_& m) {
    auto record = nb::class_<ExportedMemory>(
        m, "ExportedMemory", nb::is_final(),
        "A device allocation as an operating system's handle, in plain values.\n\n"
        "Array.export_memory() makes one, tack.import_memory() takes one. It can be pickled, but "
        "a\n"
        "handle is its process's: another one needs its own, sent over a socket with\n"
        "socket.send_fds, and a record made of that.");
    record.attr("__module__") = "tack";
    record
        .def("__init__", &make_record, nb::arg("backend"), nb::arg("size").none(),
             nb::arg("allocation_size").none(), nb::arg("handle").none(), nb::arg("handle_type"),
             nb::arg("device_uuid") = nb::none(),
             "Raises TypeError or ValueError for sizes and handles that are no ints from 0, and\n"
             "for a UUID that is not 16 bytes.")
        .def_ro("backend", &ExportedMemory::backend, "\"cuda\" or \"metal\".")
        .def_ro("size", &ExportedMemory::size, "Bytes of the array.")
        .def_ro("allocation_size", &ExportedMemory::allocation_size,
                "Bytes of the allocation, rounded up by the driver.")
        .def_ro("handle", &ExportedMemory::handle, "The handle, which its exporter keeps owning.")
        .def_ro("handle_type", &ExportedMemory::handle_type,
                "\"posix_fd\", \"win32_kmt\" or \"mtl_buffer\".")
        .def_prop_ro("device_uuid", &uuid, "16 bytes that name the device across APIs, or None.")
        .def("__eq__",
             [](const ExportedMemory& a, nb::handle other) {
                 ExportedMemory* b = nullptr;
                 return nb::try_cast(other, b) && b && fields(a).equal(fields(*b));
             })
        .def("__hash__", [](const ExportedMemory& memory) { return nb::hash(fields(memory)); })
        .def("__reduce__",
             [](nb::handle self) {
                 return nb::make_tuple(self.type(), fields(*nb::inst_ptr<ExportedMemory>(self)));
             })
        .def("__repr__", &represent);

    m.def("import_memory", &import_array, nb::arg("memory").none(), nb::arg("dtype").none(),
          nb::arg("shape").none(), nb::kw_only(), nb::arg("allocation_size") = nb::none(),
          nb::arg("device") = nb::none(), nb::arg("writable") = true,
          "An array over an allocation that another process or API exported, without a copy.\n\n"
          "memory: an ExportedMemory, or a handle as an int (a file descriptor), for which\n"
          "allocation_size says how many bytes the allocation has. The handle is one of this\n"
          "process and stays the caller's: it is never closed. shape: extents in elements, from\n"
          "the allocation's start. device: where to map it; by default the one that has the\n"
          "record's UUID, and for a record without one the default device where that is of the\n"
          "record's backend, else the first of that backend.\n"
          "The array is shared: a launch that uses it has run when it returns.\n"
          "Raises TypeError for a handle that is no int; ValueError for a negative one, a shape\n"
          "of more bytes than the allocation and a device of another UUID; RuntimeError for a\n"
          "backend that imports no memory and a handle that the driver refuses.");
}

}  // namespace tack::python
