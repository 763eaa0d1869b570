"""What has run when, on a CUDA device whose work waits until something waits for it."""

import ctypes
import threading

import cuda_support as sim
import exchange_api
import managed_tensor
import numpy as np
import pytest
from cuda_support import NON_BLOCKING, on_driver, on_simulator

import tack

LEGACY, PER_THREAD = 1, 2
DISABLE_TIMING = 2  # of events


@tack.kernel
def add(x, value):
    for i in range(len(x)):
        x[i] += value


@tack.kernel
def copy_into(x, y):
    for i in range(len(x)):
        y[i] = x[i]


@tack.kernel(check_bounds=True)
def add_in_bounds(x, value):
    for i in range(len(x)):
        x[i] += value


def cuda(**options):
    return tack.device("cuda", **options)


def on_cuda(values, **options):
    return tack.array(np.asarray(values, np.float32)).to_device(cuda(**options))


@on_driver
def test_a_launch_on_memory_of_its_own_is_queued_and_returns():
    x = tack.zeros(4, device="cuda")
    add(x, 1.0)
    sim.expect_queued(x.device.stream)
    assert x.numpy().tolist() == [1] * 4
    assert not sim.is_queued(x.device.stream)


@on_driver
def test_an_export_waits_and_so_does_each_launch_after_it():
    sim.primary_context()
    x = tack.zeros(4, device="cuda")
    add(x, 1.0)
    capsule = x.__dlpack__(stream=-1)
    assert sim.host_copy(x.ptr, np.zeros(4, "f")).tolist() == [1] * 4
    add(x, 2.0)
    assert not sim.is_queued(x.device.stream)
    assert x.numpy().tolist() == [3] * 4
    del capsule


@pytest.mark.parametrize("export", ["capsule", "exchange API", "CUDA array interface", "memory"])
@on_driver
def test_every_kind_of_export_shares(export):
    x = tack.empty(4, device="cuda", exportable=export == "memory")
    copy_into(on_cuda([1, 2, 3, 4]), x)
    sim.expect_queued(x.device.stream)
    if export == "capsule":
        view = x.__dlpack__()
    elif export == "exchange API":
        view = ctypes.POINTER(managed_tensor.Versioned)()
        exchange_api.api_of(tack.Array).from_object(id(x), ctypes.byref(view))
    elif export == "CUDA array interface":
        view = x.__cuda_array_interface__
    else:
        view = x.export_memory()
    assert not sim.is_queued(x.device.stream)
    add(x, 1.0)
    assert not sim.is_queued(x.device.stream)
    if export == "exchange API":
        view[0].deleter(ctypes.addressof(view[0]))


@on_driver
def test_an_mpi_like_consumer_of_the_array_sees_finished_data():
    # fbpic/fbpic#226
    sim.primary_context()
    x = on_cuda([1, 2, 3, 4])
    add(x, 10.0)
    sent = sim.host_copy(x.__cuda_array_interface__["data"][0], np.zeros(4, "f"))
    assert sent.tolist() == [11, 12, 13, 14]


@on_driver
def test_queued_work_of_a_device_is_waited_for_by_the_device_and_by_all():
    plain, other = tack.zeros(4, device="cuda"), tack.zeros(4, device="cuda:0")
    add(plain, 1.0)
    tack.device("cuda").synchronize()
    assert not sim.is_queued(other.device.stream)
    add(other, 1.0)
    tack.synchronize()
    assert not sim.is_queued(other.device.stream)


class Library(managed_tensor.Producer):
    """Another library's numbers 0 ... 7 in device memory, whose work on a stream is queued yet."""

    def __init__(self, stream):
        self.stream = stream
        self.asked = []
        self.address = sim.foreign(np.arange(8, dtype=np.float32), stream)
        super().__init__(device_type=managed_tensor.CUDA, data=self.address)

    def __dlpack__(self, *, stream, max_version=None):
        self.asked.append(stream)
        event = sim.made("cuEventCreate", ctypes.c_uint(DISABLE_TIMING))
        sim.cu("cuEventRecord", event, self.stream)
        sim.cu("cuStreamWaitEvent", stream, event, ctypes.c_uint(0))
        sim.cu("cuEventDestroy_v2", event)
        return self.make_capsule()

    def free(self):
        sim.cu("cuMemFree_v2", self.address)


