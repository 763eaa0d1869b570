"""DLPack in both directions, with capsules from NumPy and from hand-made producers."""

import gc
import subprocess
import sys
import threading

import backends
import numpy as np
import pytest
from managed_tensor import (
    BFLOAT,
    COMPLEX,
    CUDA,
    METAL,
    ONEAPI,
    READ_ONLY,
    Producer,
    capsule_name,
    managed_tensor,
)

import tack
from tack.interop.dlpack import array_to_dlpack, dlpack_to_array, live_exports

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture(params=[True, False], ids=["versioned", "legacy"])
def versioned(request):
    return request.param


# export


@pytest.mark.parametrize(
    ("max_version", "name"),
    [
        (None, "dltensor"),
        ((0, 8), "dltensor"),
        ((1, 0), "dltensor_versioned"),
        ((1, 3), "dltensor_versioned"),
        ((2**80, 0), "dltensor_versioned"),
    ],
)
def test_max_version_chooses_the_layout(max_version, name):
    assert capsule_name(tack.zeros(2).__dlpack__(max_version=max_version)) == name
    assert capsule_name(array_to_dlpack(tack.zeros(2), max_version)) == name


@pytest.mark.parametrize("bad", [1, (1,), (1, 0, 0), [1, 0], "10", (1.0, 0), (None, None)])
def test_a_malformed_max_version_is_a_type_error(bad):
    with pytest.raises(TypeError, match="max_version must be None or a tuple of two ints"):
        tack.zeros(2).__dlpack__(max_version=bad)


def test_an_export_describes_the_array(backend, versioned):
    array = tack.zeros((2, 3), tack.int16)
    capsule = array.__dlpack__(max_version=(1, 0) if versioned else None)
    tensor = managed_tensor(capsule).tensor
    assert tensor.data == array.ptr
    assert (tensor.device_type, tensor.device_id) == array.__dlpack_device__()
    assert tensor.device_type == backends.DLPACK_DEVICE[backend]
    assert (tensor.code, tensor.bits, tensor.lanes) == (0, 16, 1)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 3], [3, 1])
    assert (tensor.ndim, tensor.byte_offset) == (2, 0)


