"""NumPy's and PyTorch's objects straight in: read in place, refused where an import refuses."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import tack

pytestmark = pytest.mark.usefixtures("backend")

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64"]


@tack.kernel
def copy(x, z):
    for i in range(z.size):
        z[i] = x[i]


@tack.kernel
def add(a, z):
    for i in range(z.size):
        z[i] = z[i] + a


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_numpy_array_is_read_and_written_in_place_whatever_its_dtype(dtype):
    x = (np.arange(20) % 2).astype(dtype)
    z = np.zeros(20, dtype)
    copy(x, z)
    np.testing.assert_array_equal(z, x)


def test_the_shape_of_a_numpy_array_is_that_of_the_launch():
    @tack.kernel
    def extents(x, z):
        for i in range(1):
            z[i] = x.shape[0] * 100 + x.shape[1] * 10 + x.shape[2]

    z = np.zeros(1, np.int64)
    extents(np.zeros((2, 3, 4)), z)
    assert z[0] == 234
    extents(np.zeros((2, 0, 4)), z)
    assert z[0] == 204


def test_a_read_only_numpy_array_may_be_read_and_not_stored_to():
    x = np.ones(4, np.float32)
    x.flags.writeable = False
    z = np.zeros(4, np.float32)
    copy(x, z)
    assert z.tolist() == [1, 1, 1, 1]
    with pytest.raises(ValueError, match="parameter 'z' is a read-only array"):
        copy(z, x)


def test_a_numpy_array_that_is_not_contiguous_is_refused_by_its_parameter():
    with pytest.raises(tack.NonContiguousError, match=r"parameter 'x': .*strides \(2,\)"):
        copy(np.zeros(8, np.float32)[::2], np.zeros(4, np.float32))


def test_a_numpy_array_of_another_byte_order_is_refused():
    with pytest.raises(TypeError, match="big-endian"):
        copy(np.zeros(4, ">f4"), np.zeros(4, np.float32))


def test_a_numpy_array_that_is_not_aligned_is_refused():
    bytes_ = np.zeros(17, np.uint8)
    with pytest.raises(ValueError, match="parameter 'x'"):
        copy(bytes_[1:].view(np.float32), np.zeros(4, np.float32))


def test_overlapping_numpy_arrays_are_seen_to_overlap():
    x = np.zeros(9, np.float32)
    x[0] = 1

    @tack.kernel
    def shifted(x, z):
        for _ in range(1):
            for k in range(z.size):
                z[k] = x[k]

    shifted(x[:-1], x[1:])
    assert x.tolist() == [1.0] * 9


def test_an_array_of_a_numpy_subclass_is_taken_too(tmp_path):
    mapped = np.memmap(tmp_path / "values", np.float32, "w+", shape=4)
    copy(np.ones(4, np.float32), mapped)
    assert mapped.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_a_numpy_scalar_keeps_its_type_and_value(dtype):
    z = np.zeros(2, np.float64)
    add(np.dtype(dtype).type(3), z)
    assert z.tolist() == [3, 3]


def test_a_numpy_bool_is_a_bool():
    @tack.kernel
    def choose(flag, z):
        for i in range(z.size):
            z[i] = 1 if flag else 2

    z = np.zeros(1)
    choose(np.bool_(False), z)
    assert z[0] == 2


def test_launches_hold_no_reference_to_numpy_arrays_once_they_are_over():
    x, z = np.ones(16, np.float32), np.zeros(16, np.float32)
    before = sys.getrefcount(x), sys.getrefcount(z)
    for _ in range(10):
        copy(x, z)
    assert (sys.getrefcount(x), sys.getrefcount(z)) == before


torch_only = pytest.mark.partner("torch")


@torch_only
@pytest.mark.parametrize("dtype", DTYPES[1:6] + DTYPES[9:] + ["bfloat16"])
def test_a_tensor_is_read_and_written_in_place_whatever_its_dtype(dtype):
    import torch

    x = torch.arange(20).to(getattr(torch, dtype))
    z = torch.zeros_like(x)
    for _ in range(2):
        copy(x, z)
        assert torch.equal(x, z)


@torch_only
def test_a_slice_of_a_tensor_begins_where_it_does():
    import torch

    x = torch.arange(10.0)
    z = torch.zeros(4)
    copy(x[3:7], z)
    assert z.tolist() == [3, 4, 5, 6]


# FlyDSL#1099: PyTorch's exchange API hands these out without complaint.
@torch_only
@pytest.mark.parametrize("count", [1, 4])
def test_tensors_that_require_gradients_or_are_negated_are_refused(count):
    import torch

    z = torch.zeros(count)
    copy(torch.ones(count), z)
    with pytest.raises(BufferError, match="grad"):
        copy(torch.ones(count, requires_grad=True), z)
    with pytest.raises(BufferError, match="grad"):
        copy(torch.nn.Parameter(torch.ones(count)), z)
    with pytest.raises(BufferError, match="parameter 'x': .*negated view.*resolve_neg"):
        copy(torch._neg_view(torch.ones(count)), z)


@torch_only
def test_the_imaginary_part_of_a_conjugate_is_refused_in_launches_and_imports():
    import torch

    z = torch.zeros(1)
    for take in (lambda x: copy(x, z), tack.from_dlpack):
        with pytest.raises(BufferError, match="negated view"):
            take(torch.tensor([1 + 2j]).conj().imag)


@torch_only
def test_a_tensor_that_is_not_contiguous_is_refused_by_its_parameter():
    import torch

    with pytest.raises(tack.NonContiguousError, match="parameter 'x'"):
        copy(torch.zeros(8)[::2], torch.zeros(4))


@torch_only
def test_sparse_and_meta_tensors_are_refused():
    import torch

    z = torch.zeros(4)
    copy(torch.ones(4), z)
    for x in (torch.zeros(4).to_sparse(), torch.zeros(4, device="meta")):
        with pytest.raises((RuntimeError, ValueError, BufferError, TypeError)):
            copy(x, z)


@torch_only
def test_a_tensor_of_no_dimensions_is_a_number():
    import torch

    z = torch.zeros(3)
    add(torch.tensor(2.0), z)
    assert z.tolist() == [2, 2, 2]


@torch_only
def test_launches_hold_no_reference_to_tensors_once_they_are_over():
    import torch

    x, z = torch.ones(4), torch.zeros(4)
    before = sys.getrefcount(x), sys.getrefcount(z)
    for _ in range(10):
        copy(x, z)
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(z)) == before
