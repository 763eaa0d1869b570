"""The array API standard's rules of DLPack, and what NumPy's own tests of it ask, of Tack's arrays.

Where the standard and the specification differ, the specification holds; see docs/dlpack.md.
"""

import backends
import numpy as np
import pytest
from managed_tensor import CPU, READ_ONLY, Producer, capsule_name, managed_tensor

import tack
from tack.interop.dlpack import live_exports

pytestmark = pytest.mark.usefixtures("backend")

DTYPES = [tack.bool, tack.int8, tack.int16, tack.int32, tack.int64, tack.uint8, tack.uint16,
          tack.uint32, tack.uint64, tack.float16, tack.bfloat16, tack.float32,
          tack.float64]  # fmt: skip


@pytest.mark.parametrize("max_version", [None, (0, 0), (1, 0), (100, 3)])
def test_a_capsule_pins_the_array_once(max_version):
    array = tack.zeros(5)
    before = live_exports()
    capsule = array.__dlpack__(max_version=max_version)
    assert live_exports() == before + 1
    del capsule
    assert live_exports() == before


def test_the_device_is_the_host():
    assert tack.zeros(2).__dlpack_device__() == (CPU, 0)
    assert tack.zeros(6).reshape(2, 3).__dlpack_device__() == (CPU, 0)


@pytest.mark.parametrize("stream", [None, -1, 0, 1, 2, 12345])
def test_any_stream_is_accepted_since_all_work_has_run(stream):
    assert capsule_name(tack.zeros(2).__dlpack__(stream=stream)) == "dltensor"


@pytest.mark.parametrize("device", [None, (1, 0), (2, 3)])
def test_any_dl_device_is_accepted_and_the_capsule_says_where_it_is(backend, device):
    tensor = managed_tensor(tack.zeros(2).__dlpack__(dl_device=device)).tensor
    assert (tensor.device_type, tensor.device_id) == (backends.DLPACK_DEVICE[backend], 0)


@pytest.mark.parametrize("copy", [None, False])
def test_an_export_without_a_copy_is_a_view(copy):
    array = tack.zeros(2)
    assert managed_tensor(array.__dlpack__(copy=copy)).tensor.data == array.ptr


