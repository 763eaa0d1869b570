"""What kernels are made of, each run and compared with Python or NumPy."""

from __future__ import annotations

import functools
import importlib
import linecache
import math
import sys
from enum import IntEnum

import numpy as np
import pytest
from launcher import Launcher, kernel

import tack

pytestmark = pytest.mark.usefixtures("backend")


def zeros(*shape, dtype=np.float64):
    return np.zeros(shape, dtype)


# loops


@kernel
def ranges(x, n):
    for i in range(n):
        x[0, i] = i + 1
    for i in range(2, n):
        x[1, i] = i + 1
    for i in range(1, n, 3):
        x[2, i] = i + 1
    for i in range(n - 1, 0, -2):
        x[3, i] = i + 1
    for i in range(5, 2):
        x[4, i] = i + 1


def test_parallel_loops_run_over_ranges_of_one_to_three_arguments_and_either_sign():
    x, n = zeros(5, 10), 10
    ranges(x, n)
    expected = zeros(5, 10)
    passes = (range(n), range(2, n), range(1, n, 3), range(n - 1, 0, -2), range(5, 2))
    for row, indices in enumerate(passes):
        for i in indices:
            expected[row, i] = i + 1
    np.testing.assert_array_equal(x, expected)


AXIS = (1, 3)


@kernel
def index_spaces(x, n):
    for i, j in tack.ndrange(2, n):
        x[i, j] += 1
    for i, j in tack.ndrange((1, 5, 2), (n - 1, 0, -1)):
        x[i, j] += 10
    for i, j in tack.ndrange(AXIS, 1):
        x[i, j] += 100
    for i in tack.ndrange(n):
        x[i, i] += 1000


def test_index_spaces_take_extents_and_range_like_tuples():
    x = zeros(5, 5)
    index_spaces(x, 5)
    expected = zeros(5, 5)
    expected[:2] += 1
    expected[1:5:2, 4:0:-1] += 10
    expected[1:3, :1] += 100
    expected += 1000 * np.eye(5)
    np.testing.assert_array_equal(x, expected)


@kernel
def serial_loops(x, n):
    for i in range(len(x)):
        total = 0
        for j in range(i, n):
            if j == 7:
                break
            if j % 2:
                continue
            total += j
        k = 0
        while True:
            k += 1
            if k * k > i:
                break
        while k < 5:
            k += 1
            if k == 3:
                continue
            total += 100
        for a, b in tack.ndrange((0, 2), i):
            if a == b:
                continue
            total += 1000 * (a + b)
        x[i] = total


def test_inner_loops_are_serial_with_break_and_continue():
    """taichi-dev/taichi#5562"""
    x = zeros(9, dtype=np.int64)
    serial_loops(x, 20)
    expected = []
    for i in range(9):
        total = sum(j for j in range(i, 7) if j % 2 == 0) if i <= 7 else 0
        if i > 7:
            total = sum(j for j in range(i, 20) if j % 2 == 0)
        k = next(k for k in range(1, 9) if k * k > i)
        total += sum(100 for k in range(k + 1, 6) if k != 3)
        total += sum(1000 * (a + b) for a in range(2) for b in range(i) if a != b)
        expected.append(total)
    assert x.tolist() == expected


@kernel
def loop_variables(x, n):
    for i in range(len(x)):
        k = -1
        for k in range(n[i]):  # noqa: B007
            pass
        x[i, 0] = k
        for j in range(4):
            x[i, 1] += j
            j += 10
            x[i, 2] += j
        i += 1
        x[i - 1, 3] = i


def test_loop_variables_are_variables():
    """triton-lang/triton#11439"""
    x = zeros(3, 4, dtype=np.int64)
    loop_variables(x, np.array([0, 1, 5]))
    assert x.tolist() == [[-1, 6, 46, 1], [0, 6, 46, 2], [4, 6, 46, 3]]


@kernel
def bounds_once(x, n):
    for i in range(len(x)):
        m = n
        for _a, _b in tack.ndrange(m, m):
            m = 1
            x[i] += 1
        for _c in range(m):
            m = 5
            x[i] += 100


