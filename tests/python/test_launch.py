"""Launches: arguments, threads, processes, interruptions, and what outlives them."""

import gc
import linecache
import os
import subprocess
import sys
import textwrap
import threading
import traceback
import weakref

import numpy as np
import pytest
from launcher import Launcher
from managed_tensor import Producer

import tack
from tack.interop import dlpack

on_every_backend = pytest.mark.usefixtures("backend")


@tack.kernel
def scale(a, x, y):
    for i in range(len(x)):
        y[i] = a * x[i]


@tack.kernel
def count(x):
    for i in range(len(x)):
        x[i] += 1


def run(program, folder, **environment):
    """Runs a program as a file of its own, whose kernels have a text."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, str(file)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# arguments


@on_every_backend
def test_arguments_may_be_given_by_name():
    x, y, z = tack.ones(3), tack.zeros(3), tack.zeros(3)
    scale(2.0, x, y=y)
    scale(y=z, x=y, a=3.0)
    assert y.tolist() == [2, 2, 2] and z.tolist() == [6, 6, 6]


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((1.0,), {}, r"scale\(\) takes 3 arguments but 1 was given"),
        ((1.0, 2, 3, 4), {}, r"scale\(\) takes 3 arguments but 4 were given"),
        ((1.0, 2, 3, 4), {"a": 1}, r"scale\(\) takes 3 positional arguments but 4 were given"),
        ((1.0, np.ones(1)), {"z": 1}, r"unexpected keyword argument 'z'"),
        ((1.0, np.ones(1)), {"a": 1}, r"multiple values for argument 'a'"),
        ((1.0,), {"y": 1}, r"missing a required argument: 'x'"),
        ((1.0, None, np.ones(1)), {}, r"parameter 'x'.*not a NoneType.*tack\.array"),
        (("text", np.ones(1), np.ones(1)), {}, r"parameter 'a'.*not a str"),
        ((1.0, [1.0], np.ones(1)), {}, r"parameter 'x'.*not a list"),
    ],
)
def test_a_wrong_count_or_kind_of_arguments_is_a_type_error_like_pythons(args, kwargs, words):
    with pytest.raises(TypeError, match=words):
        scale(*args, **kwargs)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones((4, 4)).T, "parameter 'x'.*not C-contiguous"),
        (np.ones(8)[::2], "parameter 'x'.*not C-contiguous"),
        (np.ones(2, ">f8"), "parameter 'x'"),
        (np.ones(2, complex), "parameter 'x'"),
    ],
)
def test_what_cannot_be_viewed_is_refused_naming_the_parameter_and_never_copied(array, words):
    """ml-explore/mlx#3872"""
    before = dlpack.live_exports()
    with pytest.raises((ValueError, TypeError, BufferError), match=words):
        scale(1.0, array, np.zeros(4))
    assert dlpack.live_exports() == before


def test_an_argument_that_fails_lets_go_of_those_before_it():
    released = []
    producer = Producer(on_delete=lambda: released.append(True))
    array = np.ones(3)
    references = sys.getrefcount(array)
    for _ in range(3):
        with pytest.raises(TypeError, match="parameter 'y'"):
            scale(producer, array, "no array")
    assert len(released) == 3
    assert sys.getrefcount(array) == references
    assert dlpack.live_exports() == 0


def test_a_producers_exception_goes_through_and_leaks_nothing():
    class Failing:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **keywords):
            raise KeyError("mine")

    failing, array = Failing(), np.ones(3)
    ghost, references = weakref.ref(failing), sys.getrefcount(array)
    with pytest.raises(KeyError, match="mine"):
        scale(1.0, array, failing)
    del failing
    gc.collect()
    assert ghost() is None and sys.getrefcount(array) == references


def test_a_launch_holds_no_reference_to_its_arguments_afterwards(backend):
    """NVIDIA/warp#1641"""
    x, y = np.ones(3) if backend == "cpu" else tack.ones(3), tack.zeros(3)
    references = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(10):
        scale(2.0, x, y)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == references


@on_every_backend
def test_read_only_memory_is_refused_before_anything_runs():
    x = np.ones(3)
    x.flags.writeable = False
    y = np.zeros(3)
    with pytest.raises(ValueError, match="parameter 'y' is a read-only array"):
        Launcher(scale)(2.0, y, x)
    Launcher(scale)(2.0, x, y)
    assert y.tolist() == [2, 2, 2] and x.tolist() == [1, 1, 1]


@on_every_backend
def test_a_launch_over_no_elements_after_a_warm_one_is_no_work():
    """triton-lang/triton-ascend#984"""
    x = np.zeros(8)
    Launcher(count)(x)
    Launcher(count)(x[:0])
    assert x.tolist() == [1] * 8


