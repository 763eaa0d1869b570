"""The installed C++ package: found by CMake, relocatable, and enough for the example program."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"

# The simulated drivers, what they are made of, and the names of those that they stand in for.
SIMULATOR = re.compile(r"libcuda|libnvrtc|tack_sim|(^|/)sim/")


def run(*command, **options):
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, **options
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation that has been moved since."""
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", folder / "first")
    shutil.move(folder / "first", folder / "moved")
    return folder / "moved"


def build_example(folder, *arguments):
    run("cmake", "-S", ROOT / "examples" / "cpp", "-B", folder, "-G", "Ninja", *arguments)
    run("cmake", "--build", folder)
    return folder / "dlpack_saxpy"


def test_the_example_builds_against_a_moved_installation_and_runs(prefix, tmp_path):
    program = build_example(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}")
    output = run(program, env={"TACK_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/nonexistent"})
    assert "y = 10 12 14 16" in output
    assert "exports alive: 0" in output


def test_the_installation_holds_no_path_of_the_build(prefix):
    for file in (prefix / "lib" / "cmake" / "Tack").iterdir():
        assert str(ROOT) not in file.read_text(), file


def test_the_installation_holds_headers_and_libraries_and_no_python(prefix):
    files = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    assert {"lib/libtack.so", "lib/libtack.so.0", "lib/libtack_clang.so"} <= files
    assert "include/tack/tack.hpp" in files
    assert not [name for name in files if re.search(r"\.py|nanobind|_core", name)]


def test_no_simulated_driver_is_installed(prefix):
    files = [str(path.relative_to(prefix)) for path in prefix.rglob("*")]
    assert list(filter(SIMULATOR.search, files)) == []
    assert b"tack_sim" not in (prefix / "lib" / "libtack.so").read_bytes()


def test_another_minor_version_is_not_found(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\n"
        "project(other LANGUAGES CXX)\n"
        "find_package(Tack 0.2 CONFIG REQUIRED)\n"
    )
    result = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"],
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0
    assert "version: 0.1.0" in result.stderr
