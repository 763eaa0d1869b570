/// The CUDA driver's interface, as far as Tack calls it. Declared here: the build needs no CUDA.
/// Source: CUDA Driver API reference; tests/cpp/test_cuda_abi.cpp compares with its cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/gpu/driver_table.hpp"

namespace tack::cuda {

using gpu::Entry;
using gpu::Status;

using DeviceId = int;
using DevicePtr = unsigned long long;
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using ModuleId = struct ModuleHandle*;
using Function = struct FunctionHandle*;
using Pool = struct PoolHandle*;
using Allocation = unsigned long long;  // CUmemGenericAllocationHandle

/// CUresult
enum Result : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    not_initialized = 3,
    deinitialized = 4,
    no_device = 100,
    invalid_device = 101,
    invalid_image = 200,
    invalid_context = 201,
    no_binary_for_gpu = 209,
    uncorrectable_memory = 214,
    broken_link = 220,
    unsupported_ptx_version = 222,
    contained_memory_fault = 226,
    invalid_handle = 400,
    not_ready = 600,
    illegal_address = 700,
    launch_timeout = 702,
    context_is_destroyed = 709,
    assert_failed = 710,
    hardware_stack_error = 714,
    launch_failed = 719,
    tensor_memory_leak = 721,
};

/// CUdevice_attribute
enum Attribute : int {
    max_threads_per_block = 1,
    multiprocessor_count = 16,
    tcc_driver = 35,
    compute_capability_major = 75,
    compute_capability_minor = 76,
    virtual_memory_management_supported = 102,
    posix_fd_supported = 103,
    win32_kmt_supported = 105,
    memory_pools_supported = 115,
};

/// CUpointer_attribute
enum PointerAttribute : int {
    memory_type = 2,
    is_managed = 8,
    device_ordinal = 9,
    range_start = 11,
    range_size = 12,
};
/// CUmemorytype
enum MemoryType : unsigned { memory_host = 1, memory_device = 2 };
/// CUfunction_attribute
inline constexpr int function_max_threads = 0;
/// CUmemPool_attribute
inline constexpr int pool_release_threshold = 4;
/// CUevent_flags and CUstream_flags
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned stream_default = 0;
/// CUmemAllocationHandleType
enum HandleType : int { handle_none = 0, handle_posix_fd = 1, handle_win32_kmt = 4 };
inline constexpr int allocation_pinned = 1;              // CUmemAllocationType
inline constexpr int location_device = 1;                // CUmemLocationType
inline constexpr int access_read_write = 3;              // CUmemAccess_flags
inline constexpr int granularity_minimum = 0;            // CUmemAllocationGranularity_flags
inline constexpr std::uint64_t legacy_entry_points = 1;  // CUdriverProcAddress_flags

struct Location {
    int type = location_device;
    int id = 0;
};
struct AllocationProp {
    int type = allocation_pinned;
    int handle_types = handle_none;
    Location location;
    void* win32_metadata = nullptr;
    std::uint8_t compression = 0;
    std::uint8_t gpu_direct_rdma = 0;
    std::uint16_t usage = 0;
    std::uint8_t reserved[4] = {};
};
struct AccessDesc {
    Location location;
    int flags = access_read_write;
};
struct PoolProps {
    int allocation_type = allocation_pinned;
    int handle_types = handle_none;
    Location location;
    void* win32_metadata = nullptr;
    std::size_t max_size = 0;
    std::uint16_t usage = 0;
    std::uint8_t reserved[54] = {};
};
struct Uuid {
    std::uint8_t bytes[16];
};

/// Whether a result says that the work of the context has failed, which every later call says too.
bool loses_context(int result);

struct Driver final : gpu::DriverTable {
    /// The driver of this process, opened and initialised at the first call that succeeds.
    /// Throws runtime, in a sentence: no library and where it was looked for; a driver too old and
    /// what it lacks; initialisation that failed, no device among its reasons.
    static Driver& get();

    /// Throws as fail() does where a call was refused; what() gives what Tack was doing.
    template <class Doing>
    void check(Status status, Doing&& doing) const {
        if (status) fail(status, doing());
    }
    /// An Error with the driver's own name and text for a result, and what to do about it. Of kind
    /// memory where the device's memory is out.
    [[noreturn]] void fail(Status status, const std::string& doing) const;
    /// "CUDA_ERROR_INVALID_VALUE (1, invalid argument)"
    std::string describe(int result) const;