class OldLibrary(Library):
    """One from before streams."""

    def __dlpack__(self):
        return self.make_capsule()


class InterfaceLibrary:
    """One that knows the CUDA array interface alone."""

    def __init__(self, stream):
        self.address = sim.foreign(np.arange(8, dtype=np.float32), stream)
        fields = {"shape": (8,), "typestr": "<f4", "data": (self.address, False), "version": 3}
        self.__cuda_array_interface__ = fields | {"stream": stream or LEGACY}

    def free(self):
        sim.cu("cuMemFree_v2", self.address)


def exchanging_library(stream):
    """One with the C exchange API, which names its stream."""
    kind = exchange_api.make_type()

    def current_work_stream(device_type, device_id, out):
        out[0] = stream
        return 0

    kind.api.stream = kind.slot = exchange_api.STREAM(current_work_stream)
    producer = kind(device_type=managed_tensor.CUDA)
    producer.address = sim.foreign(np.arange(8, dtype=np.float32), stream)
    producer.managed.tensor.data = producer.address
    producer.free = lambda: sim.cu("cuMemFree_v2", producer.address)
    return producer


WITHOUT_STREAM = "capsule without stream"
LIBRARIES = {
    "capsule": Library,
    WITHOUT_STREAM: OldLibrary,
    "CUDA array interface": InterfaceLibrary,
    "exchange API": exchanging_library,
}


# A producer without streams has none but the legacy one.
PRODUCERS = [(p, own) for p in LIBRARIES for own in (False, True) if not own or p != WITHOUT_STREAM]


@pytest.mark.parametrize(("protocol", "own_stream"), PRODUCERS)
@on_driver
def test_an_import_comes_after_its_producers_queued_work_without_a_wait(protocol, own_stream):
    sim.primary_context()
    stream = sim.made("cuStreamCreate", ctypes.c_uint(NON_BLOCKING)) if own_stream else 0
    y = tack.zeros(8, device="cuda")
    producer = LIBRARIES[protocol](stream)
    waits = sim.calls("cuStreamSynchronize")
    x = tack.asarray(producer, copy=False)
    assert x.ptr == producer.address
    sim.expect_queued(stream)
    sim.expect_calls("cuStreamSynchronize", waits)
    copy_into(x, y)
    assert y.numpy().tolist() == list(range(8))
    del x
    producer.free()
    if own_stream:
        sim.cu("cuStreamDestroy_v2", stream)


@on_driver
def test_the_threads_own_stream_of_a_producer_is_waited_for_by_an_event():
    sim.primary_context()
    y = tack.zeros(8, device="cuda")
    producer = InterfaceLibrary(PER_THREAD)
    x = tack.asarray(producer)
    sim.expect_queued(PER_THREAD)
    copy_into(x, y)
    assert y.numpy().tolist() == list(range(8))
    del x
    producer.free()


@on_simulator(reports=["violation: cuStream"])
def test_a_stream_that_is_none_is_a_runtime_error_and_lets_the_producer_go():
    sim.primary_context()
    tack.device("cuda")
    producer = InterfaceLibrary(0)
    producer.__cuda_array_interface__["stream"] = 1 << 20
    with sim.raises(RuntimeError, "CUDA_ERROR_INVALID_HANDLE", f"stream {1 << 20}"):
        tack.asarray(producer, copy=False)
    producer.free()


@on_driver
def test_our_exchange_api_names_the_stream_that_the_next_work_goes_to():
    x = tack.zeros(4, device="cuda")
    out = ctypes.c_void_p()
    assert exchange_api.api_of(tack.Array).stream(2, 0, ctypes.byref(out)) == 0
    assert out.value == x.device.stream


