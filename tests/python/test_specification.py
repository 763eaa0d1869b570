"""One test for each row of the specification's tables.

Rows about another backend's memory hold here as what the host says to it; rows about
tack.interop.vtk and about the options of other backends are tested with those.
"""

import gc

import backends
import numpy as np
import pytest
from managed_tensor import COMPLEX, METAL, Producer, managed_tensor

import tack
from tack.interop.dlpack import array_to_dlpack, dlpack_to_array, live_exports

pytestmark = pytest.mark.usefixtures("backend")

# The mechanisms: direction, zero-copy, who keeps the memory alive


def test_mechanism_dlpack_export_is_zero_copy_and_pins_until_the_consumers_deleter():
    before = live_exports()
    array = tack.zeros(3)
    view = np.from_dlpack(array)
    assert view.ctypes.data == array.ptr
    del array
    gc.collect()
    assert live_exports() == before + 1
    del view
    assert live_exports() == before


def test_mechanism_from_dlpack_is_zero_copy_and_calls_the_deleter_when_collected():
    producer = Producer()
    array = tack.from_dlpack(producer)
    assert array.ptr == producer.managed.tensor.data
    assert producer.deleted == 0
    del array
    assert producer.deleted == 1


def test_mechanism_from_dlpack_with_copy_true_is_a_copy():
    producer = Producer()
    array = tack.from_dlpack(producer, copy=True)
    assert array.ptr != producer.managed.tensor.data
    assert producer.deleted == 1


def test_mechanism_array_from_ptr_is_zero_copy_and_keeps_nothing():
    memory = tack.array(np.arange(3.0))
    array = tack.array_from_ptr(memory.ptr, tack.float64, 3)
    assert array.ptr == memory.ptr
    assert not array.writable
    memory[0] = 7
    assert array[0] == 7


def test_mechanism_export_memory_is_refused_by_the_host():
    with pytest.raises(RuntimeError, match="Backend cpu does not support memory export"):
        tack.zeros(3).export_memory()


# Buffers: DLPack device type, pointer exported


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_buffer_is_exported_as_its_backends_device_type_with_the_arrays_data(
    backend, max_version
):
    array = tack.zeros((2, 3))
    tensor = managed_tensor(array_to_dlpack(array, max_version)).tensor
    place = tensor.device_type, tensor.device_id
    assert (place, tensor.data) == ((backends.DLPACK_DEVICE[backend], 0), array.ptr)
    assert (tensor.strides[:2], tensor.byte_offset) == ([3, 1], 0)


def test_buffer_wrapped_from_a_pointer_is_exported_with_that_pointer():
    memory = tack.zeros(3, tack.float64)
    array = tack.array_from_ptr(memory.ptr, tack.float64, 3, writable=True)
    assert managed_tensor(array_to_dlpack(array)).tensor.data == memory.ptr


# DLPack device types and the backend that wraps them


@pytest.mark.parametrize("device_type", [1, 3, 11], ids=["kDLCPU", "kDLCUDAHost", "kDLROCMHost"])
def test_device_types_of_host_memory_are_the_cpus(device_type):
    producer = Producer(device_type=device_type)
    assert tack.from_dlpack(producer).device == tack.device("cpu")


DEVICE_BACKENDS = {
    "kDLCUDA": (2, "cuda"),
    "kDLCUDAManaged": (13, "cuda"),
    "kDLROCM": (10, "hip"),
    "kDLOneAPI": (14, "level_zero"),
}


@pytest.mark.parametrize("name", DEVICE_BACKENDS)
def test_device_types_of_other_backends_name_the_device_to_import_on(name):
    device_type, backend = DEVICE_BACKENDS[name]
    for index, device in ((0, backend), (2, f"{backend}:2")):
        producer = Producer(device_type=device_type, device_id=index)
        with pytest.raises(RuntimeError, match=f"{name} tensor of device {index}.*device {device}"):
            tack.from_dlpack(producer, device="cpu")
        assert producer.deleted == 0


def test_device_type_kdlmetal_says_to_copy_through_the_host_on_any_device():
    for arguments in ({}, {"device": "cpu"}):
        with pytest.raises(ValueError, match="kDLMetal.*copy=True"):
            tack.from_dlpack(Producer(device_type=METAL), **arguments)


def test_any_other_device_type_is_a_value_error():
    with pytest.raises(ValueError, match="device type 99"):
        tack.from_dlpack(Producer(device_type=99))


# Handles: backend, handle type


def test_handles_are_for_cuda_and_metal_and_the_host_has_none():
    with pytest.raises(RuntimeError, match="Backend cpu does not support memory export"):
        tack.empty(3, exportable=True)


# The summary of failures


def test_failure_copy_true_passed_to_dlpack():
    with pytest.raises(BufferError):
        tack.zeros(2).__dlpack__(copy=True)


def test_failure_dtype_without_an_equivalent():
    # Each dtype of an array has one; what has none is refused on its way in.
    with pytest.raises(TypeError):
        tack.zeros(2, "complex64")


def test_failure_capsule_already_consumed():
    capsule = tack.zeros(2).__dlpack__()
    tack.from_dlpack(capsule)
    with pytest.raises(ValueError, match="consumed already"):
        dlpack_to_array(capsule)


@pytest.mark.parametrize(
    "tensor", [dict(data=None), dict(strides=(2,)), dict(device_type=5)], ids=str
)
def test_failure_null_data_strides_and_unknown_device_types(tensor):
    with pytest.raises(ValueError):
        dlpack_to_array(Producer(**tensor))


@pytest.mark.parametrize("tensor", [dict(code=COMPLEX, bits=64), dict(bits=16, lanes=2)], ids=str)
def test_failure_unknown_dtype_or_lanes(tensor):
    with pytest.raises(TypeError):
        dlpack_to_array(Producer(**tensor))


def test_failure_tensor_on_a_device_that_the_importing_one_cannot_wrap():
    with pytest.raises(RuntimeError, match="cuda"):
        dlpack_to_array(Producer(device_type=2), device="cpu")


def test_failure_integer_pointer_of_no_host_memory():
    with pytest.raises(ValueError, match="array_from_ptr"):
        tack.array_from_ptr(8, tack.uint8, 8)


def test_failure_export_from_the_cpu():
    with pytest.raises(RuntimeError):
        tack.zeros(2).export_memory()


def test_failure_unknown_option_to_device():
    with pytest.raises(ValueError, match="no_such_option"):
        tack.device("cpu", no_such_option=1)
