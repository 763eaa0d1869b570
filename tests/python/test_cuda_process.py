"""What a process with a CUDA device may do: fork, be forked, and end with anything alive."""

import gc
import multiprocessing
import os
import signal
import threading

import cuda_support as sim
import managed_tensor
import numpy as np
import pytest
from cuda_support import on_driver, on_simulator

import tack
from tack.interop.dlpack import live_exports

kept = []


@tack.kernel
def add(x, value):
    for i in range(len(x)):
        x[i] += value


@tack.kernel
def add_to_both(x, y, value):
    for i in range(len(x)):
        x[i] += value
        y[i] += value


def in_child(body):
    """The exit status of a forked child that runs body()."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body()
            status = 0
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    assert not os.WIFSIGNALED(status), signal.Signals(os.WTERMSIG(status))
    return os.WEXITSTATUS(status)


def work():
    x = tack.zeros(4, device="cuda")
    add(x, 1.0)
    assert x.numpy().tolist() == [1] * 4


@on_driver
def test_children_forked_before_the_first_use_have_devices_of_their_own():
    # pytorch/pytorch#117043
    assert in_child(work) == 0
    assert in_child(work) == 0
    work()


def refused():
    with sim.raises(RuntimeError, "CUDA_ERROR_NOT_INITIALIZED", "forked child", "spawn"):
        work()


@on_driver
def test_a_child_forked_after_it_gets_a_clear_error_and_the_parent_works_on():
    work()
    kept.append(tack.zeros(4, device="cuda"))
    assert in_child(refused) == 0
    work()
    kept.clear()


@on_driver
def test_a_child_that_only_drops_its_parents_arrays_ends_well():
    work()
    kept.append(tack.zeros(4, device="cuda"))
    add(kept[0], 1.0)
    child = multiprocessing.get_context("fork").Process(target=kept.clear)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert kept[0].numpy().tolist() == [1] * 4
    kept.clear()


# The end


@pytest.mark.parametrize("no_pools", [None, 1])
@on_driver
def test_the_interpreter_ends_with_work_queued(no_pools):
    kept.append(tack.zeros(4, device="cuda"))
    kept.append(tack.ones(4, device="cuda"))
    add(kept[0], 1.0)
    add_to_both(kept[0], kept[1], 2.0)
    sim.expect_queued(kept[0].device.stream)
    # What is freed behind queued work is given back at the next allocation, which never comes.
    if no_pools:
        tack.synchronize()


@on_driver
def test_the_interpreter_ends_with_an_export_that_nobody_took():
    x = tack.zeros(4, device="cuda")
    kept.append(x.__dlpack__())
    # In a cycle that only the interpreter's end breaks.
    kept.append(kept)
    assert live_exports() == 1


# Its deleter needs Python, which is gone.
@on_simulator(reports=["leak: device memory at .* of 32 bytes"])
def test_the_interpreter_ends_with_an_import_alive():
    sim.primary_context()
    producer = managed_tensor.Producer(
        device_type=managed_tensor.CUDA, data=sim.foreign(np.zeros(8, np.float32))
    )
    producer.on_delete = lambda: sim.cu("cuMemFree_v2", producer.managed.tensor.data)
    kept.append(tack.from_dlpack(producer))
    kept.append(producer)


@on_driver
def test_the_interpreter_ends_with_exported_and_imported_memory_alive():
    x = tack.zeros(4, device="cuda")
    kept.extend([x, x.export_memory(), tack.empty(4, device="cuda", exportable=True)])
    kept.append(tack.import_memory(kept[1], "float32", 4))


def end_of_a_process(folder, failure=""):
    """The calls from the end of a program on, by entry point, and "failed", the number of those
    that were made to fail."""
    code = f"import test_cuda_process; test_cuda_process.end_with_a_failing_call({failure!r})"
    path = folder / "calls"
    path.unlink(missing_ok=True)
    done, report = sim.run(["-c", code], TACK_SIM_CALLS=path)
    assert (done.returncode, done.stderr) == (0, ""), failure
    assert "violation" not in report, failure
    rows = (line.split() for line in path.read_text().splitlines())
    return {name: int(count) for name, count in rows}


def end_with_a_failing_call(failure):
    x = tack.zeros(4, device="cuda")
    add(x, 1.0)
    kept.extend([x, x.copy(), x.export_memory(), tack.empty(4, device="cuda", exportable=True)])
    kept.append(tack.import_memory(kept[2], "float32", 4))
    kept.append(x.__dlpack__())
    add_to_both(x, kept[1], 2.0)
    sim.fail(failure)


def test_a_call_that_fails_at_the_end_does_no_harm(tmp_path):
    calls = end_of_a_process(tmp_path)
    assert calls.pop("failed") == 0
    assert {"cuMemFreeAsync", "cuMemUnmap", "cuModuleUnload", "cuCtxSynchronize"} <= calls.keys()
    for entry, count in calls.items():
        for call in {1, min(2, count), count}:
            assert end_of_a_process(tmp_path, f"{entry}:{call}")["failed"] == 1, (entry, call)


@on_simulator()
def test_a_thread_may_drop_the_last_array():
    arrays = [tack.zeros(4, device="cuda") for _ in range(8)]
    for x in arrays:
        add(x, 1.0)
    del x
    threads = [threading.Thread(target=arrays.pop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    tack.synchronize()
    assert [line for line in sim.live() if "memory at" in line] == []
