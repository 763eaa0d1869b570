"""Work on a queued device comes after the producer's, and waiting for it keeps no one else out."""

import ctypes
import gc
import threading
import time
import weakref

import numpy as np
import pytest
from exchange_api import STREAM as STREAM_SLOT
from exchange_api import api_of, make_type
from far_device import REFUSED_STREAM, STREAM, FarDevice
from managed_tensor import CPU, CUDA, Producer, capsule_name

import tack
from tack.interop.dlpack import live_exports


@pytest.fixture
def far():
    device = FarDevice()
    yield device
    device.close()


class OnDevice(Producer):
    """Knows some of the keywords and keeps those of each request."""

    def __init__(self, keywords=("max_version", "stream"), device_type=CUDA, **tensor):
        super().__init__(device_type=device_type, **tensor)
        self.keywords = keywords
        self.requests = []

    def __dlpack__(self, **keywords):
        self.requests.append(keywords)
        for name in keywords.keys() - set(self.keywords):
            raise TypeError(f"no {name}")
        return self.make_capsule()


# Device.stream and wait_for_stream


def test_a_device_has_its_stream_as_an_int_and_the_host_has_none(far):
    assert far.device.stream == STREAM
    assert tack.device("cpu").stream is None


def test_a_device_waits_for_a_stream_by_its_handle(far):
    far.device.wait_for_stream(7)
    far.device.wait_for_stream(np.uint64(8))
    assert far.waited == [7, 8]
    assert far.synchronized == 0


def test_the_host_waits_for_no_stream():
    tack.device("cpu").wait_for_stream(7)


@pytest.mark.parametrize("handle", [True, 1.5, "7", None])
def test_a_stream_that_is_no_int_is_a_type_error(far, handle):
    with pytest.raises(TypeError, match="wait_for_stream: stream must be an int"):
        far.device.wait_for_stream(handle)


@pytest.mark.parametrize("handle", [-1, 2**64])
def test_a_stream_beyond_a_handle_is_a_value_error(far, handle):
    with pytest.raises(ValueError, match=f"wait_for_stream: stream is {handle}"):
        far.device.wait_for_stream(handle)


def test_a_stream_that_the_driver_refuses_is_a_runtime_error(far):
    with pytest.raises(RuntimeError, match="refuses the handle"):
        far.device.wait_for_stream(REFUSED_STREAM)


# import by capsule


def test_a_producer_on_a_device_is_asked_to_order_its_work_before_ours(far):
    producer = OnDevice()
    array = tack.from_dlpack(producer)
    assert producer.requests == [{"max_version": (1, 0), "stream": STREAM}]
    assert array.device == far.device
    assert (far.waited, far.synchronized) == ([], 0)


@pytest.mark.parametrize("device_type", [CPU, 3, 11])
def test_a_producer_on_the_host_hears_of_no_stream(device_type):
    # NVIDIA/cuda-python#473: NumPy refuses any.
    producer = OnDevice(device_type=device_type)
    tack.from_dlpack(producer)
    assert producer.requests == [{"max_version": (1, 0)}]


def test_objects_of_one_type_may_be_on_the_host_and_on_devices(far):
    asked = []

    class Anywhere(OnDevice):
        def __dlpack_device__(self):
            asked.append(self)
            return super().__dlpack_device__()

    for _ in range(3):
        tack.from_dlpack(Anywhere(device_type=CPU))
    assert len(asked) == 1
    for _ in range(2):
        producer = Anywhere()
        assert tack.from_dlpack(producer).device == far.device
        assert producer.requests[-1]["stream"] == STREAM
    assert len(asked) == 3


def test_a_tensor_of_a_device_whose_producer_does_not_say_where_is_taken_as_it_is(far):
    class Silent(OnDevice):
        __dlpack_device__ = None

    for _ in range(2):
        producer = Silent()
        assert tack.from_dlpack(producer).device == far.device
        assert producer.requests == [{"max_version": (1, 0)}]


