/// Tack's own declarations of DLPack against an installed dlpack.h. Compiled, never run, by
/// tests/python/test_dlpack_abi.py, which knows where one is.
#include <dlpack/dlpack.h>

#include <cstddef>

#include "tack/dlpack.hpp"

static_assert(DLPACK_MAJOR_VERSION == 1);

#define SAME_SIZE(Ours, Theirs)                                   \
    static_assert(sizeof(tack::dlpack::Ours) == sizeof(Theirs) && \
                  alignof(tack::dlpack::Ours) == alignof(Theirs))
#define SAME_FIELD(Ours, Theirs, field)                                             \
    static_assert(offsetof(tack::dlpack::Ours, field) == offsetof(Theirs, field) && \
                  sizeof(tack::dlpack::Ours::field) == sizeof(Theirs::field))
#define SAME_VALUE(ours, theirs) \
    static_assert(static_cast<long>(tack::dlpack::ours) == static_cast<long>(theirs))

SAME_SIZE(Device, DLDevice);
SAME_FIELD(Device, DLDevice, device_type);
SAME_FIELD(Device, DLDevice, device_id);

SAME_SIZE(DataType, DLDataType);
SAME_FIELD(DataType, DLDataType, code);
SAME_FIELD(DataType, DLDataType, bits);
SAME_FIELD(DataType, DLDataType, lanes);

SAME_SIZE(Tensor, DLTensor);
SAME_FIELD(Tensor, DLTensor, data);
SAME_FIELD(Tensor, DLTensor, device);
SAME_FIELD(Tensor, DLTensor, ndim);
SAME_FIELD(Tensor, DLTensor, dtype);
SAME_FIELD(Tensor, DLTensor, shape);
SAME_FIELD(Tensor, DLTensor, strides);
SAME_FIELD(Tensor, DLTensor, byte_offset);

SAME_SIZE(ManagedTensor, DLManagedTensor);
SAME_FIELD(ManagedTensor, DLManagedTensor, dl_tensor);
SAME_FIELD(ManagedTensor, DLManagedTensor, manager_ctx);
SAME_FIELD(ManagedTensor, DLManagedTensor, deleter);

SAME_SIZE(Version, DLPackVersion);
SAME_FIELD(Version, DLPackVersion, major);
SAME_FIELD(Version, DLPackVersion, minor);

SAME_SIZE(ManagedTensorVersioned, DLManagedTensorVersioned);
SAME_FIELD(ManagedTensorVersioned, DLManagedTensorVersioned, version);
SAME_FIELD(ManagedTensorVersioned, DLManagedTensorVersioned, manager_ctx);
SAME_FIELD(ManagedTensorVersioned, DLManagedTensorVersioned, deleter);
SAME_FIELD(ManagedTensorVersioned, DLManagedTensorVersioned, flags);
SAME_FIELD(ManagedTensorVersioned, DLManagedTensorVersioned, dl_tensor);

SAME_VALUE(cpu, kDLCPU);
SAME_VALUE(cuda, kDLCUDA);
SAME_VALUE(cuda_host, kDLCUDAHost);
SAME_VALUE(opencl, kDLOpenCL);
SAME_VALUE(vulkan, kDLVulkan);
SAME_VALUE(metal, kDLMetal);
SAME_VALUE(vpi, kDLVPI);
SAME_VALUE(rocm, kDLROCM);
SAME_VALUE(rocm_host, kDLROCMHost);
SAME_VALUE(ext_dev, kDLExtDev);
SAME_VALUE(cuda_managed, kDLCUDAManaged);
SAME_VALUE(oneapi, kDLOneAPI);
SAME_VALUE(webgpu, kDLWebGPU);
SAME_VALUE(hexagon, kDLHexagon);
SAME_VALUE(maia, kDLMAIA);
SAME_VALUE(trn, kDLTrn);

SAME_VALUE(code_int, kDLInt);
SAME_VALUE(code_uint, kDLUInt);
SAME_VALUE(code_float, kDLFloat);
SAME_VALUE(code_opaque_handle, kDLOpaqueHandle);
SAME_VALUE(code_bfloat, kDLBfloat);
SAME_VALUE(code_complex, kDLComplex);
SAME_VALUE(code_bool, kDLBool);

SAME_VALUE(flag_read_only, DLPACK_FLAG_BITMASK_READ_ONLY);
SAME_VALUE(flag_is_copied, DLPACK_FLAG_BITMASK_IS_COPIED);
SAME_VALUE(flag_subbyte_padded, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);

SAME_SIZE(ExchangeAPIHeader, DLPackExchangeAPIHeader);
SAME_FIELD(ExchangeAPIHeader, DLPackExchangeAPIHeader, version);
SAME_FIELD(ExchangeAPIHeader, DLPackExchangeAPIHeader, prev_api);

SAME_SIZE(ExchangeAPI, DLPackExchangeAPI);
SAME_FIELD(ExchangeAPI, DLPackExchangeAPI, header);
SAME_FIELD(ExchangeAPI, DLPackExchangeAPI, managed_tensor_allocator);
SAME_FIELD(ExchangeAPI, DLPackExchangeAPI, managed_tensor_from_py_object_no_sync);
SAME_FIELD(ExchangeAPI, DLPackExchangeAPI, managed_tensor_to_py_object_no_sync);
SAME_FIELD(ExchangeAPI, DLPackExchangeAPI, dltensor_from_py_object_no_sync);
SAME_FIELD(ExchangeAPI, DLPackExchangeAPI, current_work_stream);
