"""DLPack's C exchange API: Tack's own, slot by slot, and the use of other libraries'."""

import ctypes
import gc

import numpy as np
import pytest
from exchange_api import ATTRIBUTE, SET_ERROR, ExchangeAPI, api_capsule, api_of, make_type
from managed_tensor import (
    COMPLEX,
    CPU,
    CUDA,
    FLOAT,
    INT,
    PYTHON,
    READ_ONLY,
    Producer,
    Tensor,
    Versioned,
    capsule_name,
)

import tack
from tack.interop.dlpack import dlpack_to_array, live_exports

pytestmark = pytest.mark.usefixtures("backend")

API = api_of(tack.Array)


def export(array):
    out = ctypes.POINTER(Versioned)()
    assert API.from_object(id(array), ctypes.byref(out)) == 0
    return out


def give_back(managed):
    managed.contents.deleter(ctypes.addressof(managed.contents))


def to_object(managed):
    out = ctypes.c_void_p()
    assert API.to_object(ctypes.byref(managed), ctypes.byref(out)) == 0
    array = ctypes.cast(out, ctypes.py_object).value
    PYTHON.Py_DecRef(ctypes.py_object(array))  # the reference that the slot gave
    return array


def borrow(array):
    out = Tensor()
    assert API.tensor_from_object(id(array), ctypes.byref(out)) == 0
    return out


# Tack's own


def test_the_api_is_on_the_type_and_says_its_version():
    assert capsule_name(tack.Array.__dict__[ATTRIBUTE]) == "dlpack_exchange_api"
    assert (API.major, API.minor, API.prev_api) == (1, 3, None)


def test_a_managed_tensor_describes_the_array_and_pins_it():
    before = live_exports()
    array = tack.arange(6, dtype=tack.int16).reshape(2, 3)
    managed = export(array)
    pointer, tensor = array.ptr, managed.contents.tensor
    assert (managed.contents.major, managed.contents.flags) == (1, 0)
    place = tensor.device_type, tensor.device_id
    assert (tensor.data, place) == (pointer, array.__dlpack_device__())
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.ndim) == (INT, 16, 1, 2)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 3], [3, 1])
    del array
    gc.collect()
    assert live_exports() == before + 1
    assert tack.array_from_ptr(pointer, tack.int16, 6)[5] == 5
    give_back(managed)
    assert live_exports() == before


def test_a_managed_tensor_says_read_only():
    array = dlpack_to_array(tack.zeros(2), writable=False)
    managed = export(array)
    assert managed.contents.flags == READ_ONLY
    give_back(managed)


# pytorch/pytorch#188554: read-only over the fast path
def test_a_borrowed_tensor_of_a_read_only_array_is_refused():
    array = dlpack_to_array(tack.zeros(2), writable=False)
    with pytest.raises(BufferError, match="read-only"):
        borrow(array)


def test_a_borrowed_tensor_owns_nothing_and_lies_in_the_array():
    before = live_exports()
    array = tack.zeros((2, 3, 4), tack.float64)
    first, second = borrow(array), borrow(array)
    assert first.data == array.ptr
    assert (first.shape[:3], first.strides[:3]) == ([2, 3, 4], [12, 4, 1])
    assert ctypes.addressof(first.shape.contents) == ctypes.addressof(second.shape.contents)
    assert ctypes.addressof(first.strides.contents) == ctypes.addressof(second.strides.contents)
    assert live_exports() == before


@pytest.mark.parametrize("shape", [(), (0, 3), (1,) * 20])
def test_a_borrowed_tensor_of_any_shape(shape):
    tensor = borrow(array := tack.zeros(shape))
    assert tensor.ndim == len(shape)
    assert tuple(tensor.shape[: len(shape)]) == shape
    assert tuple(tensor.strides[: len(shape)]) == array.strides
    assert tensor.data == (array.ptr if array.size else None)


