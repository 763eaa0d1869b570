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

/// The C exchange API of DLPack 1.3: a Python type of arrays has one in its attribute
/// `__dlpack_c_exchange_api__`, a capsule named "dlpack_exchange_api".
/// All slots but the allocator need the GIL; each returns 0, or -1 with the Python error set (the
/// allocator: with set_error called). None throws and none synchronizes.
struct ExchangeAPIHeader {
    Version version;
    ExchangeAPIHeader* prev_api;  // the one of an earlier major version, or null
};
struct ExchangeAPI {
    ExchangeAPIHeader header;
    /// A new tensor of the prototype's dtype, shape and device; the caller owns it.
    int (*managed_tensor_allocator)(Tensor* prototype, ManagedTensorVersioned** out,
                                    void* error_context,
                                    void (*set_error)(void* error_context, const char* kind,
                                                      const char* message));
    /// py_object is of exactly the type that has the API; the caller owns the tensor.
    int (*managed_tensor_from_py_object_no_sync)(void* py_object, ManagedTensorVersioned** out);
    /// Takes the tensor over, and gives a new reference. Of a tensor that it refuses it leaves the
    /// deleter to the caller, as PyTorch's does.
    int (*managed_tensor_to_py_object_no_sync)(ManagedTensorVersioned* tensor,
                                               void** out_py_object);
    /// Shape and strides stay the object's. May be null.
    int (*dltensor_from_py_object_no_sync)(void* py_object, Tensor* out);
    /// The stream that the producer's next work on the device goes to; null for the host.
    int (*current_work_stream)(std::int32_t device_type, std::int32_t device_id, void** out_stream);
};

static_assert(sizeof(ExchangeAPIHeader) == 16 && offsetof(ExchangeAPIHeader, prev_api) == 8);
static_assert(sizeof(ExchangeAPI) == 56 && offsetof(ExchangeAPI, managed_tensor_allocator) == 16 &&
              offsetof(ExchangeAPI, managed_tensor_from_py_object_no_sync) == 24 &&
              offsetof(ExchangeAPI, managed_tensor_to_py_object_no_sync) == 32 &&
              offsetof(ExchangeAPI, dltensor_from_py_object_no_sync) == 40 &&
              offsetof(ExchangeAPI, current_work_stream) == 48);

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
/// release: called with the tensor where its deleter would be, which it calls itself; for a caller
/// who has to take a lock around that.
/// Source: specification, "DLPack import".
TACK_API Array from_dlpack(dlpack::ManagedTensor* tensor, const Device& device = {},
                           bool writable = true, void (*release)(void* tensor) noexcept = nullptr);
TACK_API Array from_dlpack(dlpack::ManagedTensorVersioned* tensor, const Device& device = {},
                           bool writable = true, void (*release)(void* tensor) noexcept = nullptr);

/// The device that from_dlpack() wraps a tensor on: `wanted`, which must be able to, or without one
/// the default where it can and else the tensor's own. Throws as from_dlpack() does.
TACK_API Device importing_device(const dlpack::Device& tensor, const Device& wanted = {});

/// The stream that Tack's work on a device goes to, Device::stream() of its plain device; 0 for the
/// host and where that device is not in use: no driver is started.
TACK_API std::uint64_t dlpack_work_stream(const dlpack::Device& device);

/// A managed tensor over the array's memory, which stays alive until the consumer calls the
/// deleter (from any thread). Waits for queued work and marks the memory shared: later launches
/// that use it have run when they return. The legacy struct cannot say read-only.
TACK_API dlpack::ManagedTensor* to_dlpack(const Array& array);
TACK_API dlpack::ManagedTensorVersioned* to_dlpack_versioned(const Array& array);
/// The same without ownership: valid as long as a handle on the array is kept, whose shape and
/// strides these are. Throws buffer for a read-only array, which a bare tensor cannot be.
TACK_API dlpack::Tensor to_dlpack_tensor(const Array& array);
/// Tack's managed_tensor_allocator: memory of the library, not initialised, on any thread.
TACK_API int allocate_dlpack(dlpack::Tensor* prototype, dlpack::ManagedTensorVersioned** out,
                             void* error_context,
                             void (*set_error)(void* error_context, const char* kind,
                                               const char* message)) noexcept;
/// The device that to_dlpack() would name.
TACK_API dlpack::Device dlpack_device(const Array& array);
/// How many exported tensors have not been given back through their deleter.
TACK_API std::int64_t live_exports() noexcept;

}  // namespace tack
