"""The math functions of kernels: within 4 ULP over their whole range, the exact ones exact.

On the CPU in every 256th float32, or in all of them where TACK_EXHAUSTIVE is set. Devices keep
their vendor's functions, and simulated ones run on one thread: a wider limit, and fewer values.
"""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest
from kernel_support import FLOATS, assert_same, elementwise, hard_values, pairs, run

pytestmark = pytest.mark.usefixtures("backend")

CHUNK = 1 << 22  # values at a time
# CUDA: the largest of the CUDA C++ Programming Guide, "Mathematical Functions", is tgamma's.
MOST_ULP = {"cpu": 4, "cuda": 10}
EVERY = {"cpu": 1 if os.environ.get("TACK_EXHAUSTIVE") else 256}  # of the float32s
EVERY_ON_DEVICES = 1 << 16

# The functions of one operand by their names in math: NumPy's, or None where it has none.
NUMPY_FUNCTIONS = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": None,
    "erfc": None,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "gamma": None,
    "lgamma": None,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
EXACT = ["math.sqrt(x)", "math.floor(x)", "math.ceil(x)", "math.trunc(x)", "math.fabs(x)"]
CLASSES = ["math.isnan(x)", "math.isinf(x)", "math.isfinite(x)"]


def from_libm(name):
    """The C library's long double function, on arrays of float64; rounded once."""
    function = ctypes.CDLL("libm.so.6")[{"gamma": "tgamma"}.get(name, name) + "l"]
    function.restype, function.argtypes = ctypes.c_longdouble, [ctypes.c_longdouble]
    return lambda x: np.array([function(v) for v in x.tolist()])


def ordinals(array):
    """Integers that count an array's floats: neighbours differ by 1, and so do 0 and its like."""
    size = array.dtype.itemsize
    numbers = array.view(f"i{size}").astype(np.int64)
    return np.where(numbers < 0, np.iinfo(f"i{size}").min - numbers, numbers)


def assert_within(limit, got, expected, context, *operands):
    """got is no more than `limit` floats away from the expected values, rounded to its dtype."""
    with np.errstate(all="ignore"):
        expected = expected.astype(got.dtype)
    differ = np.flatnonzero(got.view(f"u{got.itemsize}") != expected.view(f"u{got.itemsize}"))
    got, expected = got[differ], expected[differ]
    a, b = ordinals(got), ordinals(expected)
    off = np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(np.uint64)
    off[np.isnan(got) & np.isnan(expected)] = 0
    if len(off) and off.max() > limit:
        k = np.argmax(off)
        at = ", ".join(repr(x[differ[k]]) for x in operands)
        raise AssertionError(f"{context} of {at}: {got[k]!r}, not {expected[k]!r}: {off[k]} ULP")


def float32_patterns(backend):
    stride = EVERY.get(backend, EVERY_ON_DEVICES)
    for begin in range(0, 1 << 32, CHUNK * stride):
        end = min(begin + CHUNK * stride, 1 << 32)
        yield np.arange(begin, end, stride, dtype=np.uint64).astype(np.uint32).view(np.float32)


def float64_values():
    """Of every exponent and sign, and many where functions have their interesting ranges."""
    random = np.random.default_rng(4)
    patterns = random.integers(0, 1 << 64, 20_000, dtype=np.uint64, endpoint=False)
    near = [random.uniform(-a, a, 4000) for a in (1, 2, 10, 200, 800, 1e5)]
    ones = 1 + random.uniform(-1, 1, 4000) * 2.0 ** random.uniform(-52, -1, 4000)
    return np.concatenate([patterns.view(np.float64), *near, ones, -ones, hard_values(np.float64)])


@pytest.mark.parametrize("name", NUMPY_FUNCTIONS)
def test_a_float32_function_is_within_the_backends_limit_over_its_whole_range(backend, name):
    numpys = NUMPY_FUNCTIONS[name]
    kernel = elementwise([f"math.{name}(x)"], ["x"])
    for x in float32_patterns(backend):
        got = np.empty_like(x)
        kernel(got, x)
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
        if numpys is None:  # the float64 function, which the next test looks at
            expected = np.empty_like(wide)
            kernel(expected, wide)
        else:
            with np.errstate(all="ignore"):
                expected = numpys(wide)
        assert_within(MOST_ULP[backend], got, expected, name, x)


