#include <exception>
#include <span>
#include <string>

#include "backend/backend.hpp"
#include "device/registry.hpp"
#include "interop/dlpack_types.hpp"
#include "tack/error.hpp"

namespace tack {
namespace {

// The names of Python's classes: the allocator's caller raises them.
const char* kind_name(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::value:
        case ErrorKind::non_contiguous:
            return "ValueError";
        case ErrorKind::type:
        case ErrorKind::compile:
            return "TypeError";
        case ErrorKind::buffer:
            return "BufferError";
        case ErrorKind::index:
            return "IndexError";
        case ErrorKind::memory:
            return "MemoryError";
        case ErrorKind::runtime:
            break;
    }
    return "RuntimeError";
}

dlpack::ManagedTensorVersioned* allocate(const dlpack::Tensor& prototype) {
    const auto ndim = static_cast<std::size_t>(prototype.ndim < 0 ? 0 : prototype.ndim);
    if (prototype.ndim < 0 || (ndim > 0 && !prototype.shape)) {
        throw Error(ErrorKind::value, "allocate_dlpack: the prototype has " +
                                          std::to_string(prototype.ndim) +
                                          " dimensions and no shape; give one extent for each");
    }
    const std::optional<DType> dtype = from_dlpack_type(prototype.dtype);
    if (!dtype || prototype.dtype.lanes != 1) {
        throw Error(ErrorKind::type, "allocate_dlpack: Tack has no dtype for " +
                                         describe(prototype.dtype) +
                                         "; allocate bool, integers or floats of one lane");
    }
    const std::int32_t type = prototype.device.device_type;
    const std::string_view backend = backend_of_dlpack_device(type);
    const Device device =
        backend.empty() ? Device()
                        : plain_device(backend, backend == "cpu" ? 0 : prototype.device.device_id);
    // Pinned and managed memory are wrapped by backends whose own is neither.
    if (!device || device.backend().dlpack_device_type() != type) {
        throw Error(ErrorKind::value, "allocate_dlpack: no backend allocates memory of " +
                                          device_type_name(type) + "; allocate on kDLCPU");
    }
    const Shape shape(std::span<const std::int64_t>(prototype.shape, ndim));
    return to_dlpack_versioned(empty(shape, *dtype, device));
}

}  // namespace

std::uint64_t dlpack_work_stream(const dlpack::Device& device) {
    const Device used =
        existing_plain_device(backend_of_dlpack_device(device.device_type), device.device_id);
    return used ? used.stream() : 0;
}

int allocate_dlpack(dlpack::Tensor* prototype, dlpack::ManagedTensorVersioned** out,
                    void* error_context,
                    void (*set_error)(void*, const char*, const char*)) noexcept {
    try {
        *out = allocate(*prototype);
        return 0;
    } catch (const Error& error) {
        set_error(error_context, kind_name(error.kind()), error.what());
    } catch (const std::exception& error) {
        set_error(error_context, "MemoryError", error.what());
    }
    return -1;
}

}  // namespace tack
