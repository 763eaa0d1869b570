#include <algorithm>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "array/array_state.hpp"
#include "backend/backend.hpp"
#include "device/registry.hpp"
#include "interop/dlpack_types.hpp"
#include "interop/host_view.hpp"

namespace tack {

std::string describe(dlpack::DataType type) {
    // By code, from 0. Codes 7 to 17 came with DLPack 1.1.
    static constexpr std::string_view names[] = {
        "int",
        "uint",
        "float",
        "opaque handle",
        "bfloat",
        "complex",
        "bool",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float4_e2m1fn",
    };
    std::string text = "an unknown type";
    if (type.code < std::size(names)) text = names[type.code];
    if (type.code <= dlpack::code_bool) text += std::to_string(type.bits);
    text += " (code " + std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits";
    if (type.lanes != 1) text += ", " + std::to_string(type.lanes) + " lanes";
    return text + ")";
}

std::string device_type_name(std::int32_t device_type) {
    switch (device_type) {
        case dlpack::cpu:
            return "kDLCPU";
        case dlpack::cuda:
            return "kDLCUDA";
        case dlpack::cuda_host:
            return "kDLCUDAHost";
        case dlpack::opencl:
            return "kDLOpenCL";
        case dlpack::vulkan:
            return "kDLVulkan";
        case dlpack::metal:
            return "kDLMetal";
        case dlpack::vpi:
            return "kDLVPI";
        case dlpack::rocm:
            return "kDLROCM";
        case dlpack::rocm_host:
            return "kDLROCMHost";
        case dlpack::ext_dev:
            return "kDLExtDev";
        case dlpack::cuda_managed:
            return "kDLCUDAManaged";
        case dlpack::oneapi:
            return "kDLOneAPI";
        case dlpack::webgpu:
            return "kDLWebGPU";
        case dlpack::hexagon:
            return "kDLHexagon";
        case dlpack::maia:
            return "kDLMAIA";
        case dlpack::trn:
            return "kDLTrn";
        default:
            return "device type " + std::to_string(device_type);
    }
}

namespace {

[[noreturn]] void refuse(ErrorKind kind, const std::string& why) {
    throw Error(kind, "from_dlpack: " + why);
}

Shape read_shape(const dlpack::Tensor& tensor) {
    if (tensor.ndim < 0 || (tensor.ndim > 0 && !tensor.shape)) {
        refuse(ErrorKind::value, "the tensor has " + std::to_string(tensor.ndim) +
                                     " dimensions and " + (tensor.shape ? "a" : "no") +
                                     " shape; its producer must give one extent per dimension");
    }
    if (tensor.ndim > Shape::max_ndim) {
        refuse(ErrorKind::value, "the tensor has " + std::to_string(tensor.ndim) +
                                     " dimensions; an array has at most " +
                                     std::to_string(Shape::max_ndim));
    }
    return Shape(
        std::span<const std::int64_t>(tensor.shape, static_cast<std::size_t>(tensor.ndim)));
}

DType read_dtype(dlpack::DataType type) {
    const std::optional<DType> dtype = from_dlpack_type(type);
    if (!dtype || type.lanes != 1) {
        refuse(ErrorKind::type, "Tack has no dtype for " + describe(type) +
                                    "; convert the data to one of its dtypes first, bool, "
                                    "integers or floats of one lane");
    }
    return *dtype;
}

void require_contiguous(const dlpack::Tensor& tensor, const Shape& shape) {
    if (!tensor.strides) return;
    std::int64_t expected = 1;
    for (int axis = shape.ndim() - 1; axis >= 0; --axis) {
        // The one index of an extent of 1 is 0, so that its stride never counts.
        if (shape[axis] != 1 && tensor.strides[axis] != expected) {
            const Shape strides(std::span<const std::int64_t>(
                tensor.strides, static_cast<std::size_t>(shape.ndim())));
            refuse(ErrorKind::non_contiguous,
                   "strides " + strides.to_string() + " of shape " + shape.to_string() +
                       " are not C-contiguous (expected " + shape.c_strides().to_string() +
                       "). Pass a contiguous copy, or copy=True for host memory.");
        }
        expected *= shape[axis];
    }
}

/// Host memory is one device whatever number its producer gives it.
bool can_wrap(const Device& device, std::string_view backend, int index) {
    return device.name() == backend && (backend == "cpu" || device.index() == index);
}

}  // namespace

Device importing_device(const dlpack::Device& tensor, const Device& wanted) {
    Device candidate = device_or_default(wanted);
    // The usual case, ahead of the names that the others are told apart by.
    if (tensor.device_type == dlpack::cpu &&
        candidate.backend().dlpack_device_type() == dlpack::cpu)
        return candidate;
    const std::string_view backend = backend_of_dlpack_device(tensor.device_type);
    if (backend.empty()) {
        if (tensor.device_type == dlpack::metal) {
            refuse(ErrorKind::value,
                   "the data of a kDLMetal tensor is a handle of a buffer and not an address, so "
                   "that no device can wrap it; move the tensor to host memory and import it with "
                   "copy=True");
        }
        refuse(ErrorKind::value, "no backend wraps the memory of a " +
                                     device_type_name(tensor.device_type) +
                                     " tensor; move it to host memory and import that");
    }
    if (can_wrap(candidate, backend, tensor.device_id)) return candidate;

    const int index = backend == "cpu" ? 0 : tensor.device_id;
    const std::string own = std::string(backend) + (index == 0 ? "" : ":" + std::to_string(index));
    const std::string what = "a " + device_type_name(tensor.device_type) + " tensor of device " +
                             std::to_string(tensor.device_id);
    if (wanted) {
        refuse(ErrorKind::runtime, wanted.to_string() + " cannot wrap " + what +
                                       "; import it on device " + own +
                                       ", and copy it from there with to_device()");
    }
    try {
        return plain_device(backend, index);
    } catch (const Error& error) {
        refuse(ErrorKind::runtime, what + " needs device " + own + ". " + error.what());
    }
}

namespace {

template <class Managed>
void call_deleter(void* context) noexcept {
    auto* managed = static_cast<Managed*>(context);
    managed->deleter(managed);
}

/// Takes `hold` over only if it returns.
Array wrap(const Device& device, void* address, std::int64_t nbytes, Shape&& shape, DType dtype,
           std::int64_t size, bool writable, Hold& hold) {
    // Allocated ahead of the buffer, which lets go of the owner however it ends: nothing may throw
    // once it exists.
    void* state = ::operator new(sizeof(ArrayState));
    try {
        BufferRef buffer = device.backend().wrap(address, nbytes, std::move(hold));
        auto* array =
            new (state) ArrayState(std::move(buffer), std::move(shape), dtype, size, writable);
        array->acquire_first();
        return Array(detail::Ref<ArrayState>::adopt(array));
    } catch (...) {
        ::operator delete(state);
        throw;
    }
}

/// The refusals come in the specification's order.
template <class Managed>
Array import(Managed* managed, const Device& wanted, bool writable,
             void (*release)(void*) noexcept) {
    const dlpack::Tensor& tensor = managed->dl_tensor;
    Shape shape = read_shape(tensor);
    const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    if (!tensor.data && !empty) {
        refuse(ErrorKind::value, "the data of shape " + shape.to_string() +
                                     " is null, which is legal for a tensor of no elements only");
    }
    const DType dtype = read_dtype(tensor.dtype);
    const std::int64_t bytes_each = tensor.dtype.bits / 8;
    const std::int64_t size = shape.checked_size(bytes_each, "from_dlpack");
    const std::int64_t nbytes = size * bytes_each;
    if (size > 0) require_contiguous(tensor, shape);
    const Device device = importing_device(tensor.device, wanted);

    void* address = tensor.data;
    if (size > 0) {
        const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(tensor.data) +
                                     static_cast<std::uintptr_t>(tensor.byte_offset);
        if (first < tensor.byte_offset ||
            static_cast<std::uintptr_t>(nbytes) - 1 > UINTPTR_MAX - first) {
            refuse(ErrorKind::value, std::to_string(nbytes) + " bytes at byte_offset " +
                                         std::to_string(tensor.byte_offset) +
                                         " go beyond the end of memory");
        }
        // Sizes are powers of two; a division would take a third of the import.
        if (const auto off = first & static_cast<std::uintptr_t>(bytes_each - 1)) {
            refuse(ErrorKind::value, "the data at address " + std::to_string(first) + " is " +
                                         std::to_string(off) + " bytes past a multiple of " +
                                         std::to_string(bytes_each) + ", the size of a " +
                                         std::string(name(dtype)) + "; pass an aligned copy");
        }
        address = reinterpret_cast<void*>(first);
        // Probing host memory would take longer than the whole import.
        if (device.backend().dlpack_device_type() != dlpack::cpu)
            device.backend().check_wrappable(address, nbytes, writable, "from_dlpack");
    }

    // Without a deleter the tensor may be gone before the array is: nothing is kept of it.
    if (!release) release = call_deleter<Managed>;
    Hold hold = managed->deleter ? Hold(release, managed) : Hold();
    try {
        return wrap(device, address, nbytes, std::move(shape), dtype, size, writable, hold);
    } catch (...) {
        hold.disarm();
        throw;
    }
}

}  // namespace

Array wrap_host(const kernel::HostView& view, const Device& device, Hold hold) {
    Shape shape(std::span(view.extents, static_cast<std::size_t>(view.ndim)));
    std::int64_t size = 1;
    for (const std::int64_t extent : shape) size *= extent;
    return wrap(importing_device({dlpack::cpu, 0}, device), view.address, view.nbytes,
                std::move(shape), view.dtype, size, view.writable, hold);
}

Array from_dlpack(dlpack::ManagedTensor* tensor, const Device& device, bool writable,
                  void (*release)(void*) noexcept) {
    if (!tensor) refuse(ErrorKind::value, "the managed tensor is null");
    return import(tensor, device, writable, release);
}

Array from_dlpack(dlpack::ManagedTensorVersioned* tensor, const Device& device, bool writable,
                  void (*release)(void*) noexcept) {
    if (!tensor) refuse(ErrorKind::value, "the managed tensor is null");
    const dlpack::Version version = tensor->version;
    if (version.major > 1) {
        if (tensor->deleter)
            (release ? release : call_deleter<dlpack::ManagedTensorVersioned>)(tensor);
        refuse(ErrorKind::value, "the tensor is of DLPack " + std::to_string(version.major) + "." +
                                     std::to_string(version.minor) +
                                     ", of which Tack reads versions up to 1; ask its producer "
                                     "for max_version=(1, 0)");
    }
    return import(tensor, device, writable && !(tensor->flags & dlpack::flag_read_only), release);
}

}  // namespace tack