@pytest.mark.parametrize("slot", ["from_object", "tensor_from_object"])
@pytest.mark.parametrize("other", [1, "text", np.zeros(2)])
def test_another_type_is_a_type_error(slot, other):
    out = ctypes.POINTER(Versioned)() if slot == "from_object" else Tensor()
    with pytest.raises(TypeError, match=f"takes a tack.Array, not a {type(other).__name__}"):
        getattr(API, slot)(id(other), ctypes.byref(out))


def test_an_array_from_a_managed_tensor_takes_it_over():
    producer = Producer(shape=(2, 4))
    array = to_object(producer.managed)
    assert type(array) is tack.Array
    assert (array.shape, array.ptr) == ((2, 4), producer.managed.tensor.data)
    assert (array.writable, producer.deleted) == (True, 0)
    del array
    assert producer.deleted == 1


def test_an_array_from_a_read_only_managed_tensor_is_read_only():
    producer = Producer(flags=READ_ONLY)
    assert not to_object(producer.managed).writable


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (dict(strides=(2,)), tack.NonContiguousError),
        (dict(code=COMPLEX, bits=64), TypeError),
        (dict(data=None), ValueError),
        (dict(device_type=CUDA, device_id=31), RuntimeError),
        (dict(major=2), ValueError),
    ],
)
def test_a_managed_tensor_that_is_refused_stays_the_callers(tensor, error):
    producer = Producer(**tensor)
    with pytest.raises(error):
        to_object(producer.managed)
    assert producer.deleted == 0


def test_a_null_managed_tensor_is_a_value_error():
    out = ctypes.c_void_p()
    with pytest.raises(ValueError, match="null"):
        API.to_object(None, ctypes.byref(out))


def allocate(**fields):
    """The new tensor, or the error's class name and text."""
    errors = []
    report = SET_ERROR(lambda context, kind, text: errors.append((kind.decode(), text.decode())))
    out = ctypes.POINTER(Versioned)()
    extents = fields.pop("shape", (2, 3))
    shape = (ctypes.c_int64 * max(1, len(extents)))(*extents)
    device_type, device_id = tack.zeros(1).__dlpack_device__()
    place = {"device_type": device_type, "device_id": device_id}
    values = place | {"code": FLOAT, "bits": 32, "lanes": 1, "ndim": len(extents)}
    prototype = Tensor(**(values | fields))
    prototype.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    status = API.allocate(ctypes.byref(prototype), ctypes.byref(out), None, report)
    assert status == (-1 if errors else 0)
    return errors[0] if errors else out


def test_the_allocator_makes_writable_memory_of_the_prototypes_kind():
    before = live_exports()
    managed = allocate(shape=(2, 3), code=INT, bits=64)
    tensor = managed.contents.tensor
    assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 3], [3, 1])
    assert (tensor.code, tensor.bits, managed.contents.flags) == (INT, 64, 0)
    tack.array_from_ptr(tensor.data, tack.int64, (2, 3), writable=True).fill(1)
    assert live_exports() == before + 1
    give_back(managed)
    assert live_exports() == before


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        (dict(code=COMPLEX, bits=64), "TypeError", "complex64"),
        (dict(bits=16, lanes=2), "TypeError", "2 lanes"),
        (dict(shape=(-1,)), "ValueError", "negative"),
        (dict(shape=(2**62, 2)), "ValueError", "64-bit"),
        (dict(shape=(2**58,)), "MemoryError", str(2**60)),
        (dict(ndim=-1), "ValueError", "-1 dimensions"),
        (dict(device_type=3), "ValueError", "kDLCUDAHost"),
        (dict(device_type=8), "ValueError", "kDLMetal"),
        (dict(device_type=CUDA, device_id=31), "RuntimeError", "cuda"),
    ],
)
def test_the_allocator_reports_its_errors_to_the_caller(fields, kind, text):
    assert allocate(**fields)[0] == kind
    assert text in allocate(**fields)[1]


def test_the_stream_of_the_host_is_null():
    out = ctypes.c_void_p(1)
    assert API.stream(CPU, 0, ctypes.byref(out)) == 0
    assert out.value is None


# other libraries'