# Each of an array of one element.
READS = {
    "item": lambda x: [x.item()],
    "float": lambda x: [float(x)],
    "index": lambda x: [x[0]],
    "numpy": lambda x: x.numpy().tolist(),
    "tolist": lambda x: x.tolist(),
    "copy": lambda x: x.copy().tolist(),
    "to_device": lambda x: x.to_device("cpu").tolist(),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("own_stream", [False, True])
@on_driver
def test_a_read_comes_after_the_queued_work(read, own_stream):
    sim.primary_context()
    stream = sim.made("cuStreamCreate", ctypes.c_uint(NON_BLOCKING)) if own_stream else None
    device = cuda(stream=stream) if own_stream else cuda()
    x = tack.zeros(1, device=device)
    add(x, 1.0)
    add(x, 2.0)
    sim.expect_queued(device.stream)
    assert READS[read](x) == [3]
    add_in_bounds(x, 4.0)
    add(x, 5.0)
    sim.expect_queued(device.stream)
    assert READS[read](x) == [12]
    del x, device
    if own_stream:
        sim.cu("cuStreamDestroy_v2", stream)


@on_driver
def test_a_kernel_that_checks_bounds_has_run_when_it_returns():
    sim.primary_context()
    x = tack.zeros(4, device="cuda")
    add(x, 1.0)
    add_in_bounds(x, 2.0)
    assert sim.host_copy(x.ptr, np.zeros(4, "f")).tolist() == [3] * 4


@on_simulator()
def test_another_threads_deleter_runs_while_one_synchronizes():
    # pybind/pybind11#1446. The device is busy until the deleter, which needs the GIL, has run.
    sim.primary_context()
    address = sim.foreign(np.zeros(8, np.float32))
    deleted = threading.Event()
    producer = managed_tensor.Producer(
        device_type=managed_tensor.CUDA, data=address, on_delete=deleted.set
    )
    arrays = [tack.from_dlpack(producer)]
    device, waited = arrays[0].device, []
    busy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: waited.append(deleted.wait(60)))
    sim.cu("cuLaunchHostFunc", device.stream, busy, None)
    dropping = threading.Timer(0.05, arrays.clear)
    dropping.start()
    device.synchronize()
    dropping.join()
    assert waited == [True] and producer.deleted == 1
    sim.cu("cuMemFree_v2", address)


@on_driver
def test_streams_of_the_caller_take_the_launches():
    sim.primary_context()
    stream = sim.made("cuStreamCreate", ctypes.c_uint(NON_BLOCKING))
    device = cuda(stream=stream)
    assert device.stream == stream
    x = tack.zeros(4, device=device)
    add(x, 1.0)
    sim.expect_queued(stream)
    device.synchronize()
    assert not sim.is_queued(stream)
    add(x, 1.0)
    tack.synchronize()
    assert not sim.is_queued(stream)
    assert x.numpy().tolist() == [2] * 4
    del x, device
    sim.cu("cuStreamDestroy_v2", stream)


@pytest.mark.parametrize("no_pools", [None, 1])
@on_simulator()
def test_arrays_of_two_streams_meet_in_one_launch_and_may_be_dropped_at_once(no_pools):
    sim.primary_context()
    stream = sim.made("cuStreamCreate", ctypes.c_uint(NON_BLOCKING))
    theirs = cuda(stream=stream)
    for first_is_plain in (True, False):
        for _ in range(3):
            x = on_cuda([1, 2, 3, 4])
            y = tack.zeros(4, device=theirs)
            add(x, 1.0)
            add(y, 2.0)
            if first_is_plain:
                copy_into(x, y)
            else:
                copy_into(y, x)
            # Freed behind the work that uses them, whichever stream that is on.
            result = y if first_is_plain else x
            del x, y
            assert sim.is_queued(stream)
            assert result.numpy().tolist() == ([2, 3, 4, 5] if first_is_plain else [2] * 4)
            del result
    tack.device("cuda").synchronize()
    del theirs
    sim.cu("cuStreamDestroy_v2", stream)


@on_driver
def test_many_threads_launch_at_once_each_with_its_own_number():
    threads, launches = 12, 100
    arrays = [tack.zeros(3, device="cuda") for _ in range(threads)]
    start = threading.Barrier(threads)

    def work(k):
        start.wait()
        for n in range(launches):
            add(arrays[k], float(k * launches + n))

    running = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for k in range(threads):
        assert arrays[k].tolist() == [sum(range(k * launches, (k + 1) * launches))] * 3
    sim.expect_calls("cuLaunchKernel", threads * launches)
