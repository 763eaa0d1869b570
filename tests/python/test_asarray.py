"""tack.asarray, protocol by protocol."""

import array as stdlib_array
import ctypes
import gc
import mmap
import weakref

import numpy as np
import pytest
from managed_tensor import COMPLEX, CUDA, READ_ONLY, Producer

import tack
from tack.interop.dlpack import dlpack_to_array, live_exports

pytestmark = pytest.mark.usefixtures("backend")


class Interface:
    """An object with nothing but an __array_interface__."""

    def __init__(self, source, **changes):
        self.source = source
        self.__array_interface__ = source.__array_interface__ | changes


# which protocol


def test_an_array_of_tacks_is_given_back_as_it_is():
    array = tack.zeros(3)
    assert tack.asarray(array) is array
    assert tack.asarray(array, "float32", array.device, False) is array


def test_dlpack_comes_before_the_other_protocols():
    class Both(Producer):
        @property
        def __array_interface__(self):
            raise AssertionError

        @property
        def __cuda_array_interface__(self):
            raise AssertionError

    source = Both()
    assert tack.asarray(source).ptr == source.managed.tensor.data


def test_a_capsule_is_taken_once():
    producer = Producer()
    capsule = producer.make_capsule()
    assert tack.asarray(capsule).ptr == producer.managed.tensor.data
    with pytest.raises(ValueError, match="asarray: the capsule has been consumed already"):
        tack.asarray(capsule)


@pytest.mark.parametrize("copy", [None, False, True])
def test_cuda_memory_that_is_not_there_is_refused(copy):
    class OnDevice:
        __cuda_array_interface__ = {"data": (16, False), "shape": (4,), "typestr": "<f4"}

    # With a CUDA driver the address is wrong, without one the device is missing.
    with pytest.raises((RuntimeError, ValueError), match="asarray: .*cuda"):
        tack.asarray(OnDevice(), copy=copy)


def test_the_array_interface_is_a_view_that_keeps_its_object():
    source = Interface(np.arange(6, dtype="i2").reshape(2, 3))
    alive = weakref.ref(source)
    array = tack.asarray(source)
    assert array.ptr == source.source.ctypes.data
    assert (array.shape, array.dtype, array.writable) == ((2, 3), tack.int16, True)
    del source
    gc.collect()
    assert alive() is not None
    del array
    gc.collect()
    assert alive() is None


def test_a_read_only_array_interface_is_read_only():
    source = np.arange(3)
    source.flags.writeable = False
    assert not tack.asarray(Interface(source)).writable


@pytest.mark.parametrize(
    "buffer",
    [
        bytearray(8),
        stdlib_array.array("d", [1.5, 2.5]),
        memoryview(bytearray(8)).cast("h", (2, 2)),
        (ctypes.c_int32 * 3)(1, 2, 3),
        mmap.mmap(-1, 8),
    ],
    ids=lambda buffer: type(buffer).__name__,
)
def test_a_buffer_is_a_view(buffer):
    array = tack.asarray(buffer, copy=False)
    expected = np.asarray(memoryview(buffer))
    assert array.ptr == expected.ctypes.data
    assert (array.dtype, array.shape, array.writable) == (expected.dtype, expected.shape, True)


def test_a_buffer_is_released_with_the_last_array():
    buffer = bytearray(8)
    array = tack.asarray(buffer)
    view = array.reshape(2, 4)
    del array
    with pytest.raises(BufferError):
        buffer.append(1)
    del view
    buffer.append(1)


def test_bytes_are_read_only():
    source = b"abc"
    array = tack.asarray(source)
    assert (array.dtype, array.tolist(), array.writable) == (tack.uint8, [97, 98, 99], False)
    with pytest.raises(RuntimeError, match="read-only"):
        array[0] = 1
    assert source == b"abc"


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4",
                                   "f8"])  # fmt: skip
@pytest.mark.parametrize("wrap", [lambda x: x, memoryview, Interface])
def test_every_dtype_by_every_protocol(dtype, wrap):
    source = np.ones((2, 2), dtype)
    array = tack.asarray(wrap(source), copy=False)
    assert (array.dtype, array.tolist()) == (source.dtype, source.tolist())
    assert array.ptr == source.ctypes.data


