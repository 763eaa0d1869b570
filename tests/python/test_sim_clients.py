"""The simulated CUDA driver and compiler under clients that know nothing of Tack.

cuda-core and cuda-bindings are the vendor's own Python interfaces to a driver. Each program runs in
a process of its own, which the simulator reports on.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.partner("cuda")

BUILD = Path(os.environ.get("TACK_BUILD") or Path(__file__).parents[2] / "build")
SIMULATOR = BUILD / "sim" / "cuda"

CUDA_CORE = """
import ctypes
import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions
from cuda.core import launch

device = Device()
device.set_current()

def compile(code, name):
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    program = Program(code, code_type="c++", options=options)
    return program.compile("cubin", name_expressions=(name,)).get_kernel(name)

def pinned(count, stream):
    buffer = LegacyPinnedMemoryResource().allocate(4 * count, stream=stream)
    return buffer, np.from_dlpack(buffer).view(np.float32)

FILL = "template <class T> __global__ void fill(T* x, T value) { x[threadIdx.x] = value; }"
SAXPY = '''
template <class T> __global__ void saxpy(T a, const T* x, T* y, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
'''
"""

CUDA_BINDINGS = """
import ctypes
import numpy as np
from cuda.bindings import driver, nvrtc

def check(answer):
    error, *values = answer
    assert int(error) == 0, error
    return values[0] if len(values) == 1 else values

check(driver.cuInit(0))
device = check(driver.cuDeviceGet(0))
context = check(driver.cuDevicePrimaryCtxRetain(device))
check(driver.cuCtxSetCurrent(context))

def compile(code, options=(b"-arch=sm_90",)):
    program = check(nvrtc.nvrtcCreateProgram(code, b"kernel.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(program, len(options), list(options)))
    cubin = b" " * check(nvrtc.nvrtcGetCUBINSize(program))
    check(nvrtc.nvrtcGetCUBIN(program, cubin))
    check(nvrtc.nvrtcDestroyProgram(program))
    return check(driver.cuModuleLoadData(cubin))
"""


def run(tmp_path, program, **modes):
    """What the program has printed, and the lines of the simulator's report."""
    report, script = tmp_path / "report", tmp_path / "program.py"
    script.write_text(program)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "TACK_SIM_KEEP"},
        **modes,
        "LD_LIBRARY_PATH": str(SIMULATOR),
        # NVIDIA's package finds the wheel's compiler unless one is loaded.
        "LD_PRELOAD": str(SIMULATOR / "libnvrtc.so.13"),
        "TACK_SIM_CACHE": str(BUILD / "cache" / "sim"),
        "TACK_SIM_REPORT": str(report),
    }
    result = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split(), report.read_text().splitlines()


def run_cuda_core(tmp_path, program, **modes):
    printed, report = run(tmp_path, CUDA_CORE + program, **modes)
    # cuda-core 1.2 never unloads the library that a kernel comes from.
    return printed, [line for line in report if "leak: library" not in line]


@pytest.mark.parametrize("modes", [{}, {"TACK_SIM_NO_POOLS": "1"}], ids=["pools", "no_pools"])
def test_cuda_core_allocates_fills_copies_and_launches(tmp_path, modes):
    program = """
stream = device.create_stream()
n = 1000
host, view = pinned(n, stream)
view[:] = np.arange(n)
x = device.allocate(4 * n, stream=stream)
y = device.allocate(4 * n, stream=stream)
x.copy_from(host, stream=stream)
y.fill(0, stream=stream)
saxpy = compile(SAXPY, "saxpy<float>")
config = LaunchConfig(grid=8, block=128)
launch(stream, config, saxpy, np.float32(2), x, y, np.uint64(n))
y.copy_to(host, stream=stream)
stream.sync()
print((view == 2 * np.arange(n, dtype=np.float32)).all(), device.properties.cooperative_launch)
print(type(device.memory_resource).__name__)
for buffer in (x, y, host):
    buffer.close(stream)
stream.sync()
stream.close()
"""
    printed, report = run_cuda_core(tmp_path, program, **modes)
    assert printed[0] == "True"
    assert ("Synchronous" in printed[-1]) == bool(modes)
    assert report == []


def test_cuda_cores_work_has_not_run_before_something_waits_for_it(tmp_path):
    program = """
stream = device.create_stream()
host, view = pinned(4, stream)
view[:] = 7
x = device.allocate(16, stream=stream)
launch(stream, LaunchConfig(grid=1, block=4), compile(FILL, "fill<float>"), x, np.float32(1))
x.copy_to(host, stream=stream)
event = stream.record()
print(view[3], event.is_done)
event.sync()
print(view[3], event.is_done)
x.close(stream)
stream.sync()
stream.close()
"""
    printed, report = run_cuda_core(tmp_path, program)
    assert printed == ["7.0", "False", "1.0", "True"]
    assert report == []


