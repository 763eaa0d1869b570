#include "exchange.hpp"

#include <array>

#include "managed_tensor.hpp"
#include "torch_tensors.hpp"

namespace tack::python {
namespace {

// A type's version tag is never given again, also where another type gets the same address, and
// changes when the type does.
unsigned version_tag(PyTypeObject* type) {
#ifdef Py_TPFLAGS_VALID_VERSION_TAG
    if (!PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
    return type->tp_version_tag;
}

const dlpack::ExchangeAPI* find_api(PyTypeObject* type) {
    const nb::object own = nb::handle(reinterpret_cast<PyObject*>(type)).attr("__dict__");
    const nb::object capsule = own.attr("get")("__dlpack_c_exchange_api__");
    if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
    const auto* header = static_cast<const dlpack::ExchangeAPIHeader*>(
        PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (header && header->version.major > 1) header = header->prev_api;
    if (!header || header->version.major != 1) return nullptr;
    const auto* api = reinterpret_cast<const dlpack::ExchangeAPI*>(header);
    return api->managed_tensor_from_py_object_no_sync ? api : nullptr;
}

struct Entry {
    PyTypeObject* type = nullptr;
    unsigned tag = 0;
    ArrayKind kind;
};
Entry& entry_of(PyTypeObject* type) noexcept {
    static std::array<Entry, 16> cache;  // guarded by the GIL
    return cache[(reinterpret_cast<std::uintptr_t>(type) >> 5) % cache.size()];
}

}  // namespace

const ArrayKind* known_array_kind(PyTypeObject* type) noexcept {
    const Entry& entry = entry_of(type);
    const unsigned tag = version_tag(type);
    return entry.type == type && entry.tag == tag && tag != 0 ? &entry.kind : nullptr;
}

ArrayKind array_kind(PyTypeObject* type) {
    if (const ArrayKind* known = known_array_kind(type)) return *known;
    const ArrayKind kind{.api = find_api(type), .is_torch = derives_from_torch(type)};
    // The lookup may have given the type its tag.
    entry_of(type) = {type, version_tag(type), kind};
    return kind;
}

void learn_place(PyTypeObject* type, bool on_host) {
    if (known_array_kind(type)) entry_of(type).kind.on_host = on_host;
}

void throw_export_error(PyObject* source, bool is_torch) {
    if (!PyErr_Occurred())
        throw Error(ErrorKind::runtime,
                    "from_dlpack: the C exchange API of " + class_name(source) +
                        " failed without saying why. Import what its __dlpack__ gives");
    nb::python_error error;
    const std::string reason = is_torch ? torch_reason(source) : "";
    if (reason.empty()) throw error;
    nb::raise_from(error, PyExc_BufferError, "from_dlpack: %s", reason.c_str());
}

dlpack::ManagedTensorVersioned* export_exchange(PyObject* object, const ArrayKind& kind) {
    if (kind.is_torch) require_plain_torch_tensor(object);
    dlpack::ManagedTensorVersioned* tensor = nullptr;
    if (kind.api->managed_tensor_from_py_object_no_sync(object, &tensor) != 0 || !tensor)
        throw_export_error(object, kind.is_torch);
    return tensor;
}

namespace {

/// What the array's device does from now on comes after the work that the producer has queued.
void order_after_producer(const Array& array, dlpack::Device where, PyObject* object,
                          const ArrayKind& kind) {
    const Device device = array.device();
    if (!kind.api->current_work_stream || !stream_number(device)) return;
    void* stream = nullptr;
    if (kind.api->current_work_stream(where.device_type, where.device_id, &stream) != 0)
        throw_export_error(object, kind.is_torch);
    wait_for_producer(device, reinterpret_cast<std::uintptr_t>(stream), "from_dlpack");
}

}  // namespace

Array import_exchange(PyObject* object, const ArrayKind& kind, const Device& device,
                      bool writable) {
    dlpack::ManagedTensorVersioned* tensor = export_exchange(object, kind);
    // Of a later major version nothing but the version may be read, and it is refused.
    const dlpack::Device where =
        tensor->version.major <= 1 ? tensor->dl_tensor.device : dlpack::Device{dlpack::cpu, 0};
    try {
        Array array = adopt_tensor(tensor, device, writable);
        if (!is_host_memory(where.device_type)) order_after_producer(array, where, object, kind);
        return array;
    } catch (const Error& error) {
        // A conjugated view is complex: the dtype is refused, but not before resolve_conj().
        const std::string reason =
            kind.is_torch && error.kind() == ErrorKind::type ? torch_reason(object) : "";
        if (reason.empty()) throw;
        throw Error(ErrorKind::buffer, "from_dlpack: " + reason);
    }
}

}  // namespace tack::python
