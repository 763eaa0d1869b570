"""Numba: the first call of a parallel function in a process, and of another one after it."""

import numba
import numpy as np
from probe import report, resident_bytes, seconds


@numba.njit(parallel=True, cache=True)
def saxpy(a, x, y, z):
    for i in numba.prange(z.size):
        z[i] = a * x[i] + y[i]


@numba.njit(parallel=True, cache=True)
def difference(a, x, y, z):
    for i in numba.prange(z.size):
        z[i] = a * x[i] - y[i]


x, y, z = np.ones((3, 16), np.float32)
arguments = (np.float32(2), x, y, z)
before = resident_bytes()
first = seconds(lambda: saxpy(*arguments))
resident = resident_bytes() - before
report(first=first, resident=resident, later=seconds(lambda: difference(*arguments)))
