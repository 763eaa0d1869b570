"""NumPy arrays and PyTorch tensors are imported without a capsule, and kept by a reference."""

from __future__ import annotations

import sys
import weakref

import numpy as np
import pytest

import tack

pytestmark = pytest.mark.usefixtures("backend")

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64"]
torch_only = pytest.mark.partner("torch")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3), (1,) * 12])
def test_a_numpy_array_comes_in_as_it_is(dtype, shape):
    source = np.ones(shape, dtype)
    array = tack.from_dlpack(source)
    assert (array.shape, array.dtype, array.size) == (source.shape, dtype, source.size)
    assert array.writable
    if source.size:
        assert array.ptr == source.ctypes.data


def test_the_last_array_gives_a_numpy_array_back():
    source = np.ones(4)
    before = sys.getrefcount(source)
    array = tack.from_dlpack(source)
    view = array.reshape(2, 2)
    capsule = view.__dlpack__()
    assert sys.getrefcount(source) == before + 1
    del array, view
    assert sys.getrefcount(source) == before + 1
    del capsule
    assert sys.getrefcount(source) == before


def test_the_memory_of_a_numpy_array_that_is_gone_stays():
    array = tack.from_dlpack(np.arange(4))
    assert array.tolist() == [0, 1, 2, 3]


def test_a_refused_numpy_array_is_not_kept():
    source = np.ones(4)
    before = sys.getrefcount(source)
    with pytest.raises(RuntimeError, match="cuda"):
        tack.from_dlpack(source, device="cuda")
    with pytest.raises(tack.NonContiguousError):
        tack.from_dlpack(source[::2])
    assert sys.getrefcount(source) == before


# NumPy deprecates writing to these, and its DLPack says read-only.
def test_an_array_that_numpy_warns_of_writing_to_is_as_writable_as_its_capsule_says():
    (source,) = np.broadcast_arrays(np.ones(3))
    (other,) = np.broadcast_arrays(np.ones(3))
    capsule = other.__dlpack__(max_version=(1, 0))
    assert tack.from_dlpack(source).writable == tack.from_dlpack(capsule).writable


def test_numpy_does_not_resize_an_array_that_tack_has():
    source = np.ones(4)
    array = tack.from_dlpack(source)
    with pytest.raises(ValueError, match="resize"):
        source.resize(1_000_000)
    assert array.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3), (1,) * 12])
def test_numpy_gives_the_array_that_numpys_own_buffer_protocol_would(dtype, shape):
    array = tack.ones(shape, dtype)
    view, expected = array.numpy(), np.ndarray(shape, dtype, buffer=array)
    assert (view.shape, view.dtype, view.strides) == (shape, expected.dtype, expected.strides)
    assert str(view.flags) == str(expected.flags)
    assert view.base is array
    assert view.ctypes.data == expected.ctypes.data


def test_a_numpy_view_keeps_the_array():
    array = tack.full(4, 7)
    alive = weakref.ref(array)
    view = array.numpy()
    del array
    assert alive() is not None
    assert view.tolist() == [7, 7, 7, 7]
    del view
    assert alive() is None


def test_the_view_of_a_read_only_array_is_read_only():
    source = np.ones(4)
    source.flags.writeable = False
    assert not tack.from_dlpack(source).numpy().flags.writeable


# Objects of arrays are used again for later ones.
def test_an_array_that_is_gone_leaves_nothing_to_the_next():
    first = tack.zeros(3)
    gone = []
    watch = weakref.ref(first, gone.append)
    del first
    second = tack.ones((2, 2))
    assert watch() is None
    assert gone == [watch]
    assert weakref.getweakrefcount(second) == 0
    assert second.tolist() == [[1, 1], [1, 1]]


@torch_only
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3), (1,) * 12])
def test_a_tensor_comes_in_as_it_is(shape):
    import torch

    source = torch.ones(shape)
    for _ in range(2):
        array = tack.from_dlpack(source)
        assert (array.shape, array.dtype, array.size) == (shape, "float32", source.numel())
        assert array.writable
        if source.numel():
            assert array.ptr == source.data_ptr()


@torch_only
def test_the_last_array_gives_a_tensor_back():
    import torch

    source = torch.ones(4)
    tack.from_dlpack(source)
    before = sys.getrefcount(source)
    array = tack.from_dlpack(source)
    view = array.reshape(2, 2)
    del array
    assert sys.getrefcount(source) == before + 1
    del view
    assert sys.getrefcount(source) == before


@torch_only
def test_a_refused_tensor_is_not_kept():
    import torch

    source = torch.ones(4)
    tack.from_dlpack(source)
    before = sys.getrefcount(source)
    with pytest.raises(RuntimeError, match="cuda"):
        tack.from_dlpack(source, device="cuda")
    source.requires_grad_(True)
    with pytest.raises(BufferError, match="detach"):
        tack.from_dlpack(source)
    assert sys.getrefcount(source) == before


@torch_only
def test_a_tensor_that_is_gone_leaves_its_memory():
    import torch

    array = tack.from_dlpack(torch.arange(4))
    assert array.tolist() == [0, 1, 2, 3]
