"""Exchange with PyTorch, CuPy and JAX on a real GPU, the producer's work still queued.

`./dev check-gpu` runs them. What needs no partner runs on a simulated driver too.
"""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

import tack

SIZE = 1 << 20
# Clock cycles: some 0.2 s of work that delays what is queued behind it.
DELAY = 400_000_000


@tack.kernel
def double(x, out):
    for i in range(out.size):
        out[i] = 2 * x[i]


@tack.kernel
def increment(x):
    for i in range(x.size):
        x[i] += 1


@tack.kernel
def triad(a, b, c, s):
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


@pytest.fixture
def cuda():
    """The first GPU, real or simulated; new arrays lie on it while the test runs."""
    before = tack.default_device()
    yield tack.set_default_device("cuda")
    tack.set_default_device(before)


@pytest.fixture
def gpu(cuda):
    if not os.environ.get("TACK_TEST_REAL_GPU"):
        pytest.skip("needs a GPU that partners can use: ./dev check-gpu runs it")
    return cuda


@pytest.fixture
def torch(gpu):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a PyTorch that uses the GPU")
    return torch


@pytest.fixture
def cupy(gpu):
    return pytest.importorskip("cupy")


@pytest.fixture
def jax(gpu):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("needs a JAX that uses the GPU")
    return jax


def all_are(array, value):
    return bool((array.numpy() == value).all())


# PyTorch


@pytest.fixture(params=["legacy stream", "own stream"])
def torch_stream(torch, request):
    """PyTorch's current stream: the default one, or one of its own."""
    if request.param == "legacy stream":
        yield torch.cuda.current_stream()
    else:
        with torch.cuda.stream(torch.cuda.Stream()):
            yield torch.cuda.current_stream()


def queued(torch, value):
    """A tensor whose elements are `value` once work that takes a while has run."""
    x = torch.zeros(SIZE, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(DELAY)
    return x.fill_(value)


def test_an_import_from_pytorch_orders_itself_behind_queued_work(torch, torch_stream):
    x = queued(torch, 3)
    imported = tack.from_dlpack(x)
    out = tack.zeros(SIZE)
    double(imported, out)
    assert imported.ptr == x.data_ptr()
    assert all_are(out, 6)


def test_an_import_from_pytorch_does_not_wait(torch, torch_stream):
    x = queued(torch, 3)
    imported = tack.from_dlpack(x)
    assert not torch_stream.query()
    assert imported.ptr == x.data_ptr()


def test_an_import_through_a_capsule_orders_itself_behind_queued_work(torch, torch_stream):
    class Producer:
        """Without the exchange API, which a tensor's own type has."""

        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **named):
            return self.tensor.__dlpack__(**named)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    out = tack.zeros(SIZE)
    double(tack.from_dlpack(Producer(queued(torch, 3))), out)
    assert all_are(out, 6)


def test_a_kernel_takes_pytorchs_tensors_behind_queued_work(torch, torch_stream):
    x = queued(torch, 3)
    out = torch.zeros_like(x)
    double(x, out)
    assert bool((out == 6).all())


def test_pytorch_sees_queued_launches_in_an_export(torch, torch_stream):
    x, out = tack.full(SIZE, 3), tack.zeros(SIZE)
    for _ in range(50):
        double(x, out)
    increment(out)
    tensor = torch.from_dlpack(out)
    assert tensor.data_ptr() == out.ptr
    assert tensor.device.type == "cuda"
    assert bool((tensor == 7).all())


def test_a_launch_on_exported_memory_has_run_when_it_returns(torch, torch_stream):
    x = tack.zeros(SIZE)
    tensor = torch.from_dlpack(x)
    for expected in range(1, 20):
        increment(x)
        assert bool((tensor == expected).all())


def test_pytorch_queues_on_tacks_stream(torch, cuda):
    x, out = tack.full(SIZE, 3), tack.zeros(SIZE)
    tensor = torch.from_dlpack(x)
    with torch.cuda.stream(torch.cuda.ExternalStream(cuda.stream)):
        torch.cuda._sleep(DELAY)
        tensor.fill_(5)
    double(x, out)
    assert all_are(out, 10)


