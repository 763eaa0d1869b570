"""Kernels from generated text, values that are hard for their dtype, comparison with NumPy."""

from __future__ import annotations

import itertools
import linecache
import math
import re

import ml_dtypes
import numpy as np
from launcher import Launcher

import tack

bfloat16 = np.dtype(ml_dtypes.bfloat16)
BOOL = np.dtype(bool)
SIGNED = [np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)]
UNSIGNED = [np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)]
INTEGERS = SIGNED + UNSIGNED
FLOATS = [np.dtype(np.float16), bfloat16, np.dtype(np.float32), np.dtype(np.float64)]
DTYPES = [BOOL, *INTEGERS, *FLOATS]

_numbers = itertools.count()

# What an expression of a kernel means to NumPy, where it does not say so itself.
NUMPY_MEANING = {
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "math": np,
    "np": np,
}


def is_float(dtype):
    return dtype in FLOATS


def define(text, name="kernel", **names):
    """The kernel of that name that a text defines."""
    file = f"<generated {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    scope = {"tack": tack, "math": math, "np": np, **names}
    exec(compile(text, file, "exec"), scope)
    return Launcher(scope["kernel"])


def elementwise(expressions, arrays, scalars=()):
    """A kernel that stores the values of each expression into an array of its own.

    Its parameters: an array for each expression, then `arrays`, whose names stand for their
    elements in the expressions, then `scalars`.
    """
    outputs = [f"out{k}" for k in range(len(expressions))]
    names = re.compile(rf"\b({'|'.join(arrays)})\b")
    lines = [
        "@tack.kernel",
        f"def kernel({', '.join([*outputs, *arrays, *scalars])}):",
        "    for i in range(len(out0)):",
    ]
    for output, expression in zip(outputs, expressions):
        lines.append(f"        {output}[i] = " + names.sub(r"\1[i]", expression))
    return define("\n".join(lines) + "\n")


def run(expressions, dtypes, arrays, scalars=None):
    """The results of each expression, stored to its dtype. arrays, scalars: values by name."""
    scalars = scalars or {}
    size = len(next(iter(arrays.values())))
    outputs = [np.empty(size, dtype) for dtype in dtypes]
    kernel = elementwise(expressions, list(arrays), list(scalars))
    kernel(*outputs, *arrays.values(), *scalars.values())
    return outputs


def numpys(expression, values):
    """NumPy's result of an expression on whole arrays."""
    with np.errstate(all="ignore"):
        return np.asarray(eval(expression, {**NUMPY_MEANING, **values}))


def hard_values(dtype):
    """Values of a dtype at which operations go wrong: its limits, zeros, halves, NaN."""
    dtype = np.dtype(dtype)
    if dtype == BOOL:
        return np.array([False, True])
    small = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100]
    if not is_float(dtype):
        info = np.iinfo(dtype)
        limits = [info.min, info.min + 1, info.max // 2, info.max // 2 + 1, info.max - 1, info.max]
        numbers = {n for n in [*small, *(-n for n in small), *limits] if info.min <= n <= info.max}
        return np.array(sorted(numbers), dtype)
    info = ml_dtypes.finfo(dtype)
    numbers = [0.0, 1, 0.5, 1.5, 2, 2.5, 3, 7, 1 / 3, 0.1, 64, 127.5, 128, 255, 256.5, 1e4]
    numbers += [2.0**n for n in (15, 16, 31, 32, 63, 64)]
    numbers += [2.0**n - 2.0 ** (n - 11) for n in (15, 31, 32, 63, 64)]
    limits = [info.max, info.tiny, info.smallest_subnormal, info.eps, math.inf]
    limits += [1 + info.eps, 3 * info.tiny / 2]
    with np.errstate(all="ignore"):
        positive = np.unique(np.array([*numbers, *map(float, limits)]).astype(dtype))
    return np.concatenate([-positive, positive, np.array([math.nan], dtype)])


def pairs(a, b):
    """Each value of one array with each of the other, as two arrays."""
    return np.repeat(a, len(b)), np.tile(b, len(a))


def bits(array):
    """An array's bits, with one pattern for every NaN."""
    array = np.array(array)
    if is_float(array.dtype):
        array[np.isnan(array)] = math.nan
    return array.view(f"u{array.itemsize}")


def assert_same(got, expected, context, operands=()):
    """The same dtype and bits, whatever the NaN; the message shows the first difference."""
    assert got.dtype == expected.dtype, f"{context}: {got.dtype}, not {expected.dtype}"
    wrong = np.flatnonzero(bits(got) != bits(expected))
    if len(wrong):
        k = wrong[0]
        at = ", ".join(str(x[k]) for x in operands)
        raise AssertionError(
            f"{context} of {at}: {got[k]}, not {expected[k]}; "
            f"{len(wrong)} of {len(got)} values differ"
        )