@pytest.mark.parametrize("keywords", [("stream",), ("max_version",), ()])
def test_a_keyword_that_the_producer_does_not_know_is_left_out(far, keywords):
    producer = OnDevice(keywords)
    assert tack.from_dlpack(producer).device == far.device
    values = {"max_version": (1, 0), "stream": STREAM}
    assert producer.requests[-1] == {name: values[name] for name in keywords}


def test_an_error_other_than_a_type_error_ends_the_requests(far):
    class Refusing(OnDevice):
        def __dlpack__(self, **keywords):
            self.requests.append(keywords)
            raise BufferError("not today")

    producer = Refusing()
    with pytest.raises(BufferError, match="not today"):
        tack.from_dlpack(producer)
    assert len(producer.requests) == 1


def test_the_last_refusal_has_the_first_as_its_cause(far):
    class Refusing(OnDevice):
        def __dlpack__(self, **keywords):
            raise TypeError(f"{len(keywords)} keywords")

    with pytest.raises(TypeError, match="0 keywords") as refusal:
        tack.from_dlpack(Refusing())
    assert str(refusal.value.__cause__) == "2 keywords"


@pytest.mark.parametrize("answer", [None, (), ("cpu", 0), (1.5, 0), (2**40, 0)])
def test_a_device_that_makes_no_sense_is_as_good_as_none(answer):
    producer = OnDevice(device_type=CPU)
    producer.__class__ = type("Odd", (OnDevice,), {"__dlpack_device__": lambda self: answer})
    assert tack.from_dlpack(producer).tolist() == list(range(8))
    assert producer.requests == [{"max_version": (1, 0)}]


def test_a_device_that_cannot_be_asked_leaves_the_last_word_to_the_tensor():
    class Silent(OnDevice):
        def __dlpack_device__(self):
            raise RuntimeError("on many devices")

    assert tack.from_dlpack(Silent(device_type=CPU)).tolist() == list(range(8))


def test_an_interrupt_while_the_device_is_asked_for_is_not_swallowed():
    class Interrupted(OnDevice):
        def __dlpack_device__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tack.from_dlpack(Interrupted(device_type=CPU))


def test_a_device_that_cannot_import_is_refused_before_the_producer_works(far):
    producer = OnDevice()
    with pytest.raises(RuntimeError, match="cpu cannot wrap a kDLCUDA tensor of device 0"):
        tack.from_dlpack(producer, device="cpu")
    assert producer.requests == []


def test_a_copy_of_device_memory_says_what_to_call_and_asks_for_no_order(far):
    producer = OnDevice()
    with pytest.raises(RuntimeError, match=r"copy=True takes host memory.*to_device"):
        tack.from_dlpack(producer, copy=True)
    assert producer.requests == [{"max_version": (1, 0)}]


# import by the exchange API


def exchanging(stream):
    """A kind of producer on a device, whose API answers with what stream() gives or raises."""

    def current_work_stream(device_type, device_id, out):
        kind.asked.append((device_type, device_id))
        out[0] = stream()
        return 0

    kind = make_type()
    kind.asked = []
    kind.api.stream = kind.slot = STREAM_SLOT(current_work_stream)
    return kind


def test_the_producers_stream_is_waited_for_without_a_wait_of_the_host(far):
    kind = exchanging(lambda: 7)
    producer = kind(device_type=CUDA)
    array = tack.from_dlpack(producer)
    assert kind.asked == [(CUDA, 0)]
    assert (array.device, far.waited, far.synchronized) == (far.device, [7], 0)


def test_null_is_the_legacy_stream_and_waited_for_too(far):
    tack.from_dlpack(exchanging(lambda: None)(device_type=CUDA))
    assert far.waited == [0]


def test_our_own_stream_needs_no_wait(far):
    tack.from_dlpack(exchanging(lambda: STREAM)(device_type=CUDA))
    assert far.waited == []


def test_a_producer_on_the_host_is_not_asked_for_its_stream():
    kind = exchanging(lambda: 7)
    tack.from_dlpack(kind())
    assert kind.asked == []


def test_an_api_without_a_stream_is_taken_as_it_is(far):
    kind = make_type()
    assert tack.from_dlpack(kind(device_type=CUDA)).device == far.device
    assert far.waited == []


