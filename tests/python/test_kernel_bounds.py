"""check_bounds=True, steps of ranges, and what kernels ask of an array's shape."""

import numpy as np
import pytest
from launcher import kernel
from test_kernel_errors import error_of_body, in_loop

import tack

pytestmark = pytest.mark.usefixtures("backend")


@kernel(check_bounds=True)
def shifted(x, y, by):
    for i in range(len(y)):
        y[i] = x[i + by]


@pytest.mark.parametrize(("by", "index"), [(3, 5), (-1, -1), (1 << 60, 1 << 60)])
def test_an_index_out_of_range_is_an_index_error_naming_array_index_and_extent(by, index):
    x, y = np.arange(5.0), np.zeros(1 if by > 3 else 3)
    with pytest.raises(IndexError) as caught:
        shifted(x, y, by)
    message = str(caught.value)
    assert message.startswith("shifted: index ") and "axis 0 of 'x'" in message
    assert f"index {index} " in message and "extent is 5" in message


def test_a_launch_within_bounds_raises_nothing():
    y = np.zeros(4)
    shifted(np.arange(5.0), y, 1)
    assert y.tolist() == [1, 2, 3, 4]


def test_a_launch_with_a_fault_completes_and_reads_zeros():
    y = np.ones(100_000)
    with pytest.raises(IndexError):
        shifted(np.full(50_000, 2.0), y, 0)
    assert (y[:50_000] == 2).all() and (y[50_000:] == 0).all()


@kernel(check_bounds=True)
def scattered(x, at, value):
    for k in range(len(at)):
        x[at[k], 1] = value


@pytest.mark.parametrize("outside", [-1, 3, 4, 1 << 40])
def test_nothing_out_of_range_is_stored(outside):
    whole = np.zeros((9, 2))
    with pytest.raises(IndexError, match=rf"index {outside} .* axis 0 of 'x', whose extent is 3"):
        scattered(whole[3:6], np.array([0, outside, 2]), 7.0)
    assert np.argwhere(whole).tolist() == [[3, 1], [5, 1]]


@kernel(check_bounds=True)
def axes(x, i, j):
    for _ in range(1):
        x[i, j] += 1


@pytest.mark.parametrize(("i", "j", "axis", "extent"), [(0, 5, 1, 3), (2, 0, 0, 2), (0, -1, 1, 3)])
def test_the_axis_is_named_and_no_index_reaches_into_another_row(i, j, axis, extent):
    x = np.zeros((2, 3))
    with pytest.raises(IndexError, match=rf"axis {axis} of 'x', whose extent is {extent}"):
        axes(x, i, j)
    assert not x.any()


@tack.func
def fetch(values, i):
    return values[i]


@kernel(check_bounds=True)
def through_function(x, table, y):
    for i in range(len(y)):
        y[i] = fetch(table, i) + fetch(x, 0)


def test_a_fault_in_a_device_function_names_the_kernels_array():
    with pytest.raises(IndexError, match="index 2 .* of 'table'"):
        through_function(np.ones(1), np.ones(2), np.zeros(3))


@kernel(check_bounds=True)
def counted(bins, data):
    for i in range(len(data)):
        tack.atomic_add(bins, data[i], 1)


def test_an_atomic_out_of_range_changes_nothing():
    bins = np.zeros(8, np.int32)
    with pytest.raises(IndexError, match="index 4 .* of 'bins'"):
        counted(bins[:4], np.array([1, 4, 1]))
    assert bins.tolist() == [0, 2, 0, 0, 0, 0, 0, 0]


@kernel(check_bounds=True)
def guarded(x, out):
    for i in range(len(out)):
        j = i - 2
        out[i] = 1 if j >= 0 and j < len(x) and x[j] > 0 else 2
        out[i] += x[j] if 0 <= j < len(x) else 10
        if j < 0 or j >= len(x) or x[j] < 0:
            out[i] += 100


def test_short_circuits_and_conditional_expressions_guard_an_index():
    """NVIDIA/warp#1329"""
    out = np.zeros(6)
    guarded(np.array([5.0, -5.0]), out)
    assert out.tolist() == [112, 112, 6, 97, 112, 112]


@kernel(check_bounds=True)
def top_level(n, x):
    count = n[7]
    for i in range(count):
        x[i] = 1


