"""Warp on the CPU: the first launch in a process, and of another kernel after it."""

import warp as wp
from probe import report, resident_bytes, seconds

wp.init()


# A module of its own each: Warp compiles a module's kernels together.
@wp.kernel(module="unique")
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)):
    i = wp.tid()
    z[i] = a * x[i] + y[i]


@wp.kernel(module="unique")
def difference(
    a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float)
):
    i = wp.tid()
    z[i] = a * x[i] - y[i]


arguments = [2.0, *(wp.zeros(16, dtype=float, device="cpu") for _ in range(3))]
before = resident_bytes()
first = seconds(lambda: wp.launch(saxpy, 16, arguments, device="cpu"))
resident = resident_bytes() - before
later = seconds(lambda: wp.launch(difference, 16, arguments, device="cpu"))
report(first=first, resident=resident, later=later)
