"""Arrays by value and dtypes by name, through pickle."""

import copy
import pickle

import numpy as np
import pytest

import tack

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
@pytest.mark.parametrize("dtype", [tack.bool, tack.int64, tack.bfloat16, tack.float32])
def test_an_array_is_pickled_by_value(protocol, shape, dtype):
    array = tack.ones(shape, dtype)
    again = pickle.loads(pickle.dumps(array, protocol))
    assert (again.shape, again.dtype, again.tolist()) == (shape, dtype, array.tolist())
    assert again.writable
    if array.size:
        assert again.ptr != array.ptr


def test_a_read_only_array_is_pickled_and_comes_back_writable():
    source = np.arange(3.0)
    source.flags.writeable = False
    again = pickle.loads(pickle.dumps(tack.from_dlpack(source)))
    assert again.tolist() == [0, 1, 2]
    assert again.writable


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_dtype_stays_one_object(protocol):
    assert pickle.loads(pickle.dumps(tack.float32, protocol)) is tack.float32
    assert pickle.loads(pickle.dumps(tack.bool, protocol)) is tack.bool
    assert copy.deepcopy(tack.int8) is tack.int8


def test_errors_are_pickled_as_what_they_are():
    for error in (tack.NonContiguousError("text"), tack.CompileError("text")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), "text")
