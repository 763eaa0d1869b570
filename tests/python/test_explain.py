"""tack.explain says what asarray would do, and takes nothing."""

import numpy as np
import pytest
from exchange_api import make_type
from managed_tensor import COMPLEX, CUDA, READ_ONLY, Producer, capsule_name

import tack
from tack.interop.dlpack import live_exports

pytestmark = pytest.mark.usefixtures("backend")


class OnDevice:
    __cuda_array_interface__ = {"data": (16, False), "shape": (4,), "typestr": "<f4"}


class Interface:
    def __init__(self, source):
        self.__array_interface__ = source.__array_interface__


MEMORY = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("source", "protocol"),
    [
        (tack.zeros(2), "none needed, a tack.Array"),
        (MEMORY, "DLPack"),
        (make_type()(), "DLPack C exchange API"),
        (MEMORY.__dlpack__(), "DLPack capsule"),
        (OnDevice(), "CUDA array interface"),
        (Interface(MEMORY), "array interface"),
        (b"abc", "buffer protocol"),
        ([1, 2], None),
    ],
)
def test_the_protocol_is_named(source, protocol):
    assert tack.explain(source).protocol == protocol


def test_memory_that_would_be_shared_is_described():
    record = tack.explain(MEMORY)
    assert record.type == "numpy.ndarray"
    assert (record.device, record.dtype, record.shape) == ("kDLCPU:0", "float64", (2, 3))
    assert (record.layout, record.writable, record.shared) == ("C-contiguous", True, True)
    assert (record.reason, record.copyable) == ("", False)


@pytest.mark.parametrize("versioned", [True, False])
def test_nothing_is_taken(versioned):
    producer = Producer(versioned=versioned)
    capsule = producer.make_capsule()
    before = live_exports()
    assert tack.explain(capsule).shared
    assert tack.explain(tack.zeros(2)).shared
    assert not capsule_name(capsule).startswith("used")
    assert (producer.deleted, live_exports()) == (0, before)
    assert tack.from_dlpack(capsule).tolist() == list(range(8))


def test_what_comes_over_the_exchange_api_is_given_back():
    source = make_type()()
    assert tack.explain(source).shared
    assert source.deleted == 1


def test_read_only_memory_says_how_to_write():
    record = tack.explain(b"abc")
    assert (record.shared, record.writable) == (True, False)
    assert record.advice.endswith("tack.asarray(x, copy=True)")
    assert tack.explain(Producer(flags=READ_ONLY)).writable is False


REFUSED = [
    (MEMORY.T, r"strides \(1, 3\)", True),
    (Producer(code=COMPLEX, bits=64), r"complex64 \(code 5, 64 bits\)", False),
    (Producer(device_type=CUDA, device_id=31), "cuda:31", False),
    (Producer(device_type=8), "kDLMetal", False),
    (Producer(major=2, data=None), "DLPack 2.0", False),
    (np.zeros(2, ">f4"), "big-endian", False),
    (OnDevice(), "cuda", False),
    ([1, 2], "a list shares no memory", True),
]


@pytest.mark.parametrize(("source", "reason", "copyable"), REFUSED)
def test_what_would_not_be_shared_says_why(source, reason, copyable):
    import re

    record = tack.explain(source)
    assert (record.shared, record.copyable) == (False, copyable)
    assert re.search(reason, record.reason)
    assert record.reason in str(record)


@pytest.mark.parametrize(("source", "reason", "copyable"), REFUSED)
def test_it_agrees_with_asarray(source, reason, copyable):
    with pytest.raises(Exception):  # noqa: B017 - which one is asarray's matter
        tack.asarray(source, copy=False)
    if copyable:
        tack.asarray(source)


def test_a_device_that_is_elsewhere_is_named_as_dlpack_does():
    assert tack.explain(Producer(device_type=CUDA, device_id=31)).device == "kDLCUDA:31"


def test_the_producers_own_refusal_is_the_reason():
    class Refusing:
        def __dlpack__(self, **keywords):
            raise RuntimeError("not today")

    record = tack.explain(Refusing())
    assert (record.reason, record.shared, record.protocol) == ("not today", False, "DLPack")


def test_a_consumed_capsule_says_so():
    capsule = MEMORY.__dlpack__()
    tack.from_dlpack(capsule)
    assert "consumed already" in tack.explain(capsule).reason


def test_the_text_has_a_line_for_each_fact():
    text = str(tack.explain(MEMORY.T))
    assert text.splitlines()[0] == "numpy.ndarray"
    for word in ["protocol", "device", "dtype", "shape", "layout", "access", "memory", "advice"]:
        assert f"\n  {word}" in text
    assert "strides (1, 3) in elements" in text
    assert "tack.asarray(x) makes a copy" in text


@pytest.mark.partner("torch")
def test_a_pytorch_tensor_with_gradients_says_what_to_call():
    import torch

    record = tack.explain(torch.zeros(2, requires_grad=True))
    assert (record.type, record.shared) == ("torch.Tensor", False)
    assert "x.detach()" in record.reason
