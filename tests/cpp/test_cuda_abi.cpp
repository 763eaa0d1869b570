/// Tack's own declarations of the CUDA driver and of NVRTC against their headers. Compiled, never
/// run, by tests/python/test_cuda_abi.py, which knows where those are and writes cuda_rows.inc: a
/// DRIVER_ROW or NVRTC_ROW for each row of the two tables.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <nvrtc.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#include "backend/cuda/driver.hpp"
#include "backend/cuda/nvrtc.hpp"

namespace {

namespace ours = tack::cuda;

/// Which structs stand for which; handles are pointers to such.
template <class Ours, class Theirs>
constexpr bool same_struct = false;
template <>
constexpr bool same_struct<ours::ContextHandle, CUctx_st> = true;
template <>
constexpr bool same_struct<ours::StreamHandle, CUstream_st> = true;
template <>
constexpr bool same_struct<ours::EventHandle, CUevent_st> = true;
template <>
constexpr bool same_struct<ours::ModuleHandle, CUmod_st> = true;
template <>
constexpr bool same_struct<ours::FunctionHandle, CUfunc_st> = true;
template <>
constexpr bool same_struct<ours::PoolHandle, CUmemPoolHandle_st> = true;
template <>
constexpr bool same_struct<ours::ProgramHandle, std::remove_pointer_t<nvrtcProgram>> = true;
template <>
constexpr bool same_struct<ours::AllocationProp, CUmemAllocationProp> = true;
template <>
constexpr bool same_struct<ours::AccessDesc, CUmemAccessDesc> = true;
template <>
constexpr bool same_struct<ours::PoolProps, CUmemPoolProps> = true;
template <>
constexpr bool same_struct<ours::Uuid, CUuuid> = true;

template <class T>
constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;

/// Whether a caller that has the one type can pass what has the other.
template <class Ours, class Theirs>
constexpr bool same_type() {
    if constexpr (std::is_const_v<Ours> != std::is_const_v<Theirs>) {
        return false;
    } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
        return same_type<std::remove_pointer_t<Ours>, std::remove_pointer_t<Theirs>>();
    } else if constexpr (is_number<Ours> && is_number<Theirs>) {
        return sizeof(Ours) == sizeof(Theirs);
    } else {
        using A = std::remove_const_t<Ours>;
        using B = std::remove_const_t<Theirs>;
        return std::is_same_v<A, B> || same_struct<A, B>;
    }
}

template <class Ours, class Theirs>
constexpr bool same_function = false;
template <class... Ours, class Result, class... Theirs>
constexpr bool same_function<ours::Entry<int(Ours...)>, Result (*)(Theirs...)> = [] {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
        return false;
    } else {
        return same_type<int, Result>() && (same_type<Ours, Theirs>() && ...);
    }
}();