@on_every_backend
def test_a_bool_array_with_other_bytes_than_0_and_1_is_true_there():
    """numba/numba#2921"""

    @tack.kernel
    def copy(x, y, n):
        for i in range(len(x)):
            y[i] = x[i]
            n[i] = x[i]

    x, y, n = np.array([0, 1, 2, 255], np.uint8), np.zeros(4, bool), np.zeros(4, np.int32)
    Launcher(copy)(x.view(bool), y, n)
    assert y.view(np.uint8).tolist() == [0, 1, 1, 1] and n.tolist() == [0, 1, 1, 1]


@on_every_backend
def test_an_index_space_of_more_than_2_to_the_32_iterations_runs():
    """triton-lang/triton#7260"""

    @tack.kernel
    def corners(n, out):
        for i, j in tack.ndrange(n, n):
            if i == n - 1 and j == n - 1:
                out[0] = i + j

    out = tack.zeros(1, tack.int64)
    corners(1 << 16, out)
    assert out[0] == 2 * ((1 << 16) - 1)


# which program runs


def cell(text, name):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"tack": tack}
    exec(compile(text, name, "exec"), namespace)
    return namespace["k"]


@on_every_backend
def test_two_kernels_of_one_name_are_two():
    """ml-explore/mlx#3832"""
    text = "@tack.kernel\ndef k(x):\n    for i in range(len(x)):\n        x[i] {}= 3\n"
    add, multiply = cell(text.format("+"), "<one>"), cell(text.format("*"), "<two>")
    x = tack.ones(1)
    for kernel in (add, multiply, add):
        kernel(x)
    assert x[0] == 15


def test_a_constant_of_another_process_is_not_that_of_this_one(tmp_path):
    """NVIDIA/warp#135"""
    program = """
        import os, numpy, tack
        SCALE = int(os.environ["SCALE"])

        @tack.kernel
        def k(x):
            for i in range(len(x)):
                x[i] = SCALE

        x = numpy.zeros(1)
        k(x)
        print(x[0])
        """
    cache = str(tmp_path / "cache")
    outputs = [run(program, tmp_path, SCALE=s, TACK_CACHE_DIR=cache) for s in ("2", "3", "2")]
    assert outputs == ["2.0\n", "3.0\n", "2.0\n"]


def test_an_error_of_a_kernel_has_a_short_traceback():
    """numba/numba#4344, taichi-dev/taichi#3965"""
    kernel = cell("@tack.kernel\ndef k(x):\n    y = [1]\n", "<mistake>")
    with pytest.raises(tack.CompileError) as caught:
        kernel(np.ones(1))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.filename for frame in frames][:1] == [__file__] and len(frames) <= 2
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


@on_every_backend
def test_functions_that_each_call_the_next_twice_compile_in_bounded_time():
    """rust-lang/rust#152713"""
    levels = "".join(
        f"@tack.func\ndef f{k}(v):\n    return f{k + 1}(v) + f{k + 1}(v + 1)\n" for k in range(15)
    )
    last = "@tack.func\ndef f15(v):\n    return v\n"
    text = "@tack.kernel\ndef k(x):\n    for i in range(len(x)):\n        x[i] = f0(i)\n"
    x = tack.zeros(2, tack.int64)
    cell(levels + last + text, "<levels>")(x)
    assert x.tolist() == [15 << 14, (1 << 15) + (15 << 14)]


# threads


@tack.kernel
def affine(a, b, x, y):
    for i in range(len(x)):
        y[i] = a * x[i] + b


