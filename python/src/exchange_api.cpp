// Array.__dlpack_c_exchange_api__: Tack as a producer of DLPack 1.3's C exchange API.
#include "managed_tensor.hpp"

namespace tack::python {
namespace {

/// The array in an object that must be exactly a tack.Array.
const Array& exact_array(void* object) {
    if (const Array* array = array_of(static_cast<PyObject*>(object))) return *array;
    throw Error(ErrorKind::type, "__dlpack_c_exchange_api__: takes a tack.Array, not a " +
                                     class_name(static_cast<PyObject*>(object)) +
                                     "; use the API of the object's own type");
}

int to_managed_tensor(void* object, dlpack::ManagedTensorVersioned** out) {
    return guarded<int>(-1, [&] {
        *out = export_versioned(exact_array(object));
        return 0;
    });
}

// A tensor that is refused stays the caller's, who calls its deleter.
int from_managed_tensor(dlpack::ManagedTensorVersioned* tensor, void** out) {
    return guarded<int>(-1, [&] {
        if (tensor && tensor->version.major > 1)
            throw Error(ErrorKind::value, "__dlpack_c_exchange_api__: a tensor of DLPack " +
                                              std::to_string(tensor->version.major) +
                                              " in the API of DLPack 1; pass one of version 1");
        *out = new_array(
            from_dlpack(tensor, Device(), true, delete_with_gil<dlpack::ManagedTensorVersioned>));
        return 0;
    });
}

int to_tensor(void* object, dlpack::Tensor* out) {
    return guarded<int>(-1, [&] {
        const Array& array = exact_array(object);
        *out = while_waiting(array, [&] { return to_dlpack_tensor(array); });
        return 0;
    });
}

int current_work_stream(std::int32_t device_type, std::int32_t device_id, void** out) {
    return guarded<int>(-1, [&] {
        *out = reinterpret_cast<void*>(dlpack_work_stream({device_type, device_id}));
        return 0;
    });
}

dlpack::ExchangeAPI api = {
    .header = {.version = {1, 3}, .prev_api = nullptr},
    .managed_tensor_allocator = allocate_dlpack,
    .managed_tensor_from_py_object_no_sync = to_managed_tensor,
    .managed_tensor_to_py_object_no_sync = from_managed_tensor,
    .dltensor_from_py_object_no_sync = to_tensor,
    .current_work_stream = current_work_stream,
};

}  // namespace

void bind_exchange_api(nb::module_&) {
    nb::handle(reinterpret_cast<PyObject*>(array_type)).attr("__dlpack_c_exchange_api__") =
        nb::capsule(&api, "dlpack_exchange_api");
}

}  // namespace tack::python
