"""What the rows in this process work on: the same kernels in each library, and their arrays."""

import ctypes
import math

import numpy as np
from measure import c_library

import tack

LARGE = 1 << 24


@tack.kernel
def saxpy(a, x, y, z):
    for i in range(z.size):
        z[i] = a * x[i] + y[i]


@tack.kernel
def sine(x, z):
    for i in range(z.size):
        z[i] = math.sin(x[i])


def inputs(count):
    """Three float32 arrays: two of values from 0 to 6, one of zeros for the result."""
    values = np.linspace(0, 6, count, dtype=np.float32)
    return values, values[::-1].copy(), np.zeros(count, np.float32)


def names(function, arrays):
    return {"f": function, "a": np.float32(2), **dict(zip("xyz", arrays))}


def tack_saxpy(count):
    return {**names(saxpy, map(tack.array, inputs(count))), "a": 2.0}


def tack_saxpy_over_numpy(count):
    return {**names(saxpy, inputs(count)), "a": 2.0}


def tack_saxpy_over_torch(count):
    import torch

    return {**names(saxpy, map(torch.from_numpy, inputs(count))), "a": 2.0}


def numba_serial_saxpy(count):
    import numba

    @numba.njit
    def saxpy(a, x, y, z):
        for i in range(z.size):
            z[i] = a * x[i] + y[i]

    return names(saxpy, inputs(count))


def numba_parallel_saxpy(count):
    import numba

    @numba.njit(parallel=True)
    def saxpy(a, x, y, z):
        for i in numba.prange(z.size):
            z[i] = a * x[i] + y[i]

    return names(saxpy, inputs(count))


def torch_saxpy(count):
    import torch

    return {**names(torch.add, map(torch.from_numpy, inputs(count))), "a": 2.0}


def openmp_saxpy(count):
    library = c_library("streaming.c", "-march=native", "-fopenmp")
    # The library's streaming stores need aligned memory, which Tack's arrays have.
    arrays = [tack.array(values) for values in inputs(count)]
    addresses = [ctypes.c_void_p(array.ptr) for array in arrays]
    arguments = (ctypes.c_long(count), ctypes.c_float(2.0), *addresses)
    return {"f": library.saxpy, "arguments": arguments, "arrays": arrays}


def warp_saxpy(count):
    import warp as wp

    wp.config.log_level = wp.LOG_ERROR

    @wp.kernel
    def saxpy(
        a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)
    ):
        i = wp.tid()
        z[i] = a * x[i] + y[i]

    arrays = [wp.array(values, dtype=float, device="cpu") for values in inputs(count)]
    launch = wp.launch(saxpy, count, [2.0, *arrays], device="cpu", record_cmd=True)
    return {"launch": launch.launch}


def tack_sine(count):
    return names(sine, map(tack.array, inputs(count)))


def numpy_sine(count):
    return names(np.sin, inputs(count))


def torch_sine(count):
    import torch

    return names(torch.sin, map(torch.from_numpy, inputs(count)))


def tvm_ffi_call():
    import torch
    import tvm_ffi

    tensors = map(torch.from_numpy, inputs(16))
    return names(tvm_ffi.get_global_func("testing.nop"), tensors)


# Exchange: `take` of the importing library and `x` of the producing one.


def numpy_array():
    return inputs(16)[0]


def torch_tensor():
    import torch

    return torch.from_numpy(numpy_array())


def tack_array():
    return tack.array(numpy_array())


def tvm_ffi_tensor():
    import tvm_ffi

    return tvm_ffi.from_dlpack(numpy_array())


def exchange(library, produce):
    """A set-up: the library's name, and a function that makes the array."""

    def setup():
        import importlib

        return {"take": importlib.import_module(library).from_dlpack, "x": produce()}

    return setup
