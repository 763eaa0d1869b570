"""Memory between cuda-core and Tack on the simulated driver, in a process of its own each."""

import pytest
from test_sim_clients import SIMULATOR, run_cuda_core

pytestmark = pytest.mark.partner("cuda")

TACK = """
import tack
from cuda.core.utils import StridedMemoryView

@tack.kernel
def twice_and_one(x):
    for i in range(x.size):
        x[i] = x[i] * 2 + 1

@tack.kernel
def copy(x, y):
    for i in range(x.size):
        y[i] = x[i]

stream = device.create_stream()

def ones():
    buffer = device.allocate(8, stream=stream)
    buffer.fill(1, stream=stream)
    # Neither cuda-core's DLPack nor its array interface orders a consumer's stream.
    stream.sync()
    return buffer

def close(buffer):
    buffer.close(stream)
    stream.sync()

def increment(view):
    code = "template <class T> __global__ void increment(T* x) { x[threadIdx.x] += 1; }"
    launch(stream, LaunchConfig(grid=1, block=view.shape[0]), compile(code, "increment<float>"),
           view.ptr)
    stream.sync()
"""


def run(tmp_path, program):
    modes = {
        "TACK_CUDA_DRIVER": str(SIMULATOR / "libcuda.so.1"),
        "TACK_NVRTC": str(SIMULATOR / "libnvrtc.so.13"),
        "TACK_CACHE_DIR": str(tmp_path / "cache"),
    }
    printed, report = run_cuda_core(tmp_path, TACK + program, **modes)
    # Tack's own, which live as long as the process.
    kept = ("tack-sim: leak: stream", "tack-sim: leak: memory pool")
    assert [line for line in report if not line.startswith(kept)] == []
    return printed


def test_a_tack_kernel_runs_on_memory_of_cuda_core(tmp_path):
    program = """
buffer = ones()
array = tack.from_dlpack(buffer)
twice_and_one(array)
print(array.device, array.ptr == int(buffer.handle))
tack.synchronize()
host, view = pinned(2, stream)
buffer.copy_to(host, stream=stream)
stream.sync()
print(*view.view(np.int8))
del array, view
close(host)
close(buffer)
"""
    assert run(tmp_path, program) == ["cuda", "True", *["3"] * 8]


def test_a_tack_kernel_takes_a_buffer_of_cuda_core_as_its_argument(tmp_path):
    program = """
buffer = ones()
twice_and_one(buffer)
print(*tack.from_dlpack(buffer).numpy())
close(buffer)
"""
    assert run(tmp_path, program) == ["3"] * 8


def test_tack_waits_for_a_stream_of_cuda_cores_by_an_event(tmp_path):
    program = """
buffer = device.allocate(8, stream=stream)
stream.sync()
array, out = tack.from_dlpack(buffer), tack.zeros(8, tack.int8, device="cuda")
buffer.fill(1, stream=stream)
out.device.wait_for_stream(int(stream.handle))
print(stream.record().is_done)
copy(array, out)
print(*out.numpy())
del array
close(buffer)
"""
    assert run(tmp_path, program) == ["False", *["1"] * 8]


def test_an_import_by_the_exchange_api_comes_after_the_legacy_streams_queued_work(tmp_path):
    program = """
legacy = device.default_stream
buffer = device.allocate(8, stream=legacy)
buffer.fill(1, stream=legacy)
view = StridedMemoryView.from_dlpack(buffer, stream_ptr=-1)
array = tack.from_dlpack(view)
print(tack.explain(view).protocol, legacy.record().is_done)
twice_and_one(array)
print(*array.numpy())
del array, view
buffer.close(legacy)
legacy.sync()
"""
    assert run(tmp_path, program) == ["DLPack", "C", "exchange", "API", "False", *["3"] * 8]


def test_an_imported_buffer_lives_as_long_as_the_array(tmp_path):
    program = """
array = tack.from_dlpack(ones())
twice_and_one(array)
print(*array.numpy())
del array
stream.sync()
"""
    assert run(tmp_path, program) == ["3"] * 8


@pytest.mark.parametrize("way", ["from_dlpack", "from_cuda_array_interface"])
def test_a_kernel_of_cuda_core_runs_on_a_tack_array(tmp_path, way):
    program = f"""
array = tack.full((8,), 3, dtype=tack.float32, device="cuda")
twice_and_one(array)
view = StridedMemoryView.{way}(array, stream_ptr=int(stream.handle))
print(view.is_device_accessible, view.device_id, view.dtype)
increment(view)
print(*array.numpy())
"""
    assert run(tmp_path, program) == ["True", "0", "float32", *["8.0"] * 8]