def test_the_bounds_of_a_loop_are_evaluated_once():
    x = zeros(2, dtype=np.int64)
    bounds_once(x, 3)
    assert x.tolist() == [109, 109]


@kernel
def continue_in_parallel(x):
    for i in range(len(x)):
        if i % 3 == 0:
            continue
        x[i] = 1


def test_continue_ends_an_iteration_of_a_parallel_loop():
    x = zeros(7)
    continue_in_parallel(x)
    assert x.tolist() == [0, 1, 1, 0, 1, 1, 0]


# branches and conditions


@kernel
def branches(x, out):
    for i in range(x.size):
        v = x[i]
        if v < 0:
            out[i] = -1
        elif v == 0:
            pass
        elif (v < 2 and not v >= 1) or v > 100:
            out[i] = 2
        else:
            out[i] = 3 if v > 5 else 4


def test_branches_and_conditional_expressions_choose_as_python():
    x, out = np.array([-3.0, 0, 0.5, 1, 7, 101, 2]), zeros(7)
    branches(x, out)
    assert out.tolist() == [-1, 0, 2, 4, 3, 2, 4]


@kernel
def comparisons(x, out):
    for i in range(len(x)):
        out[i, 0] = 0 < x[i] <= 2 < 3
        out[i, 1] = 0 < x[i] != 2
        out[i, 2] = x[i] >= 1 == 1


def test_chained_comparisons_hold_for_each_pair():
    x, out = np.arange(-1, 4), zeros(5, 3, dtype=bool)
    comparisons(x, out)
    expected = [[0 < v <= 2 < 3, 0 < v != 2, v >= 1 == 1] for v in x.tolist()]
    assert out.tolist() == expected


@kernel
def chained_effect(x, count, out):
    for i in range(1):
        if 0 <= tack.atomic_add(count, 0, 1) < 5:
            out[i] = 1
        count[1] = 0 < count[0] < 2


def test_a_chained_comparison_evaluates_each_operand_once():
    count, out = zeros(2, dtype=np.int32), zeros(1)
    chained_effect(zeros(1), count, out)
    assert count.tolist() == [1, 1] and out[0] == 1


@kernel
def short_circuit(x, out):
    for i in range(len(out)):
        j = i - 2
        out[i] = 1 if j >= 0 and 0 < x[j] < 9 else 2
        if j < 0 or x[j] > 1:
            out[i] += 10


def test_and_or_and_conditional_expressions_skip_what_does_not_count():
    """NVIDIA/warp#1329"""
    out = zeros(4)
    short_circuit(np.array([1.0, 2.0]), out)
    assert out.tolist() == [12, 12, 1, 11]


# variables and assignment


@kernel
def assignments(x):
    for i in range(len(x)):
        a, b = i, i + 1
        a, b = b, a + b
        c = d = a * b
        x[i, 0], x[i, 1] = a, b
        x[i, 0], x[i, 1] = x[i, 1], x[i, 0]
        x[i, 2] = c + d
        q, r = divmod(7 * i, 4)
        q, r = divmod(r, q + 1)
        (e, f), g = (q, r), 5
        x[i, 3] = 100 * e + 10 * f + g


def test_tuple_assignment_evaluates_the_right_side_first():
    x = zeros(4, 4, dtype=np.int64)
    assignments(x)
    expected = []
    for i in range(4):
        a, b = i + 1, 2 * i + 1
        q, r = divmod(7 * i, 4)
        q, r = divmod(r, q + 1)
        expected.append([b, a, 2 * a * b, 100 * q + 10 * r + 5])
    assert x.tolist() == expected


@kernel
def augmented(x, at, count):
    for i in range(1):
        v = 7
        v += 1
        v -= 2
        v *= 10
        v //= 7
        v %= 5
        v <<= 4
        v >>= 1
        v |= 1
        v ^= 3
        v &= 62
        v **= 2
        x[i] = v
        x[tack.atomic_add(count, 0, 1)] += 1
        x[at[0]] *= 2
        x[at[at[1]]] /= 4


def test_augmented_assignment_evaluates_the_index_once():
    x, count = np.array([0.0, 0, 3, 8]), np.array([2], np.int64)
    augmented(x, np.array([2, 3, 0, 3]), count)
    v = 7 + 1 - 2
    v = (v * 10) // 7 % 5 << 4 >> 1
    v = ((v | 1) ^ 3) & 62
    assert x.tolist() == [v**2, 0, 8, 2] and count[0] == 3


