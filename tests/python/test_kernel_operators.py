"""Operators of kernels give NumPy's dtypes and bits: every operator, every dtype, hard values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from kernel_support import (
    BOOL,
    DTYPES,
    FLOATS,
    INTEGERS,
    SIGNED,
    assert_same,
    bfloat16,
    bits,
    define,
    elementwise,
    hard_values,
    is_float,
    numpys,
    pairs,
    run,
)

pytestmark = pytest.mark.usefixtures("backend")

COMPARISONS = ["x == y", "x != y", "x < y", "x <= y", "x > y", "x >= y"]
BITWISE = ["x & y", "x | y", "x ^ y"]
SHIFTS = ["x << y", "x >> y"]
# Of two zeros NumPy's minimum and maximum give either; + 0 makes one of them.
EXTREMA = ["min(x, y) + 0", "max(x, y) + 0"]


def check(expressions, expected, arrays, scalars=None):
    """Each expression gives the expected values, and is computed in their dtype."""
    # What float64 and int64 receive shows the dtype that an operation was computed in.
    dtypes = [e.dtype for e in expected]
    wide = [np.dtype(np.float64 if is_float(d) else np.int64) for d in dtypes]
    results = run(expressions * 2, dtypes + wide, arrays, scalars)
    with np.errstate(all="ignore"):
        expected = expected + [e.astype(w) for e, w in zip(expected, wide)]
    for expression, got, right in zip(expressions * 2, results, expected):
        context = f"{expression} ({', '.join(str(a.dtype) for a in arrays.values())})"
        assert_same(got, right, context, list(arrays.values()))


def check_as_numpy(expressions, arrays, scalars=None):
    values = {**arrays, **(scalars or {})}
    check(expressions, [numpys(e, values) for e in expressions], arrays, scalars)


# two of a dtype, and one


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_operators_on_two_of_a_dtype_are_numpys(dtype):
    """numpy/numpy#29893, NVIDIA/warp#1918, NVIDIA/numba-cuda-mlir#184, pydata/numexpr#535"""
    x, y = pairs(hard_values(dtype), hard_values(dtype))
    expressions = ["x + y", "x * y", "x / y", "x // y", "x % y", *COMPARISONS, *EXTREMA]
    if dtype not in FLOATS:
        expressions += [*BITWISE, *SHIFTS]
    if dtype != BOOL:
        expressions.append("x - y")
    check_as_numpy(expressions, {"x": x, "y": y})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_operators_on_one_value_are_numpys(dtype):
    expressions = ["abs(x)"]
    if dtype != BOOL:
        expressions += ["-x", "+x"]
    if dtype not in FLOATS:
        expressions += ["~x"]
    check_as_numpy(expressions, {"x": hard_values(dtype)})


def test_divmod_is_floor_division_and_remainder():
    kernel = define(
        "@tack.kernel\n"
        "def kernel(x, y, q, r):\n"
        "    for i in range(len(x)):\n"
        "        q[i], r[i] = divmod(x[i], y[i])\n"
    )
    for dtype in INTEGERS:
        x, y = pairs(hard_values(dtype), hard_values(dtype))
        q, r = np.empty_like(x), np.empty_like(x)
        kernel(x, y, q, r)
        with np.errstate(all="ignore"):
            right_q, right_r = np.divmod(x, y)
        assert_same(q, right_q, "divmod", [x, y])
        assert_same(r, right_r, "divmod", [x, y])


# powers


def integer_power(base, exponent, dtype):
    """The rule of docs/kernels.md: wrapped; 0 for a negative exponent, but of 1 and -1."""
    if exponent < 0:
        value = {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)
    else:
        value = pow(base, exponent, 1 << 64)
    return value % (1 << (8 * dtype.itemsize))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_an_integer_power_wraps_and_is_0_for_a_negative_exponent(dtype):
    """taichi-dev/taichi#4661"""
    x, y = pairs(hard_values(dtype), hard_values(dtype))
    unsigned = np.dtype(f"u{dtype.itemsize}")
    values = [integer_power(int(a), int(b), dtype) for a, b in zip(x, y)]
    check(["x ** y", "pow(x, y)"], [np.array(values, unsigned).view(dtype)] * 2, {"x": x, "y": y})


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != bfloat16], ids=str)
def test_powers_that_numpy_computes_exactly_have_its_bits(dtype):
    expressions = ["x ** 0", "x ** 1", "x ** 2"]
    if dtype in FLOATS:
        expressions += ["x ** 0.5", "x ** -1", "x ** 2.0"]
    elif dtype != BOOL:
        expressions += ["x ** 3", "x ** 7"]
    check_as_numpy(expressions, {"x": hard_values(dtype)})


# two dtypes


def common(a, b):
    """np.result_type, where bfloat16 stands as float16 does and the two meet in float32."""
    if bfloat16 not in (a, b):
        return np.result_type(a, b)
    other = a if b == bfloat16 else b
    if other == np.float16:
        return np.dtype(np.float32)
    as_half = np.result_type(np.float16, other)
    return bfloat16 if as_half == np.float16 else as_half