def test_only_a_versioned_export_says_read_only():
    array = dlpack_to_array(tack.zeros(2), writable=False)
    assert managed_tensor(array.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    assert managed_tensor(tack.zeros(2).__dlpack__(max_version=(1, 0))).flags == 0


def test_numpys_view_of_a_read_only_array_is_read_only():
    array = dlpack_to_array(tack.zeros(2), writable=False)
    assert not np.from_dlpack(array).flags.writeable


def test_stream_and_device_are_accepted_and_not_used():
    array = tack.zeros(2)
    capsule = array.__dlpack__(stream=7, dl_device=(2, 0), copy=False, max_version=(1, 0))
    assert managed_tensor(capsule).tensor.data == array.ptr


# cupy/cupy#9842, pytorch/pytorch#194267: an export is always a view
def test_copy_true_is_a_buffer_error_and_exports_nothing():
    before = live_exports()
    with pytest.raises(BufferError, match=r"Export a\.copy\(\)"):
        tack.zeros(2).__dlpack__(copy=True)
    assert live_exports() == before


def test_unknown_and_positional_arguments_are_type_errors():
    with pytest.raises(TypeError, match="unexpected keyword argument 'strem'"):
        tack.zeros(2).__dlpack__(strem=1)
    with pytest.raises(TypeError, match="keyword arguments only"):
        tack.zeros(2).__dlpack__(1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'copies'"):
        tack.from_dlpack(tack.zeros(2), copies=True)
    with pytest.raises(TypeError, match="one positional argument"):
        tack.from_dlpack()


def test_a_capsule_that_nobody_consumes_releases_the_array(versioned):
    before = live_exports()
    capsule = tack.zeros(2).__dlpack__(max_version=(1, 0) if versioned else None)
    assert live_exports() == before + 1
    del capsule
    assert live_exports() == before


# NVIDIA/cuda-python#1043, rapidsai/cudf#5212: a deleter that is never called
def test_a_consumer_keeps_the_array_alive_until_it_is_done():
    before = live_exports()
    array = tack.full(3, 7.0)
    view = np.from_dlpack(array)
    del array
    gc.collect()
    assert live_exports() == before + 1
    assert view.tolist() == [7.0, 7.0, 7.0]
    del view
    assert live_exports() == before


def test_an_unadopted_capsule_is_released_at_interpreter_exit():
    program = """
import sys, tack
# A reference from the interpreter's own state outlives the modules.
sys.kept = [tack.zeros(4).__dlpack__(), tack.zeros(4).__dlpack__(max_version=(1, 0))]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_export_may_be_given_back_on_any_thread():
    before = live_exports()
    views = [tack.from_dlpack(tack.zeros(2))]
    thread = threading.Thread(target=views.clear)
    thread.start()
    thread.join()
    assert live_exports() == before


# import


def test_an_import_shares_memory_and_keeps_dtype_and_shape():
    source = np.arange(6, dtype=np.int16).reshape(2, 3)
    array = tack.from_dlpack(source)
    assert array.ptr == source.ctypes.data
    assert (array.dtype, array.shape, array.writable) == (tack.int16, (2, 3), True)
    array[0, 0] = 9
    assert source[0, 0] == 9


@pytest.mark.parametrize("dtype", ["bool", "u1", "i8", "f2", "f8"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3)])
def test_every_shape_and_dtype_goes_there_and_back(dtype, shape):
    source = np.ones(shape, dtype)
    again = np.from_dlpack(tack.from_dlpack(source))
    assert (again.dtype, again.shape) == (source.dtype, source.shape)
    assert (again == source).all()


def test_an_array_of_tacks_own_is_a_producer_too():
    array = tack.zeros(3)
    assert tack.from_dlpack(array).ptr == array.ptr


def test_the_source_may_be_dropped_at_once():
    array = tack.from_dlpack(np.full(1000, 3.0))
    gc.collect()
    np.full(1000, 4.0)
    assert set(array.tolist()) == {3.0}


def test_the_versioned_form_is_asked_for_first_exactly_so():
    calls = []

    class Recording(Producer):
        def __dlpack__(self, **keywords):
            calls.append(keywords)
            return self.make_capsule()

    producer = Recording()
    tack.from_dlpack(producer)
    assert calls == [{"max_version": (1, 0)}]


def test_a_producer_from_before_dlpack_1_is_asked_again_without_keywords():
    class Old(Producer):
        def __dlpack__(self):
            return self.make_capsule()

    producer = Old(versioned=False)
    assert tack.from_dlpack(producer).tolist() == list(range(8))


def test_another_error_of_the_producer_is_passed_on_without_a_second_call():
    calls = []

    class Failing:
        def __dlpack__(self, **keywords):
            calls.append(keywords)
            raise BufferError("not now")

    with pytest.raises(BufferError, match="not now"):
        tack.from_dlpack(Failing())
    assert len(calls) == 1


def test_when_both_requests_fail_the_first_error_is_the_cause():
    class Failing:
        def __dlpack__(self, **keywords):
            raise TypeError("with keywords") if keywords else RuntimeError("without")

    with pytest.raises(RuntimeError, match="without") as caught:
        tack.from_dlpack(Failing())
    assert isinstance(caught.value.__cause__, TypeError)
    assert str(caught.value.__cause__) == "with keywords"


def test_an_attribute_error_inside_the_producer_is_not_hidden():
    class Failing:
        def __dlpack__(self, **keywords):
            return self.missing

    with pytest.raises(AttributeError, match="missing"):
        tack.from_dlpack(Failing())


@pytest.mark.parametrize("source", [[1, 2], 3, None, b"bytes"])
def test_what_does_not_speak_dlpack_is_a_type_error(source):
    with pytest.raises(TypeError, match="has no __dlpack__ method and is no capsule"):
        tack.from_dlpack(source)


def test_what_returns_no_capsule_is_a_type_error():
    class Wrong:
        def __dlpack__(self, **keywords):
            return 3

    with pytest.raises(TypeError, match="returned int instead of a capsule"):
        tack.from_dlpack(Wrong())


def test_a_bare_capsule_is_imported_once(versioned):
    producer = Producer(versioned=versioned)
    capsule = producer.make_capsule()
    array = tack.from_dlpack(capsule)
    assert capsule_name(capsule) == ("used_dltensor_versioned" if versioned else "used_dltensor")
    # cupy/cupy#3611: consumed twice
    with pytest.raises(ValueError, match="consumed already"):
        tack.from_dlpack(capsule)
    assert producer.deleted == 0
    del array
    assert producer.deleted == 1


def test_another_librarys_capsule_is_a_value_error():
    import datetime

    with pytest.raises(ValueError, match="holds no DLPack tensor"):
        tack.from_dlpack(datetime.datetime_CAPI)


def test_the_deleter_runs_once_with_the_last_array(versioned):
    producer = Producer(versioned=versioned)
    array = tack.from_dlpack(producer)
    reshaped = array.reshape(2, 4)
    exported = tack.from_dlpack(reshaped)
    del array, reshaped
    gc.collect()
    assert producer.deleted == 0
    del exported
    assert producer.deleted == 1


# pytorch/pytorch#43166
def test_a_null_deleter_is_accepted(versioned):
    producer = Producer(versioned=versioned, deleter=False)
    assert tack.from_dlpack(producer).tolist() == list(range(8))


def test_the_deleter_may_run_python_while_an_exception_is_on_its_way():
    def look_up():
        assert {}.get("missing") is None

    producer = Producer(on_delete=look_up)

    def fail():
        array = tack.from_dlpack(producer)
        array[99]

    with pytest.raises(IndexError):
        fail()
    gc.collect()
    assert producer.deleted == 1


def test_the_deleter_runs_on_the_thread_that_drops_the_array():
    threads = []
    producer = Producer(on_delete=lambda: threads.append(threading.get_ident()))
    arrays = [tack.from_dlpack(producer)]
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()
    assert threads == [thread.ident]


# pybind/pybind11#1446: waiting while another thread's deleter wants the GIL
def test_synchronize_does_not_hold_the_gil():
    producers = [Producer(on_delete=lambda: sum(range(1000))) for _ in range(100)]
    arrays = [tack.from_dlpack(p) for p in producers]
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    for _ in range(100):
        tack.synchronize()
    thread.join(timeout=30)
    assert [p.deleted for p in producers] == [1] * 100


def test_an_import_alive_at_interpreter_exit_does_no_harm():
    program = """
import numpy as np, sys, tack
sys.kept = tack.from_dlpack(np.arange(5))
here = tack.from_dlpack(np.arange(5))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


REFUSALS = [
    (dict(data=None), ValueError, "null"),
    (dict(code=COMPLEX, bits=64), TypeError, "complex"),
    (dict(bits=16, lanes=2), TypeError, "lanes"),
    (dict(shape=(2, 4), strides=(1, 2)), tack.NonContiguousError, r"strides \(1, 2\)"),
    # pytorch/pytorch#188023, tensorflow/tensorflow#51598
    (dict(strides=(-1,)), tack.NonContiguousError, r"strides \(-1,\)"),
    # tensorflow/tensorflow#116201
    (dict(shape=(2**32, 2**32)), ValueError, "4294967296"),
    (dict(shape=(-1,)), ValueError, "negative"),
    (dict(device_type=METAL), ValueError, "kDLMetal"),
    (dict(device_type=99), ValueError, "99"),
    (dict(device_type=CUDA, device_id=31), RuntimeError, "cuda"),
    (dict(device_type=ONEAPI), RuntimeError, "level_zero"),
    (dict(byte_offset=2), ValueError, "aligned"),
]


@pytest.mark.parametrize(("tensor", "error", "text"), REFUSALS)
def test_a_refused_tensor_leaves_the_capsule_usable(versioned, tensor, error, text):
    producer = Producer(versioned=versioned, **tensor)
    capsule = producer.make_capsule()
    with pytest.raises(error, match=text):
        tack.from_dlpack(capsule)
    assert producer.deleted == 0
    assert capsule_name(capsule) == ("dltensor_versioned" if versioned else "dltensor")


def test_an_explicit_device_that_cannot_wrap_the_tensor_names_the_one_that_can():
    with pytest.raises(RuntimeError, match="cuda"):
        tack.from_dlpack(Producer(device_type=CUDA), device="cpu")


def test_a_higher_major_version_is_given_back_unread():
    producer = Producer(major=2, data=None, code=99)
    capsule = producer.make_capsule()
    with pytest.raises(ValueError, match="version"):
        tack.from_dlpack(capsule)
    assert producer.deleted == 1
    assert capsule_name(capsule) == "used_dltensor_versioned"


# cupy/cupy#2095, apache/arrow#51122: NULL strides; pytorch/pytorch#99803 and
# mitsuba-renderer/drjit#122: any stride where the extent is 1; numpy/numpy#29872: ndim 0
@pytest.mark.parametrize(
    ("shape", "strides"),
    [((2, 4), None), ((1, 8), (77, 1)), ((8, 1), (1, 0)), ((8,), (1,)), ((), None)],
)
def test_contiguous_strides_in_every_spelling_are_accepted(versioned, shape, strides):
    producer = Producer(versioned=versioned, shape=shape, strides=strides)
    array = tack.from_dlpack(producer)
    assert array.shape == shape
    assert array.ptr == producer.managed.tensor.data


# NVIDIA/cccl#11605, rapidsai/cudf#11449, wjakob/nanobind#1298
@pytest.mark.parametrize("strides", [None, (3, 1), (0, 0), (1, 1)])
def test_a_tensor_of_size_0_may_be_null_and_have_any_strides(versioned, strides):
    producer = Producer(versioned=versioned, data=None, shape=(0, 3), strides=strides)
    array = tack.from_dlpack(producer)
    assert (array.shape, array.size) == ((0, 3), 0)


# NVIDIA/cuda-python#2592, NVIDIA/warp#1573, pytorch/pytorch#168177
def test_the_byte_offset_is_added(versioned):
    producer = Producer(versioned=versioned, shape=(6,), byte_offset=8)
    assert tack.from_dlpack(producer).tolist() == [2, 3, 4, 5, 6, 7]


def test_a_read_only_flag_makes_the_array_read_only():
    assert not tack.from_dlpack(Producer(flags=READ_ONLY)).writable
    assert tack.from_dlpack(Producer()).writable


# jax-ml/jax#40789: read-only arrays can be had only with max_version
def test_a_read_only_numpy_array_arrives_read_only():
    source = np.arange(3)
    source.flags.writeable = False
    array = tack.from_dlpack(source)
    assert not array.writable
    assert array.ptr == source.ctypes.data


def test_writable_false_makes_any_import_read_only(versioned):
    assert not dlpack_to_array(Producer(versioned=versioned), writable=False).writable
    assert dlpack_to_array(Producer(versioned=versioned)).writable


@pytest.mark.parametrize(("buffer", "writable"), [(bytes, False), (bytearray, True)])
def test_a_legacy_capsule_is_as_writable_as_its_producers_buffer(buffer, writable):
    legacy, versioned = Producer(versioned=False), Producer()

    class WithBuffer(buffer):
        def __dlpack__(self, **keywords):
            return self.producer.make_capsule()

    source = WithBuffer(8)
    source.producer = legacy
    assert tack.from_dlpack(source).writable is writable
    # A versioned capsule speaks for itself.
    source.producer = versioned
    assert tack.from_dlpack(source).writable


@pytest.mark.partner("jax")
def test_a_legacy_capsule_of_a_read_only_buffer_is_read_only():
    import jax

    values = jax.numpy.arange(16, dtype=jax.numpy.float32)
    assert not tack.from_dlpack(values).writable


def test_non_contiguous_is_both_a_value_error_and_a_buffer_error():
    assert issubclass(tack.NonContiguousError, ValueError)
    assert issubclass(tack.NonContiguousError, BufferError)
    # jax-ml/jax#17784, numba-mpi/numba-mpi#31: never silently transposed
    with pytest.raises(tack.NonContiguousError, match=r"expected \(3, 1\)"):
        tack.from_dlpack(np.zeros((3, 3)).T)


# copy=True


@pytest.mark.parametrize(
    "source",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12)[::-2],
        np.asfortranarray(np.arange(8, dtype="u1").reshape(2, 2, 2)),
        np.zeros((0, 3)),
        np.array(True),
    ],
)
def test_copy_takes_any_strides(source):
    array = tack.from_dlpack(source, copy=True)
    assert array.dtype == source.dtype
    assert array.shape == source.shape
    assert array.tolist() == source.tolist()
    assert array.writable
    source[...] = 0


