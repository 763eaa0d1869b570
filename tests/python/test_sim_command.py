"""`./dev sim cuda`: any command with the simulated driver in the real one's place."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

POOLS = """
import ctypes
cuda, supported = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGetAttribute(ctypes.byref(supported), 115, 0) == 0
print("pools:", supported.value)
"""

LEAK = """
import ctypes, sys
cuda, word = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(word), 0) == 0
assert cuda.cuCtxSetCurrent(word) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(word), ctypes.c_uint64(48)) == 0
sys.exit(3)
"""


def sim(*arguments):
    """On a machine without what the session's conftest has set up."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TACK_")}
    return subprocess.run(
        [ROOT / "dev", "sim", *arguments], capture_output=True, text=True, env=kept
    )


def test_tack_finds_as_many_devices_as_are_asked_for():
    done = sim("cuda", "--devices", "2", "--", "python", "-m", "tack")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^cuda +ready +Tack Simulated GPU 0, ", done.stdout, re.MULTILINE)
    assert re.findall(r"Simulated GPU (\d)", done.stdout) == ["0", "1"]


def test_a_driver_without_a_device_is_one_too():
    done = sim("cuda", "--devices", "0", "--", "python", "-m", "tack")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^cuda +not usable .*CUDA_ERROR_NO_DEVICE", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(("options", "supported"), [([], 1), (["--no-pools"], 0)])
def test_memory_pools_can_be_left_out(options, supported):
    done = sim("cuda", *options, "--", "python", "-c", POOLS)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"pools: {supported}" in done.stdout


def test_a_leak_is_told_and_makes_the_exit_status():
    done = sim("cuda", "--", "python", "-c", LEAK)
    assert done.returncode == 97
    assert re.search(r"leak: device memory .*48 bytes", done.stderr)


def test_a_report_goes_to_its_file_and_the_exit_status_is_the_commands(tmp_path):
    report = tmp_path / "report.txt"
    done = sim("cuda", "--report", report, "--", "python", "-c", LEAK)
    assert (done.returncode, done.stderr) == (3, "")
    assert re.search(r"leak: device memory .*48 bytes", report.read_text())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["hip", "--", "true"], "there is a simulated driver for: cuda (not 'hip')"),
        (["cuda", "--nonsense", "--", "true"], "unknown option '--nonsense'"),
        (["cuda", "--devices", "--", "true"], "--devices needs a value"),
        (["cuda", "--devices", "2"], "which command? ./dev sim cuda [OPTION...] -- COMMAND"),
        (["cuda", "--"], "which command? ./dev sim cuda [OPTION...] -- COMMAND"),
    ],
)
def test_a_call_that_means_nothing_is_refused_in_one_line(arguments, text):
    done = sim(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("dev sim: ") and text in line