def test_cuda_cores_streams_are_ordered_by_events(tmp_path):
    program = """
first, second = device.create_stream(), device.create_stream()
host, view = pinned(4, first)
x = device.allocate(16, stream=first)
fill = compile(FILL, "fill<float>")
launch(first, LaunchConfig(grid=1, block=4), fill, x, np.float32(3))
second.wait(first.record())
x.copy_to(host, stream=second)
second.sync()
print(view[0], view[3])
x.close(second)
second.sync()
first.close()
second.close()
"""
    printed, report = run_cuda_core(tmp_path, program)
    assert printed == ["3.0", "3.0"]
    assert report == []


def test_cuda_core_reports_a_compilers_error_with_the_users_line(tmp_path):
    program = """
try:
    compile("\\n__global__ void k(float* x) { *x = missing; }", "k")
except Exception as error:
    print(error)
"""
    printed, report = run_cuda_core(tmp_path, program)
    assert "default_program(2):" in printed
    assert "'missing'" in printed
    assert report == []


def test_cuda_core_uses_the_second_device(tmp_path):
    program = """
device = Device(1)
device.set_current()
stream = device.create_stream()
host, view = pinned(4, stream)
x = device.allocate(16, stream=stream)
launch(stream, LaunchConfig(grid=1, block=4), compile(FILL, "fill<float>"), x, np.float32(5))
x.copy_to(host, stream=stream)
stream.sync()
print(len(Device.get_all_devices()), x.device_id, view[0])
x.close(stream)
stream.sync()
stream.close()
"""
    printed, report = run_cuda_core(tmp_path, program, TACK_SIM_DEVICES="2")
    assert printed == ["2", "1", "5.0"]
    assert report == []


def test_cuda_bindings_load_a_module_and_launch(tmp_path):
    program = """
module = compile(b'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }')
twice = check(driver.cuModuleGetFunction(module, b"twice"))
host = np.arange(8, dtype=np.float32)
memory = check(driver.cuMemAlloc(host.nbytes))
check(driver.cuMemcpyHtoD(memory, host.ctypes.data, host.nbytes))
check(driver.cuLaunchKernel(
    twice, 1, 1, 1, 8, 1, 1, 0, 0, ((int(memory),), (ctypes.c_void_p,)), 0))
check(driver.cuMemcpyDtoH(host.ctypes.data, memory, host.nbytes))
print(*host)
check(driver.cuMemFree(memory))
check(driver.cuModuleUnload(module))
"""
    printed, report = run(tmp_path, CUDA_BINDINGS + program)
    assert printed == [f"{2 * i}.0" for i in range(8)]
    assert report == []


def test_cuda_bindings_read_a_variable_of_the_device(tmp_path):
    program = """
module = compile(b'__constant__ int table[2] = {3, 4};')
address, size = check(driver.cuModuleGetGlobal(module, b"table"))
host = np.zeros(2, np.int32)
check(driver.cuMemcpyDtoH(host.ctypes.data, address, size))
print(size, *host)
check(driver.cuModuleUnload(module))
"""
    printed, report = run(tmp_path, CUDA_BINDINGS + program)
    assert printed == ["8", "3", "4"]
    assert report == []


def test_what_cuda_bindings_do_not_free_is_reported(tmp_path):
    program = """
check(driver.cuMemAlloc(100))
check(driver.cuStreamCreate(0))
compile(b"__global__ void k() {}")
"""
    _, report = run(tmp_path, CUDA_BINDINGS + program)
    assert len(report) == 3
    assert all(line.startswith("tack-sim: leak: ") for line in report)


def test_a_failed_assert_reaches_cuda_bindings_as_an_error_of_the_launch(tmp_path):
    program = """
module = compile(b'extern "C" __global__ void k() { assert(threadIdx.x != 3); }')
k = check(driver.cuModuleGetFunction(module, b"k"))
check(driver.cuLaunchKernel(k, 1, 1, 1, 8, 1, 1, 0, 0, 0, 0))
(error,) = driver.cuCtxSynchronize()
print(error.name)
"""
    printed, report = run(tmp_path, CUDA_BINDINGS + program)
    assert printed == ["CUDA_ERROR_LAUNCH_FAILED"]
    assert "thread (3, 0, 0)" in report[0]


def test_an_image_for_a_newer_device_is_refused(tmp_path):
    program = """
try:
    compile(b"__global__ void k() {}")
except AssertionError as error:
    print(error)
"""
    printed, report = run(tmp_path, CUDA_BINDINGS + program, TACK_SIM_ARCH="80")
    assert "NO_BINARY_FOR_GPU" in printed[0]
    assert report == []
