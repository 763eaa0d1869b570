"""Tack: the first kernel in a process, and the first launches of four kernels after it."""

from probe import report, resident_bytes, seconds

import tack


def saxpy(a, x, y, z):
    for i in range(z.size):
        z[i] = a * x[i] + y[i]


made = []
decorating = seconds(lambda: made.append(tack.kernel(saxpy)))


@tack.kernel
def difference(a, x, y, z):
    for i in range(z.size):
        z[i] = a * x[i] - y[i]


@tack.kernel
def product(a, x, y, z):
    for i in range(z.size):
        z[i] = a * x[i] * y[i]


@tack.kernel
def offset(a, x, y, z):
    for i in range(z.size):
        z[i] = x[i] * y[i] + a


@tack.kernel
def blend(a, x, y, z):
    for i in range(z.size):
        z[i] = a * (x[i] - y[i])


arguments = (2.0, tack.ones(16), tack.ones(16), tack.zeros(16))
before = resident_bytes()
first = seconds(lambda: made[0](*arguments))
resident = resident_bytes() - before
others = (difference, product, offset, blend)
later = sum(seconds(lambda kernel=kernel: kernel(*arguments)) for kernel in others) / len(others)
report(decorating=decorating, first=first, resident=resident, later=later)