@pytest.mark.parametrize("name", NUMPY_FUNCTIONS)
def test_a_float64_function_is_within_the_backends_limit(backend, name):
    x = float64_values()
    (got,) = run([f"math.{name}(x)"], [x.dtype], {"x": x})
    numpys = NUMPY_FUNCTIONS[name]
    with np.errstate(all="ignore"):
        expected = numpys(x.astype(np.longdouble)) if numpys else from_libm(name)(x)
    assert_within(MOST_ULP[backend], got, expected, name, x)


TWO = {
    "math.atan2(x, y)": np.arctan2,
    "math.hypot(x, y)": np.hypot,
    "math.pow(x, y)": np.power,
    "x ** y": np.power,
}


def two_operands(dtype):
    """Pairs of any pattern, of ordinary size, and of hard values."""
    random = np.random.default_rng(5)
    patterns = random.integers(0, 256, (2, 100_000 * dtype.itemsize), np.uint8).view(dtype)
    sizes = (2.0 ** random.uniform(-20, 20, (2, 100_000))).astype(dtype)
    bases, exponents = random.uniform(0.5, 2, 100_000), random.uniform(-300, 300, 100_000)
    hard = pairs(hard_values(dtype), hard_values(dtype))
    return [
        np.concatenate([a, b, c.astype(dtype), d])
        for a, b, c, d in zip(patterns, sizes, (bases, exponents), hard)
    ]


@pytest.mark.parametrize("dtype", FLOATS[-2:], ids=str)
def test_a_function_of_two_is_within_the_backends_limit(backend, dtype):
    x, y = two_operands(dtype)
    results = run(list(TWO), [dtype] * len(TWO), {"x": x, "y": y})
    wide = np.float64 if dtype == np.float32 else np.longdouble
    for (expression, function), got in zip(TWO.items(), results):
        with np.errstate(all="ignore"):
            expected = function(x.astype(wide), y.astype(wide))
            # The C library's long double pow gives inf for -inf to a large negative power.
            special = ~(np.isfinite(x) & np.isfinite(y))
            expected[special] = function(x[special], y[special])
        assert_within(MOST_ULP[backend], got, expected, expression, x, y)


@pytest.mark.parametrize("dtype", FLOATS[-2:], ids=str)
def test_fmod_and_copysign_are_exact(dtype):
    x, y = two_operands(dtype)
    fmod, copysign = run(["math.fmod(x, y)", "math.copysign(x, y)"], [dtype] * 2, {"x": x, "y": y})
    with np.errstate(all="ignore"):
        assert_same(fmod, np.fmod(x, y), "fmod", [x, y])
    assert_same(copysign, np.copysign(x, y), "copysign", [x, y])


def test_the_exact_functions_of_float32_have_numpys_bits_over_their_whole_range(backend):
    kernel = elementwise([*EXACT, *CLASSES], ["x"])
    numpys = [np.sqrt, np.floor, np.ceil, np.trunc, np.fabs, np.isnan, np.isinf, np.isfinite]
    for x in float32_patterns(backend):
        results = [np.empty_like(x) for _ in EXACT] + [np.empty(len(x), bool) for _ in CLASSES]
        kernel(*results, x)
        for name, function, got in zip([*EXACT, *CLASSES], numpys, results):
            with np.errstate(all="ignore"):
                assert_same(got, function(x), name, [x])


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
def test_a_function_of_16_bits_is_its_float32_function_rounded(dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    names = [f"math.{name}(x)" for name in NUMPY_FUNCTIONS] + EXACT
    results = run(names, [dtype] * len(names), {"x": x})
    wide = run(names, [np.dtype(np.float32)] * len(names), {"x": x.astype(np.float32)})
    for name, got, expected in zip(names, results, wide):
        with np.errstate(all="ignore"):
            assert_same(got, expected.astype(dtype), name, [x])
