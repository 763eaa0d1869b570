"""Contexts of others: adopted, foreign, destroyed; and what a faulty kernel does to one."""

import ctypes
import gc
import threading

import cuda_support as sim
import managed_tensor
import numpy as np
import pytest
from cuda_support import on_driver, on_simulator

import tack


@tack.kernel
def add(x, value):
    for i in range(len(x)):
        x[i] += value


@tack.kernel
def store_far_away(x, distance):
    for i in range(1):
        x[distance + i] = 1


def new_context(device=0):
    """A context beside the primary one, current on this thread."""
    sim.cu("cuInit", 0)
    return sim.made("cuCtxCreate_v2", ctypes.c_uint(0), device)


def work(x):
    add(x, 1.0)
    return x.numpy().tolist()


@on_driver
def test_a_thread_without_a_context_has_none_after_any_call():
    x = tack.zeros(4, device="cuda")
    assert work(x) == [1] * 4
    assert sim.current_context() == 0
    assert not x.device.shares_external_context


@on_driver
def test_the_current_context_is_adopted_and_not_destroyed():
    context = new_context()
    x = tack.zeros(4, device="cuda")
    assert x.device.shares_external_context
    owner = ctypes.c_uint64()
    sim.cu("cuStreamGetCtx", x.device.stream, ctypes.byref(owner))
    assert owner.value == context
    assert work(x) == [1] * 4
    assert sim.current_context() == context
    sim.expect_calls("cuDevicePrimaryCtxRetain", 0)
    del x
    tack.synchronize()
    sim.expect_calls("cuCtxDestroy", 0)
    sim.cu("cuCtxDestroy_v2", context)


@on_simulator(devices=2)
def test_a_context_of_another_device_is_not_adopted():
    sim.primary_context(0)
    x = tack.zeros(4, device="cuda:1")
    assert not x.device.shares_external_context
    assert work(x) == [1] * 4


def every_call(x):
    """Calls of all kinds, some of which fail."""
    yield lambda: tack.device("cuda").synchronize()
    yield lambda: x.device.memory_space(x.ptr)
    yield lambda: tack.zeros(4, device="cuda").copy().to_device("cpu")
    yield lambda: add(x, 1.0)
    yield lambda: x.__dlpack__()
    yield lambda: x.__cuda_array_interface__
    yield lambda: x.export_memory()
    yield lambda: tack.array_from_ptr(x.ptr, "float32", 4, device="cuda")
    yield lambda: x.device.wait_for_stream(0)
    yield lambda: x.item(0)
    yield lambda: tack.array_from_ptr(8, "float32", 4, device="cuda")
    yield lambda: tack.device("cuda", stream=x.device.stream)
    yield lambda: tack.empty(1 << 50, device="cuda")
    yield lambda: tack.from_dlpack(managed_tensor.Producer(device_type=managed_tensor.CUDA))
    yield lambda: gc.collect()


@on_simulator()
def test_another_current_context_is_current_again_after_any_call_and_any_failure():
    # flatironinstitute/cufinufft#99
    x = tack.zeros(4, device="cuda")
    mine = new_context()
    failed = 0
    for call in every_call(x):
        try:
            call()
        except (ValueError, RuntimeError, MemoryError):
            failed += 1
        assert sim.current_context() == mine
    assert failed >= 3
    x.device.synchronize()
    sim.fail("cuMemcpyDtoHAsync_v2:1,cuStreamSynchronize:1")
    with sim.raises(RuntimeError, "CUDA_ERROR_UNKNOWN"):
        x.numpy()
    assert sim.current_context() == mine
    sim.fail("")
    x = None
    assert sim.current_context() == mine
    sim.cu("cuCtxDestroy_v2", mine)


@on_driver
def test_a_thread_that_never_saw_the_context_can_do_all():
    context = new_context()
    x = tack.zeros(4, device="cuda")
    seen = []

    def elsewhere():
        seen.append(work(x))
        seen.append(sim.current_context())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [[1] * 4, 0]
    x = None
    sim.cu("cuCtxDestroy_v2", context)


# Memory of a pool is of no context, and cannot be given back without one.
@on_simulator(reports=["leak: pool memory"])
def test_a_context_destroyed_under_us_is_an_error_at_the_next_use_and_arrays_may_be_dropped():
    context = new_context()
    x, y = tack.zeros(4, device="cuda"), tack.empty(4, device="cuda", exportable=True)
    add(x, 1.0)
    x.device.synchronize()
    sim.cu("cuCtxDestroy_v2", context)
    uses = [x.numpy, lambda: add(x, 1.0), x.device.synchronize, x.copy, x.export_memory, y.numpy]
    for use in uses:
        with sim.raises(RuntimeError, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "keep it alive"):
            use()
    with sim.raises(RuntimeError, "CUDA_ERROR_CONTEXT_IS_DESTROYED"):
        tack.zeros(4, device="cuda")
    assert "4" in repr(x)
    x = y = use = uses = None
    gc.collect()


@on_simulator(reports=["leak: pool memory"])
def test_a_primary_context_that_was_reset_is_an_error_and_arrays_may_be_dropped():
    x = tack.zeros(4, device="cuda")
    add(x, 1.0)
    x.device.synchronize()
    sim.cu("cuDevicePrimaryCtxReset_v2", 0)
    with sim.raises(RuntimeError, "CUDA_ERROR_"):
        x.numpy()
    del x


@on_simulator(reports=["kernel .*store_far_away: illegal access"])
def test_a_kernel_fault_names_the_kernel_and_says_that_the_context_is_lost():
    x = tack.zeros(4, device="cuda")
    store_far_away(x, 1 << 29)
    words = ("CUDA_ERROR_ILLEGAL_ADDRESS", "context is lost", "check_bounds=True")
    with sim.raises(RuntimeError, *words, "store_far_away"):
        x.numpy()
    for use in (lambda: add(x, 1.0), x.device.synchronize, x.copy, x.export_memory):
        with sim.raises(RuntimeError, *words):
            use()
    with sim.raises(RuntimeError, *words):
        tack.zeros(4, device="cuda")


@pytest.mark.parametrize("no_pools", [None, 1])
@on_simulator()
def test_contexts_that_come_and_go_do_not_share_their_kernels(no_pools):
    for n in range(3):
        context = new_context()
        stream = sim.made("cuStreamCreate", ctypes.c_uint(0))
        device = tack.device("cuda", stream=stream)
        x = tack.array(np.full(4, n, np.float32)).to_device(device)
        assert work(x) == [n + 1] * 4
        del x, device
        gc.collect()
        sim.cu("cuStreamDestroy_v2", stream)
        sim.cu("cuCtxDestroy_v2", context)


@on_simulator()
def test_devices_on_the_callers_streams_share_the_kernels_of_their_context():
    sim.primary_context()
    streams = [sim.made("cuStreamCreate", ctypes.c_uint(0)) for _ in range(5)]
    for stream in streams:
        x = tack.zeros(4, device=tack.device("cuda", stream=stream))
        assert work(x) == [1] * 4
        del x
        sim.cu("cuStreamDestroy_v2", stream)
    assert sim.calls("cuModuleLoadDataEx") == 1
