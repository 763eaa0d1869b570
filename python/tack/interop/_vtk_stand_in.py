"""What vtkmodules.util.dlpack_support offers, for host memory, on VTK 9.7's public Python API.

An import must survive that VTK moves the array's memory while a view of it lives (Resize,
InsertNextValue, Squeeze, SetNumberOfTuples). So the array is first given another buffer object over
the same memory, one that does not free it; the first buffer, which does, is kept by the views. VTK
then takes new memory for the array and leaves the old to them.
"""

from __future__ import annotations

from vtkmodules import vtkCommonCore as vtk

import tack
from tack import _core

__all__ = ["DLPackArray", "dlpack_to_vtk", "supported_device_types", "vtk_to_dlpack"]

_HOST = 1  # kDLCPU

# VTK's numbers of its types. Character arrays are int8.
_DTYPES = {
    2: tack.int8,
    15: tack.int8,
    3: tack.uint8,
    4: tack.int16,
    5: tack.uint16,
    6: tack.int32,
    7: tack.uint32,
    8: tack.int64,
    9: tack.uint64,
    16: tack.int64,
    17: tack.uint64,
    12: tack.int64 if vtk.vtkIdTypeArray().GetDataTypeSize() == 8 else tack.int32,
    10: tack.float32,
    11: tack.float64,
}

CLASSES = {
    tack.int8: vtk.vtkSignedCharArray,
    tack.uint8: vtk.vtkUnsignedCharArray,
    tack.int16: vtk.vtkShortArray,
    tack.uint16: vtk.vtkUnsignedShortArray,
    tack.int32: vtk.vtkIntArray,
    tack.uint32: vtk.vtkUnsignedIntArray,
    tack.int64: vtk.vtkLongLongArray,
    tack.uint64: vtk.vtkUnsignedLongLongArray,
    tack.float32: vtk.vtkFloatArray,
    tack.float64: vtk.vtkDoubleArray,
}


class _Kept:
    """The memory that views of an array hold: the buffer that frees it, and where it is."""

    __slots__ = ("address", "buffer", "dtype")

    def __init__(self, buffer, address, dtype):
        self.buffer = buffer
        self.address = address
        self.dtype = dtype


def supported_device_types():
    """The DLPack device types that can be exchanged: host memory alone."""
    return (_HOST,)


def vtk_to_dlpack(array, device_id=0, versioned=False):
    """A DLPack capsule of shape (tuples, components) over a VTK array's memory."""
    kept = _keep(array)
    return _core.buffer_capsule(array, kept.dtype, kept, versioned)


def dlpack_to_vtk(source, name=None):
    """A VTK array over the host memory of a DLPack producer, which VTK keeps alive."""
    array = source if isinstance(source, tack.Array) else tack.from_dlpack(source)
    if array.device.name != "cpu":
        raise ValueError(
            f"dlpack_to_vtk: the array is on {array.device}; this VTK exchanges host memory only: "
            "pass array.to_device('cpu')"
        )
    if array.ndim not in (1, 2):
        raise ValueError(
            f"dlpack_to_vtk: shape {array.shape} is neither (tuples,) nor (tuples, components)"
        )
    if not array.writable:
        raise ValueError("dlpack_to_vtk: VTK has no read-only arrays; pass a copy")
    if array.dtype not in CLASSES:
        raise TypeError(f"dlpack_to_vtk: VTK has no arrays of {array.dtype.name}")
    components = array.shape[1] if array.ndim == 2 else 1
    return from_array(CLASSES[array.dtype], array, components, name)


def to_array(array, flatten):
    """As tack.interop.vtk.vtk_to_array of an array not imported before, without a capsule."""
    kept = _keep(array)
    return _core.buffer_array(array, kept.dtype, kept, flatten, kept.address)


def from_array(vtk_class, array, components, name):
    """A VTK array of the class for the array's dtype, over its memory on the host."""
    result = vtk_class()
    if components != 1:
        result.SetNumberOfComponents(components)
    size = array.size
    if size:
        result.SetVoidArray(array, size, 1)
        # An attribute of the buffer's wrapper lives as long as VTK's buffer, on whichever thread
        # that ends; one of the array's would not outlive a ShallowCopy.
        result.GetBuffer()._tack_array = array
    if name is not None:
        result.SetName(name)
    return result


class DLPackArray:
    """A VTK array as a DLPack producer."""

    def __init__(self, array, device_id=0):
        self._array = array
        self._device_id = device_id

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy:
            raise BufferError("DLPackArray: an export is always a view; copy the VTK array first")
        versioned = max_version is not None and max_version[0] >= 1
        return vtk_to_dlpack(self._array, self._device_id, versioned)

    def __dlpack_device__(self):
        return _HOST, self._device_id


def _keep(array):
    """What keeps the array's present memory alive, made at the first import of that memory."""
    dtype = _dtype(array)
    address = _core.buffer_address(array)
    buffer = array.GetBuffer()
    kept = getattr(buffer, "_tack_kept", None)
    if kept is None or kept.address != address:
        # Nothing to keep, and the address of no values says nothing of the buffer's memory.
        if array.GetNumberOfValues() == 0:
            return _Kept(buffer, address, dtype)
        if kept is not None:
            buffer._tack_kept = None  # VTK has moved the array; views still hold the old memory
        kept = _Kept(buffer, address, dtype)
        buffer = type(buffer)()
        buffer.SetFreeFunction(True)
        buffer.SetBuffer(kept.buffer, kept.buffer.GetSize())
        buffer._tack_kept = kept
        array.SetBuffer(buffer)
    # For _core.array_imported_before. Held by the array's wrapper the buffer's is found quickly.
    array._tack_import = buffer, kept, dtype, address
    return kept


def _dtype(array):
    if not isinstance(array, vtk.vtkDataArray):
        raise TypeError(f"vtk_to_array: {_described(array)} is not a numeric VTK array")
    dtype = _DTYPES.get(array.GetDataType())
    if dtype is None:
        raise TypeError(
            f"vtk_to_array: {_described(array)} has elements of {array.GetDataTypeAsString()}, "
            "which DLPack cannot describe; it takes integers of 8 to 64 bits, float and double"
        )
    if not array.HasStandardMemoryLayout():
        raise ValueError(
            f"vtk_to_array: {_described(array)} does not keep its values one after another in "
            "memory; copy it into an ordinary array with DeepCopy()"
        )
    return dtype


def _described(array):
    if not isinstance(array, vtk.vtkAbstractArray):
        return type(array).__name__
    name = array.GetName()
    kind = f"{array.GetArrayTypeAsString()} of {array.GetDataTypeAsString()}"
    return f"{kind} '{name}'" if name else kind
