"""Kernels on a CUDA device where it differs from the host: loops, bounds, the disk cache."""

import ctypes
import os
import shutil

import cuda_support as sim
import numpy as np
import pytest
from cuda_support import on_driver

import tack


def on_cuda(values):
    return tack.array(values).to_device(tack.device("cuda"))


@tack.kernel
def up_to_an_element(bound, x):
    for i in range(bound[0]):
        x[i] = i


@tack.kernel
def up_to_a_changed_element(bound, x):
    for i in range(1):
        bound[i] += 2
    for i in range(bound[0]):
        x[i] = i


@tack.kernel
def several_loops(x, y):
    n = len(x)
    for i in range(n):
        x[i] = i
    for i in range(n - 1):
        y[i] = x[i + 1]
    for i, j in tack.ndrange(n // 2, 2):
        x[2 * i + j] += y[0]


@tack.kernel
def no_pass(x):
    for i in range(len(x), 0):
        x[i] = 1.0


@on_driver
def test_a_loop_may_end_at_an_element_of_an_array():
    for bound in (0, 3, 5000):
        x = on_cuda(np.full(5000, -1, np.int64))
        up_to_an_element(on_cuda(np.array([bound])), x)
        expected = np.where(np.arange(5000) < bound, np.arange(5000), -1)
        assert np.array_equal(x.numpy(), expected)


@on_driver
def test_a_loop_may_end_at_what_an_earlier_loop_stored():
    bound, x = on_cuda(np.array([1])), on_cuda(np.zeros(8, np.int64))
    up_to_a_changed_element(bound, x)
    assert x.numpy().tolist() == [0, 1, 2, 0, 0, 0, 0, 0]


@on_driver
def test_loops_of_one_kernel_run_one_after_another():
    n = 1000
    x, y = on_cuda(np.zeros(n)), on_cuda(np.zeros(n))
    several_loops(x, y)
    assert np.array_equal(x.numpy(), np.arange(n) + 1)
    assert np.array_equal(y.numpy()[:-1], np.arange(1, n))
    sim.expect_calls("cuLaunchKernel", 3)


@on_driver
def test_a_loop_of_no_pass_is_not_launched():
    no_pass(on_cuda(np.ones(4)))
    several_loops(tack.zeros(0, "float64", device="cuda"), tack.zeros(0, "float64", device="cuda"))
    sim.expect_calls("cuLaunchKernel", 0)


# A range that the host does not know takes code with 64-bit indices, whatever its numbers.


@tack.kernel
def wide_1(r, x):
    for i in range(r[0], r[1], r[2]):
        x[(i - r[0]) // r[2]] += 3 * i + 1


@tack.kernel
def narrow_1(start, stop, step, x):
    for i in range(start, stop, step):
        x[(i - start) // step] += 3 * i + 1


@tack.kernel
def wide_2(r, x):
    for i, j in tack.ndrange((r[0], r[1]), (r[2], r[3])):
        x[i - r[0], j - r[2]] += 3 * i + j


@tack.kernel
def narrow_2(a, b, c, d, x):
    for i, j in tack.ndrange((a, b), (c, d)):
        x[i - a, j - c] += 3 * i + j


@tack.kernel
def wide_3(r, x):
    for i, j, k in tack.ndrange((r[0], r[1]), (r[2], r[3]), (r[4], r[5])):
        x[i - r[0], j - r[2], k - r[4]] += 9 * i + 3 * j + k


@tack.kernel
def narrow_3(a, b, c, d, e, f, x):
    for i, j, k in tack.ndrange((a, b), (c, d), (e, f)):
        x[i - a, j - c, k - e] += 9 * i + 3 * j + k


FAR = 2**40
STEPS = [
    (0, 1, 1),
    (0, 100, 7),
    (100, 0, -7),
    (-50, 50, 3),
    (FAR, FAR + 5000, 1),
    (-FAR, -FAR - 3000, -1),
    (FAR, -FAR, -(2**31)),
    (-(2**62), 2**62 - 1, 2**55),
    (2**62, 1 - 2**62, -(2**55)),
    (5, 5, 1),
    (5, 9, -1),
]


@on_driver
def test_wide_code_runs_the_passes_of_any_range():
    for r in STEPS:
        passes = np.array(range(*r), object)
        expected = ((3 * passes + 1 + 2**63) % 2**64 - 2**63).astype(np.int64)
        for kernel, numbers in ((wide_1, [on_cuda(np.array(r))]), (narrow_1, r)):
            x = on_cuda(np.zeros(len(passes), np.int64))
            kernel(*numbers, x)
            assert np.array_equal(x.numpy(), expected), (kernel, r)


AXES = {2: (wide_2, narrow_2), 3: (wide_3, narrow_3)}
EXTENTS = [(1,) * 3, (300, 5, 2), (2, 3, 300), (0, 4, 4), (4, 0, 4), (7, 11, 13), (1, 1, 3000)]


@pytest.mark.parametrize("ndim", AXES)
@on_driver
def test_wide_code_counts_along_several_axes(ndim):
    for extents in EXTENTS:
        shape = extents[-ndim:]
        starts = (FAR, -3, 2**33)[:ndim]
        bounds = [b for s, n in zip(starts, shape, strict=True) for b in (s, s + n)]
        at = np.meshgrid(*(s + np.arange(n) for s, n in zip(starts, shape, strict=True)),
                         indexing="ij")  # fmt: skip
        expected = sum(3 ** (ndim - 1 - axis) * index for axis, index in enumerate(at))
        for kernel, numbers in zip(AXES[ndim], ([on_cuda(np.array(bounds))], bounds), strict=True):
            x = on_cuda(np.zeros(shape, np.int64))
            kernel(*numbers, x)
            assert np.array_equal(x.numpy(), expected), (kernel, shape)


@tack.kernel(check_bounds=True)
def shifted(x, y, by):
    for i in range(len(x)):
        y[i + by] = x[i]


@on_driver
def test_an_index_out_of_range_is_an_index_error_with_array_index_and_extent():
    x, y = on_cuda(np.arange(100.0)), on_cuda(np.zeros(100))
    with sim.raises(IndexError, "shifted", "index 100", "'y'", "100"):
        shifted(x, y, 1)
    assert np.array_equal(y.numpy(), np.concatenate([[0], np.arange(99.0)]))
    with sim.raises(IndexError, f"index {2**40}", "'y'"):
        shifted(on_cuda(np.zeros(1)), y, 2**40)
    with sim.raises(IndexError, "index -1", "'y'"):
        shifted(x, y, -1)
    shifted(x, y, 0)
    assert np.array_equal(y.numpy(), np.arange(100.0))


# options of kernels


def multiply_and_add(x, y):
    for i in range(len(x)):
        y[i] = x[i] * x[i] + y[i]


def launch_multiply_and_add(fast_math):
    x = on_cuda(np.array([1.0, 2.0]))
    tack.kernel(fast_math=fast_math == "True")(multiply_and_add)(x, x)
    assert x.numpy().tolist() == [2, 6]


def nvrtc_options(folder, fast_math):
    """What NVRTC is given to compile a kernel with, but for the architecture."""
    folder.mkdir()
    code = "import sys, test_cuda_kernels as t; t.launch_multiply_and_add(sys.argv[1])"
    done, report = sim.run(
        ["-c", code, str(fast_math)],
        TACK_CACHE_DIR="",
        XDG_CACHE_HOME="",
        HOME="",
        TACK_SIM_SOURCES=folder,
    )
    sim.expect_clean(done, report)
    (options,) = folder.glob("*.options")
    return {o for o in options.read_text().splitlines() if "architecture" not in o}


def test_fast_math_is_nvrtcs_and_without_it_nothing_is_contracted(tmp_path):
    exact = nvrtc_options(tmp_path / "exact", False)
    fast = nvrtc_options(tmp_path / "fast", True)
    assert exact - fast == {"--fmad=false"}
    assert fast - exact == {"--use_fast_math"}


# the disk cache


@tack.kernel
def cube(x):
    for i in range(len(x)):
        x[i] = x[i] * x[i] * x[i]


def nvrtc_calls():
    library = ctypes.CDLL(os.environ["TACK_NVRTC"])
    library.tack_sim_call_count.restype = ctypes.c_uint64
    return library.tack_sim_call_count(b"nvrtcCompileProgram")


def cubed():
    x = on_cuda(np.array([1.0, 2.0, 3.0]))
    cube(x)
    assert x.numpy().tolist() == [1, 8, 27]
    print(nvrtc_calls())


def compilations(folder, **modes):
    code = "import test_cuda_kernels; test_cuda_kernels.cubed()"
    done, report = sim.run(["-c", code], TACK_CACHE_DIR=folder, **modes)
    sim.expect_clean(done, report)
    return int(done.stdout)


def test_a_second_process_compiles_nothing(tmp_path):
    assert [compilations(tmp_path) for _ in range(2)] == [1, 0]


def test_without_a_disk_cache_each_process_compiles():
    nowhere = {"XDG_CACHE_HOME": "", "HOME": ""}
    assert [compilations("", **nowhere) for _ in range(2)] == [1, 1]


def test_another_nvrtc_or_architecture_is_a_miss(tmp_path):
    assert compilations(tmp_path) == 1
    other = tmp_path / "libnvrtc.so.13"
    shutil.copy(sim.NVRTC, other)
    assert compilations(tmp_path, TACK_NVRTC=other) == 1
    assert compilations(tmp_path, arch=75) == 1
    assert [compilations(tmp_path), compilations(tmp_path, TACK_NVRTC=other)] == [0, 0]


@pytest.mark.parametrize("damage", [0, 0.5])
def test_a_damaged_entry_is_a_miss_and_replaced(tmp_path, damage):
    # numba/numba#10434
    assert compilations(tmp_path) == 1
    for file in tmp_path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            file.write_bytes(content[: int(len(content) * damage)])
    assert [compilations(tmp_path), compilations(tmp_path)] == [1, 0]
