"""Device memory as a handle: what the record says, who closes what, and two processes on it."""

import ctypes
import gc
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import cuda_support as sim
import numpy as np
import pytest
from cuda_support import on_driver, on_simulator

import tack

PAGE = 2 << 20  # the granularity of the simulated device


@tack.kernel
def add(x, value):
    for i in range(len(x)):
        x[i] += value


def descriptors():
    return set(os.listdir("/proc/self/fd"))


def exportable(values):
    values = np.asarray(values, np.float32)
    x = tack.empty(values.shape, device="cuda", exportable=True)
    from_host(tack.array(values).to_device(x.device), x)
    return x


@tack.kernel
def from_host(x, y):
    for i in range(len(x)):
        y[i] = x[i]


@on_driver
def test_the_record_has_the_sizes_and_the_device():
    # fzyzcjy/torch_memory_saver#82
    x = tack.empty(1728, device="cuda", exportable=True)
    record = x.export_memory()
    assert (record.backend, record.handle_type) == ("cuda", "posix_fd")
    assert (record.size, record.allocation_size) == (6912, PAGE)
    assert len(record.device_uuid) == 16 and any(record.device_uuid)
    assert os.fstat(record.handle)
    assert pickle.loads(pickle.dumps(record)) == record


@pytest.mark.parametrize("made", ["exportable", "copy"])
@on_driver
def test_the_record_is_the_same_twice_and_its_handle_closed_once_with_the_array(made):
    exportable([0] * 4)  # what the driver opens once
    before = descriptors()
    x = tack.zeros(4, device="cuda") if made == "copy" else exportable([0] * 4)
    record = x.export_memory()
    assert x.export_memory() == record
    duplicate = os.dup(record.handle)
    del x
    gc.collect()
    with sim.raises(OSError, "Bad file descriptor"):
        os.fstat(record.handle)
    y = tack.import_memory(
        tack.ExportedMemory("cuda", 16, PAGE, duplicate, "posix_fd", record.device_uuid),
        "float32",
        4,
    )
    assert y.numpy().tolist() == [0] * 4
    del y
    assert os.fstat(duplicate)  # the importer's handle stays the caller's
    os.close(duplicate)
    assert descriptors() == before


@on_driver
def test_a_copied_export_waits_for_queued_work_and_shows_no_later_write():
    x = tack.zeros(4, device="cuda")
    add(x, 1.0)
    record = x.export_memory()
    add(x, 1.0)
    assert tack.import_memory(record, "float32", 4).numpy().tolist() == [1] * 4
    assert x.numpy().tolist() == [2] * 4
    assert x.export_memory() == record


@on_driver
def test_an_exportable_array_is_shared_both_ways():
    x = exportable([1, 2, 3, 4])
    y = tack.import_memory(x.export_memory(), "float32", 4)
    assert y.ptr != x.ptr
    add(x, 1.0)
    assert not sim.is_queued(x.device.stream)
    assert y.numpy().tolist() == [2, 3, 4, 5]
    add(y, 1.0)
    assert not sim.is_queued(x.device.stream)
    assert x.numpy().tolist() == [3, 4, 5, 6]


@on_driver
def test_an_exportable_array_is_like_any_other():
    x = exportable([1, 2, 3, 4])
    y = tack.from_dlpack(x)
    add(y, 1.0)
    assert x.numpy().tolist() == [2, 3, 4, 5]
    assert x.copy().numpy().tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("memory", ["wrapped plain", "wrapped virtual", "pool"])
@on_simulator()
def test_memory_that_cannot_be_exported_is_exported_as_a_copy(memory):
    # openucx/ucx#7110
    sim.primary_context()
    owner = exportable([5] * 4) if memory == "wrapped virtual" else None
    address = owner.ptr if owner is not None else sim.foreign(np.full(4, 5, np.float32))
    x = tack.array_from_ptr(address, "float32", 4, writable=True, device="cuda")
    if memory == "pool":
        x = x.copy()
    record = x.export_memory()
    add(x, 1.0)
    assert tack.import_memory(record, "float32", 4).numpy().tolist() == [5] * 4
    assert sim.calls("cuIpcGetMemHandle") == 0
    del x
    if owner is None:
        sim.cu("cuMemFree_v2", address)


@pytest.mark.parametrize("no_pools", [None, 1])
@on_simulator()
def test_a_thousand_exports_leave_descriptors_and_memory_as_they_were(no_pools):
    # smol-machines/smolvm#650
    x = tack.zeros(4, device="cuda")
    x.export_memory()
    x = None
    tack.device("cuda").synchronize()
    files, alive, memory = descriptors(), sim.live(), sim.device_bytes()
    for n in range(1000):
        x = tack.empty(4, device="cuda", exportable=n % 2 == 0)
        x.export_memory()
        del x
    tack.device("cuda").synchronize()
    assert (descriptors(), sim.live(), sim.device_bytes()) == (files, alive, memory)


@on_simulator(no_vmm=1)
def test_without_virtual_memory_nothing_is_exported_and_the_text_says_so():
    x = tack.zeros(4, device="cuda")
    with sim.raises(RuntimeError, "export_memory", "no virtual memory management"):
        x.export_memory()
    with sim.raises(RuntimeError, "exportable", "no virtual memory management"):
        tack.empty(4, device="cuda", exportable=True)
    record = tack.ExportedMemory("cuda", 16, PAGE, 3, "posix_fd", None)
    with sim.raises(RuntimeError, "import_memory", "no virtual memory management"):
        tack.import_memory(record, "float32", 4, device="cuda")