def test_an_index_outside_parallel_loops_is_checked():
    x = np.zeros(2)
    with pytest.raises(IndexError, match="index 7 .* of 'n'"):
        top_level(np.ones(3, np.int64), x)
    assert not x.any()


def test_arrays_without_elements_have_no_index_in_range():
    with pytest.raises(IndexError, match="extent is 0"):
        shifted(np.zeros(0), np.zeros(1), 0)


def test_overlapping_arrays_are_checked_too():
    x = np.arange(6.0)
    with pytest.raises(IndexError, match="index 3 .* of 'x'"):
        shifted(x[:3], x[1:4], 1)


def test_bounds_of_bool_and_half_arrays_are_checked():
    for dtype in (np.bool_, np.float16, np.uint8):
        y = np.ones(2, dtype)
        with pytest.raises(IndexError):
            shifted(np.ones(1, dtype), y, 0)
        assert y.tolist() == [1, 0]


def test_a_kernel_without_the_option_has_no_checks_in_it():
    @kernel
    def plain(x):
        for i in range(len(x)):
            x[i] = 1

    x = np.zeros(3)
    assert "fault" not in plain.inspect(x, mode="source")
    assert "fault" in shifted.inspect(x, x, 0, mode="source")


# steps


@kernel
def stepped(x, n, step):
    for i in range(len(x)):
        for j in range(i, n, step):
            x[i] += j


@pytest.mark.parametrize("step", [1, 2, 7, -1, -3])
def test_an_inner_range_with_a_step_from_an_argument_makes_pythons_passes(step):
    """triton-lang/triton#10950"""
    x = np.zeros(4, np.int64)
    stepped(x, 20, step)
    assert x.tolist() == [sum(range(i, 20, step)) for i in range(4)]


@pytest.mark.parametrize("step", [0, np.int32(0), np.uint8(0)])
def test_a_step_of_0_from_an_argument_is_a_value_error_and_nothing_runs(step):
    """triton-lang/triton#10950"""
    x = np.ones(4, np.int64)
    with pytest.raises(ValueError, match="stepped: argument 'step' is 0.* step of a range"):
        stepped(x, 20, step)
    assert (x == 1).all()


@pytest.mark.parametrize("step", ["0", "-0", "STEP"])
def test_a_step_of_0_that_is_a_constant_is_a_value_error_at_its_place(step):
    """triton-lang/triton#10950"""
    with pytest.raises(ValueError, match=r":4:30: error: the step of a range cannot be 0"):
        error_of_body(in_loop(f"for j in range(0, n, {step}):\n    pass"), STEP=0)


@kernel
def computed_step(x, steps):
    for i in range(len(x)):
        for _j in range(0, 10, steps[i]):
            x[i] += 1


def test_a_step_of_0_computed_in_the_kernel_runs_no_pass():
    """triton-lang/triton#10950"""
    x = np.zeros(3)
    computed_step(x, np.array([0, 5, -1]))
    assert x.tolist() == [0, 2, 0]


@kernel
def guarded_step(x, step):
    for i in range(len(x)):
        if step != 0:
            for _j in range(0, 10, step):
                x[i] += 1


def test_a_step_that_the_kernel_tests_may_be_0():
    x = np.zeros(2)
    guarded_step(x, 0)
    guarded_step(x, 5)
    assert x.tolist() == [2, 2]


# shapes


@kernel
def unpacked(x, out):
    rows, columns = x.shape
    for i in range(rows):
        n, m = x.shape
        out[i] = columns * 100 + n * 10 + m
        out[i] += 1000 * x.ndim + 10000 * len(x.shape)


def test_a_shape_is_unpacked_and_ndim_is_the_number_of_dimensions():
    out = np.zeros(2)
    unpacked(np.zeros((2, 3)), out)
    assert out.tolist() == [22323, 22323]


@pytest.mark.parametrize("shape", [(4,), (2, 2, 2)])
def test_a_shape_is_unpacked_into_as_many_as_the_array_has_dimensions(shape):
    with pytest.raises(tack.CompileError, match=rf"'x' has {len(shape)} .* unpacked into 2"):
        unpacked(np.zeros(shape), np.zeros(4))
