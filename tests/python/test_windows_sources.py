"""The queued backends' sources compile for Windows, where nothing of Tack has run."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = "x86_64-w64-mingw32-g++-posix"
SOURCES = sorted(
    path for folder in ("gpu", "cuda") for path in (ROOT / "src" / "backend" / folder).glob("*.cpp")
)


@pytest.fixture(scope="module")
def compiles_for_windows():
    compiler = shutil.which(COMPILER)
    if compiler is None:
        pytest.skip(f"needs {COMPILER} of g++-mingw-w64-x86-64-posix: ./dev test installs it")

    def check(source):
        command = [compiler, "-std=c++20", "-fsyntax-only", "-DTACK_BUILDING"]
        command += ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wno-restrict", "-Werror"]
        command += [f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", source]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return check


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_source_compiles_for_windows_without_a_warning(compiles_for_windows, source):
    compiles_for_windows(source)


def test_memory_is_exported_there_as_windows_does(compiles_for_windows, tmp_path):
    source = tmp_path / "platform.cpp"
    source.write_text(
        '#include "backend/cuda/buffer.hpp"\n'
        "static_assert(tack::cuda::this_platform == tack::cuda::Platform::windows);\n"
    )
    compiles_for_windows(source)
