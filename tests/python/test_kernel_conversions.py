"""Casts, stores and scalar arguments: what a number becomes where another dtype takes it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from kernel_support import (
    DTYPES,
    FLOATS,
    INTEGERS,
    assert_same,
    bfloat16,
    define,
    elementwise,
    hard_values,
    numpys,
    run,
)

import tack

pytestmark = pytest.mark.usefixtures("backend")

NAMES = [str(d) for d in DTYPES]

# Halfway between two float16, and two bfloat16, but for a bit that float32 has no room for.
ALMOST_TIES = [1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11 - 2.0**-40]
ALMOST_TIES += [1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40]


def values_of(dtype):
    values = hard_values(dtype)
    return np.append(values, ALMOST_TIES) if dtype == np.float64 else values


def saturated(value, dtype):
    info = np.iinfo(dtype)
    if np.isnan(value):
        return 0
    return info.max if value > info.max else info.min if value < info.min else int(value)


def nearest_bfloat16(value):
    """The bfloat16 nearest to a number, the even one of two."""
    near = bfloat16.type(value)
    if not np.isfinite(near):
        return near
    bits = int(near.view(np.uint16))
    around = [np.uint16(b).view(bfloat16) for b in {bits - 1 & 0xFFFF, bits, bits + 1 & 0xFFFF}]
    exact = Fraction(value.item())
    finite = [c for c in around if np.isfinite(c)]
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.uint16)) & 1))


def converted(x, dtype):
    """The rule of docs/kernels.md: NumPy's, but that floats saturate to integers."""
    if x.dtype in FLOATS and dtype in INTEGERS:
        return np.array([saturated(float(v), dtype) for v in x], dtype)
    if dtype == bfloat16:
        return np.array([nearest_bfloat16(v) if v else bfloat16.type(v) for v in x], dtype)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_cast_and_a_store_convert_by_the_same_rule(dtype):
    """ml-explore/mlx#2015, NVIDIA/numba-cuda-mlir#290"""
    x = values_of(dtype)
    casts = run([f"tack.{name}(x)" for name in NAMES], DTYPES, {"x": x})
    stores = run(["x"] * len(DTYPES), DTYPES, {"x": x})
    for target, cast, store in zip(DTYPES, casts, stores):
        assert_same(cast, converted(x, target), f"cast {dtype} to {target}", [x])
        assert_same(store, converted(x, target), f"store {dtype} to {target}", [x])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pythons_types_convert_as_their_dtypes(dtype):
    x = hard_values(dtype)
    targets = [np.dtype(t) for t in (np.int64, np.float64, bool)]
    for target, got in zip(targets, run(["int(x)", "float(x)", "bool(x)"], targets, {"x": x})):
        assert_same(got, converted(x, target), f"{dtype} to {target}", [x])


def test_a_cast_narrows_at_once():
    (out,) = run(
        ["tack.float64(tack.uint8(x)) + tack.float32(0.1)"],
        [np.dtype(np.float64)],
        {"x": np.array([300, -1], np.int64)},
    )
    assert out.tolist() == [44 + float(np.float32(0.1)), 255 + float(np.float32(0.1))]


@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_a_literal_saturates_as_a_number_does(target):
    literals = [1.9, -1.9, 1e300, -1e300, 2.0**63, -(2.0**63), 255.5, -128.5, 65536.0]
    expressions = [f"tack.{target}({v!r})" for v in literals]
    expressions.append(f"tack.{target}(math.nan)")
    results = run(expressions, [target] * len(expressions), {"x": np.zeros(1)})
    expected = [saturated(v, target) for v in literals] + [0]
    assert [r[0] for r in results] == expected


def test_every_byte_but_0_of_a_bool_array_is_true_and_1_is_stored():
    """numba/numba#2921"""
    x = np.array([0, 1, 2, 255], np.uint8).view(bool)
    out = run(
        ["x", "x", "x + x", "x == True", "not x"],
        [np.dtype(bool), np.dtype(np.int32), np.dtype(bool), np.dtype(bool), np.dtype(bool)],
        {"x": x},
    )
    assert [o.view(np.uint8).tolist() if o.dtype == bool else o.tolist() for o in out] == [
        [0, 1, 1, 1],
        [0, 1, 1, 1],
        [0, 1, 1, 1],
        [0, 1, 1, 1],
        [1, 0, 0, 0],
    ]


# scalar arguments

WEAK = [True, 3, -3, 2.5, 0.1]
SCALAR_OPERATORS = ["x + a", "a * x", "x / a", "x < a", "a == x"]


def scalar_id(value):
    return f"{type(value).__name__}_{value}"