def test_an_api_is_used_without_asking_for_a_capsule():
    source = make_type()()
    array = tack.from_dlpack(source)
    assert (array.tolist(), type(source).calls, source.deleted) == (list(range(8)), 1, 0)
    del array
    assert source.deleted == 1


def test_read_only_and_device_hold_over_the_api():
    source = make_type()(flags=READ_ONLY)
    assert not tack.from_dlpack(source).writable
    assert not dlpack_to_array(make_type()(), writable=False).writable
    with pytest.raises(RuntimeError, match="cuda"):
        tack.from_dlpack(make_type()(device_type=CUDA), device="cpu")


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (dict(strides=(2,)), tack.NonContiguousError),
        (dict(code=COMPLEX, bits=64), TypeError),
        (dict(data=None), ValueError),
        (dict(device_type=CUDA, device_id=31), RuntimeError),
        (dict(major=2, data=None), ValueError),
    ],
)
def test_a_tensor_that_is_refused_is_given_back_once(tensor, error):
    source = make_type()(**tensor)
    with pytest.raises(error):
        tack.from_dlpack(source)
    assert source.deleted == 1


def test_the_slots_error_is_passed_on():
    class Foreign:
        """Its slot is Tack's own, which takes nothing but tack.Array."""

    setattr(Foreign, ATTRIBUTE, getattr(tack.Array, ATTRIBUTE))
    with pytest.raises(TypeError, match="not a Foreign"):
        tack.from_dlpack(Foreign())


def test_a_slot_that_fails_without_an_error_is_a_runtime_error():
    with pytest.raises(RuntimeError, match="without saying why"):
        tack.from_dlpack(make_type(status=-1)())


def test_a_type_with_an_api_alone_is_shared_copied_and_explained():
    class Alone:
        """No __dlpack__, and another class's managed tensor."""

        def __init__(self, **tensor):
            self.producer = Producer(**tensor)
            self.managed = self.producer.managed

    kind = make_type()  # whose API it is
    setattr(Alone, ATTRIBUTE, getattr(kind, ATTRIBUTE))
    assert tack.asarray(Alone(), copy=False).tolist() == list(range(8))
    strided = Alone(shape=(4,), strides=(2,))
    assert tack.from_dlpack(strided, copy=True).tolist() == [0, 2, 4, 6]
    assert strided.producer.deleted == 1
    assert tack.asarray(strided).tolist() == [0, 2, 4, 6]
    assert tack.explain(Alone()).protocol == "DLPack C exchange API"


# a derived class may mean something else by its memory, and the slot takes the exact type only
def test_a_derived_class_is_asked_for_a_capsule():
    base = make_type()

    class Derived(base):
        def __dlpack__(self, **keywords):
            return self.make_capsule()

    assert tack.from_dlpack(Derived()).tolist() == list(range(8))
    assert base.calls == 0


@pytest.mark.parametrize(
    "attribute",
    [
        None,
        3,
        api_capsule(ExchangeAPI(major=1), b"another name"),
        api_capsule(kept := ExchangeAPI(major=2)),
        api_capsule(without_slots := ExchangeAPI(major=1)),
    ],
)
def test_what_is_no_api_of_version_1_is_passed_over(attribute):
    class Plain(Producer):
        pass

    setattr(Plain, ATTRIBUTE, attribute)
    assert tack.from_dlpack(Plain()).tolist() == list(range(8))


def test_an_earlier_version_in_the_chain_is_used():
    kind = make_type()
    later = ExchangeAPI(major=2, prev_api=ctypes.addressof(kind.api))
    setattr(kind, ATTRIBUTE, api_capsule(later))
    assert tack.from_dlpack(kind()).tolist() == list(range(8))
    assert kind.calls == 1


def test_a_type_that_gains_or_loses_its_api_is_looked_up_again():
    kind = make_type()
    tack.from_dlpack(kind())
    delattr(kind, ATTRIBUTE)
    kind.__dlpack__ = Producer.__dlpack__
    tack.from_dlpack(kind())
    assert kind.calls == 1
    setattr(kind, ATTRIBUTE, api_capsule(kind.api))
    tack.from_dlpack(kind())
    assert kind.calls == 2