def test_a_stream_that_cannot_be_waited_for_gives_the_tensor_back(far):
    producer = exchanging(lambda: REFUSED_STREAM)(device_type=CUDA)
    with pytest.raises(RuntimeError, match=f"from_dlpack: the producer's stream {REFUSED_STREAM}"):
        tack.from_dlpack(producer)
    assert producer.deleted == 1


def test_a_producer_that_cannot_name_its_stream_gets_the_tensor_back(far):
    kind = make_type()
    kind.api.stream = kind.slot = STREAM_SLOT(lambda device_type, device_id, out: -1)
    producer = kind(device_type=CUDA)
    with pytest.raises(RuntimeError, match="failed without saying why"):
        tack.from_dlpack(producer)
    assert producer.deleted == 1


def test_a_refused_tensor_is_not_ordered(far):
    kind = exchanging(lambda: 7)
    producer = kind(device_type=CUDA, strides=(2,), shape=(4,))
    with pytest.raises(tack.NonContiguousError):
        tack.from_dlpack(producer)
    assert (kind.asked, producer.deleted) == ([], 1)


# export


@pytest.mark.parametrize("stream", [None, -1, 1, 2, 12345])
def test_an_export_waits_for_our_work_whatever_the_consumers_stream(far, stream):
    array = tack.empty(3)
    before = far.synchronized
    assert capsule_name(array.__dlpack__(stream=stream)) == "dltensor"
    assert far.synchronized == before + 1
    assert array.__dlpack_device__() == (CUDA, 0)


@pytest.mark.parametrize("device", [(CPU, 0), (CUDA, 63), (8, 0), (99, 0)])
def test_our_exchange_api_has_no_stream_where_no_device_is_in_use(device):
    out = ctypes.c_void_p(1)
    assert api_of(tack.Array).stream(*device, ctypes.byref(out)) == 0
    assert out.value is None


# explain


def test_explain_asks_for_no_order_and_says_which_an_import_would_have(far):
    producer = OnDevice()
    record = tack.explain(producer)
    assert producer.requests == [{"max_version": (1, 0), "stream": -1}]
    assert (record.device, record.shared) == ("kDLCUDA:0", True)
    assert "stream=" in record.ordering
    assert record.ordering in str(record)
    assert producer.deleted == 0


def test_explain_waits_for_no_stream(far):
    kind = exchanging(lambda: 7)
    record = tack.explain(kind(device_type=CUDA))
    assert "producer's current one" in record.ordering
    assert (kind.asked, far.waited) == ([], [])


def test_explain_says_that_a_bare_capsule_is_not_ordered(far):
    capsule = OnDevice().make_capsule()
    assert "bare capsule" in tack.explain(capsule).ordering


def test_host_memory_needs_no_order():
    assert tack.explain(np.zeros(2)).ordering is None


def test_strided_memory_of_a_device_is_not_said_to_be_copied(far):
    record = tack.explain(OnDevice(strides=(2,), shape=(4,)))
    assert (record.shared, record.copyable) == (False, False)


# elements of a device's memory