@on_every_backend
def test_launches_from_many_threads_with_different_types_and_numbers():
    """NVIDIA/warp#224"""
    dtypes = (np.float32, np.float64, np.int32, np.int64, np.uint8, np.float16)
    problems, barrier = [], threading.Barrier(8)

    def work(number):
        barrier.wait()
        for round_ in range(60):
            dtype = dtypes[(number + round_) % len(dtypes)]
            size = (10, 3000, 60_000)[round_ % 3]
            x, y = np.full(size, 3, dtype), np.zeros(size, dtype)
            Launcher(affine)(number, 2, x, y)
            if not (y == 3 * number + 2).all():
                problems.append((number, round_, dtype, y[:3]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


@on_every_backend
def test_an_array_that_others_drop_during_a_launch_lives_until_it_ends():
    """NVIDIA/warp#1618"""
    stop = threading.Event()

    def drop():
        while not stop.is_set():
            shared["x"] = tack.full(200_000, 1.0)

    shared = {"x": tack.full(200_000, 1.0)}
    thread = threading.Thread(target=drop)
    thread.start()
    try:
        for _ in range(50):
            y = tack.zeros(200_000)
            scale(2.0, shared["x"], y)
            assert (y.numpy() == 2).all()
    finally:
        stop.set()
        thread.join()


def test_a_thread_may_launch_while_the_interpreter_exits(tmp_path):
    program = """
        import threading, time, numpy, tack

        @tack.kernel
        def k(x):
            for i in range(len(x)):
                x[i] += 1

        x = numpy.zeros(300_000)
        k(x)

        class Producer:
            def __dlpack_device__(self):
                return x.__dlpack_device__()

            def __dlpack__(self, **keywords):
                for _ in range(50):
                    time.sleep(0)
                return x.__dlpack__(**keywords)

        def forever(argument):
            while True:
                k(argument)

        for argument in (x, x, Producer()):
            threading.Thread(target=forever, args=(argument,), daemon=True).start()

        def a_little():
            time.sleep(0.1)
            for _ in range(20):
                k(x)
            print("done", flush=True)

        threading.Thread(target=a_little).start()
        """
    assert run(program, tmp_path) == "done\n"


def test_an_exit_handler_may_launch(tmp_path):
    program = """
        import atexit, numpy, tack

        @tack.kernel
        def k(x):
            for i in range(len(x)):
                x[i] += 1

        x = numpy.zeros(100_000)
        k(x)

        @atexit.register
        def last():
            k(x)
            print(x.min(), x.max())
        """
    assert run(program, tmp_path) == "2.0 2.0\n"


# processes


def test_a_forked_child_launches_old_kernels_and_new_ones(tmp_path):
    program = """
        import os, numpy, tack

        @tack.kernel
        def old(x):
            for i in range(len(x)):
                x[i] += 1

        @tack.kernel
        def new(x):
            for i in range(len(x)):
                x[i] *= 3

        x = numpy.ones(300_000)
        old(x)
        child = os.fork()
        if child == 0:
            old(x)
            new(x)
            os._exit(0 if (x == 9).all() else 1)
        old(x)
        print(os.waitpid(child, 0)[1], (x == 3).all())
        """
    assert run(program, tmp_path) == "0 True\n"


def test_a_child_forked_while_another_thread_launches_can_launch(tmp_path):
    program = """
        import os, threading, numpy, tack

        @tack.kernel
        def k(x):
            for i in range(len(x)):
                x[i] += 1

        x, y, stop = numpy.zeros(500_000), numpy.zeros(500_000), threading.Event()
        k(y)

        def busy():
            while not stop.is_set():
                k(x)

        thread = threading.Thread(target=busy)
        thread.start()
        codes = []
        for _ in range(10):
            child = os.fork()
            if child == 0:
                k(y)
                os._exit(0 if (y == 2).all() else 1)
            codes.append(os.waitpid(child, 0)[1])
        stop.set()
        thread.join()
        print(codes)
        """
    assert run(program, tmp_path) == f"{[0] * 10}\n"


def test_a_keyboard_interrupt_comes_between_two_launches(tmp_path):
    """triton-lang/triton#4129"""
    program = """
        import os, signal, threading, numpy, tack

        @tack.kernel
        def k(x):
            for i in range(len(x)):
                x[i] += 1

        # A program started in the background inherits that it is ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = numpy.zeros(300_000)
        k(x)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                k(x)
        except KeyboardInterrupt:
            before = x[0]
            k(x)
            print((x == before + 1).all())
        """
    assert run(program, tmp_path) == "True\n"


def test_python_errors_in_other_threads_do_not_reach_a_launch():
    def fail():
        for _ in range(200):
            try:
                scale(1.0, "no", "array")
            except TypeError:
                pass

    thread = threading.Thread(target=fail)
    thread.start()
    y = np.zeros(1000)
    for k in range(200):
        scale(k, np.ones(1000), y)
        assert (y == k).all()
    thread.join()


def test_an_argument_comes_by_whatever_protocol_shares_its_memory():
    import array

    class Interface:
        def __init__(self, base):
            self.base = base
            self.__array_interface__ = base.__array_interface__

    import numpy as np

    @tack.kernel
    def double(x):
        for i in range(len(x)):
            x[i] = 2 * x[i]

    buffer, base = array.array("d", [1, 2, 3]), np.arange(3.0)
    double(buffer)
    double(Interface(base))
    assert list(buffer) == [2, 4, 6]
    assert base.tolist() == [0, 2, 4]
    with pytest.raises(ValueError, match=r"'x' is a read-only array"):
        double(bytes(8))