@kernel
def reassigned_parameter(x, a, n: int):
    a = a * 2
    n //= 2
    for i in range(n):
        x[i] = a


def test_a_scalar_parameter_is_a_variable():
    """taichi-dev/taichi#5619"""
    x = zeros(4)
    reassigned_parameter(x, 1.5, 4)
    assert x.tolist() == [3, 3, 0, 0]


@kernel
def scalars_at_top(x):
    n, m = x.shape[0], x.shape[-1]
    half = n // 2
    if half > 2:
        half = 2
    for i in range(half):
        x[i, 0] = n * m
    half += 1
    for i in range(half):
        x[i, 1] = half


def test_scalar_variables_outside_loops_are_seen_inside():
    x = zeros(8, 3)
    scalars_at_top(x)
    expected = zeros(8, 3)
    expected[:2, 0], expected[:3, 1] = 24, 3
    np.testing.assert_array_equal(x, expected)


@kernel
def annotated_local(x):
    for i in range(len(x)):
        v: tack.int32 = x[i]
        w: float = 2
        x[i] = v / w


def test_an_annotation_gives_a_local_its_dtype():
    x = np.array([1.9, -1.9])
    annotated_local(x)
    assert x.tolist() == [0.5, -0.5]


# values


@kernel
def shapes(x, out):
    for _ in range(1):
        out[0] = x.shape[0]
        out[1] = x.shape[2]
        out[2] = x.shape[-2]
        out[3] = x.size
        out[4] = len(x)


def test_shape_size_and_len_are_the_arrays():
    out = zeros(5)
    shapes(zeros(2, 3, 4), out)
    assert out.tolist() == [2, 4, 3, 24, 2]


@kernel
def casts(x, out):
    for i in range(len(x)):
        out[i, 0] = int(x[i])
        out[i, 1] = tack.uint8(tack.int8(x[i]))
        out[i, 2] = np.float32(x[i])
        out[i, 3] = bool(x[i])
        out[i, 4] = float(3) / 2
        out[i, 5] = tack.bool(x[i]) + np.int16(1)


def test_dtypes_and_numpy_types_and_python_types_cast():
    x, out = np.array([1.7, -1.7, 0.1]), zeros(3, 6)
    casts(x, out)
    for row, v in zip(out.tolist(), x):
        as_uint8 = int(np.int8(int(v)).view(np.uint8))
        assert row == [int(v), as_uint8, float(np.float32(v)), 1, 1.5, 2]


@kernel
def builtins(x, out):
    for i in range(len(x)):
        out[i, 0] = abs(x[i])
        out[i, 1] = min(x[i], 1, 2)
        out[i, 2] = max(-1.0, x[i])
        out[i, 3] = pow(x[i], 2)
        out[i, 4] = x[i] // 2
        out[i, 5] = x[i] % 2


