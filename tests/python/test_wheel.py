"""The wheel stands alone: no compiler, nothing of this tree, its own libraries and licences."""

import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from test_installed import SIMULATOR, build_example, run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

SAXPY = """
import numpy as np, tack

@tack.kernel
def saxpy(a, x, y):
    for i in range(x.size):
        y[i] = a * x[i] + y[i]

x, y = np.arange(4, dtype=np.float32), np.ones(4, dtype=np.float32)
saxpy(2.0, x, y)
print(y.tolist())
print(*{line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}, sep="\\n")
"""


@pytest.fixture(scope="module")
def wheel():
    run(ROOT / "dev", "wheel")
    (path,) = (ROOT / "dist").glob("tack-*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """An interpreter with NumPy and the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip())
    for part in ("numpy", "numpy.libs"):
        (site / part).symlink_to(Path(np.__file__).parents[1] / part)
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel
    )
    return python


@pytest.fixture
def bare(tmp_path):
    """An environment in which no compiler, home or cache is found."""
    return {"PATH": str(tmp_path), "TACK_CACHE_DIR": str(tmp_path / "cache")}


def test_a_kernel_runs_without_a_compiler_on_the_wheels_own_libraries(python, bare, tmp_path):
    script = tmp_path / "saxpy.py"
    script.write_text(SAXPY)
    values, *libraries = run(python, script, env=bare).splitlines()
    assert values == "[1.0, 3.0, 5.0, 7.0]"
    for name in ("libtack.so.0", "libtack_clang.so", "libpthreadpool.so.0"):
        (path,) = [path for path in libraries if os.path.basename(path) == name]
        assert Path(path).is_relative_to(python.parents[1]), path


def test_the_example_builds_from_the_wheel(python, bare, tmp_path):
    cmake_dir = run(python, "-m", "tack", "--cmake-dir").strip()
    program = build_example(tmp_path / "example", f"-DTack_DIR={cmake_dir}")
    assert "y = 10 12 14 16" in run(program, env=bare)


def test_no_simulated_driver_is_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert any(name.endswith("/libtack.so.0") for name in names)
    assert list(filter(SIMULATOR.search, names)) == []


def test_the_wheel_is_below_50_mb_and_named_for_its_platform(wheel):
    assert wheel.stat().st_size < 50e6
    assert wheel.name.endswith("-manylinux_2_36_x86_64.whl")


def test_the_wheel_carries_the_licence_of_all_that_it_bundles(wheel):
    with zipfile.ZipFile(wheel) as archive:
        licences = {
            Path(name).stem: archive.read(name)
            for name in archive.namelist()
            if name.startswith("tack/licenses/")
        }
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in archive.namelist())
    for name, words in {
        "llvm-and-clang": b"LLVM Exceptions",
        "apache-2.0": b"Apache License",
        "pthreadpool": b"BSD-2-Clause",
        "zstd": b"BSD",
        "zlib": b"zlib",
        "nanobind": b"Redistribution",
        "robin-map": b"MIT License",
    }.items():
        assert words in licences[name], name


def test_the_wheel_holds_no_path_of_the_build(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            assert os.fsencode(ROOT) not in archive.read(name), name