def check_scalar(dtype, a):
    x = hard_values(dtype)
    expected = [numpys(op, {"x": x, "a": a}) for op in SCALAR_OPERATORS]
    results = run(SCALAR_OPERATORS, [e.dtype for e in expected], {"x": x}, {"a": a})
    wide = run(SCALAR_OPERATORS, [np.dtype(np.float64)] * len(expected), {"x": x}, {"a": a})
    for op, got, in_float64, right in zip(SCALAR_OPERATORS, results, wide, expected):
        assert_same(got, right, f"{op} ({dtype}, {a!r})", [x])
        assert_same(in_float64, right.astype(np.float64), f"{op} ({dtype}, {a!r})", [x])


@pytest.mark.parametrize("a", WEAK, ids=scalar_id)
def test_a_python_number_is_weak(a):
    for dtype in DTYPES:
        unsigned = dtype.kind == "u" and type(a) is int and a < 0
        if dtype != bfloat16 and not unsigned:
            check_scalar(dtype, a)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != bfloat16], ids=str)
def test_a_numpy_scalar_and_an_array_without_dimensions_keep_their_dtype(dtype):
    for a in (dtype.type(3), np.array(3, dtype)):
        for other in (np.dtype(np.float32), np.dtype(np.int8), np.dtype(np.uint64)):
            check_scalar(other, a)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_a_python_integer_that_is_no_value_of_the_dtype_is_refused_as_by_numpy(dtype):
    x = np.ones(2, dtype)
    kernel = elementwise(["x + a"], ["x"], ["a"])
    for a in (np.iinfo(dtype).max + 1, np.iinfo(dtype).min - 1):
        with pytest.raises(OverflowError):
            x + a
        with pytest.raises(ValueError, match=f"not a value of {dtype}|has more than 64 bits"):
            kernel(np.empty_like(x), x, a)
    kernel(x, x, int(np.iinfo(dtype).min))
    assert x[0] == np.ones(2, dtype)[0] + np.iinfo(dtype).min


@pytest.mark.parametrize("expression", ["x + 300", "x * -1", "300 - x", "max(x, 256)"])
def test_a_literal_that_is_no_value_of_the_dtype_is_refused_as_by_numpy(expression):
    x = np.ones(2, np.uint8)
    with pytest.raises(OverflowError):
        numpys(expression, {"x": x})
    with pytest.raises(tack.CompileError, match="is not a value of uint8"):
        run([expression], [np.dtype(np.int64)], {"x": x})


def test_a_negative_constant_power_of_an_integer_is_refused_as_by_numpy():
    """taichi-dev/taichi#4661"""
    x = np.ones(2, np.int32)
    with pytest.raises(ValueError):
        numpys("x ** -2", {"x": x})
    with pytest.raises(tack.CompileError, match="to the power of -2"):
        run(["x ** -2"], [np.dtype(np.int64)], {"x": x})


def test_a_uint64_local_stays_one_beside_a_literal():
    """numba/numba#4631"""
    kernel = define(
        "@tack.kernel\n"
        "def kernel(x, out):\n"
        "    for i in range(len(x)):\n"
        "        v = x[i]\n"
        "        if v > 2305843009213693951:\n"
        "            v = v - 2305843009213693951\n"
        "        out[i] = v\n"
    )
    x = np.array([2**64 - 1, 5], np.uint64)
    out = np.zeros_like(x)
    kernel(x, out)
    assert out.tolist() == [2**64 - 2**61, 5]


def test_a_local_has_the_dtype_of_all_that_is_assigned_to_it():
    """taichi-dev/taichi#4678"""
    kernel = define(
        "@tack.kernel\n"
        "def kernel(x, out):\n"
        "    for i in range(len(x)):\n"
        "        v = 1\n"
        "        out[i, 0] = v / 2 + v // 2\n"
        "        if x[i] > 0:\n"
        "            v = 1.5\n"
        "        out[i, 1] = v\n"
        "        s = 0\n"
        "        s += x[i]\n"
        "        out[i, 2] = s + 16777217\n"
    )
    x, out = np.array([-1, 1], np.float32), np.empty((2, 3))
    kernel(x, out)
    # s is float32, as x is; 16777217 is not one.
    assert out.tolist() == [[0.5, 1, 16777215], [0.5, 1.5, 16777216]]


def test_a_bfloat16_scalar_of_ml_dtypes_is_bfloat16():
    x = np.array([1, 3], bfloat16)
    out = np.empty(2)
    elementwise(["x * a"], ["x"], ["a"])(out, x, bfloat16.type(0.1))
    assert out.tolist() == (x * bfloat16.type(0.1)).astype(float).tolist()
