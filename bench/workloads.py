"""Larger kernels than those of kernels.py, in each library, and their arrays."""

import math
import threading
from time import perf_counter

import numpy as np
from kernels import LARGE, inputs, names, tack_saxpy

import tack

SIDE, CUBE, IMAGE, BINS = 4096, 256, 1024, 256


@tack.kernel
def exponential(x, z):
    for i in range(z.size):
        z[i] = math.exp(x[i])


@tack.kernel
def many(a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, z):
    for at in range(z.size):
        z[at] = a[at] + p[at]


@tack.kernel
def stencil5(u, v):
    for i, j in tack.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1)):
        v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@tack.kernel
def stencil7(u, v):
    for i, j, k in tack.ndrange((1, u.shape[0] - 1), (1, u.shape[1] - 1), (1, u.shape[2] - 1)):
        across = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
        v[i, j, k] = 0.1 * (across + u[i, j, k - 1] + u[i, j, k + 1]) + 0.4 * u[i, j, k]


@tack.kernel
def mandelbrot(counts):
    for i, j in tack.ndrange(counts.shape[0], counts.shape[1]):
        cx = j * (3.0 / counts.shape[1]) - 2.0
        cy = i * (3.0 / counts.shape[0]) - 1.5
        x = 0.0
        y = 0.0
        n = 0
        while n < 100 and x * x + y * y < 4.0:
            x, y = x * x - y * y + cx, 2.0 * x * y + cy
            n += 1
        counts[i, j] = n


@tack.kernel
def histogram(x, bins):
    for i in range(x.size):
        tack.atomic_add(bins, x[i], 1)


def over_tack(function, arrays):
    return names(function, map(tack.array, arrays))


def values(*shape):
    field = np.random.default_rng(1).random(shape, dtype=np.float32)
    return field, np.zeros_like(field)


def indices():
    x = np.random.default_rng(1).integers(0, BINS, LARGE, dtype=np.int32)
    return x, np.zeros(BINS, np.int32)


def tack_many():
    return {"f": many, "arrays": [tack.zeros(16) for _ in range(16)]}


def tack_exponential(count):
    return over_tack(exponential, inputs(count))


def numpy_exponential(count):
    return names(np.exp, inputs(count))


def torch_exponential(count):
    import torch

    return names(torch.exp, map(torch.from_numpy, inputs(count)))


def drjit_math(name, count):
    """Dr.Jit's function of that name; it makes a new array each time."""
    import drjit
    from drjit.llvm import Float

    x = Float(inputs(count)[0])
    function = getattr(drjit, name)

    def run():
        drjit.eval(function(x))
        drjit.sync_thread()

    return {"run": run}


def drjit_saxpy(count):
    """Dr.Jit's expression; it makes a new array each time."""
    import drjit
    from drjit.llvm import Float

    x, y, _ = map(Float, inputs(count))

    def run():
        drjit.eval(2.0 * x + y)
        drjit.sync_thread()

    return {"run": run}


def tack_stencil5():
    return over_tack(stencil5, values(SIDE, SIDE))


def numba_stencil5():
    import numba

    weight = np.float32(0.25)

    @numba.njit(parallel=True)
    def stencil(u, v):
        for i in numba.prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                v[i, j] = weight * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

    return names(stencil, values(SIDE, SIDE))


def tack_stencil7():
    return over_tack(stencil7, values(CUBE, CUBE, CUBE))


def numba_stencil7():
    import numba

    side, centre = np.float32(0.1), np.float32(0.4)

    @numba.njit(parallel=True)
    def stencil(u, v):
        for i in numba.prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                for k in range(1, u.shape[2] - 1):
                    across = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                    along = u[i, j, k - 1] + u[i, j, k + 1]
                    v[i, j, k] = side * (across + along) + centre * u[i, j, k]

    return names(stencil, values(CUBE, CUBE, CUBE))


def counts():
    return [np.zeros((IMAGE, IMAGE), np.int32)]


def tack_mandelbrot():
    return over_tack(mandelbrot, counts())


def numba_mandelbrot():
    import numba

    @numba.njit(parallel=True)
    def mandelbrot(counts):
        for i in numba.prange(counts.shape[0]):
            for j in range(counts.shape[1]):
                cx = j * (3.0 / counts.shape[1]) - 2.0
                cy = i * (3.0 / counts.shape[0]) - 1.5
                x, y, n = 0.0, 0.0, 0
                while n < 100 and x * x + y * y < 4.0:
                    x, y = x * x - y * y + cx, 2.0 * x * y + cy
                    n += 1
                counts[i, j] = n

    return names(mandelbrot, counts())


def tack_histogram():
    return over_tack(histogram, indices())


def numba_histogram():
    import numba

    @numba.njit
    def histogram(x, bins):
        for i in range(x.size):
            bins[x[i]] += 1

    return names(histogram, indices())


def numpy_histogram():
    return {"f": np.bincount, "x": indices()[0]}


def torch_histogram():
    import torch

    return {"f": torch.bincount, "x": torch.from_numpy(indices()[0])}


def warp_histogram():
    import warp as wp

    wp.config.log_level = wp.LOG_ERROR

    @wp.kernel
    def histogram(x: wp.array(dtype=int), bins: wp.array(dtype=int)):
        i = wp.tid()
        wp.atomic_add(bins, x[i], 1)

    arrays = [wp.array(array, dtype=int, device="cpu") for array in indices()]
    launch = wp.launch(histogram, LARGE, arrays, device="cpu", record_cmd=True)
    return {"launch": launch.launch}


class TwoThreads:
    """Python threads that launch saxpy over arrays of their own: seconds from launch to launch."""

    rounds, budget = 20, 3.0
    _seconds = 0.05

    def __init__(self, count, threads, tack_threads):
        self._count, self._threads, self._tack_threads = count, threads, tack_threads

    def prepare(self):
        self._work = [tack_saxpy(self._count) for _ in range(self._threads)]
        for work in self._work:
            self._launch(work)

    @staticmethod
    def _launch(work):
        work["f"](work["a"], work["x"], work["y"], work["z"])

    def sample(self):
        before = tack.num_threads()
        tack.set_num_threads(self._tack_threads)
        start = perf_counter()
        launches = []

        def run(work):
            done = 0
            while perf_counter() - start < self._seconds:
                self._launch(work)
                done += 1
            launches.append(done)

        threads = [threading.Thread(target=run, args=(work,)) for work in self._work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tack.set_num_threads(before)
        return (perf_counter() - start) / sum(launches)