def test_copy_of_a_read_only_source_is_writable():
    assert tack.from_dlpack(Producer(flags=READ_ONLY), copy=True).writable


def test_copy_gathers_from_hand_made_strides(versioned):
    producer = Producer(versioned=versioned, shape=(2, 3), strides=(1, 2), byte_offset=4)
    array = tack.from_dlpack(producer, copy=True)
    assert array.tolist() == [[1, 3, 5], [2, 4, 6]]
    backwards = Producer(versioned=versioned, strides=(-1,), byte_offset=28)
    assert tack.from_dlpack(backwards, copy=True).tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_copy_keeps_bfloat16():
    producer = Producer(code=BFLOAT, bits=16, shape=(16,))
    array = tack.from_dlpack(producer, copy=True)
    assert array.dtype is tack.bfloat16
    assert array.tolist()[1::2] == list(range(8))


def test_copy_consumes_a_bare_capsule_and_gives_the_tensor_back(versioned):
    producer = Producer(versioned=versioned)
    capsule = producer.make_capsule()
    assert tack.from_dlpack(capsule, copy=True).tolist() == list(range(8))
    assert producer.deleted == 1
    with pytest.raises(ValueError, match="consumed already"):
        tack.from_dlpack(capsule)


def test_copy_of_an_array_of_tacks_own_leaves_no_export():
    before = live_exports()
    assert tack.from_dlpack(tack.zeros(2), copy=True).tolist() == [0, 0]
    assert live_exports() == before