def test_types_that_come_and_go_at_one_address_are_told_apart():
    for with_api in [True, False] * 40:
        kind = make_type() if with_api else type("Plain", (Producer,), {})
        source = kind()
        assert tack.from_dlpack(source).tolist() == list(range(8))
        assert getattr(kind, "calls", 0) == with_api
        del kind, source
        gc.collect()


def test_an_array_of_tacks_own_comes_in_over_its_api():
    before = live_exports()
    array = tack.from_dlpack(tack.arange(3))
    assert live_exports() == before + 1
    assert array.tolist() == [0, 1, 2]
    del array
    assert live_exports() == before


# PyTorch's API hands out tensors that its __dlpack__ refuses (FlyDSL#1099)


def torch_cases():
    import torch

    complex_zeros = torch.zeros(1, dtype=torch.complex64)
    return {
        "requires_grad": (torch.zeros(2, requires_grad=True), r"x\.detach\(\)"),
        "neg_view": (torch._neg_view(torch.ones(3)), r"x\.resolve_neg\(\)"),
        "imag of conj": (complex_zeros.conj().imag, r"x\.resolve_neg\(\)"),
        "conj": (complex_zeros.conj(), r"x\.resolve_conj\(\)"),
        "sparse": (torch.zeros(2, 2).to_sparse(), r"torch\.sparse_coo.*x\.to_dense\(\)"),
        "sparse_csr": (torch.zeros(2, 2).to_sparse_csr(), r"x\.to_dense\(\)"),
        "meta": (torch.empty(2, device="meta"), "torch.empty_like"),
        "parameter": (torch.nn.Parameter(torch.zeros(2)), r"x\.detach\(\)"),
        "sparse parameter": (
            torch.nn.Parameter(torch.zeros(2, 2).to_sparse(), requires_grad=False),
            r"x\.to_dense\(\)",
        ),
    }


TORCH_CASES = ["requires_grad", "neg_view", "imag of conj", "conj", "sparse", "sparse_csr", "meta",
               "parameter", "sparse parameter"]  # fmt: skip


@pytest.mark.partner("torch")
@pytest.mark.parametrize("case", TORCH_CASES)
@pytest.mark.parametrize("copy", [False, True])
def test_a_pytorch_tensor_that_is_no_plain_memory_says_what_to_call(case, copy):
    tensor, text = torch_cases()[case]
    with pytest.raises(BufferError, match=text):
        tack.from_dlpack(tensor, copy=copy)


@pytest.mark.partner("torch")
@pytest.mark.parametrize("case", TORCH_CASES)
def test_what_the_error_says_to_call_works(case):
    import torch

    repair = {
        "requires_grad": torch.Tensor.detach,
        "parameter": torch.Tensor.detach,
        "neg_view": torch.Tensor.resolve_neg,
        "imag of conj": torch.Tensor.resolve_neg,
        "conj": lambda x: x.resolve_conj().real.contiguous(),
        "meta": lambda x: torch.empty_like(x, device="cpu"),
    }.get(case, torch.Tensor.to_dense)
    tensor = repair(torch_cases()[case][0])
    assert tack.from_dlpack(tensor).shape == tuple(tensor.shape)


@pytest.mark.partner("torch")
def test_a_pytorch_parameter_without_gradients_is_shared():
    import torch

    parameter = torch.nn.Parameter(torch.ones(3), requires_grad=False)
    assert tack.from_dlpack(parameter).ptr == parameter.data_ptr()


@pytest.mark.partner("tvm_ffi")
def test_tvm_ffi_takes_and_gives_arrays_over_the_api():
    import tvm_ffi

    array = tack.arange(4, dtype=tack.float32)
    before = live_exports()
    tensor = tvm_ffi.from_dlpack(array)
    assert live_exports() == before + 1
    again = tack.from_dlpack(tensor)
    assert again.ptr == array.ptr
    del tensor, again
    assert live_exports() == before