def test_builtin_functions_are_pythons():
    x, out = np.array([-1.5, 0.5, 3.0]), zeros(3, 6)
    builtins(x, out)
    for row, v in zip(out.tolist(), x.tolist()):
        assert row == [abs(v), min(v, 1, 2), max(-1.0, v), v**2, v // 2, v % 2]


@kernel
def bits(x, out):
    for i in range(len(x)):
        out[i, 0] = ~x[i]
        out[i, 1] = x[i] & 12 | 1 ^ 3
        out[i, 2] = x[i] << 2
        out[i, 3] = x[i] >> 1
        out[i, 4] = -x[i] + +x[i]


def test_bit_operations_and_shifts_are_pythons():
    x, out = np.array([5, -6, 100]), zeros(3, 5, dtype=np.int64)
    bits(x, out)
    for row, v in zip(out.tolist(), x.tolist()):
        assert row == [~v, v & 12 | 1 ^ 3, v << 2, v >> 1, 0]


@kernel
def elementary(x, out):
    for i in range(len(x)):
        v = x[i]
        out[i, 0] = math.sin(v) + math.cos(v) * math.pi
        out[i, 1] = math.hypot(v, 2) + math.atan2(v, 2.0)
        out[i, 2] = math.log(v) + math.log(v, 2) + math.log10(v)
        out[i, 3] = math.pow(v, 3) + math.fabs(-v)
        out[i, 4] = math.degrees(v) + math.radians(v)
        out[i, 5] = math.floor(v) + math.ceil(v) + math.trunc(v)
        out[i, 6] = math.exp(v) + math.sqrt(v) + math.e
        out[i, 7] = math.isfinite(math.inf) + math.isnan(math.nan)


def test_functions_of_the_math_module_are_pythons():
    x, out = np.array([0.3, 1.0, 2.7]), zeros(3, 8)
    elementary(x, out)
    m = math
    for row, v in zip(out, x.tolist()):
        expected = [
            m.sin(v) + m.cos(v) * m.pi,
            m.hypot(v, 2) + m.atan2(v, 2.0),
            m.log(v) + m.log(v, 2) + m.log10(v),
            m.pow(v, 3) + v,
            m.degrees(v) + m.radians(v),
            m.floor(v) + m.ceil(v) + m.trunc(v),
            m.exp(v) + m.sqrt(v) + m.e,
            1,
        ]
        np.testing.assert_allclose(row, expected, rtol=1e-14)


@kernel
def integer_math(x, out):
    for i in range(len(x)):
        out[i] = math.pow(x[i], 2) + math.fabs(x[i]) + math.degrees(x[i]) + math.sqrt(x[i])


def test_math_functions_of_integers_are_computed_in_float64():
    out = zeros(1)
    integer_math(np.array([9], np.int8), out)
    assert out[0] == 81 + 9 + math.degrees(9) + 3


@kernel
def precision(x, out):
    for i in range(len(x)):
        out[i] = 2.0 * x[i] + math.pow(x[i], 3) + math.degrees(x[i]) * i + 1


def test_literals_and_indices_leave_float32_as_it_is():
    x, out = np.array([0.1, 0.7], np.float32), zeros(2)
    precision(x, out)
    assert (out == out.astype(np.float32)).all()


# device functions


@tack.func
def clamp(v, low, high):
    """Returns early."""
    if v < low:
        return low
    if v > high:
        return high
    return v


@tack.func
def put(x, i, value: tack.int32):
    value += 1
    x[i] = value


@tack.func
def smoothed(x, i):
    return clamp(x[i - 1] + x[i + 1], 0.0, 1.0) / 2


@kernel
def device_functions(x, y):
    for i in range(1, len(x) - 1):
        y[i] = smoothed(x, i)
    for _ in range(1):
        put(y, 0, 2.9)


def test_device_functions_return_early_call_others_and_take_arrays():
    x, y = np.array([0.0, 0.25, 0.5, 3.0, 0.0]), zeros(5)
    device_functions(x, y)
    assert y.tolist() == [3, 0.25, 0.5, 0.25, 0]


def test_a_device_function_runs_as_python_outside_kernels():
    assert clamp(7, 0, 3) == 3
    assert (clamp.__name__, clamp.__doc__) == ("clamp", "Returns early.")


@kernel
def calls_later(x):
    for i in range(len(x)):
        x[i] = defined_later(i) * SCALE_LATER


@tack.func
def defined_later(v):
    return v + 1


SCALE_LATER = 2


def test_what_a_kernel_uses_may_be_defined_after_it():
    x = zeros(2)
    calls_later(x)
    assert x.tolist() == [2, 4]


# atomics


@kernel
def atomics(bins, extremes, grid, old, data):
    for i in range(len(data)):
        tack.atomic_add(bins, data[i] % 4, 1)
        tack.atomic_min(extremes, 0, data[i])
        tack.atomic_max(extremes, 1, data[i])
        tack.atomic_add(grid, (data[i] % 2, 1), 2)
        old[tack.atomic_add(bins, 4, 1)] = 1


def test_atomics_update_elements_and_return_the_old_ones():
    data = np.arange(3, 103)
    bins, extremes = zeros(5, dtype=np.int64), np.array([50, 50])
    grid, old = zeros(2, 2), zeros(100)
    atomics(bins, extremes, grid, old, data)
    assert bins.tolist() == [*np.bincount(data % 4), 100]
    assert extremes.tolist() == [3, 102]
    assert grid.tolist() == [[0, 100], [0, 100]]
    assert old.all()


# captured values

FACTOR = 2
WEIGHTS = (0.25, (0.5, 4))


class Level(IntEnum):
    HIGH = 7


HIGH = Level.HIGH
PRECISE = np.float64(0.1)
ENABLED = False


@kernel
def captures(x):
    for i in range(len(x)):
        x[i] = FACTOR * WEIGHTS[0] + WEIGHTS[1][-1] + len(WEIGHTS) + HIGH
        if ENABLED:
            print("not compiled, as the condition is a constant")


def test_numbers_and_tuples_of_the_enclosing_scopes_are_constants():
    x = zeros(2)
    captures(x)
    assert x.tolist() == [13.5 + 0, 13.5]


def test_a_changed_global_is_seen_by_the_next_launch():
    """NVIDIA/warp#135"""
    global FACTOR
    x = zeros(1)
    try:
        for FACTOR in (2, 3, 2, 2.5):
            captures(x)
            assert x[0] == FACTOR * 0.25 + 13
    finally:
        FACTOR = 2


@kernel
def numpy_scalar(x, out):
    for i in range(len(x)):
        out[i] = x[i] * PRECISE


def test_a_captured_numpy_scalar_keeps_its_dtype():
    x, out = np.array([0.1], np.float32), zeros(1)
    numpy_scalar(x, out)
    assert out[0] == float(np.float32(0.1)) * 0.1


def make_adder(amount):
    @kernel
    def add(x):
        for i in range(len(x)):
            x[i] += amount

    def change(value):
        nonlocal amount
        amount = value

    return add, change


def test_a_closure_sees_its_own_variables_and_their_changes():
    add_one, change = make_adder(1)
    add_ten, _ = make_adder(10)
    x = zeros(1)
    add_one(x)
    add_ten(x)
    change(100)
    add_one(x)
    add_ten(x)
    assert x[0] == 121


def test_a_changed_constant_of_a_device_function_is_seen():
    @tack.func
    def offset(v):
        return v + amount

    @kernel
    def k(x):
        for i in range(len(x)):
            x[i] = offset(i)

    x = zeros(1)
    for amount in (1, 2):
        k(x)
        assert x[0] == amount


@tack.func
def one_more(v):
    return v + 1


@tack.func
def two_more(v):
    return v + 2


def test_a_replaced_device_function_is_called():
    @kernel
    def k(x):
        for i in range(len(x)):
            x[i] = more(i)

    x = zeros(1)
    for more, expected in ((one_more, 1), (two_more, 2)):
        k(x)
        assert x[0] == expected, more


def test_a_constant_of_another_module_is_seen_and_its_changes(tmp_path, monkeypatch):
    (tmp_path / "tack_test_settings.py").write_text("SCALE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    settings = importlib.import_module("tack_test_settings")

    @kernel
    def k(x):
        for i in range(len(x)):
            x[i] = settings.SCALE

    x = zeros(1)
    k(x)
    assert x[0] == 3
    settings.SCALE = 4
    k(x)
    assert x[0] == 4
    del sys.modules["tack_test_settings"]


def test_the_type_of_a_captured_number_is_part_of_its_value():
    @kernel
    def k(x, out):
        for i in range(len(x)):
            out[i] = x[i] * two

    x, out = np.array([200], np.uint8), zeros(1)
    for value, expected in ((2, 144), (2.0, 400), (np.int32(2), 400), (2, 144)):
        two = value
        k(x, out)
        assert out[0] == expected, two


# parameters


@kernel
def fixed_dtype(a: tack.float64, b, x, out):
    for i in range(len(x)):
        out[i, 0] = a * x[i]
        out[i, 1] = b * x[i]


def test_an_annotation_fixes_the_dtype_of_a_scalar_parameter():
    x, out = np.array([0.1], np.float32), zeros(1, 2)
    fixed_dtype(0.1, 0.1, x, out)
    assert out[0, 0] == 0.1 * float(x[0])
    assert out[0, 1] == np.float32(0.1) * x[0]


# where kernels are defined


class Holder:
    @tack.kernel
    def fill(x, value):
        for i in range(len(x)):
            x[i] = value

    @staticmethod
    @tack.kernel
    def static_fill(x, value):
        for i in range(len(x)):
            x[i] = value


def test_a_kernel_in_a_class_is_like_a_static_method():
    x = zeros(2)
    for number, fill in enumerate((Holder.fill, Holder().fill, Holder().static_fill), 1):
        fill(x, number)
        assert x.tolist() == [number, number]


def registered(function):
    return function


def wrapping(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@registered
@tack.kernel
@wrapping
@registered
def decorated(x):
    for i in range(len(x)):
        x[i] = 1


def test_a_kernel_may_have_other_decorators():
    x = zeros(2)
    decorated(x)
    assert x.tolist() == [1, 1]


@tack.kernel(fast_math=True)
def with_options(x):
    """What it does."""
    for i in range(len(x)):
        x[i] = 2


def test_a_kernel_with_options_runs_and_keeps_its_function():
    x = zeros(2)
    with_options(x)
    assert x.tolist() == [2, 2]
    assert with_options.__name__ == with_options.__wrapped__.__name__ == "with_options"
    assert with_options.__doc__ == "What it does."
    assert with_options.__module__ == __name__
    assert make_adder(1)[0].kernel.__qualname__ == "make_adder.<locals>.add"


def cell(text, name):
    """Runs text as a notebook does: its lines are in linecache, under no file's name."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"tack": tack}
    exec(compile(text, name, "exec"), namespace)
    return Launcher(namespace["k"])


def test_a_redefined_notebook_kernel_is_the_new_one():
    """ml-explore/mlx#4275"""
    text = "@tack.kernel\ndef k(x):\n    for i in range(len(x)):\n        x[i] = {}\n"
    x = zeros(1)
    first = cell(text.format(1), "<ipython-input-1-k>")
    second = cell(text.format(2), "<ipython-input-1-k>")
    second(x)
    assert x[0] == 2
    first(x)
    assert x[0] == 1


def test_a_kernel_may_be_indented_with_tabs_and_hold_lines_that_are_not():
    text = (
        "if True:\n"
        "\t@tack.kernel\n"
        "\tdef k(x):\n"
        '\t\t"""A docstring\n'
        "with a line further left.\n"
        '\t\t"""\n'
        "# a comment further left\n"
        "\t\tfor i in range(len(x)):\n"
        "\t\t\tx[i] = (1 +\n"
        "1)\n"
    )
    x = zeros(1)
    cell(text, "<ipython-input-2-k>")(x)
    assert x[0] == 2


# whole kernels


@kernel
def stencil(x, y):
    for i, j in tack.ndrange((1, x.shape[0] - 1), (1, x.shape[1] - 1)):
        y[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_stencil_gives_numpys_bits(dtype):
    x = np.random.default_rng(1).random((33, 47)).astype(dtype)
    y = np.zeros_like(x)
    stencil(x, y)
    expected = np.zeros_like(x)
    inner = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    expected[1:-1, 1:-1] = dtype(0.25) * inner
    np.testing.assert_array_equal(y, expected)


@kernel
def slope(z, dx, dy, out):
    for i, j in tack.ndrange((1, z.shape[0] - 1), (1, z.shape[1] - 1)):
        gx = (z[i, j + 1] - z[i, j - 1]) / (2.0 * dx)
        gy = (z[i + 1, j] - z[i - 1, j]) / (2.0 * dy)
        out[i, j] = (gx * gx + gy * gy) ** 0.5


def test_the_slope_of_integer_elevations_is_numpys():
    z = np.random.default_rng(2).integers(0, 3000, (20, 30)).astype(np.int16)
    out = zeros(20, 30)
    slope(z, 30.0, 20.0, out)
    gx = (z[1:-1, 2:] - z[1:-1, :-2]) / (2.0 * 30.0)
    gy = (z[2:, 1:-1] - z[:-2, 1:-1]) / (2.0 * 20.0)
    np.testing.assert_allclose(out[1:-1, 1:-1], (gx * gx + gy * gy) ** 0.5, rtol=1e-15)
