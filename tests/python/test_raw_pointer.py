"""array_from_ptr: what is taken as an address, and what is refused before it could be a fault."""

import ctypes
import mmap

import numpy as np
import pytest

import tack

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture
def memory(backend):
    return tack.arange(16, dtype=tack.float32)


class Indexable:
    def __init__(self, address):
        self.address = address

    def __index__(self):
        return self.address


@pytest.mark.parametrize(
    "spelled",
    [
        int,
        Indexable,
        np.uint64,
        ctypes.c_void_p,
        lambda address: ctypes.cast(address, ctypes.POINTER(ctypes.c_float)),
    ],
)
def test_every_spelling_of_an_address_is_taken(memory, spelled):
    array = tack.array_from_ptr(spelled(memory.ptr), tack.float32, (4, 4))
    assert array.ptr == memory.ptr
    assert array.tolist() == memory.reshape(4, 4).tolist()


@pytest.mark.parametrize(
    "bad", [True, False, 1.0, "1", b"1", None, [1], ctypes.c_int(1), np.float64(8), np.bool_(True)]
)
def test_what_is_no_address_is_a_type_error(bad):
    with pytest.raises(TypeError, match="array_from_ptr: ptr must be an int"):
        tack.array_from_ptr(bad, tack.float32, 1)


@pytest.mark.parametrize("bad", [-1, -(2**70), 2**64])
def test_a_number_that_is_no_address_is_a_value_error(bad):
    with pytest.raises(ValueError, match="is not an address"):
        tack.array_from_ptr(bad, tack.float32, 1)


@pytest.mark.parametrize("null", [0, ctypes.c_void_p(), ctypes.POINTER(ctypes.c_float)()])
def test_null_is_taken_where_the_size_is_0_and_only_there(null):
    assert tack.array_from_ptr(null, tack.float32, (0, 3)).size == 0
    with pytest.raises(ValueError, match="array_from_ptr: .*null"):
        tack.array_from_ptr(null, tack.float32, 1)


def test_a_misaligned_address_is_refused(memory):
    with pytest.raises(ValueError, match="array_from_ptr: .*align"):
        tack.array_from_ptr(memory.ptr + 2, tack.float32, 1)
    assert tack.array_from_ptr(memory.ptr + 2, tack.int16, 1).size == 1


@pytest.mark.parametrize("shape", [2**62, (2**32, 2**32), -1, (3, -1)])
def test_a_shape_that_overflows_or_is_negative_is_refused(memory, shape):
    with pytest.raises(ValueError, match="array_from_ptr"):
        tack.array_from_ptr(memory.ptr, tack.float32, shape)


@pytest.mark.parametrize("address", [8, 4096, 2**47, 2**64 - 64])
def test_an_address_that_is_not_mapped_is_refused(address):
    with pytest.raises(ValueError, match="array_from_ptr: .*map"):
        tack.array_from_ptr(address, tack.float32, 4)


def test_a_range_whose_last_page_is_not_mapped_is_refused(memory):
    with pytest.raises(ValueError, match="array_from_ptr: .*map"):
        tack.array_from_ptr(memory.ptr, tack.float32, 2**40)


def test_pages_that_cannot_be_written_are_wrapped_read_only_alone():
    pages = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    address = libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_PRIVATE | 0x20, -1, 0)
    assert tack.array_from_ptr(address, tack.uint8, 10).tolist() == [0] * 10
    with pytest.raises(ValueError, match="writ"):
        tack.array_from_ptr(address, tack.uint8, 10, writable=True)
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.munmap(address, mmap.PAGESIZE)
    pages.close()


def test_a_wrapped_array_is_read_only_unless_asked(memory):
    array = tack.array_from_ptr(memory.ptr, tack.float32, 16)
    assert not array.writable
    with pytest.raises(RuntimeError, match="read-only"):
        array[0] = 1
    writable = tack.array_from_ptr(memory.ptr, tack.float32, 16, writable=True)
    writable[0] = 9
    assert memory[0] == 9
    assert array[0] == 9


def test_the_device_is_the_default_or_the_one_given(backend, memory):
    for device in (None, backend, tack.device(backend)):
        array = tack.array_from_ptr(memory.ptr, "f4", 16, device=device)
        assert array.device == tack.device(backend)


# Alpine-DAV/ascent#1332: a pointer into the wrong space
def test_a_device_that_is_not_there_is_refused_before_the_pointer_is_read():
    with pytest.raises(RuntimeError):
        tack.array_from_ptr(4096, "f4", 16, device="cuda:31")
