"""Launches and bandwidth on a GPU beside CuPy, PyTorch and the bare driver: ./dev check-gpu.

Prints JSON objects: the libraries, then one for each row as it is there: name, unit, figures by
library (Tack's first), and the bars that the row has, each with whether it is met; or its name and
the error that it ended with. `--small` is for a simulated driver, whose figures mean nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

import tack

HERE = Path(__file__).resolve().parent
LAUNCH_US, COPY_SHARE = 3.0, 0.92
CUPY, COPY = "CuPy RawKernel", "device-to-device copy"
LIBRARIES = ["Tack", CUPY, "PyTorch", "bare driver", COPY]

CUDA_SOURCE = """
extern "C" __global__ void one(float* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = x[i] + 1.0f;
}
extern "C" __global__ void add(const float* x, const float* y, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = x[i] + y[i];
}
extern "C" __global__ void triad(float* a, const float* b, const float* c, float s, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        a[i] = b[i] + s * c[i];
}
extern "C" __global__ void eight(const float* a, const float* b, const float* c, const float* d,
                                 const float* e, const float* f, const float* g, float* out,
                                 int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + g[i];
}
"""
THREADS, MOST_BLOCKS = 256, 1 << 16


@tack.kernel
def one(x):
    for i in range(x.size):
        x[i] = x[i] + 1.0


@tack.kernel
def add(x, y, out):
    for i in range(out.size):
        out[i] = x[i] + y[i]


@tack.kernel
def triad(a, b, c, s):
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


@tack.kernel
def eight(a, b, c, d, e, f, g, out):
    for i in range(out.size):
        out[i] = a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + g[i]


def blocks_for(n):
    return max(1, min(MOST_BLOCKS, -(-n // THREADS)))


class BareDriver:
    """The CUDA driver and NVRTC by ctypes, with the launches in a loop of C."""

    def __init__(self):
        self.cuda = ctypes.CDLL(os.environ.get("TACK_CUDA_DRIVER") or "libcuda.so.1")
        self.nvrtc = ctypes.CDLL(os.environ.get("TACK_NVRTC") or "libnvrtc.so.12")
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 0)
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), self.compiled(CUDA_SOURCE))
        self.module = module
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "launch_loop.so"
            command = ["cc", "-O2", "-shared", "-fPIC", "-o", library]
            subprocess.run([*command, HERE / "native" / "launch_loop.c"], check=True)
            self.loop = ctypes.CDLL(str(library)).launch_loop

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result:
            raise RuntimeError(f"{name} gave {result}")

    def compiled(self, source):
        """Machine code of the device for CUDA C."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, 0)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, 0)
        option = f"--gpu-architecture=sm_{major.value}{minor.value}".encode()
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        steps = [
            ("CreateProgram", ctypes.byref(program), source.encode(), b"bare.cu", 0, None, None),
            ("CompileProgram", program, 1, (ctypes.c_char_p * 1)(option)),
            ("GetCUBINSize", program, ctypes.byref(size)),
        ]
        for name, first, *rest in steps:
            # The handle is there once the first step has run.
            if result := getattr(self.nvrtc, f"nvrtc{name}")(first, *rest):
                raise RuntimeError(f"nvrtc{name} gave {result}")
        image = ctypes.create_string_buffer(size.value)
        self.nvrtc.nvrtcGetCUBIN(program, image)
        return image

    def launches(self, name, arrays, n):
        """A function that queues `count` launches of a kernel over arrays and n."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        values = [ctypes.c_void_p(a.ptr) for a in arrays] + [ctypes.c_int(n)]
        parameters = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        launch = ctypes.cast(self.cuda.cuLaunchKernel, ctypes.c_void_p)

        def run(count):
            result = self.loop(
                launch,
                function,
                blocks_for(n),
                THREADS,
                self.stream,
                parameters,
                ctypes.c_long(count),
            )
            if result:
                raise RuntimeError(f"cuLaunchKernel gave {result}")
            return values  # which the parameters point to

        return run

    def copies(self, to, source):
        def run(count):
            for _ in range(count):
                self.call(
                    "cuMemcpyDtoDAsync_v2",
                    ctypes.c_uint64(to.ptr),
                    ctypes.c_uint64(source.ptr),
                    ctypes.c_size_t(to.nbytes),
                    self.stream,
                )

        return run

    def synchronize(self):
        self.call("cuStreamSynchronize", self.stream)


def repeated(function, *arguments, **named):
    def run(count):
        for _ in repeat(None, count):
            function(*arguments, **named)

    return run


def time_each(ways, count, rounds):
    """Seconds of one call of each way, taken in turn: {name: median}.

    ways: {name: (run, synchronize)}, where run(count) queues that many calls.
    """
    samples = {name: [] for name in ways}
    for run, synchronize in ways.values():
        run(3)  # compiles
        synchronize()
    for _ in range(rounds):
        for name, (run, synchronize) in ways.items():
            start = perf_counter()
            run(count)
            synchronize()
            samples[name].append((perf_counter() - start) / count)
    return {name: median(seconds) for name, seconds in samples.items()}


class Bench:
    def __init__(self, small):
        self.small = small
        self.count, self.rounds = (5, 2) if small else (4000, 11)
        self.bare = BareDriver()
        self.device = tack.set_default_device("cuda")
        self.cupy, self.torch = partner("cupy"), partner("torch")
        if self.cupy:
            self.raw = {
                name: self.cupy.RawKernel(CUDA_SOURCE, name)
                for name in ("one", "add", "triad", "eight")
            }

    def rows(self):
        """(name, unit, what measures it and gives figures and bars) of each row."""
        for name, kernel, arrays in [
            ("1 array", one, 1),
            ("3 arrays", add, 3),
            ("8 arrays", eight, 8),
        ]:
            yield f"launch with {name}", "us", partial(self.launch, kernel, arrays)
        yield "launch with 3 arrays and a float", "us", self.launch_with_scalar
        if self.torch:
            yield "launch on 3 PyTorch tensors, and wait", "us", self.launch_on_tensors
        sizes = [1000] if self.small else [10_000, 1_000_000, 1 << 24, 1 << 27]
        for n in sizes:
            yield f"triad of {n} float32", "us", partial(self.triad, n)
        yield f"triad bandwidth, {sizes[-1]} float32", "GB/s", partial(self.bandwidth, sizes[-1])

    def launch(self, kernel, how_many):
        n = 256
        arrays = [tack.ones(n) for _ in range(how_many)]
        ways = {"Tack": (repeated(kernel, *arrays), tack.synchronize)}
        ways |= self.raw_way(kernel.__name__, how_many, n)
        if self.torch and kernel is add:
            x, y, out = (self.torch.ones(n, device="cuda") for _ in range(3))
            add_out = repeated(self.torch.add, x, y, out=out)
            ways["PyTorch"] = (add_out, self.torch.cuda.synchronize)
        bare = self.bare.launches(kernel.__name__, arrays, n)
        ways["bare driver"] = (bare, self.bare.synchronize)
        figures = time_each(ways, self.count, self.rounds)
        most = LAUNCH_US if kernel is add else None
        return microseconds(figures, most)

    def launch_with_scalar(self):
        n = 256
        a, b, c = (tack.ones(n) for _ in range(3))
        ways = {"Tack": (repeated(triad, a, b, c, 2.0), tack.synchronize)}
        ways |= self.raw_way("triad", 3, n, np.float32(2))
        figures = time_each(ways, self.count, self.rounds)
        return microseconds(figures)

    def launch_on_tensors(self):
        """Each launch waits, since PyTorch may touch its memory with no call of Tack's."""
        x, y, out = (self.torch.ones(256, device="cuda") for _ in range(3))

        def add_and_wait():
            self.torch.add(x, y, out=out)
            self.torch.cuda.synchronize()

        ways = {
            "Tack": (repeated(add, x, y, out), tack.synchronize),
            "PyTorch": (repeated(add_and_wait), self.torch.cuda.synchronize),
        }
        figures = time_each(ways, self.count // 4 or 1, self.rounds)
        return microseconds(figures)

    def triad(self, n):
        a, b, c = (tack.ones(n) for _ in range(3))
        ways = {"Tack": (repeated(triad, a, b, c, 2.0), tack.synchronize)}
        ways |= self.raw_way("triad", 3, n, np.float32(2))
        if self.torch:
            x, y, out = (self.torch.ones(n, device="cuda") for _ in range(3))
            add_out = repeated(self.torch.add, x, y, alpha=2.0, out=out)
            ways["PyTorch"] = (add_out, self.torch.cuda.synchronize)
        figures = time_each(ways, self.repeats(n), self.rounds)
        return microseconds(figures)

    def bandwidth(self, n):
        a, b, c = (tack.ones(n) for _ in range(3))
        ways = {
            "Tack": (repeated(triad, a, b, c, 2.0), tack.synchronize),
            COPY: (self.bare.copies(a, b), self.bare.synchronize),
        }
        seconds = time_each(ways, self.repeats(n), self.rounds)
        moved = {"Tack": 3 * a.nbytes, COPY: 2 * a.nbytes}
        figures = {name: moved[name] / seconds[name] / 1e9 for name in ways}
        share = figures["Tack"] / figures[COPY]
        text = f"at least {COPY_SHARE:.0%} of the copy: {share:.1%}"
        return figures, [[text, share >= COPY_SHARE]]

    def repeats(self, n):
        """Enough calls to last about 50 ms."""
        return max(5, min(self.count, 200_000_000_000 // (12 * n) // 2))

    def raw_way(self, name, how_many, n, *scalars):
        if not self.cupy:
            return {}
        arrays = [self.cupy.ones(n, self.cupy.float32) for _ in range(how_many)]
        arguments = (*arrays, *scalars, np.int32(n))
        run = repeated(self.raw[name], (blocks_for(n),), (THREADS,), arguments)
        return {CUPY: (run, self.cupy.cuda.get_current_stream().synchronize)}


def partner(name):
    """A library that can use the GPU, or None."""
    try:
        module = __import__(name)
        there = module.cuda.is_available()
    except Exception as error:  # whatever a library without its GPU raises
        print(f"{name}: {error}", file=sys.stderr)
        return None
    return module if there else None


def microseconds(seconds, most=None):
    """Figures and bars of a row; most: the bar of Tack's own figure."""
    figures = {library: value * 1e6 for library, value in seconds.items()}
    bars = []
    if most is not None:
        bars.append([f"at most {most:g} us", figures["Tack"] <= most])
    if CUPY in figures:
        ratio = figures["Tack"] / figures[CUPY]
        bars.append([f"no slower than CuPy: {ratio:.3f} of its time", ratio <= 1])
    return figures, bars


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    print(json.dumps({"libraries": LIBRARIES}), flush=True)
    for name, unit, measure in Bench(parser.parse_args().small).rows():
        try:
            figures, bars = measure()
            made = {"unit": unit, "figures": figures, "bars": bars}
        except Exception as error:  # of any library: the row is lost alone
            made = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"name": name, **made}), flush=True)


if __name__ == "__main__":
    main()