def test_copy_of_a_device_tensor_says_what_to_call():
    with pytest.raises(RuntimeError, match="copy=True takes host memory.*to_device"):
        tack.from_dlpack(Producer(device_type=CUDA), copy=True)


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (dict(data=None), ValueError),
        (dict(code=COMPLEX, bits=64), TypeError),
        (dict(shape=(-1,), strides=(1,)), ValueError),
        (dict(shape=(2**32, 2**32), strides=(0, 0)), ValueError),
    ],
)
def test_copy_refuses_what_no_array_can_hold(versioned, tensor, error):
    producer = Producer(versioned=versioned, **tensor)
    with pytest.raises(error, match="from_dlpack"):
        tack.from_dlpack(producer, copy=True)
    assert producer.deleted == 0
    assert not capsule_name(producer.capsule).startswith("used")


# partners


@pytest.mark.partner("torch")
def test_pytorch_and_tack_share_memory_both_ways():
    import torch

    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    array = tack.from_dlpack(tensor)
    assert array.ptr == tensor.data_ptr()
    again = torch.from_dlpack(array)
    assert again.data_ptr() == tensor.data_ptr()
    again[0, 0] = 7
    assert array[0, 0] == 7


# pytorch/pytorch#114673, jax-ml/jax#19352: bool; cupy/cupy#9480: bfloat16
@pytest.mark.partner("torch")
@pytest.mark.parametrize("name", ["bool", "bfloat16", "float16", "uint8", "int64", "float64"])
def test_pytorchs_dtypes_arrive_as_what_they_are(name):
    import torch

    tensor = torch.ones(3, dtype=getattr(torch, name))
    array = tack.from_dlpack(tensor)
    assert array.dtype.name == name
    assert torch.from_dlpack(array).dtype == tensor.dtype
    assert tack.from_dlpack(tensor[::2], copy=True).tolist() == [1, 1]


# FlyDSL#1099
@pytest.mark.partner("torch")
def test_pytorchs_refusal_of_a_gradient_or_conjugate_is_passed_on():
    import torch

    with pytest.raises(BufferError, match="grad"):
        tack.from_dlpack(torch.zeros(2, requires_grad=True))


@pytest.mark.partner("tvm_ffi")
def test_tvm_ffi_and_tack_share_memory_both_ways():
    import tvm_ffi

    array = tack.arange(4, dtype=tack.float32)
    tensor = tvm_ffi.from_dlpack(array)
    again = tack.from_dlpack(tensor)
    assert again.ptr == array.ptr
