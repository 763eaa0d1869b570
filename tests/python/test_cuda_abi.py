"""Tack's own declarations of the CUDA driver and NVRTC against NVIDIA's headers."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "backend" / "cuda"
# A row of a driver table: its type, its name, its symbol and the version that it asks for.
ROW = re.compile(r'^ +Entry<.*?>\s+(\w+)\{\s*\*this,\s*"(\w+)"(?:,\s*(\d+))?', re.M | re.S)


def rows(header):
    text = (SOURCES / header).read_text()
    found = ROW.findall(text)
    assert len(found) == text.count("*this,"), f"a row of {header} is written in another way"
    return found


@pytest.fixture(scope="module")
def header_folders():
    """The folders with cuda.h and nvrtc.h, from PyPI's packages or the CUDA toolkit."""
    places = [folder for path in sys.path for folder in Path(path or ".").glob("nvidia/*/include")]
    places.append(Path("/usr/local/cuda/include"))
    folders = []
    for name in ("cudaTypedefs.h", "nvrtc.h"):
        folder = next((place for place in places if (place / name).exists()), None)
        if folder is None:
            pytest.skip(f"needs {name} of nvidia-cuda-runtime and -nvrtc: ./dev test installs it")
        folders.append(folder)
    return folders


@pytest.fixture
def compile_against(tmp_path):
    def compile_against(folders, driver=None):
        lines = [
            f"DRIVER_ROW({row}, {re.sub(r'_v[0-9]+$', '', symbol)}, {version})"
            for row, symbol, version in driver or rows("driver.hpp")
        ]
        lines += [f"NVRTC_ROW({row}, {symbol})" for row, symbol, _ in rows("nvrtc.hpp")]
        (tmp_path / "cuda_rows.inc").write_text("\n".join(lines) + "\n")
        compiler = shutil.which("g++") or shutil.which("clang++")
        assert compiler, "the test needs a C++ compiler"
        command = [compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        command += [part for folder in folders for part in ("-isystem", folder)]
        command += [f"-I{tmp_path}", f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]
        command.append(ROOT / "tests" / "cpp" / "test_cuda_abi.cpp")
        return subprocess.run(command, capture_output=True, text=True)

    return compile_against


def test_functions_structs_and_values_are_those_of_nvidias_headers(header_folders, compile_against):
    result = compile_against(header_folders)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "text, mistake",
    [
        ("CU_POINTER_ATTRIBUTE_IS_MANAGED = 8", "CU_POINTER_ATTRIBUTE_IS_MANAGED = 80"),
        ("unsigned char gpuDirectRDMACapable;", "unsigned short gpuDirectRDMACapable;"),
    ],
)
def test_a_header_that_differs_is_noticed(header_folders, compile_against, tmp_path, text, mistake):
    original = (header_folders[0] / "cuda.h").read_text()
    assert text in original
    (tmp_path / "cuda.h").write_text(original.replace(text, mistake))
    result = compile_against([tmp_path, *header_folders])
    assert result.returncode != 0
    assert "static assertion" in result.stderr


@pytest.mark.parametrize(
    "row, symbol, version",
    [
        ("context_push", "cuCtxPopCurrent", "4000"),
        ("context_device", "cuCtxGetDevice", "13000"),
        ("stream_wait", "cuEventRecord", "2000"),
    ],
)
def test_a_row_with_another_functions_type_is_noticed(
    header_folders, compile_against, row, symbol, version
):
    result = compile_against(header_folders, [(row, symbol, version)])
    assert result.returncode != 0
    assert f"{symbol} of version {version}" in result.stderr
