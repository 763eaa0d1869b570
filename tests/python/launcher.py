"""Launches whose arguments from NumPy lie on the default device while they run."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np

import tack

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BOUNDARY = 64  # bytes; what is aligned on the host is so on the device


class Launcher:
    """A kernel whose arguments from NumPy lie on the default device while it runs.

    On the CPU they are used where they are. To a device each is copied, and back when the launch
    has returned or failed; arrays that overlap, overlap there too.
    """

    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, *args, **kwargs):
        with Moved([*args, *kwargs.values()]) as there:
            self.kernel(*map(there, args), **{name: there(a) for name, a in kwargs.items()})

    def inspect(self, *args, mode):
        with Moved(args) as there:
            return self.kernel.inspect(*map(there, args), mode=mode)


def kernel(function=None, **options):
    """tack.kernel, with a Launcher around it."""
    if function is None:
        return lambda f: kernel(f, **options)
    return Launcher(tack.kernel(function, **options))


class Moved:
    """NumPy arrays on the default device; called with one of them it gives the array there.

    What a device cannot hold stays as it is: it is a scalar argument, or one to be refused.
    """

    def __init__(self, arguments):
        arrays = [a for a in arguments if isinstance(a, np.ndarray)]
        self.there, self.kept = {}, arrays
        if tack.default_device().name == "cpu":
            # NumPy's DLPack does not export bfloat16.
            for array in arrays:
                if array.dtype == BFLOAT16:
                    self.there[id(array)] = view(array, array.ctypes.data)
            return
        for block in blocks([a for a in arrays if is_movable(a)]):
            self.move(block)

    def move(self, block):
        if len(block) == 1 and block[0].flags.writeable:
            self.there[id(block[0])] = tack.array(block[0])
            return
        begin = min(a.ctypes.data for a in block)
        size = max(a.ctypes.data + a.nbytes for a in block) - begin
        lead = begin % BOUNDARY
        memory = np.zeros(lead + size, np.uint8)
        if size:
            memory[lead:] = np.frombuffer(ctypes.string_at(begin, size), np.uint8)
        base = tack.array(memory)
        self.kept.append(base)
        for array in block:
            at = base.ptr + lead + array.ctypes.data - begin
            self.there[id(array)] = view(array, at)

    def __call__(self, argument):
        return self.there.get(id(argument), argument)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if tack.default_device().name == "cpu":
            return
        for array in self.kept:
            if id(array) in self.there and array.flags.writeable:
                np.copyto(array, self.there[id(array)].numpy())


def view(array, address):
    return tack.array_from_ptr(address, array.dtype, array.shape, writable=array.flags.writeable)


def is_movable(array):
    return array.ndim > 0 and array.flags.c_contiguous and is_tacks(array.dtype)


def is_tacks(dtype):
    try:
        tack.DType(dtype)
    except TypeError:
        return False
    return True


def blocks(arrays):
    """The arrays in groups that overlap."""
    groups, end = [], 0
    for array in sorted(arrays, key=lambda a: a.ctypes.data):
        if groups and array.ctypes.data < end:
            groups[-1].append(array)
        else:
            groups.append([array])
        end = max(end, array.ctypes.data + array.nbytes)
    return groups
