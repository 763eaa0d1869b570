"""The CUDA array interface, version 3: what Tack's arrays say, and what it takes."""

import gc
import weakref

import numpy as np
import pytest
from far_device import REFUSED_STREAM, STREAM, FarDevice
from managed_tensor import CUDA, Producer

import tack


@pytest.fixture
def far():
    device = FarDevice()
    yield device
    device.close()


class Described:
    """An array's memory by the interface alone; keywords change what it says."""

    def __init__(self, array, **changes):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | changes


# export


def test_every_field_of_an_array_is_given(far):
    array = tack.zeros((2, 3), tack.int16)
    assert array.__cuda_array_interface__ == {
        "version": 3,
        "shape": (2, 3),
        "typestr": "<i2",
        "data": (array.ptr, False),
        "strides": None,
        "stream": STREAM,
    }


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint8", "uint32", "float16", "float32", "float64"]
)
def test_the_typestr_is_numpys(far, dtype):
    assert tack.zeros(1, dtype).__cuda_array_interface__["typestr"] == np.dtype(dtype).str


def test_read_only_memory_says_so(far):
    array = tack.array_from_ptr(1 << 20, tack.float32, 4)
    assert array.__cuda_array_interface__["data"] == (1 << 20, True)


def test_memory_of_no_elements_has_the_address_0(far):
    assert tack.zeros((0, 3)).__cuda_array_interface__["data"] == (0, False)


def test_the_work_on_the_array_has_run(far):
    array = tack.zeros(2)
    before = far.synchronized
    assert array.__cuda_array_interface__["stream"] == STREAM
    assert far.synchronized == before + 1


def test_host_memory_and_bfloat16_have_no_interface(far):
    assert not hasattr(tack.zeros(2, device="cpu"), "__cuda_array_interface__")
    assert not hasattr(tack.zeros(2, tack.bfloat16), "__cuda_array_interface__")
    assert hasattr(tack.zeros(2), "__cuda_array_interface__")


# import


def test_the_memory_is_shared(far):
    source = tack.arange(6, dtype="float32").reshape(2, 3)
    array = tack.asarray(Described(source))
    assert (array.ptr, array.device, array.shape) == (source.ptr, far.device, (2, 3))
    array[0, 0] = 7
    assert source[0, 0] == 7


def test_the_producer_lives_as_long_as_the_last_array(far):
    source = Described(tack.zeros(4))
    alive = weakref.ref(source)
    reshaped = tack.asarray(source).reshape(2, 2)
    del source
    gc.collect()
    assert alive() is not None
    del reshaped
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("stream", [1, 2, 12345])
def test_the_producers_stream_is_waited_for(far, stream):
    tack.asarray(Described(tack.zeros(2), stream=stream))
    assert far.waited == [stream]


@pytest.mark.parametrize("stream", [None, STREAM])
def test_no_stream_and_our_own_need_no_wait(far, stream):
    tack.asarray(Described(tack.zeros(2), stream=stream))
    assert far.waited == []


def test_before_version_3_there_is_no_stream(far):
    source = Described(tack.zeros(2), version=2)
    del source.__cuda_array_interface__["stream"]
    assert tack.asarray(source).shape == (2,)
    assert far.waited == []


def test_stream_0_is_refused_as_the_interface_says(far):
    with pytest.raises(ValueError, match=r"is 0, which the interface forbids"):
        tack.asarray(Described(tack.zeros(2), stream=0))


@pytest.mark.parametrize("stream", ["1", True, 1.0])
def test_a_stream_that_is_no_int_is_a_type_error(far, stream):
    with pytest.raises(TypeError, match="the stream in the __cuda_array_interface__"):
        tack.asarray(Described(tack.zeros(2), stream=stream))


def test_a_stream_that_cannot_be_waited_for_lets_the_producer_go(far):
    source = Described(tack.zeros(2), stream=REFUSED_STREAM)
    alive = weakref.ref(source)
    with pytest.raises(RuntimeError, match=f"asarray: the producer's stream {REFUSED_STREAM}"):
        tack.asarray(source)
    del source
    gc.collect()
    assert alive() is None


def test_read_only_memory_stays_so(far):
    source = tack.zeros(2)
    assert not tack.asarray(Described(source, data=(source.ptr, True))).writable
    assert tack.asarray(Described(source, data=(source.ptr, False))).writable


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"strides": (4, 8)}, tack.NonContiguousError, r"strides \(1, 2\)"),
        ({"strides": (6, 2)}, tack.NonContiguousError, "no whole number of elements"),
        ({"typestr": ">f4"}, TypeError, "big-endian"),
        ({"typestr": "<c8"}, TypeError, "complex64"),
        ({"typestr": "<M8"}, TypeError, "no numbers"),
        ({"mask": object()}, TypeError, "mask"),
        ({"data": None}, TypeError, "gives no address"),
        ({"data": (0, False)}, ValueError, "null"),
        ({"data": ((1 << 20) + 2, False)}, ValueError, "past a multiple of 4"),
        ({"data": (64, False)}, ValueError, "no memory of the device"),
        ({"data": (-4, False)}, ValueError, "-4 is not an address"),
        ({"shape": (-1, 3)}, ValueError, "-1"),
    ],
)
def test_what_cannot_be_a_view_is_refused_by_name(far, changes, kind, text):
    source = Described(tack.zeros((2, 3)), **changes)
    for copy in (None, False):
        with pytest.raises(kind, match=f"^asarray: .*{text}"):
            tack.asarray(source, copy=copy)


def test_contiguous_strides_may_be_spelled_out(far):
    assert tack.asarray(Described(tack.zeros((2, 3)), strides=(12, 4))).shape == (2, 3)


def test_null_is_legal_where_there_are_no_elements(far):
    array = tack.asarray(Described(tack.zeros(2), shape=(0, 3), data=(0, False)))
    assert (array.shape, array.device) == ((0, 3), far.device)


def test_a_copy_is_the_arrays_own(far):
    source = tack.zeros(2)
    assert tack.asarray(Described(source), copy=True).ptr != source.ptr
    assert tack.asarray(Described(source), device="cpu").device == tack.device("cpu")


def test_another_device_cannot_wrap_it(far):
    with pytest.raises(RuntimeError, match="cpu cannot wrap a kDLCUDA tensor"):
        tack.asarray(Described(tack.zeros(2)), device="cpu", copy=False)


def test_a_producer_of_both_is_asked_for_dlpack(far):
    class Both(Producer):
        @property
        def __cuda_array_interface__(self):
            raise AssertionError("the interface was asked for")

    assert tack.asarray(Both(device_type=CUDA)).device == far.device


def test_from_dlpack_takes_dlpack_only(far):
    with pytest.raises(TypeError, match="has no __dlpack__"):
        tack.from_dlpack(Described(tack.zeros(2)))


def test_explain_says_what_would_be_waited_for(far):
    source = Described(tack.zeros(2), stream=7)
    record = tack.explain(source)
    assert (record.protocol, record.device, record.shared) == (
        "CUDA array interface",
        "kDLCUDA:0",
        True,
    )
    assert "stream 7" in record.ordering
    assert far.waited == []
    assert "no work" in tack.explain(Described(tack.zeros(2), stream=None)).ordering