    int version() const noexcept { return version_; }  // 12040 is 12.4
    std::string version_text() const;
    int device_count() const noexcept { return device_count_; }
    int attribute(DeviceId device, Attribute attribute) const;
    std::vector<std::uint8_t> uuid(DeviceId device, const char* operation) const;

    // start
    Entry<int(unsigned)> init{*this, "cuInit", 2000};
    Entry<int(int*)> driver_version{*this, "cuDriverGetVersion", 2020};
    Entry<int(int, const char**)> error_name{*this, "cuGetErrorName", 6000};
    Entry<int(int, const char**)> error_string{*this, "cuGetErrorString", 6000};
    Entry<int(int*)> count_devices{*this, "cuDeviceGetCount", 2000};
    Entry<int(DeviceId*, int)> device_get{*this, "cuDeviceGet", 2000};
    Entry<int(char*, int, DeviceId)> device_name{*this, "cuDeviceGetName", 2000};
    Entry<int(std::size_t*, DeviceId)> device_memory{*this, "cuDeviceTotalMem_v2", 3020};
    Entry<int(int*, int, DeviceId)> device_attribute{*this, "cuDeviceGetAttribute", 2000};
    Entry<int(Uuid*, DeviceId)> device_uuid{*this, "cuDeviceGetUuid", 9020,
                                            "UUID in exported memory"};
    Entry<int(Uuid*, DeviceId)> device_uuid_mig{*this, "cuDeviceGetUuid_v2", 11040,
                                                "UUID of a MIG instance"};

    // contexts
    Entry<int(Context*, DeviceId)> primary_retain{*this, "cuDevicePrimaryCtxRetain", 7000};
    Entry<int(DeviceId)> primary_release{*this, "cuDevicePrimaryCtxRelease_v2", 11000,
                                         "release of the primary context"};
    Entry<int(DeviceId, unsigned*, int*)> primary_state{*this, "cuDevicePrimaryCtxGetState", 7000,
                                                        "state of the primary context"};
    Entry<int(Context*)> context_current{*this, "cuCtxGetCurrent", 4000};
    Entry<int(Context)> context_push{*this, "cuCtxPushCurrent_v2", 4000};
    Entry<int(Context*)> context_pop{*this, "cuCtxPopCurrent_v2", 4000};
    Entry<int(DeviceId*)> context_device{*this, "cuCtxGetDevice", 2000};
    Entry<int(Context, std::uint64_t*)> context_id{*this, "cuCtxGetId", 12000,
                                                   "identity of a context"};
    Entry<int()> context_synchronize{*this, "cuCtxSynchronize", 2000};

    // streams and events
    Entry<int(Stream*, unsigned)> stream_create{*this, "cuStreamCreate", 2000};
    Entry<int(Stream)> stream_destroy{*this, "cuStreamDestroy_v2", 4000};
    Entry<int(Stream)> stream_synchronize{*this, "cuStreamSynchronize", 2000};
    Entry<int(Stream)> stream_query{*this, "cuStreamQuery", 2000};
    Entry<int(Stream, Context*)> stream_context{*this, "cuStreamGetCtx", 9020,
                                                "check of a stream's context"};
    Entry<int(Stream, Event, unsigned)> stream_wait{*this, "cuStreamWaitEvent", 3020};
    Entry<int(Event*, unsigned)> event_create{*this, "cuEventCreate", 2000};
    Entry<int(Event, Stream)> event_record{*this, "cuEventRecord", 2000};
    Entry<int(Event)> event_query{*this, "cuEventQuery", 2000};
    Entry<int(Event)> event_destroy{*this, "cuEventDestroy_v2", 4000};

