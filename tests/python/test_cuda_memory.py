"""Whose memory an address is, what may be wrapped, and how memory comes back."""

import ctypes
import gc
import io

import cuda_support as sim
import managed_tensor
import numpy as np
import pytest
from cuda_support import on_driver, on_simulator

import tack

GLOBAL = ctypes.c_uint(1)  # CU_MEM_ATTACH_GLOBAL
NONE = ctypes.c_uint(0)
CUDA_HOST, CUDA_MANAGED = 3, 13


@tack.kernel
def add(x, value):
    for i in range(len(x)):
        x[i] += value


def malloc():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    return libc.malloc(4096)


def pinned():
    out = ctypes.c_void_p()
    sim.cu("cuMemHostAlloc", ctypes.byref(out), 4096, NONE)
    return out.value


def registered():
    libc = ctypes.CDLL(None)
    libc.aligned_alloc.restype = ctypes.c_void_p
    libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
    address = libc.aligned_alloc(4096, 4096)
    sim.cu("cuMemHostRegister_v2", address, 4096, NONE)
    return address


KINDS = {
    # what makes it, whose it is, what lets it go
    "device": (lambda: sim.made("cuMemAlloc_v2", 4096), "cuda", "cuMemFree_v2"),
    "managed": (lambda: sim.made("cuMemAllocManaged", 4096, GLOBAL), "cuda", "cuMemFree_v2"),
    "pool": (lambda: sim.made("cuMemAllocAsync", 4096, 0), "cuda", "cuMemFree_v2"),
    "pinned": (pinned, "cpu", "cuMemFreeHost"),
    "registered": (registered, "cpu", "cuMemHostUnregister"),
}


@pytest.mark.parametrize("kind", KINDS)
@on_simulator()
def test_memory_is_of_who_may_wrap_it(kind):
    sim.primary_context()
    make, backend, release = KINDS[kind]
    address = make()
    device = tack.device("cuda")
    for at in (address, address + 4095):
        assert device.memory_space(at) == backend
    if backend == "cuda":
        x = tack.array_from_ptr(address, "float32", 1024, writable=True, device=device)
        add(x, 1.0)
        assert not sim.is_queued(device.stream)
        del x
    else:
        with sim.raises(ValueError, "memory of cpu (page-locked host memory), not of cuda:0"):
            tack.array_from_ptr(address, "float32", 1024, device=device)
        assert tack.array_from_ptr(address, "float32", 1024, device="cpu").size == 1024
    sim.cu(release, address)


@on_driver
def test_virtual_memory_is_the_devices():
    x = tack.empty(4, device="cuda", exportable=True)
    assert x.device.memory_space(x.ptr) == "cuda"
    assert tack.array_from_ptr(x.ptr, "float32", 4, device="cuda").ptr == x.ptr


@on_driver
def test_a_pointer_of_the_device_is_refused_by_the_host_which_names_both():
    x = tack.zeros(4, device="cuda")
    with sim.raises(ValueError, "is memory of cuda, not of cpu", 'device="cuda"'):
        tack.array_from_ptr(x.ptr, "float32", 4, device="cpu")


@on_simulator()
def test_memory_of_malloc_is_nobodys_to_the_driver_and_leaves_no_error_behind():
    # openucx/ucx#2350
    address = malloc()
    device = tack.device("cuda")
    assert device.memory_space(address) == "unknown"
    with sim.raises(ValueError, "unknown to the driver", "not of cuda:0"):
        tack.array_from_ptr(address, "float32", 4, device=device)
    x = tack.zeros(4, device=device)
    add(x, 1.0)
    assert x.numpy().tolist() == [1] * 4


@on_simulator()
def test_a_freed_address_and_one_beyond_its_memory_are_refused():
    sim.primary_context()
    device = tack.device("cuda")
    address = sim.made("cuMemAlloc_v2", 4096)
    with sim.raises(ValueError, "the last of 4100 bytes", "not of cuda:0"):
        tack.array_from_ptr(address, "float32", 1025, device=device)
    sim.cu("cuMemFree_v2", address)
    assert device.memory_space(address) == "unknown"
    with sim.raises(ValueError, "not of cuda:0"):
        tack.array_from_ptr(address, "float32", 1, device=device)


@on_driver
def test_null_is_legal_where_the_size_is_0_alone():
    assert tack.array_from_ptr(0, "float32", 0, device="cuda").size == 0
    with sim.raises(ValueError, "null"):
        tack.array_from_ptr(0, "float32", 1, device="cuda")
    add(tack.zeros(0, device="cuda"), 1.0)
    assert tack.zeros((0, 3), device="cuda").numpy().shape == (0, 3)


def producer_of(address, device_type):
    return managed_tensor.Producer(device_type=device_type, data=address)


@on_driver
def test_pinned_memory_of_a_producer_is_the_hosts():
    sim.primary_context()
    tack.device("cuda")
    address = pinned()
    producer = producer_of(address, CUDA_HOST)
    x = tack.from_dlpack(producer)
    assert x.device == tack.device("cpu")
    del x
    sim.cu("cuMemFreeHost", address)


@pytest.mark.parametrize("concurrent_managed", [0, 1])
@on_simulator()
def test_managed_memory_is_read_after_the_queued_work(concurrent_managed):
    # ml-explore/mlx#3645: without concurrent access a touch by the host would end the process.
    sim.primary_context()
    address = sim.made("cuMemAllocManaged", 32, GLOBAL)
    producer = producer_of(address, CUDA_MANAGED)
    x = tack.from_dlpack(producer)
    assert str(x.device) == "cuda"
    sim.cu("cuMemsetD32_v2", address, ctypes.c_uint(0x3F800000), 8)
    other = tack.zeros(4, device="cuda")
    add(x, 1.0)
    add(other, 1.0)
    assert sim.is_queued(other.device.stream)
    assert x.numpy().tolist() == [2] * 8
    assert x[0] == 2
    del x
    sim.cu("cuMemFree_v2", address)