@pytest.mark.parametrize("a", DTYPES, ids=str)
def test_two_dtypes_are_promoted_as_by_numpy(a):
    for b in DTYPES:
        if a == b:
            continue
        x, y = pairs(hard_values(a), hard_values(b))
        dtype = common(a, b)
        with np.errstate(all="ignore"):
            wide = {"x": x.astype(dtype), "y": y.astype(dtype)}
        expressions = ["x + y", "x * y", *EXTREMA]
        check(expressions, [numpys(e, wide) for e in expressions], {"x": x, "y": y})


@pytest.mark.parametrize("a", DTYPES, ids=str)
def test_comparisons_of_two_dtypes_are_numpys(a):
    """numba/numba#8010"""
    for b in DTYPES:
        if a == b:
            continue
        x, y = pairs(hard_values(a), hard_values(b))
        values = {"x": x, "y": y}
        if bfloat16 in (a, b):
            with np.errstate(all="ignore"):
                values = {name: v.astype(common(a, b)) for name, v in values.items()}
        results = run(COMPARISONS, [np.dtype(bool)] * 6, {"x": x, "y": y})
        for expression, got in zip(COMPARISONS, results):
            assert_same(got, numpys(expression, values), f"{expression} ({a}, {b})", [x, y])


def test_integers_of_64_bits_compare_by_value_across_signs():
    x = np.array([-1, -1, 2**63 - 1, 0, -(2**63)], np.int64)
    y = np.array([2**64 - 1, 0, 2**63 - 1, 2**63, 2**63], np.uint64)
    less, equal = run(["x < y", "x == y"], [np.dtype(bool)] * 2, {"x": x, "y": y})
    assert less.tolist() == [True, True, False, True, True]
    assert equal.tolist() == [False, False, True, False, False]


# shifts


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_a_shift_too_far_or_negative_gives_0_or_the_sign_within_an_expression(dtype):
    """ClickHouse/ClickHouse#121305"""
    width = 8 * dtype.itemsize
    x, y = pairs(hard_values(dtype), np.array([-1, -100, width - 1, width, 100], dtype))
    check_as_numpy(["(x << y) + 1", "(x >> y) * 2 - (x << y)", "(1 << y) + x"], {"x": x, "y": y})


def test_a_shift_stays_in_its_dtype():
    """numba/numba#4786"""
    (out,) = run(["x << 1"], [np.dtype(np.int64)], {"x": np.array([255], np.uint8)})
    assert out[0] == 254


# + - * / sqrt of halves


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.itemsize == 2], ids=str)
def test_each_operation_of_a_16_bit_expression_rounds(dtype):
    x, y = pairs(hard_values(dtype), hard_values(dtype))
    check_as_numpy(["x * y + x", "x / y - y * y", "(x + y) * (x - y) / 3"], {"x": x, "y": y})


# position and length


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != BOOL], ids=str)
def test_a_result_does_not_depend_on_position_or_length(dtype):
    """ml-explore/mlx#2015"""
    expressions = ["x + y", "x * y - x", "x / y", "x // y", "x % y", *EXTREMA, "tack.int32(x)"]
    expressions += ["x ** 3", "math.sqrt(x)", "math.exp(x)", "math.sin(x)"]
    if dtype in INTEGERS:
        expressions += SHIFTS
    x, y = pairs(hard_values(dtype), hard_values(dtype))
    order = np.random.default_rng(0).permutation(len(x))[:140]
    x, y = x[order], y[order]
    kernel = elementwise(expressions, ["x", "y"])
    wide = np.dtype(np.float64 if dtype in FLOATS else np.int64)
    whole = [np.empty(len(x), wide) for _ in expressions]
    kernel(*whole, x, y)
    for size, start in itertools.product(range(1, 71), (0, 1, 37)):
        part = slice(start, start + size)
        results = [np.empty(size, wide) for _ in expressions]
        kernel(*results, x[part], y[part])
        for expression, got, right in zip(expressions, results, whole):
            same = (bits(got) == bits(right[part])).all()
            assert same, f"{expression} ({dtype}) from {start}, {size} elements"


# weak literals


LITERALS = ["x + 2", "2 - x", "x * 3", "x / 3", "x // 3", "x % 3", "7 // x", "7 % x", "x < 3"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_integer_literal_takes_the_dtype_that_it_meets(dtype):
    """numba/numba#4631"""
    expressions = list(LITERALS)
    if dtype == np.uint64:
        expressions += ["x - 2305843009213693951", "x < 18446744073709551615", "x > -1"]
    check_as_numpy(expressions, {"x": hard_values(dtype)})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_float_literal_takes_the_float_that_it_meets_and_makes_an_integer_float64(dtype):
    arrays = {"x": hard_values(dtype)}
    if dtype == bfloat16:  # whose NumPy takes a float for a float32
        check(["x * 0.1"], [arrays["x"] * bfloat16.type(0.1)], arrays)
    else:
        expressions = ["x + 0.1", "0.1 * x", "x / 0.1", "x < 0.1", "max(x, 0.1)"]
        check_as_numpy(expressions, arrays)
