"""What must hold for every Python: import, exchange, a launch. Needs only NumPy and pytest."""

import numpy as np
import pytest

import tack


@tack.kernel
def saxpy(a, x, y):
    for i in range(x.size):
        y[i] = a * x[i] + y[i]


def test_a_kernel_runs_on_numpy_arrays_in_place():
    x = np.arange(1000, dtype=np.float32)
    y = np.ones(1000, dtype=np.float32)
    saxpy(2.0, x, y)
    np.testing.assert_array_equal(y, 2 * np.arange(1000, dtype=np.float32) + 1)


def test_an_array_shares_its_memory_with_numpy_both_ways():
    source = np.zeros((3, 4))
    array = tack.from_dlpack(source)
    assert array.ptr == source.ctypes.data
    assert np.from_dlpack(array).ctypes.data == source.ctypes.data


def test_a_pointer_is_wrapped_read_only():
    source = np.ones(8, dtype=np.int32)
    array = tack.array_from_ptr(source.ctypes.data, tack.int32, (8,))
    assert array.tolist() == [1] * 8
    with pytest.raises(RuntimeError, match="read-only"):
        array[0] = 2


def test_a_device_that_is_not_there_is_a_runtime_error():
    with pytest.raises(RuntimeError, match="cpu:7"):
        tack.device("cpu:7")