@pytest.mark.partner("ml_dtypes")
def test_numpys_bfloat16_is_a_view():
    import ml_dtypes

    source = np.ones(3, ml_dtypes.bfloat16)
    array = tack.asarray(source, copy=False)
    assert (array.dtype, array.ptr) == (tack.bfloat16, source.ctypes.data)


@pytest.mark.parametrize("wrap", [lambda x: x, memoryview, Interface])
@pytest.mark.parametrize("copy", [None, False])
def test_big_endian_elements_are_refused_by_name(wrap, copy):
    with pytest.raises(TypeError, match=r"'>(i4|i)' are big-endian.*newbyteorder"):
        tack.asarray(wrap(np.arange(3, dtype=">i4")), copy=copy)


@pytest.mark.parametrize("wrap", [lambda x: x, memoryview, Interface])
@pytest.mark.parametrize("dtype", ["c8", "S3", "M8[s]", [("a", "i4"), ("b", "f4")]])
def test_what_is_no_number_is_a_type_error(wrap, dtype):
    source = np.zeros(2, dtype)
    if wrap is memoryview and source.dtype.kind == "M":
        with pytest.raises(ValueError, match="buffer"):  # NumPy's own
            memoryview(source)
        return
    with pytest.raises(TypeError, match="asarray: "):
        tack.asarray(wrap(source), copy=False)


def test_a_masked_interface_is_a_type_error():
    source = Interface(np.arange(3), mask=np.array([True, False, True]))
    with pytest.raises(TypeError, match="mask"):
        tack.asarray(source)


def test_an_interface_without_an_address_uses_the_buffer():
    class Exporting(bytearray):
        __array_interface__ = {"version": 3, "shape": (4,), "typestr": "|u1"}

    assert tack.asarray(Exporting(b"abcd"), copy=False).tolist() == [97, 98, 99, 100]
    with pytest.raises(TypeError, match="gives no address"):
        tack.asarray(Interface(np.arange(3), data=None), copy=False)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        (dict(typestr="<i33"), TypeError, "33 bytes"),
        (dict(typestr="<c32"), TypeError, "32 bytes"),
        (dict(typestr="<i0"), TypeError, "0 bytes"),
        (dict(typestr="i"), TypeError, "'i' are no numbers"),
        (dict(typestr=None), TypeError, "'None' are no numbers"),
        (dict(shape="ab"), TypeError, "shape must be"),
        (dict(shape=(3, 1), strides=(8,)), ValueError, r"strides \(8,\) for the shape \(3, 1\)"),
        (dict(strides=(1.5,)), TypeError, "must be an int"),
        (dict(data=("here", False)), TypeError, "ptr must be an int"),
    ],
)
def test_a_malformed_interface_says_what_is_wrong(changes, error, text):
    with pytest.raises(error, match=f"^asarray: .*{text}"):
        tack.asarray(Interface(np.arange(3), **changes), copy=False)


# a NumPy scalar's array interface names memory that is gone when one looks
def test_a_numpy_scalar_is_copied():
    assert tack.asarray(np.float32(1.5)).item() == 1.5
    with pytest.raises(ValueError, match="float32 shares no memory"):
        tack.asarray(np.float32(1.5), copy=False)


def test_a_type_is_not_taken_for_its_objects():
    with pytest.raises(ValueError, match="shares no memory"):
        tack.asarray(np.ndarray, copy=False)


# a producer's refusal


def test_a_refusing_producer_is_taken_by_its_next_protocol():
    class Refusing(bytearray):
        def __dlpack__(self, **keywords):
            raise BufferError("no capsules today")

    assert tack.asarray(Refusing(b"ab"), copy=False).tolist() == [97, 98]


def test_a_refusing_producers_error_is_passed_on_where_nothing_follows():
    class Refusing:
        def __dlpack__(self, **keywords):
            raise BufferError("no capsules today")

    with pytest.raises(BufferError, match="no capsules today"):
        tack.asarray(Refusing())


# copy


