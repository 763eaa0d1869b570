"""Tack as users write it, for mypy in strict mode; tests/python/test_stubs.py runs both."""
# Kernels are written without annotations, as their parameters take many types.
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

from typing import Any

import numpy as np
import numpy.typing as npt

import tack
import tack.interop.dlpack
import tack.interop.vtk as tv


@tack.func
def square(v):
    return v * v


@tack.kernel
def slope(z, dx, dy, out):
    for i, j in tack.ndrange((1, z.shape[0] - 1), (1, z.shape[1] - 1)):
        gx = (z[i, j + 1] - z[i, j - 1]) / (2.0 * dx)
        gy = (z[i + 1, j] - z[i - 1, j]) / (2.0 * dy)
        out[i, j] = (square(gx) + square(gy)) ** 0.5


@tack.kernel(fast_math=True)
def accumulate(x, total):
    for i in range(x.size):
        tack.atomic_add(total, 0, x[i])


elevation: npt.NDArray[np.int16] = np.arange(20, dtype=np.int16).reshape(4, 5)
result: npt.NDArray[np.float64] = np.zeros(elevation.shape)
slope(elevation, 30.0, 30.0, result)
text: str = slope.inspect(elevation, 30.0, 30.0, result, mode="source")

# sharing
a: tack.Array = tack.from_dlpack(result)
back: npt.NDArray[Any] = np.from_dlpack(a)
copied: tack.Array = tack.from_dlpack(elevation[:, ::2], copy=True, device="cpu")
capsule = tack.interop.dlpack.array_to_dlpack(a, (1, 0))
shared: tack.Array = tack.interop.dlpack.dlpack_to_array(capsule, writable=False)
count: int = tack.interop.dlpack.live_exports()
field: tack.Array = tack.array_from_ptr(result.ctypes.data, tack.float64, (4, 5))
view: memoryview = memoryview(a)
letters: tack.Array = tack.asarray(b"abc", copy=False)
fresh: tack.Array = tack.asarray([1, 2], dtype=tack.int8, device="cpu")
record: tack.Explanation = tack.explain(elevation.T)
facts: tuple[str, str | None, bool] = (str(record), record.layout, record.shared)
as_numpy: npt.NDArray[Any] = np.asarray(a)


# a device that others use too, which need not be here
def on_the_gpu(x: Any) -> tack.Array:
    gpu: tack.Device = tack.device("cuda")
    stream: int | None = gpu.stream
    gpu.wait_for_stream(7)
    given: tack.Array = tack.empty(4, device=gpu, exportable=True)
    interface: dict[str, Any] = given.__cuda_array_interface__
    record: tack.ExportedMemory = given.export_memory()
    uuid: bytes | None = record.device_uuid
    tack.ExportedMemory("cuda", 16, record.allocation_size, 7, "posix_fd", uuid)
    tack.import_memory(7, tack.float32, 4, allocation_size=64, device=gpu, writable=False)
    print(stream, interface, tack.explain(x).ordering)
    return tack.import_memory(record, tack.float32, (2, 2))


# VTK, which need not be installed here
def smoothed(image: Any) -> tack.Array | None:
    tv.install_dlpack_support()
    data = tv.point_data(image)
    density: tack.Array = data["density"]
    data["copy"] = density.copy()
    data["numpy"] = np.zeros(density.shape)
    there = tv.array_to_vtk(density, n_components=1, name="again")
    tv.modified(there)
    back: tack.Array = tv.vtk_to_array(there, flatten=True)
    return tv.points(image) or back


# making
total: tack.Array = tack.zeros(1)
accumulate(tack.arange(10, dtype="f4"), total)
b: tack.Array = tack.array([[1, 2], [3, 4]], dtype=tack.int32)
c: tack.Array = tack.full((2, 2), 1.5, np.float64, device=tack.device("cpu"))
d: tack.Array = tack.empty(b.shape, b.dtype).reshape(-1).reshape(2, 2)
d[...] = b
d[0, -1] = 7
first: int = d[0, 0]
whole: tack.Array = d[...]
number: float = total.item()
dtype: tack.DType = tack.DType(np.float32)
same: bool = dtype == tack.float32

# devices
cpu: tack.Device = tack.set_default_device("cpu")
space: str = cpu.memory_space(a.ptr)
names: list[str] = [device.name for device in tack.devices()]
tack.set_num_threads(tack.num_threads())
tack.synchronize()

try:
    tack.from_dlpack(elevation.T)
except tack.NonContiguousError as error:
    message: str = str(error)