@on_simulator(mig=1)
def test_the_uuid_of_a_mig_instance_is_its_own():
    # vllm-project/vllm#41848
    x = tack.zeros(4, device="cuda")
    whole, part = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)
    sim.cu("cuDeviceGetUuid", whole, ctypes.c_int(0))
    sim.cu("cuDeviceGetUuid_v2", part, ctypes.c_int(0))
    assert x.export_memory().device_uuid == part.raw != whole.raw


@on_simulator(driver_version=11020)
def test_a_driver_without_the_uuid_of_mig_gives_the_devices():
    x = tack.zeros(4, device="cuda")
    record = x.export_memory()
    assert len(record.device_uuid) == 16
    assert tack.import_memory(record, "float32", 4).numpy().tolist() == [0] * 4


# import_memory


def altered(record, **changes):
    names = ("backend", "size", "allocation_size", "handle", "handle_type", "device_uuid")
    return tack.ExportedMemory(**({name: getattr(record, name) for name in names} | changes))


@on_driver
def test_what_does_not_fit_is_refused_with_the_values():
    x = exportable([1, 2, 3, 4])
    record = x.export_memory()
    with sim.raises(ValueError, str(PAGE)):
        tack.import_memory(record, "float32", PAGE)
    with sim.raises(ValueError, "00" * 15 + "07", record.device_uuid.hex(), "device="):
        tack.import_memory(altered(record, device_uuid=bytes(15) + b"\7"), "float32", 4)
    with sim.raises(ValueError, "win32_kmt", "posix_fd"):
        tack.import_memory(altered(record, handle_type="win32_kmt"), "float32", 4)
    with open("/dev/null") as other, sim.raises(RuntimeError, "CUDA_ERROR_", "import_memory"):
        tack.import_memory(altered(record, handle=other.fileno()), "float32", 4)
    with sim.raises(RuntimeError, "CUDA_ERROR_", "import_memory"):
        tack.import_memory(altered(record, handle=987), "float32", 4)
    with sim.raises(RuntimeError, "CUDA_ERROR_", "import_memory"):
        tack.import_memory(altered(record, allocation_size=3 * PAGE), "float32", 4)
    assert tack.import_memory(record, "float32", 4).numpy().tolist() == [1, 2, 3, 4]


@on_driver
def test_a_bare_handle_and_read_only_memory_are_imported_too():
    x = exportable([1, 2, 3, 4])
    handle = x.export_memory().handle
    y = tack.import_memory(
        handle, "float32", 4, allocation_size=PAGE, device="cuda", writable=False
    )
    assert y.numpy().tolist() == [1, 2, 3, 4]
    with sim.raises(ValueError, "read-only"):
        add(y, 1.0)


@on_simulator(devices=2)
def test_a_record_finds_its_device_by_its_uuid():
    x = tack.full(4, 3, device="cuda:1")
    record = x.export_memory()
    y = tack.import_memory(record, "float32", 4, device="cuda:1")
    assert (str(y.device), y.numpy().tolist()) == ("cuda:1", [3] * 4)
    assert tack.import_memory(record, "float32", 4).device == y.device
    tack.set_default_device("cuda:0")
    assert tack.import_memory(record, "float32", 4).device == y.device
    with sim.raises(ValueError, record.device_uuid.hex()):
        tack.import_memory(record, "float32", 4, device="cuda:0")


@on_simulator(devices=2)
def test_a_record_without_a_uuid_goes_to_the_default_device_of_its_backend():
    x = tack.full(4, 3, device="cuda:1")
    record = altered(x.export_memory(), device_uuid=None)
    tack.set_default_device("cuda:1")
    assert str(tack.import_memory(record, "float32", 4).device) == "cuda:1"


@on_simulator(devices=2)
def test_the_default_device_is_kept_with_its_stream_where_the_uuid_is_its_own():
    x = tack.full(4, 3, device="cuda")
    sim.primary_context()
    stream = sim.made("cuStreamCreate", 0)
    device = tack.set_default_device("cuda", stream=stream)
    y = tack.import_memory(x.export_memory(), "float32", 4)
    assert y.device.stream == stream and device.stream == stream
    tack.set_default_device("cpu")
    del y, device
    sim.cu("cuStreamDestroy_v2", stream)


OTHER_PROCESS = """
import pickle, socket, sys
import tack
from test_cuda_export_memory import add, altered
channel = socket.socket(fileno=int(sys.argv[1]))
message, (handle,), _, _ = socket.recv_fds(channel, 4096, 1)
x = tack.import_memory(altered(pickle.loads(message), handle=handle), "float32", 4)
assert x.numpy().tolist() == [1, 2, 3, 4]
add(x, 10.0)
channel.send(b"added")
assert channel.recv(10) == b"added too"
assert x.numpy().tolist() == [111, 112, 113, 114]
"""


@on_simulator()
def test_two_processes_work_on_the_same_memory():
    x = exportable([1, 2, 3, 4])
    record = x.export_memory()
    ours, theirs = socket.socketpair()
    report = Path(os.environ["TACK_SIM_REPORT"] + ".other")
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={**os.environ, "TACK_SIM_REPORT": str(report)},
    )
    socket.send_fds(ours, [pickle.dumps(record)], [record.handle])
    assert ours.recv(10) == b"added"
    assert x.numpy().tolist() == [11, 12, 13, 14]
    add(x, 100.0)
    ours.send(b"added too")
    assert other.wait() == 0
    assert report.read_text() == ""
    ours.close()
    theirs.close()