// The type that a symbol has in the version of the interface that its row asks for.
#define DRIVER_ROW(row, symbol, version)                                                 \
    static_assert(same_function<decltype(ours::Driver::row), PFN_##symbol##_v##version>, \
                  #symbol " of version " #version);
#define NVRTC_ROW(row, symbol) \
    static_assert(same_function<decltype(ours::Nvrtc::row), decltype(&symbol)>, #symbol);
#include "cuda_rows.inc"

#define SAME_VALUE(value, theirs) \
    static_assert(static_cast<long long>(ours::value) == static_cast<long long>(theirs))
#define SAME_SIZE(Ours, Theirs) \
    static_assert(sizeof(ours::Ours) == sizeof(Theirs) && alignof(ours::Ours) == alignof(Theirs))
#define SAME_FIELD(Ours, field, Theirs, their_field)                              \
    static_assert(offsetof(ours::Ours, field) == offsetof(Theirs, their_field) && \
                  sizeof(ours::Ours::field) == sizeof(std::declval<Theirs>().their_field))

SAME_SIZE(DevicePtr, CUdeviceptr);
SAME_SIZE(DeviceId, CUdevice);
SAME_SIZE(Allocation, CUmemGenericAllocationHandle);

SAME_VALUE(success, CUDA_SUCCESS);
SAME_VALUE(invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(not_initialized, CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(no_device, CUDA_ERROR_NO_DEVICE);
SAME_VALUE(invalid_device, CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(invalid_image, CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(invalid_context, CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(uncorrectable_memory, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_VALUE(broken_link, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME_VALUE(unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_VALUE(contained_memory_fault, CUDA_ERROR_CONTAINED);
SAME_VALUE(invalid_handle, CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(not_ready, CUDA_ERROR_NOT_READY);
SAME_VALUE(illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_VALUE(context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(assert_failed, CUDA_ERROR_ASSERT);
SAME_VALUE(hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME_VALUE(launch_failed, CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(tensor_memory_leak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
SAME_VALUE(compilation_failed, NVRTC_ERROR_COMPILATION);
SAME_VALUE(builtins_missing, NVRTC_ERROR_BUILTIN_OPERATION_FAILURE);

SAME_VALUE(max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(tcc_driver, CU_DEVICE_ATTRIBUTE_TCC_DRIVER);
SAME_VALUE(compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(virtual_memory_management_supported,
           CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_VALUE(posix_fd_supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME_VALUE(win32_kmt_supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED);
SAME_VALUE(memory_pools_supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME_VALUE(memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_VALUE(is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_VALUE(device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_VALUE(range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME_VALUE(range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME_VALUE(memory_host, CU_MEMORYTYPE_HOST);
SAME_VALUE(memory_device, CU_MEMORYTYPE_DEVICE);
SAME_VALUE(function_max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(pool_release_threshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
SAME_VALUE(event_disable_timing, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(stream_default, CU_STREAM_DEFAULT);
SAME_VALUE(handle_none, CU_MEM_HANDLE_TYPE_NONE);
SAME_VALUE(handle_posix_fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_VALUE(handle_win32_kmt, CU_MEM_HANDLE_TYPE_WIN32_KMT);
SAME_VALUE(allocation_pinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(location_device, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(access_read_write, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_VALUE(granularity_minimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_VALUE(legacy_entry_points, CU_GET_PROC_ADDRESS_LEGACY_STREAM);

SAME_SIZE(Location, CUmemLocation);
SAME_FIELD(Location, type, CUmemLocation, type);
SAME_FIELD(Location, id, CUmemLocation, id);

SAME_SIZE(AllocationProp, CUmemAllocationProp);
SAME_FIELD(AllocationProp, type, CUmemAllocationProp, type);
SAME_FIELD(AllocationProp, handle_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(AllocationProp, location, CUmemAllocationProp, location);
SAME_FIELD(AllocationProp, win32_metadata, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(AllocationProp, compression, CUmemAllocationProp, allocFlags.compressionType);
SAME_FIELD(AllocationProp, gpu_direct_rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME_FIELD(AllocationProp, usage, CUmemAllocationProp, allocFlags.usage);
SAME_FIELD(AllocationProp, reserved, CUmemAllocationProp, allocFlags.reserved);

SAME_SIZE(AccessDesc, CUmemAccessDesc);
SAME_FIELD(AccessDesc, location, CUmemAccessDesc, location);
SAME_FIELD(AccessDesc, flags, CUmemAccessDesc, flags);

SAME_SIZE(PoolProps, CUmemPoolProps);
SAME_FIELD(PoolProps, allocation_type, CUmemPoolProps, allocType);
SAME_FIELD(PoolProps, handle_types, CUmemPoolProps, handleTypes);
SAME_FIELD(PoolProps, location, CUmemPoolProps, location);
SAME_FIELD(PoolProps, win32_metadata, CUmemPoolProps, win32SecurityAttributes);
SAME_FIELD(PoolProps, max_size, CUmemPoolProps, maxSize);
SAME_FIELD(PoolProps, usage, CUmemPoolProps, usage);

SAME_SIZE(Uuid, CUuuid);

}  // namespace