@on_simulator()
def test_an_array_in_fortrans_order_is_refused_and_never_transposed():
    # numba-mpi/numba-mpi#31
    sim.primary_context()
    address = sim.foreign(np.arange(8, dtype=np.float32))
    producer = managed_tensor.Producer(
        device_type=managed_tensor.CUDA, data=address, shape=(2, 4), strides=(1, 2)
    )
    for take in (tack.from_dlpack, tack.asarray):
        with sim.raises(tack.NonContiguousError, "strides (1, 2)", "shape (2, 4)"):
            take(producer, copy=False)
    assert sim.host_copy(address, np.zeros(8, "f")).tolist() == list(range(8))
    sim.cu("cuMemFree_v2", address)


@on_simulator()
def test_a_read_only_device_array_takes_no_results_and_a_writable_one_does():
    # inducer/pycuda#182
    sim.primary_context()
    addresses = [sim.foreign(np.zeros(8, np.float32)) for _ in range(2)]
    writable, read_only = (
        tack.from_dlpack(
            managed_tensor.Producer(device_type=managed_tensor.CUDA, data=address, flags=flags)
        )
        for address, flags in zip(addresses, (0, managed_tensor.READ_ONLY), strict=True)
    )
    launches = sim.calls("cuLaunchKernel")
    with sim.raises(ValueError, "read-only", "'x'"):
        add(read_only, 1.0)
    assert sim.calls("cuLaunchKernel") == launches
    add(writable, 1.0)
    for address, expected in zip(addresses, (1, 0), strict=True):
        assert sim.host_copy(address, np.zeros(8, "f")).tolist() == [expected] * 8
    del writable, read_only
    for address in addresses:
        sim.cu("cuMemFree_v2", address)


@on_simulator()
def test_the_text_of_a_device_array_and_of_a_wrong_pointer_touches_no_memory():
    # Alpine-DAV/ascent#1332
    sim.primary_context()
    address, host = sim.made("cuMemAlloc_v2", 32), malloc()
    x = tack.zeros(4, device="cuda")
    wrapped = tack.array_from_ptr(address, "float32", 8, device="cuda")
    x.device.synchronize()
    sim.driver().tack_sim_reset_counts()
    for array in (x, wrapped):
        for text in (repr(array), str(array), f"{array}", repr([array]), repr(array.device)):
            assert "cuda" in text
        assert "float32" in repr(array)
        print(array, file=io.StringIO())
    with sim.raises(ValueError, str(host), "not of cuda:0"):
        tack.array_from_ptr(host, "float32", 8, device="cuda")
    with sim.raises(ValueError, str(host), "not of cuda:0"):
        tack.from_dlpack(producer_of(host, managed_tensor.CUDA), copy=False)
    with sim.raises(ValueError, hex(address), "is memory of cuda, not of cpu"):
        tack.array_from_ptr(address, "float32", 8, device="cpu")
    with sim.raises(TypeError, ".numpy()"):
        np.asarray(x)
    called = {line.split()[0] for line in sim.text_of("tack_sim_calls").splitlines()}
    assert not [name for name in called if "Memcpy" in name or "Synchronize" in name]
    del wrapped, array
    sim.cu("cuMemFree_v2", address)


MEMORY = 64 << 20


@pytest.mark.parametrize("no_pools", [None, 1])
@on_simulator(memory=MEMORY)
def test_memory_that_runs_out_is_a_memory_error_with_the_sizes(no_pools):
    x = tack.zeros(MEMORY // 8, device="cuda")
    with sim.raises(MemoryError, f"{MEMORY} bytes on cuda:0", f" of {MEMORY} bytes free"):
        tack.empty(MEMORY // 4, device="cuda")
    add(x, 1.0)
    assert x[0] == 1


@pytest.mark.parametrize("no_pools", [None, 1])
@on_simulator(memory=MEMORY)
def test_freed_memory_of_queued_work_is_waited_for_where_it_is_needed(no_pools):
    kept = tack.zeros(4, device="cuda")
    for _ in range(5):
        x = tack.zeros(MEMORY // 8, device="cuda")  # half of all
        add(x, 1.0)
        del x
    x = tack.zeros(MEMORY // 8 + MEMORY // 16, device="cuda")
    assert x[0] == 0 and kept[0] == 0


@pytest.mark.parametrize("no_pools", [None, 1])
@on_simulator()
def test_freed_memory_is_kept_for_the_work_that_uses_it(no_pools):
    y = tack.zeros(1000, device="cuda")
    for n in range(20):
        x = tack.full(1000, n, device="cuda")
        gather(x, y)
        del x
        assert sim.is_queued(y.device.stream)
    assert y[999] == sum(range(20))


@tack.kernel
def gather(x, y):
    for i in range(len(x)):
        y[i] += x[i]


@pytest.mark.parametrize("no_pools", [None, 1])
@on_simulator()
def test_a_thousand_arrays_leave_no_object_behind(no_pools):
    tack.zeros(4, device="cuda").numpy()
    before = sim.live()
    for _ in range(1000):
        x = tack.zeros(100, device="cuda")
        add(x, 1.0)
        del x
    tack.device("cuda").synchronize()
    gc.collect()
    assert sim.live() == before
    assert sim.device_bytes() == 0 or not no_pools
