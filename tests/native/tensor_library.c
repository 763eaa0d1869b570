#include "tensor_library.h"

#include <stdlib.h>

static int alive;

int library_alive(void) { return alive; }

static DLTensor new_tensor(int64_t n) {
    DLTensor tensor = {0};
    double* values = malloc((size_t)n * sizeof *values);
    for (int64_t k = 0; k < n; ++k) values[k] = (double)k;
    tensor.data = values;
    tensor.device.device_type = kDLCPU;
    tensor.ndim = 1;
    tensor.dtype.code = kDLFloat;
    tensor.dtype.bits = 64;
    tensor.dtype.lanes = 1;
    tensor.shape = malloc(2 * sizeof *tensor.shape);
    tensor.strides = tensor.shape + 1;
    tensor.shape[0] = n;
    tensor.strides[0] = 1;
    ++alive;
    return tensor;
}

static void free_tensor(DLTensor* tensor) {
    free(tensor->data);
    free(tensor->shape);
    --alive;
}

static void delete_legacy(DLManagedTensor* self) {
    free_tensor(&self->dl_tensor);
    free(self);
}

static void delete_versioned(DLManagedTensorVersioned* self) {
    free_tensor(&self->dl_tensor);
    free(self);
}

DLManagedTensor* library_make(int64_t n) {
    DLManagedTensor* managed = calloc(1, sizeof *managed);
    managed->dl_tensor = new_tensor(n);
    managed->deleter = delete_legacy;
    return managed;
}

DLManagedTensorVersioned* library_make_versioned(int64_t n, int read_only) {
    DLManagedTensorVersioned* managed = calloc(1, sizeof *managed);
    managed->version.major = DLPACK_MAJOR_VERSION;
    managed->version.minor = DLPACK_MINOR_VERSION;
    managed->dl_tensor = new_tensor(n);
    managed->deleter = delete_versioned;
    if (read_only) managed->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    return managed;
}

static void double_all(const DLTensor* tensor) {
    double* values = (double*)((char*)tensor->data + tensor->byte_offset);
    for (int64_t k = 0; k < tensor->shape[0]; ++k) values[k * tensor->strides[0]] *= 2;
}

int library_take(DLManagedTensor* tensor) {
    double_all(&tensor->dl_tensor);
    tensor->deleter(tensor);
    return 0;
}

int library_take_versioned(DLManagedTensorVersioned* tensor) {
    const int read_only = (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    if (!read_only) double_all(&tensor->dl_tensor);
    tensor->deleter(tensor);
    return read_only ? -1 : 0;
}
