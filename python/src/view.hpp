/// Views of whatever memory an object shares, by any protocol.
#pragma once

#include "bindings.hpp"
#include "tack/dlpack.hpp"

namespace tack::python {

/// In the order in which they are tried.
enum class Protocol {
    none,
    tack,
    dlpack,  // with __dlpack__, through the C exchange API where the type has one
    capsule,
    cuda_array_interface,
    array_interface,
    buffer,
};
/// The first that the object offers; whether it then works is another matter.
Protocol protocol_of(PyObject* object);
/// What follows DLPack where a producer of it refuses.
Protocol protocol_after_dlpack(PyObject* object);

/// An array over the object's memory, never a copy: what asarray(x, copy=False) gives.
/// Throws type for an object that shares no memory, and what from_dlpack() throws.
Array view_of(PyObject* object, const Device& device = {});

/// A tensor over memory that the array interface or the buffer protocol describes; the caller owns
/// it, and its deleter needs the GIL. Throws type for elements that no DLPack type describes and
/// for big-endian ones, non_contiguous for strides that are no whole elements.
dlpack::ManagedTensorVersioned* interface_tensor(PyObject* object);
dlpack::ManagedTensorVersioned* buffer_tensor(PyObject* object);

/// Memory that CUDA's array interface describes; the tensor is the caller's, as above. It does not
/// say which device the memory is of.
struct CudaArray {
    dlpack::ManagedTensorVersioned* tensor = nullptr;
    std::optional<std::uint64_t> stream;  // whose work comes first, if any
};
/// Throws as interface_tensor() does, and value for a stream of 0.
CudaArray cuda_array(PyObject* object);
/// Says so in the tensor, and returns the device: `wanted`, or else the one that knows the address.
Device place_cuda_array(dlpack::ManagedTensorVersioned* tensor, const Device& wanted);

}  // namespace tack::python
