"""Devices, the default device, and threads."""

import ctypes
import os
import subprocess
import sys

import pytest

import tack


def test_the_cpu_is_the_default_until_set():
    assert tack.default_device() == tack.device("cpu")
    assert tack.set_default_device("cpu") == tack.device("cpu")
    assert tack.set_default_device(tack.device("cpu")) == tack.default_device()


def test_a_plain_device_is_one_for_the_process():
    a, b = tack.device("cpu"), tack.device("cpu", 0)
    assert a == b == tack.device("cpu:0")
    assert hash(a) == hash(b)
    assert a != "cpu"


def test_a_device_describes_itself():
    cpu = tack.device("cpu")
    assert (cpu.name, cpu.index, cpu.memory_domain) == ("cpu", 0, "cpu")
    assert cpu.shares_external_context is False
    assert (str(cpu), repr(cpu)) == ("cpu", "tack.device('cpu')")
    assert cpu.synchronize() is None
    assert cpu in tack.devices()


def test_memory_space_names_the_backend_of_an_address():
    array = tack.zeros(3)
    cpu = tack.device("cpu")
    assert cpu.memory_space(array.ptr) == "cpu"
    assert cpu.memory_space(ctypes.c_void_p(array.ptr)) == "cpu"
    with pytest.raises(TypeError, match="memory_space: ptr must be"):
        cpu.memory_space(1.5)


def test_an_undeclared_option_is_named_with_the_declared_ones():
    with pytest.raises(ValueError, match=r"(?s)'?stream'?.*cpu.*none"):
        tack.device("cpu", stream=1)
    with pytest.raises(ValueError, match="stream"):
        tack.set_default_device("cpu", stream=1)
    with pytest.raises(
        ValueError, match="device: option 'streem' is unknown; cuda declares stream"
    ):
        tack.device("cuda", streem=1)


def test_each_backend_declares_its_options():
    assert tack.device_options("cpu") == frozenset()
    assert tack.device_options("cuda") == frozenset({"stream"})
    with pytest.raises(RuntimeError, match="device_options: there is no backend 'no_such_backend'"):
        tack.device_options("no_such_backend")


def test_declared_options_are_told_without_a_driver():
    code = "import tack; print(tack.device_options('cuda'), tack.device_options('cpu'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TACK_CUDA_DRIVER": "/nowhere/libcuda.so.1"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("frozenset({'stream'}) frozenset()\n", "")


def test_an_option_of_the_wrong_kind_is_refused():
    with pytest.raises(TypeError, match="option 'stream' takes an int, a str or a dict of ints"):
        tack.device("cpu", stream=1.5)
    with pytest.raises(TypeError, match=r"option 'context\[driver\]'"):
        tack.device("cpu", context={"driver": None})
    with pytest.raises(ValueError, match="no 64-bit handle"):
        tack.device("cpu", stream=-1)


@pytest.mark.parametrize("name", ["cpu:1", "cpu:-1", "cpu:x", "cuda:31", "no_such_backend", ""])
def test_a_device_that_is_not_there_is_a_runtime_error_with_its_reason(name):
    with pytest.raises((RuntimeError, ValueError), match=r"device: .{10,}"):
        tack.device(name)


@pytest.mark.parametrize("bad", [3, 1.5, ["cpu"], b"cpu"])
def test_a_device_argument_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="zeros: device must be a tack.Device, a name"):
        tack.zeros(1, device=bad)


def test_a_device_takes_no_options_a_second_time():
    with pytest.raises(TypeError, match="a Device takes no index or options"):
        tack.set_default_device(tack.device("cpu"), 1)


def test_devices_cannot_be_made_without_a_name():
    with pytest.raises(TypeError):
        tack.Device()


def test_set_num_threads_is_what_num_threads_says():
    before = tack.num_threads()
    try:
        tack.set_num_threads(3)
        assert tack.num_threads() == 3
    finally:
        tack.set_num_threads(before)


@pytest.mark.parametrize("bad", [0, -1])
def test_fewer_threads_than_one_are_a_value_error(bad):
    with pytest.raises(ValueError, match="set_num_threads"):
        tack.set_num_threads(bad)


def test_threads_come_from_the_environment_or_the_affinity_mask():
    program = "import tack; print(tack.num_threads())"

    def threads(**environment):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    assert threads(TACK_NUM_THREADS="5") == 5
    assert 1 <= threads(TACK_NUM_THREADS="") <= len(os.sched_getaffinity(0))