STRIDED = {
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "every other": np.arange(6)[::2],
    "backwards": np.arange(6)[::-1],
    "misaligned": np.zeros(25, "u1")[1:].view("f8"),
}


@pytest.mark.parametrize("wrap", [lambda x: x, memoryview, Interface])
@pytest.mark.parametrize("source", STRIDED.values(), ids=STRIDED)
def test_what_cannot_be_viewed_is_copied_unless_forbidden(wrap, source):
    array = tack.asarray(wrap(source))
    assert (array.tolist(), array.writable) == (source.tolist(), True)
    with pytest.raises(ValueError, match="asarray: "):
        tack.asarray(wrap(source), copy=False)


def test_a_stride_of_no_whole_elements_is_non_contiguous():
    records = np.zeros(3, [("a", "u1"), ("b", "f4")])["b"]
    with pytest.raises(tack.NonContiguousError, match="no whole number of elements"):
        tack.asarray(memoryview(records), copy=False)


@pytest.mark.parametrize("source", [[1, 2, 3], 7, 2.5, range(3), [[True], [False]]])
def test_what_has_no_memory_is_copied_unless_forbidden(source):
    assert tack.asarray(source).tolist() == np.asarray(source).tolist()
    with pytest.raises(ValueError, match="shares no memory, and copy=False forbids a copy"):
        tack.asarray(source, copy=False)


@pytest.mark.parametrize("source", [np.arange(3), tack.arange(3), bytearray(3), b"abc", [1, 2]])
def test_copy_true_always_copies(source):
    before = live_exports()
    first = tack.asarray(source, copy=True)
    second = tack.asarray(source, copy=True)
    assert first.ptr != second.ptr
    assert first.writable
    assert live_exports() == before


def test_copy_true_of_a_read_only_producer_is_writable():
    source = Producer(flags=READ_ONLY)
    array = tack.asarray(source, copy=True)
    assert (array.writable, source.deleted) == (True, 1)
    assert not tack.asarray(Producer(flags=READ_ONLY)).writable


@pytest.mark.parametrize("source", [np.arange(3), bytearray(b"\0\1\2"), [0, 1, 2], tack.arange(3)])
def test_another_dtype_needs_a_copy(source):
    array = tack.asarray(source, dtype="float32")
    assert (array.dtype, array.tolist()) == (tack.float32, [0, 1, 2])
    with pytest.raises(ValueError, match="copy=False forbids"):
        tack.asarray(source, dtype="float32", copy=False)


def test_the_same_dtype_needs_none():
    source = np.arange(3)
    assert tack.asarray(source, dtype=tack.int64, copy=False).ptr == source.ctypes.data


def test_a_device_is_a_device():
    source = np.arange(3)
    assert tack.asarray(source, device="cpu").ptr == source.ctypes.data
    assert tack.asarray(source, device=tack.device("cpu"), copy=False).ptr == source.ctypes.data
    with pytest.raises(RuntimeError, match="cpu:7|7 of"):
        tack.asarray(source, device="cpu:7")


@pytest.mark.parametrize(
    ("tensor", "error", "text"),
    [
        (dict(code=COMPLEX, bits=64), TypeError, "complex64"),
        (dict(device_type=CUDA, device_id=31), RuntimeError, "cuda"),
        (dict(data=None), ValueError, "null"),
        (dict(shape=(-1,)), ValueError, "negative"),
    ],
)
@pytest.mark.parametrize("copy", [None, False])
def test_a_refused_tensor_stays_refused(tensor, error, text, copy):
    producer = Producer(**tensor)
    with pytest.raises(error, match=f"asarray: .*{text}"):
        tack.asarray(producer, copy=copy)
    assert producer.deleted == 0


def test_errors_begin_with_the_functions_name():
    for bad in [np.zeros(2, "c8"), np.array(["a"]), object(), {1: 2}]:
        with pytest.raises((TypeError, ValueError), match="^asarray: "):
            tack.asarray(bad, copy=False)


def test_a_read_only_array_stays_so():
    array = dlpack_to_array(tack.zeros(2), writable=False)
    assert tack.asarray(array) is array
    assert not tack.asarray(memoryview(array)).writable
    assert not tack.asarray(Interface(array.numpy())).writable