def test_one_element_is_copied_for_an_index(far):
    array = tack.array([[1, 2, 3], [4, 5, 6]])
    assert array.device == far.device
    assert (array[1, -1], array.item(1), array.item(0, 2)) == (6, 2, 3)
    array[0, 0] = 10
    assert array.tolist() == [[10, 2, 3], [4, 5, 6]]
    assert list(array.reshape(-1)) == [10, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float64"])
def test_elements_of_every_width_come_and_go(far, dtype):
    array = tack.zeros(3, dtype)
    array[1] = 1
    assert array.tolist() == [0, 1, 0]
    array[...] = np.array([1, 0, 1])
    assert array.tolist() == [1, 0, 1] == array.numpy().tolist()
    array[...] = 1
    assert [array[0], array.item(2)] == [1, 1]


def test_an_element_that_does_not_fit_or_exist_is_refused_as_on_the_host(far):
    array = tack.zeros(2, "uint8")
    with pytest.raises(OverflowError):
        array[0] = 256
    with pytest.raises(IndexError):
        array[2]
    assert array.tolist() == [0, 0]


def test_numbers_of_single_elements(far):
    assert float(tack.full((), 2.5)) == 2.5
    assert int(tack.full((1, 1), 3)) == 3
    assert not tack.zeros(1)


def test_numpy_is_a_copy_and_no_view_is_given(far):
    array = tack.zeros(2)
    copy = array.numpy()
    copy[0] = 5
    assert array.tolist() == [0, 0]
    with pytest.raises(TypeError, match=r"a\.numpy\(\)"):
        np.asarray(array)
    with pytest.raises(BufferError, match=r"a\.numpy\(\)"):
        memoryview(array)
    assert not hasattr(array, "__array_interface__")


def test_the_text_of_an_array_does_not_touch_a_devices_memory():
    # Alpine-DAV/ascent#1332. The address is no memory at all.
    far = FarDevice()
    try:
        array = tack.array_from_ptr(1 << 20, tack.float32, (2, 3), device=far.device)
        text = "tack.Array(shape=(2, 3), dtype=float32, device=cuda, read-only)"
        assert repr(array) == str(array) == f"{array}" == text
    finally:
        far.close()


# the GIL


OPERATIONS = {
    "synchronize": lambda a: a.device.synchronize(),
    "tack.synchronize": lambda a: tack.synchronize(),
    "numpy": lambda a: a.numpy(),
    "tolist": lambda a: a.tolist(),
    "item": lambda a: a.item(0),
    "a[i]": lambda a: a[1],
    "a[i] = value": lambda a: a.__setitem__(1, 2),
    "a[...] = number": lambda a: a.__setitem__(..., 2),
    "a[...] = array": lambda a: a.__setitem__(..., np.ones(2)),
    "fill": lambda a: a.fill(2),
    "copy": lambda a: a.copy(),
    "deepcopy": lambda a: a.__deepcopy__({}),
    "to_device": lambda a: a.to_device("cpu"),
    "from the host": lambda a: tack.zeros(2, device="cpu").to_device(a.device),
    "array": lambda a: tack.array([1, 2], device=a.device),
    "array of an array": lambda a: tack.array(a, device=a.device),
    "asarray with a copy": lambda a: tack.asarray(a, copy=True),
    "zeros": lambda a: tack.zeros(2, device=a.device),
    "export": lambda a: a.__dlpack__(max_version=(1, 0)),
    "legacy export": lambda a: a.__dlpack__(),
    "exchange API": lambda a: tack.explain(a),
    "CUDA array interface": lambda a: a.__cuda_array_interface__,
    "export_memory": lambda a: a.export_memory(),
    "import_memory": lambda a: tack.import_memory(
        77, "float32", 2, allocation_size=64, device=a.device
    ),
}


def wait_at_the_gate(far, operation, *arguments):
    far.library.far_close_gate()
    thread = threading.Thread(target=operation, args=arguments)
    thread.start()
    while thread.is_alive() and not far.library.far_entered():
        time.sleep(0.001)
    assert far.library.far_entered()
    return thread


@pytest.mark.parametrize("operation", OPERATIONS)
def test_who_waits_for_a_device_lets_other_threads_run(far, operation):
    array = tack.zeros(2)
    thread = wait_at_the_gate(far, OPERATIONS[operation], array)
    # Opening it takes the GIL; a holder of the GIL would stand there until it gives up.
    far.library.far_open_gate()
    thread.join()
    assert not far.library.far_gave_up()


def test_a_deleter_runs_while_another_thread_synchronizes(far):
    # pybind/pybind11#1446
    deleted = threading.Event()
    producer = OnDevice(on_delete=deleted.set)
    array = tack.from_dlpack(producer)
    thread = wait_at_the_gate(far, far.device.synchronize)
    del array
    assert deleted.wait(10)
    far.library.far_open_gate()
    thread.join()
    assert not far.library.far_gave_up()


def test_nothing_is_kept_of_what_was_exported(far):
    before = live_exports()
    array = tack.zeros(3)
    array.__cuda_array_interface__  # noqa: B018 - asking exports the memory for a moment
    assert live_exports() == before
    reference = weakref.ref(array)
    del array
    gc.collect()
    assert reference() is None
