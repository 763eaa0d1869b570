"""Tests in processes of their own on the simulated CUDA driver, which reports on each of them.

The upper half is for pytest's process, the lower half for what runs in the other.
"""

import ast
import contextlib
import ctypes
import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("TACK_BUILD") or Path(__file__).parents[2] / "build")
SIMULATOR = BUILD / "sim" / "cuda"
DRIVER = SIMULATOR / "libcuda.so.1"
NVRTC = SIMULATOR / "libnvrtc.so.13"

# What a device of Tack's has for the life of the process, and kernels that modules hold.
KEPT = "stream,memory pool,module"

MODES = {"concurrent_managed", "devices", "no_pools", "no_vmm"}

SECONDS = 120

REAL = bool(os.environ.get("TACK_TEST_REAL_GPU"))


def environment(report=None, **modes):
    """The variables for a process on the simulator, or on a real driver as it is.

    modes: devices=2 is TACK_SIM_DEVICES=2; one in capitals is a variable itself, and one that is
    None is taken away. A real driver has none."""
    variables = {
        "TACK_CUDA_DRIVER": DRIVER,
        "TACK_NVRTC": NVRTC,
        "TACK_SIM_CACHE": BUILD / "cache" / "sim",
        "TACK_SIM_KEEP": KEPT,
        "PYTHONPATH": f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}",
    }
    if REAL:
        variables = {"PYTHONPATH": variables["PYTHONPATH"]}
    elif report:
        variables["TACK_SIM_REPORT"] = report
    for name, value in modes.items():
        variables[name if name.isupper() else f"TACK_SIM_{name.upper()}"] = value
    merged = {**os.environ, **variables}
    return {name: str(value) for name, value in merged.items() if value is not None}


def run(command, **modes):
    """The finished process of `python COMMAND...` and the lines of the simulator's report."""
    with tempfile.TemporaryDirectory(prefix="tack-cuda-") as folder:
        report = Path(folder) / "report"
        done = subprocess.run(
            [sys.executable, *command],
            env=environment(report, **modes),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return done, report.read_text() if report.exists() else ""


def on_simulator(reports=(), **modes):
    """The test runs in a process of its own, which must end well, print nothing to stderr, and be
    reported for no more than `reports`, one pattern a line. modes: see environment(); a parameter
    of the test with the name of a MODE is one too."""

    def decorate(body):
        @functools.wraps(body)
        def test(**arguments):
            code = "import sys, cuda_support; cuda_support.run_body(*sys.argv[1:])"
            command = ["-c", code, body.__module__, body.__name__, repr(arguments)]
            chosen = {name: arguments[name] for name in MODES & arguments.keys()}
            done, report = run(command, **modes, **chosen)
            expect_clean(done, report, reports)

        test.body = body
        return test

    return decorate


def on_driver(body):
    """As on_simulator(), for a test that holds on a real driver too: ./dev check-gpu has one."""
    return pytest.mark.driver(on_simulator()(body))


def expect_clean(done, report, reports=()):
    assert (done.returncode, done.stderr) == (0, ""), f"{done.returncode}: {done.stderr}"
    for pattern in reports:
        assert re.search(pattern, report), f"{pattern!r} is not in: {report}"
    rest = [x for x in report.splitlines() if not any(re.search(p, x) for p in reports)]
    assert not rest, "\n".join(rest)


def run_body(module, name, arguments):
    getattr(__import__(module), name).body(**ast.literal_eval(arguments))


# What follows runs in the process on the simulator.

NOT_READY = 600
NON_BLOCKING = 1  # of streams


@functools.cache
def driver():
    """The driver's library, with the simulator's own functions."""
    return ctypes.CDLL(os.environ.get("TACK_CUDA_DRIVER") or "libcuda.so.1")


def cu(name, *arguments):
    """Calls an entry point, which must succeed. Python's ints go as 64 bits, as addresses do."""
    typed = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
    result = getattr(driver(), name)(*typed)
    assert result == 0, f"{name} gave {result}"


def made(name, *arguments):
    """What an entry point writes through its first parameter, as an int."""
    out = ctypes.c_uint64()
    cu(name, ctypes.byref(out), *arguments)
    return out.value


def calls(name):
    """How often an entry point has been called; None on a real driver, which does not say."""
    if REAL:
        return None
    driver().tack_sim_call_count.restype = ctypes.c_uint64
    return driver().tack_sim_call_count(name.encode())


def expect_calls(name, count):
    assert REAL or calls(name) == count


def fail(what):
    """From now on these calls fail: "name:n" is the n-th of an entry point."""
    driver().tack_sim_reset_counts()
    assert driver().tack_sim_fail(what.encode()) == 0


def device_bytes():
    driver().tack_sim_device_bytes.restype = ctypes.c_uint64
    return driver().tack_sim_device_bytes()


def text_of(name):
    function = getattr(driver(), name)
    function.restype = ctypes.c_size_t
    buffer = ctypes.create_string_buffer(1 << 20)
    function(buffer, len(buffer))
    return buffer.value.decode()


def live():
    return text_of("tack_sim_live_objects").splitlines()


def violations():
    return text_of("tack_sim_violations").splitlines()


def forget_violations():
    driver().tack_sim_forget_violations()


def is_queued(stream):
    """Whether work of the stream has not run yet. Asking runs none."""
    result = driver().cuStreamQuery(ctypes.c_void_p(stream))
    assert result in (0, NOT_READY), result
    return result == NOT_READY


def expect_queued(stream):
    """Nothing has waited for the stream's work; on a real driver it may have run by itself."""
    assert REAL or is_queued(stream)


def current_context():
    return made("cuCtxGetCurrent")


def primary_context(device=0):
    """The device's primary context, retained and current on this thread."""
    cu("cuInit", 0)
    context = made("cuDevicePrimaryCtxRetain", device)
    cu("cuCtxSetCurrent", context)
    return context


def foreign(values, stream=None):
    """The address of device memory that holds a NumPy array's values, not by Tack; the copy is
    queued on `stream`, or has run where there is none."""
    address = made("cuMemAlloc_v2", values.nbytes)
    host = ctypes.c_void_p(values.ctypes.data)
    if stream is None:
        cu("cuMemcpyHtoD_v2", address, host, values.nbytes)
        cu("cuStreamSynchronize", 0)  # such a copy returns when the values are staged
    else:
        cu("cuMemcpyHtoDAsync_v2", address, host, values.nbytes, stream)
    return address


def host_copy(address, like):
    """Device memory as NumPy has it, read on a stream that waits for no other: what is queued
    elsewhere has not run by it."""
    import numpy as np

    out = np.empty_like(like)
    stream = made("cuStreamCreate", ctypes.c_uint(NON_BLOCKING))
    cu("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(out.ctypes.data), address, out.nbytes, stream)
    cu("cuStreamSynchronize", stream)
    cu("cuStreamDestroy_v2", stream)
    return out


@contextlib.contextmanager
def raises(kind, *words):
    """The block raises an exception of this very kind, whose text has all of the words."""
    try:
        yield
    except Exception as error:
        assert type(error) is kind, repr(error)
        missing = [w for w in words if w not in str(error)]
        assert not missing, f"{missing} not in: {error}"
    else:
        raise AssertionError(f"no {kind.__name__}")
