"""Tack's own DLPack structs and enumerators against the dlpack.h that tvm-ffi installs."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.partner("tvm_ffi")


@pytest.fixture(scope="module")
def dlpack_header():
    from tvm_ffi import libinfo

    return Path(libinfo.find_dlpack_include_path()) / "dlpack" / "dlpack.h"


def compile_against(header):
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "the test needs a C++ compiler"
    command = [compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    command += [f"-I{header.parents[1]}", f"-I{ROOT / 'include'}"]
    command.append(ROOT / "tests" / "cpp" / "test_dlpack_abi.cpp")
    return subprocess.run(command, capture_output=True, text=True)


def test_layout_and_values_are_those_of_an_installed_header(dlpack_header):
    result = compile_against(dlpack_header)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "text, mistake",
    [
        ("kDLTrn = 18", "kDLTrn = 19"),
        ("uint16_t lanes;", "uint32_t lanes;"),
        ("uint64_t flags;", "uint64_t padding, flags;"),
    ],
)
def test_a_header_that_differs_is_noticed(dlpack_header, tmp_path, text, mistake):
    original = dlpack_header.read_text()
    assert text in original
    other = tmp_path / "dlpack" / "dlpack.h"
    other.parent.mkdir()
    other.write_text(original.replace(text, mistake))
    result = compile_against(other)
    assert result.returncode != 0
    assert "static assertion" in result.stderr
