/// Exchange of arrays with other libraries through DLPack managed tensors.
/// The structs are declared here, after DLPack 1.3, so that no DLPack header is needed; a test
/// compares them with an installed one. Cast a `DLManagedTensor*` of another dlpack.h to these.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tack/array.hpp"
#include "tack/config.hpp"

namespace tack::dlpack {

enum DeviceType : std::int32_t {
    cpu = 1,
    cuda = 2,
    cuda_host = 3,
    opencl = 4,
    vulkan = 7,
    metal = 8,
    vpi = 9,
    rocm = 10,
    rocm_host = 11,
    ext_dev = 12,
    cuda_managed = 13,
    oneapi = 14,
    webgpu = 15,
    hexagon = 16,
    maia = 17,
    trn = 18,
};

enum TypeCode : std::uint8_t {
    code_int = 0,
    code_uint = 1,
    code_float = 2,
    code_opaque_handle = 3,
    code_bfloat = 4,
    code_complex = 5,
    code_bool = 6,
};

struct Device {
    std::int32_t device_type;
    std::int32_t device_id;
};
struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};
struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;    // elements; may be null where ndim is 0
    std::int64_t* strides;  // elements; null means C-contiguous
    std::uint64_t byte_offset;
};
struct ManagedTensor {
    Tensor dl_tensor;
    void* manager_ctx;
    void (*deleter)(ManagedTensor*);  // may be null
};
struct Version {
    std::uint32_t major;
    std::uint32_t minor;
};
inline constexpr std::uint64_t flag_read_only = 1u << 0;
inline constexpr std::uint64_t flag_is_copied = 1u << 1;
inline constexpr std::uint64_t flag_subbyte_padded = 1u << 2;
struct ManagedTensorVersioned {
    Version version;
    void* manager_ctx;
    void (*deleter)(ManagedTensorVersioned*);  // may be null
    std::uint64_t flags;
    Tensor dl_tensor;
};

static_assert(sizeof(void*) == 8, "Tack needs a 64-bit platform");
static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, device) == 8 &&
              offsetof(Tensor, ndim) == 16 && offsetof(Tensor, dtype) == 20 &&
              offsetof(Tensor, shape) == 24 && offsetof(Tensor, strides) == 32 &&
              offsetof(Tensor, byte_offset) == 40);
static_assert(sizeof(ManagedTensor) == 64 && offsetof(ManagedTensor, manager_ctx) == 48 &&
              offsetof(ManagedTensor, deleter) == 56);
static_assert(sizeof(ManagedTensorVersioned) == 80 &&
              offsetof(ManagedTensorVersioned, manager_ctx) == 8 &&
              offsetof(ManagedTensorVersioned, deleter) == 16 &&
              offsetof(ManagedTensorVersioned, flags) == 24 &&
              offsetof(ManagedTensorVersioned, dl_tensor) == 32);

}  // namespace tack::dlpack

namespace tack {

/// Wraps a managed tensor without a copy and takes over its deleter, which is called exactly once,
/// with the last array over the memory, on the thread that drops it.
/// device: where to import; none means the default device where it can wrap the tensor, else the
/// tensor's own. writable: false makes the array read-only whatever the tensor says.
/// On a throw the tensor stays the caller's and its deleter has not been called; but for a major
/// version above 1, whose deleter is called and nothing else read.
/// Throws value: null data, non-zero size; misaligned data; a negative extent or one beyond int64;
/// an unknown device type. type: a dtype that Tack does not have, lanes other than 1.
/// non_contiguous: strides other than C order. runtime: a device that cannot wrap the tensor.
/// Source: specification, "DLPack import".
TACK_API Array from_dlpack(dlpack::ManagedTensor* tensor, const Device& device = {},
                           bool writable = true);
TACK_API Array from_dlpack(dlpack::ManagedTensorVersioned* tensor, const Device& device = {},
                           bool writable = true);

/// A managed tensor over the array's memory, which stays alive until the consumer calls the
/// deleter (from any thread). Waits for queued work and marks the memory shared: later launches
/// that use it have run when they return. The legacy struct cannot say read-only.
TACK_API dlpack::ManagedTensor* to_dlpack(const Array& array);
TACK_API dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Array& array);
/// The device that to_dlpack() would name.
TACK_API dlpack::Device dlpack_device(const Array& array);
/// How many exported tensors have not been given back through their deleter.
TACK_API std::int64_t live_exports() noexcept;

}  // namespace tack
