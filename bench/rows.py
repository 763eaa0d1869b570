"""The rows of the table. A new figure is one more Row; bench/causes.md explains a missed bar."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import kernels
import vtk_arrays
import workloads
from measure import FileSize, Fresh, Timed, TimedOnNew

import tack

ROOT = Path(__file__).resolve().parent.parent
TOPICS = {
    1: "Compiler, import and memory",
    2: "Launches and kernels",
    3: "Exchange of arrays",
    4: "Exchange of arrays with VTK",
}
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "MB": 1e6}


@dataclass(frozen=True)
class Row:
    """One figure of Tack beside that of others.

    topic: a key of TOPICS. what: a sentence for the page. peers: (library, way) each; the ratio is
    to the best of them. unit: a key of UNITS. The bar is at_most, in that unit, or times_peer; a
    row without one is measured for its own sake.
    """

    topic: int
    name: str
    what: str
    unit: str
    tack: object
    peers: Sequence = ()
    at_most: float | None = None
    times_peer: float | None = None


def plugin():
    path = Path(tack.__file__).parent / "lib" / "libtack_clang.so"
    return path if path.exists() else None


def wheel():
    wheels = sorted((ROOT / "dist").glob("tack-*.whl"), key=lambda path: path.stat().st_mtime)
    return wheels[-1] if wheels else None


tack_launch = partial(Fresh, "tack_launch")
numba_launch = partial(Fresh, "numba_launch", rounds=3)
warp_launch = partial(Fresh, "warp_launch", rounds=3)


def native(program, figure):
    return Fresh("native", program, figure=figure, cache="filled", rounds=5)


vtk_cpp = partial(native, "vtk_arrays")


def call(function, count, statement="f(a, x, y, z)"):
    return Timed(partial(function, count), statement)


LARGE = kernels.LARGE


def vtk_rows(name, count):
    return (
        Row(
            4,
            f"array_to_vtk, {name}",
            f"a Tack array of {name} float32 becomes a VTK array with a name; NumPy: numpy_to_vtk "
            "with deep=0 and SetName",
            "ns",
            Timed(partial(vtk_arrays.tack_export, count), "export(x, name='x')"),
            [
                (
                    "NumPy",
                    Timed(
                        partial(vtk_arrays.numpy_export, count), "export(x, deep=0).SetName('x')"
                    ),
                )
            ],
            times_peer=0.6,
        ),
        Row(
            4,
            f"vtk_to_array again, {name}",
            f"a VTK array of {name} floats, imported before, becomes a Tack array; NumPy: "
            "vtk_to_numpy",
            "ns",
            Timed(partial(vtk_arrays.tack_import, count), "take(x)"),
            [("NumPy", Timed(partial(vtk_arrays.numpy_import, count), "take(x)"))],
            times_peer=0.5,
        ),
        Row(
            4,
            f"first vtk_to_array, {name}",
            f"the first import of a VTK array of {name} floats, which makes it safe to resize "
            "afterwards; NumPy: vtk_to_numpy, after which it is not",
            "ns",
            TimedOnNew(partial(vtk_arrays.tack_first_import, count)),
            [("NumPy", TimedOnNew(partial(vtk_arrays.numpy_first_import, count)))],
            times_peer=3,
        ),
    )


ROWS = (
    Row(
        1,
        "first compile",
        "the first launch of saxpy over 16 float32 in a process, nothing being compiled yet",
        "ms",
        tack_launch(figure="first"),
        [("Numba", numba_launch(figure="first")), ("Warp", warp_launch(figure="first"))],
        at_most=40,
    ),
    Row(
        1,
        "later compile",
        "the first launch of another such kernel in that process (Tack: the mean of four)",
        "ms",
        tack_launch(figure="later"),
        [("Numba", numba_launch(figure="later")), ("Warp", warp_launch(figure="later"))],
        at_most=12,
    ),
    Row(
        1,
        "from the disk cache",
        "the first launch of saxpy in a process when another has compiled it; decorated before",
        "ms",
        tack_launch(figure="first", cache="filled"),
        [
            ("Numba", numba_launch(figure="first", cache="filled")),
            ("Warp", warp_launch(figure="first", cache="filled")),
        ],
        at_most=1,
    ),
    Row(
        1,
        "first @tack.kernel",
        "decorating it, which imports the reader of Python's syntax once in a process",
        "ms",
        tack_launch(figure="decorating", cache="filled"),
    ),
    Row(
        1,
        "import tack",
        "the import statement in a new process; the others' import of themselves",
        "ms",
        Fresh("imports", "tack", figure="time"),
        [
            ("NumPy", Fresh("imports", "numpy", figure="time")),
            ("torch", Fresh("imports", "torch", figure="time", rounds=3)),
        ],
        at_most=60,
    ),
    Row(
        1,
        "memory of import tack",
        "resident memory that the import adds",
        "MB",
        Fresh("imports", "tack", figure="resident"),
        [
            ("NumPy", Fresh("imports", "numpy", figure="resident")),
            ("torch", Fresh("imports", "torch", figure="resident", rounds=3)),
        ],
        at_most=5,
    ),
    Row(
        1,
        "memory of the first compile",
        "resident memory that the first launch of saxpy adds",
        "MB",
        tack_launch(figure="resident"),
        [("Numba", numba_launch(figure="resident")), ("Warp", warp_launch(figure="resident"))],
        at_most=80,
    ),
    Row(
        1,
        "size of the compiler",
        "libtack_clang.so without symbols",
        "MB",
        FileSize(plugin, stripped=True),
        at_most=80,
    ),
    Row(
        1,
        "size of the wheel",
        "the newest wheel in dist/ (./dev wheel makes it)",
        "MB",
        FileSize(wheel),
        at_most=50,
    ),
    Row(
        2,
        "launch, 3 Tack arrays",
        "saxpy over 16 float32; Numba: its serial function over NumPy arrays",
        "ns",
        call(kernels.tack_saxpy, 16),
        [("Numba", call(kernels.numba_serial_saxpy, 16))],
        times_peer=0.35,
    ),
    Row(
        2,
        "launch, 16 Tack arrays",
        "z = a + b over 16 float32 with 14 arrays more; the other: Tack with 3 arrays",
        "ns",
        Timed(workloads.tack_many, "f(*arrays)"),
        [("3 arrays", call(kernels.tack_saxpy, 16))],
        times_peer=3,
    ),
    Row(
        2,
        "launch, 3 NumPy arrays",
        "the same kernel over NumPy arrays, as they are",
        "ns",
        call(kernels.tack_saxpy_over_numpy, 16),
        [("Numba", call(kernels.numba_serial_saxpy, 16))],
        times_peer=0.6,
    ),
    Row(
        2,
        "launch, 3 torch tensors",
        "the same kernel over torch tensors, as they are; tvm-ffi: a function that does nothing",
        "ns",
        call(kernels.tack_saxpy_over_torch, 16),
        [("tvm-ffi", Timed(kernels.tvm_ffi_call, "f(x, y, z)"))],
        times_peer=0.7,
    ),
    Row(
        2,
        "launch from C++",
        "a kernel written in C++, a number and 3 arrays of 16 float32",
        "ns",
        native("figures", "launch"),
        at_most=50,
    ),
    Row(
        2,
        "saxpy, 16.7 million",
        "z = a * x + y over 2^24 float32 on all cores",
        "ms",
        call(kernels.tack_saxpy, LARGE),
        [
            ("Numba", call(kernels.numba_parallel_saxpy, LARGE)),
            ("torch", call(kernels.torch_saxpy, LARGE, "f(y, x, alpha=a, out=z)")),
            ("Warp", call(kernels.warp_saxpy, LARGE, "launch()")),
            ("Dr.Jit", Timed(partial(workloads.drjit_saxpy, LARGE), "run()")),
        ],
        times_peer=1 / 1.25,
    ),
    Row(
        2,
        "saxpy beside OpenMP",
        "the row above beside C by hand, with OpenMP and streaming stores",
        "ms",
        call(kernels.tack_saxpy, LARGE),
        [("OpenMP", call(kernels.openmp_saxpy, LARGE, "f(*arguments)"))],
        times_peer=1 / 0.95,
    ),
    Row(
        2,
        "sin, 16.7 million",
        "z = sin(x) over 2^24 float32 from 0 to 6 on all cores",
        "ms",
        call(kernels.tack_sine, LARGE, "f(x, z)"),
        [
            ("torch", call(kernels.torch_sine, LARGE, "f(x, out=z)")),
            ("NumPy", call(kernels.numpy_sine, LARGE, "f(x, out=z)")),
        ],
        times_peer=1 / 2,
    ),
    Row(
        2,
        "sin beside Dr.Jit",
        "the same; Dr.Jit's result is within 14 ULP, Tack's within 4",
        "ms",
        call(kernels.tack_sine, LARGE, "f(x, z)"),
        [("Dr.Jit", Timed(partial(workloads.drjit_math, "sin", LARGE), "run()"))],
        times_peer=1 / 0.9,
    ),
    Row(
        2,
        "exp, 16.7 million",
        "z = exp(x) over 2^24 float32 from 0 to 6 on all cores",
        "ms",
        call(workloads.tack_exponential, LARGE, "f(x, z)"),
        [
            ("torch", call(workloads.torch_exponential, LARGE, "f(x, out=z)")),
            ("NumPy", call(workloads.numpy_exponential, LARGE, "f(x, out=z)")),
        ],
        times_peer=1 / 1.4,
    ),
    Row(
        2,
        "exp beside Dr.Jit",
        "the same kernel",
        "ms",
        call(workloads.tack_exponential, LARGE, "f(x, z)"),
        [("Dr.Jit", Timed(partial(workloads.drjit_math, "exp", LARGE), "run()"))],
    ),
    *(
        Row(
            2,
            f"saxpy, {count:,}",
            f"z = a * x + y over {count:,} float32; Numba serial and parallel",
            "us",
            call(kernels.tack_saxpy, count),
            [
                ("Numba serial", call(kernels.numba_serial_saxpy, count)),
                ("Numba parallel", call(kernels.numba_parallel_saxpy, count)),
            ],
            times_peer=1,
        )
        for count in (1, 1_000, 10_000, 100_000, 1_000_000)
    ),
    Row(
        2,
        "5-point stencil",
        "4096 x 4096 float32 on all cores",
        "ms",
        Timed(workloads.tack_stencil5, "f(x, y)"),
        [("Numba", Timed(workloads.numba_stencil5, "f(x, y)"))],
        times_peer=1 / 1.2,
    ),
    Row(
        2,
        "7-point stencil",
        "256 x 256 x 256 float32 on all cores",
        "ms",
        Timed(workloads.tack_stencil7, "f(x, y)"),
        [("Numba", Timed(workloads.numba_stencil7, "f(x, y)"))],
        times_peer=1 / 1.2,
    ),
    Row(
        2,
        "Mandelbrot",
        "1024 x 1024 points of up to 100 passes each, on all cores",
        "ms",
        Timed(workloads.tack_mandelbrot, "f(x)"),
        [("Numba", Timed(workloads.numba_mandelbrot, "f(x)"))],
        times_peer=1,
    ),
    Row(
        2,
        "histogram",
        "2^24 int32 into 256 bins: Tack by atomic_add, Warp by its own, the others on one thread",
        "ms",
        Timed(workloads.tack_histogram, "f(x, y)"),
        [
            ("Numba", Timed(workloads.numba_histogram, "f(x, y)")),
            ("Warp", Timed(workloads.warp_histogram, "launch()")),
            ("NumPy", Timed(workloads.numpy_histogram, "f(x)")),
            ("torch", Timed(workloads.torch_histogram, "f(x)")),
        ],
        times_peer=1,
    ),
    *(
        Row(
            2,
            f"two Python threads, set_num_threads({threads})",
            "from launch to launch of saxpy over 200,000; the other: one Python thread alone",
            "us",
            workloads.TwoThreads(200_000, 2, threads),
            [("one thread", workloads.TwoThreads(200_000, 1, threads))],
            times_peer=1 / 1.8 if threads == 1 else 1 / 0.95,
        )
        for threads in (1, 2)
    ),
    Row(
        3,
        "tack.from_dlpack(NumPy)",
        "a NumPy array becomes a Tack array; the other: a tvm-ffi tensor",
        "ns",
        Timed(kernels.exchange("tack", kernels.numpy_array), "take(x)"),
        [("tvm-ffi", Timed(kernels.exchange("tvm_ffi", kernels.numpy_array), "take(x)"))],
        times_peer=0.65,
    ),
    Row(
        3,
        "tack.from_dlpack(torch)",
        "a torch tensor becomes a Tack array; the other: a tvm-ffi tensor",
        "ns",
        Timed(kernels.exchange("tack", kernels.torch_tensor), "take(x)"),
        [("tvm-ffi", Timed(kernels.exchange("tvm_ffi", kernels.torch_tensor), "take(x)"))],
        times_peer=0.6,
    ),
    Row(
        3,
        "np.from_dlpack(Tack)",
        "NumPy takes a Tack array; the other: NumPy takes a tvm-ffi tensor",
        "ns",
        Timed(kernels.exchange("numpy", kernels.tack_array), "take(x)"),
        [("tvm-ffi", Timed(kernels.exchange("numpy", kernels.tvm_ffi_tensor), "take(x)"))],
        times_peer=0.85,
    ),
    Row(
        3,
        "torch.from_dlpack(Tack)",
        "torch takes a Tack array; the other: torch takes a tvm-ffi tensor",
        "ns",
        Timed(kernels.exchange("torch", kernels.tack_array), "take(x)"),
        [("tvm-ffi", Timed(kernels.exchange("torch", kernels.tvm_ffi_tensor), "take(x)"))],
        times_peer=1,
    ),
    Row(
        3,
        "export to a capsule",
        "`x.__dlpack__(max_version=(1, 0))` of a Tack and of a NumPy array",
        "ns",
        Timed(lambda: {"x": kernels.tack_array()}, "x.__dlpack__(max_version=(1, 0))"),
        [
            (
                "NumPy",
                Timed(lambda: {"x": kernels.numpy_array()}, "x.__dlpack__(max_version=(1, 0))"),
            )
        ],
        times_peer=0.85,
    ),
    Row(
        3,
        "reshape",
        "`x.reshape(4, 4)` of a Tack and of a NumPy array",
        "ns",
        Timed(lambda: {"x": kernels.tack_array()}, "x.reshape(4, 4)"),
        [("NumPy", Timed(lambda: {"x": kernels.numpy_array()}, "x.reshape(4, 4)"))],
        times_peer=1,
    ),
    Row(
        3,
        "x.numpy()",
        "a NumPy view of a Tack array",
        "ns",
        Timed(lambda: {"x": kernels.tack_array()}, "x.numpy()"),
        at_most=200,
    ),
    Row(
        3,
        "import in C++",
        "from_dlpack of a managed tensor of 16 float32, and its release",
        "ns",
        native("figures", "import"),
        at_most=40,
    ),
    Row(
        3,
        "export in C++",
        "to_dlpack_versioned of an array of 16 float32, and its deleter",
        "ns",
        native("figures", "export"),
        at_most=40,
    ),
    *(
        Row(
            3,
            f"{way} in C++, 10 GB",
            "the same with 8 dimensions and 10 GB; the other: 1 dimension and 64 bytes",
            "ns",
            native("figures", f"{way}_large"),
            [("64 bytes", native("figures", way))],
            times_peer=1.25,
        )
        for way in ("import", "export")
    ),
    *vtk_rows("10", 10),
    *vtk_rows("10 million", 10_000_000),
    Row(
        4,
        "C++: from_array",
        "tack/vtk.hpp: a Tack array becomes a VTK array with a name",
        "ns",
        vtk_cpp(figure="export"),
        at_most=300,
    ),
    Row(
        4,
        "C++: first to_array",
        "the first import of a VTK array, which makes it safe to resize afterwards",
        "ns",
        vtk_cpp(figure="first"),
        at_most=1000,
    ),
    Row(
        4,
        "C++: to_array again",
        "the import of an array imported before",
        "ns",
        vtk_cpp(figure="again"),
        at_most=100,
    ),
)