def test_numpys_copy_and_device_arguments():
    array = tack.zeros(2)
    assert np.from_dlpack(array, copy=False, device="cpu").ctypes.data == array.ptr
    with pytest.raises(BufferError, match=r"Export a\.copy\(\)"):
        np.from_dlpack(array, copy=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("versioned", [True, False])
def test_every_dtype_goes_out_and_comes_back(dtype, versioned):
    array = tack.ones((2, 3), dtype)
    again = tack.from_dlpack(array.__dlpack__(max_version=(1, 0) if versioned else None))
    assert (again.dtype, again.shape, again.ptr) == (dtype, (2, 3), array.ptr)


# every code of DLPack 1.3 in the widths it may have, and some that it may not
@pytest.mark.parametrize("code", range(20))
@pytest.mark.parametrize("bits", [1, 4, 6, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("lanes", [0, 1, 2, 4])
def test_every_dtype_code_imports_or_is_named(code, bits, lanes):
    known = {
        (tensor.code, tensor.bits): dtype
        for dtype in DTYPES
        for tensor in [managed_tensor(tack.zeros(1, dtype).__dlpack__()).tensor]
    }
    producer = Producer(shape=(1,), code=code, bits=bits, lanes=lanes)
    if lanes == 1 and (code, bits) in known:
        assert tack.from_dlpack(producer).dtype is known[code, bits]
        return
    expected = rf"code {code}, {bits} bits" + ("" if lanes == 1 else f", {lanes} lanes")
    with pytest.raises(TypeError, match=expected):
        tack.from_dlpack(producer)
    assert producer.deleted == 0


DEVICES = {
    2: "kDLCUDA", 4: "kDLOpenCL", 7: "kDLVulkan", 8: "kDLMetal", 9: "kDLVPI", 10: "kDLROCM",
    12: "kDLExtDev", 13: "kDLCUDAManaged", 14: "kDLOneAPI", 15: "kDLWebGPU", 16: "kDLHexagon",
    17: "kDLMAIA", 18: "kDLTrn", 99: "device type 99",
}  # fmt: skip


@pytest.mark.parametrize("device_type", DEVICES)
@pytest.mark.parametrize("arguments", [{}, {"device": "cpu"}, {"copy": True}])
def test_every_other_device_type_is_named(device_type, arguments):
    producer = Producer(device_type=device_type, device_id=31)
    with pytest.raises((ValueError, RuntimeError), match=DEVICES[device_type]):
        tack.from_dlpack(producer, **arguments)
    assert producer.deleted == 0


@pytest.mark.parametrize("device_type", [1, 3, 11])
@pytest.mark.parametrize("device_id", [0, 1, -1])
def test_host_memory_of_any_id_is_the_host(device_type, device_id):
    producer = Producer(device_type=device_type, device_id=device_id)
    for arguments in ({}, {"device": "cpu"}):
        assert tack.from_dlpack(producer, **arguments).device == tack.device("cpu")


def test_elements_of_another_byte_order_are_the_producers_refusal():
    with pytest.raises(BufferError):
        tack.from_dlpack(np.arange(3, dtype=">i4"))


def test_strides_of_no_whole_elements_are_the_producers_refusal():
    records = np.zeros(3, [("a", "u1"), ("b", "f4")])["b"]
    with pytest.raises(BufferError):
        tack.from_dlpack(records)


NON_CONTIGUOUS = {
    "transposed": lambda a: a.T,
    "every other": lambda a: a[::2],
    "column": lambda a: a[:, 1],
    "reversed": lambda a: a[::-1],
    "broadcast": lambda a: np.broadcast_to(a[0, 0], (2, 2)),
    "diagonal": lambda a: np.diagonal(a),
    "window": lambda a: a[1:3, 1:3],
}


@pytest.mark.parametrize("make", NON_CONTIGUOUS.values(), ids=NON_CONTIGUOUS)
def test_what_is_not_contiguous_is_refused_and_copied_on_request(make):
    source = make(np.arange(25.0).reshape(5, 5))
    with pytest.raises(tack.NonContiguousError, match="copy=True") as caught:
        tack.from_dlpack(source)
    strides = tuple(stride // 8 for stride in source.strides)
    assert f"strides {strides}" in str(caught.value)
    assert tack.from_dlpack(source, copy=True).tolist() == source.tolist()


@pytest.mark.parametrize("ndim", range(2, 33))
def test_many_dimensions_go_both_ways(ndim):
    shape = (1,) * (ndim - 1) + (3,)
    source = np.zeros(shape)
    array = tack.from_dlpack(source)
    assert array.shape == np.from_dlpack(array).shape == shape


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_capsule_may_be_dropped_while_an_exception_is_on_its_way(max_version):
    before = live_exports()

    def fail():
        capsule = tack.zeros(2).__dlpack__(max_version=max_version)  # noqa: F841
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    assert live_exports() == before


def test_a_read_only_legacy_request_of_numpys_is_its_refusal():
    source = np.arange(5)
    source.flags.writeable = False

    class Old:
        def __dlpack__(self):
            return source.__dlpack__()

    with pytest.raises(BufferError, match="(?i)readonly"):
        tack.from_dlpack(Old())


def test_a_writable_array_stays_writable_both_ways():
    source = np.arange(5)
    array = tack.from_dlpack(source)
    view = np.from_dlpack(array)
    view[0] = 7
    assert source[0] == 7


def test_zero_dimensions_go_both_ways():
    array = tack.from_dlpack(np.array(1.0))
    assert array.shape == ()
    assert np.from_dlpack(array) == 1.0


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1), (1,), (1, 5, 1)])
def test_a_dimension_of_one_may_have_any_stride(shape):
    source = np.ndarray(shape, "f8", bytearray(4096), strides=[8 if n > 1 else 320 for n in shape])
    assert tack.from_dlpack(source).ptr == source.ctypes.data
    assert np.from_dlpack(tack.zeros(shape)).shape == shape


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 2), (0, 2**62, 2**62)])
@pytest.mark.parametrize("strides", [None, "zeros", "ones", "huge"])
@pytest.mark.parametrize("data", ["null", "address", "misaligned"])
def test_no_elements_of_any_shape_strides_and_address(backend, shape, strides, data):
    value = {"zeros": 0, "ones": 1, "huge": 2**62}.get(strides)
    producer = Producer(shape=shape, strides=None if value is None else (value,) * len(shape))
    tensor = producer.managed.tensor
    tensor.data = {"null": None, "address": tensor.data, "misaligned": 1}[data]
    array = tack.from_dlpack(producer)
    assert (array.shape, array.size, array.tolist() is not None) == (shape, 0, True)
    if backend == "cpu" and max(shape) < 2**32:
        assert np.from_dlpack(array).shape == shape
    del array
    assert producer.deleted == 1


def test_read_only_is_kept_by_every_export():
    array = tack.from_dlpack(Producer(flags=READ_ONLY))
    assert managed_tensor(array.reshape(2, 4).__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    assert managed_tensor(array.copy().__dlpack__(max_version=(1, 0))).flags == 0


@pytest.mark.parametrize("flags", [2, 4, 2**63])
def test_flags_of_other_meanings_leave_the_array_writable(flags):
    assert tack.from_dlpack(Producer(flags=flags)).writable