def test_tack_queues_on_pytorchs_stream(torch, torch_stream):
    device = tack.device("cuda", stream=torch.cuda.current_stream().cuda_stream)
    x = tack.full(SIZE, 3, device=device)
    out = tack.zeros(SIZE, device=device)
    torch.cuda._sleep(DELAY)
    double(x, out)
    assert not torch_stream.query()  # the launch is queued, behind PyTorch's work
    assert bool((torch.from_dlpack(out) == 6).all())


def test_arrays_of_two_streams_meet_in_a_launch(torch, torch_stream):
    device = tack.device("cuda", stream=torch.cuda.Stream().cuda_stream)
    there, here = tack.full(SIZE, 3, device=device), tack.zeros(SIZE)
    for _ in range(50):
        increment(there)
    double(there, here)
    assert all_are(here, 106)


# CuPy


@pytest.fixture(params=["legacy stream", "blocking stream", "non-blocking stream"])
def cupy_stream(cupy, request):
    if request.param == "legacy stream":
        yield cupy.cuda.get_current_stream()
    else:
        with cupy.cuda.Stream(non_blocking=request.param.startswith("non")) as stream:
            yield stream


def filled_by_cupy(cupy):
    """An array of 3 once a long chain of queued work has run."""
    x = cupy.zeros(SIZE, cupy.float32)
    for _ in range(500):
        x += 1
    x *= 0
    x += 3
    return x


def only_array_interface(array):
    class Producer:
        __cuda_array_interface__ = array.__cuda_array_interface__
        kept = array

    return Producer()


@pytest.mark.parametrize("protocol", ["DLPack", "CUDA array interface"])
def test_an_import_from_cupy_orders_itself_behind_queued_work(cupy, cupy_stream, protocol):
    x = filled_by_cupy(cupy)
    imported = tack.asarray(x if protocol == "DLPack" else only_array_interface(x), copy=False)
    out = tack.zeros(SIZE)
    double(imported, out)
    assert imported.ptr == x.data.ptr
    assert all_are(out, 6)


def test_a_kernel_takes_cupys_arrays_behind_queued_work(cupy, cupy_stream):
    x = filled_by_cupy(cupy)
    out = cupy.zeros_like(x)
    double(x, out)
    assert bool((out == 6).all())


@pytest.mark.parametrize("protocol", ["DLPack", "CUDA array interface"])
def test_cupy_sees_queued_launches_in_an_export(cupy, cupy_stream, protocol):
    x, out = tack.full(SIZE, 3), tack.zeros(SIZE)
    for _ in range(50):
        double(x, out)
    increment(out)
    view = cupy.from_dlpack(out) if protocol == "DLPack" else cupy.asarray(out)
    assert view.data.ptr == out.ptr
    assert bool((view == 7).all())


# JAX


def test_an_import_from_jax_orders_itself_behind_queued_work(jax):
    x = jax.numpy.full(SIZE, 3.0, jax.numpy.float32)
    for _ in range(50):
        x = x + 1
    out = tack.zeros(SIZE)
    double(tack.from_dlpack(x), out)
    assert all_are(out, 106)


def test_jax_sees_queued_launches_in_an_export(jax):
    x, out = tack.full(SIZE, 3), tack.zeros(SIZE)
    for _ in range(50):
        double(x, out)
    assert bool((jax.dlpack.from_dlpack(out) == 6).all())


# Another process

CONSUMER = """
import socket, sys
import tack

channel = socket.socket(fileno=int(sys.argv[1]))
size, (descriptor,), _, _ = socket.recv_fds(channel, 32, 1)
x = tack.import_memory(descriptor, "float32", 1000, allocation_size=int(size), device="cuda")
assert x.tolist() == [3.0] * 1000, x
x.fill(5.0)
tack.synchronize()
"""


def test_another_process_maps_exported_memory(cuda):
    x = tack.empty(1000, exportable=True)
    x.fill(2)
    increment(x)
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", CONSUMER, str(theirs.fileno())]
    started = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    with ours, theirs, started as consumer:
        record = x.export_memory()
        socket.send_fds(ours, [str(record.allocation_size).encode()], [record.handle])
        assert consumer.wait(60) == 0
    assert all_are(x, 5)


# Results


def test_triad_gives_numpys_bits(cuda):
    generator = np.random.default_rng(7)
    b, c = generator.standard_normal((2, 10_000_000), np.float32)
    a = tack.empty(b.size)
    triad(a, tack.array(b), tack.array(c), 3.0)
    assert np.array_equal(a.numpy(), b + np.float32(3) * c)