    // memory
    Entry<int(DevicePtr*, std::size_t)> alloc{*this, "cuMemAlloc_v2", 3020};
    Entry<int(DevicePtr)> free{*this, "cuMemFree_v2", 3020};
    Entry<int(Pool*, const PoolProps*)> pool_create{*this, "cuMemPoolCreate", 11020, "memory pool"};
    Entry<int(Pool)> pool_destroy{*this, "cuMemPoolDestroy", 11020, "memory pool"};
    Entry<int(Pool, int, void*)> pool_set{*this, "cuMemPoolSetAttribute", 11020, "memory pool"};
    Entry<int(Pool, std::size_t)> pool_trim{*this, "cuMemPoolTrimTo", 11020, "memory pool"};
    Entry<int(DevicePtr*, std::size_t, Pool, Stream)> pool_alloc{*this, "cuMemAllocFromPoolAsync",
                                                                 11020, "memory pool"};
    Entry<int(DevicePtr, Stream)> pool_free{*this, "cuMemFreeAsync", 11020, "memory pool"};
    Entry<int(std::size_t*, std::size_t*)> memory_info{*this, "cuMemGetInfo_v2", 3020};
    Entry<int(unsigned, int*, void**, DevicePtr)> pointer_attributes{
        *this, "cuPointerGetAttributes", 7000};
    Entry<int(DevicePtr, const void*, std::size_t, Stream)> copy_to{*this, "cuMemcpyHtoDAsync_v2",
                                                                    3020};
    Entry<int(void*, DevicePtr, std::size_t, Stream)> copy_from{*this, "cuMemcpyDtoHAsync_v2",
                                                                3020};
    Entry<int(DevicePtr, DevicePtr, std::size_t, Stream)> copy_within{*this, "cuMemcpyDtoDAsync_v2",
                                                                      3020};
    Entry<int(DevicePtr, unsigned char, std::size_t, Stream)> set_8{*this, "cuMemsetD8Async", 3020};
    Entry<int(DevicePtr, unsigned short, std::size_t, Stream)> set_16{*this, "cuMemsetD16Async",
                                                                      3020};
    Entry<int(DevicePtr, unsigned, std::size_t, Stream)> set_32{*this, "cuMemsetD32Async", 3020};

    // memory that can be exported
    static constexpr const char* exporting = "memory export and import";
    Entry<int(std::size_t*, const AllocationProp*, int)> granularity{
        *this, "cuMemGetAllocationGranularity", 10020, exporting};
    Entry<int(Allocation*, std::size_t, const AllocationProp*, std::uint64_t)> create{
        *this, "cuMemCreate", 10020, exporting};
    Entry<int(Allocation)> release{*this, "cuMemRelease", 10020, exporting};
    Entry<int(DevicePtr*, std::size_t, std::size_t, DevicePtr, std::uint64_t)> reserve{
        *this, "cuMemAddressReserve", 10020, exporting};
    Entry<int(DevicePtr, std::size_t)> unreserve{*this, "cuMemAddressFree", 10020, exporting};
    Entry<int(DevicePtr, std::size_t, std::size_t, Allocation, std::uint64_t)> map{
        *this, "cuMemMap", 10020, exporting};
    Entry<int(DevicePtr, std::size_t)> unmap{*this, "cuMemUnmap", 10020, exporting};
    Entry<int(DevicePtr, std::size_t, const AccessDesc*, std::size_t)> set_access{
        *this, "cuMemSetAccess", 10020, exporting};
    Entry<int(void*, Allocation, int, std::uint64_t)> export_handle{
        *this, "cuMemExportToShareableHandle", 10020, exporting};
    Entry<int(Allocation*, void*, int)> import_handle{*this, "cuMemImportFromShareableHandle",
                                                      10020, exporting};

    // kernels
    Entry<int(ModuleId*, const void*, unsigned, int*, void**)> module_load{
        *this, "cuModuleLoadDataEx", 2010};
    Entry<int(ModuleId)> module_unload{*this, "cuModuleUnload", 2000};
    Entry<int(Function*, ModuleId, const char*)> module_function{*this, "cuModuleGetFunction",
                                                                 2000};
    Entry<int(int*, int, Function)> function_attribute{*this, "cuFuncGetAttribute", 2020};
    Entry<int(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
              Stream, void**, void**)>
        launch{*this, "cuLaunchKernel", 4000};

private:
    Driver();

    int version_ = 0;
    int device_count_ = 0;
};

/// What `python -m tack` says of the driver; never throws for what is missing.
std::string driver_summary(const Driver& driver, DeviceId device);

}  // namespace tack::cuda
