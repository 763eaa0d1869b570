"""A short run of each fuzzer in tests/fuzz; a long one is the built program with another time.

clang++-16 ... -o fuzz && ./fuzz corpus/ -max_total_time=3600
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    *("error.cpp", "array/*.cpp", "backend/backend.cpp", "device/*.cpp", "interop/*.cpp"),
    *(f"backend/cpu/{name}.cpp" for name in ("backend", "buffer")),
]


@pytest.fixture(scope="module")
def clang():
    """A clang++ whose runtime has libFuzzer and AddressSanitizer."""
    for name in ("clang++-16", "clang++"):
        compiler = shutil.which(name)
        if compiler:
            target = "-fsanitize=fuzzer,address,undefined"
            done = subprocess.run(
                [compiler, target, "-x", "c++", "-", "-o", os.devnull],
                input='extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }',
                capture_output=True,
                text=True,
            )
            if done.returncode == 0:
                return [compiler, target]
    pytest.skip("clang has no libFuzzer or AddressSanitizer here: install libclang-rt-16-dev")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["fuzz_dlpack_import"])
def test_arbitrary_input_breaks_nothing(clang, target, tmp_path):
    program = tmp_path / target
    sources = [path for pattern in SOURCES for path in (ROOT / "src").glob(pattern)]
    sources += [ROOT / "tests" / "fuzz" / name for name in (f"{target}.cpp", "no_kernels.cpp")]
    command = [*clang, "-std=c++20", "-O1", "-g", "-DTACK_BUILDING", "-o", program]
    command += [f"-I{ROOT / folder}" for folder in ("include", "src")]
    subprocess.run([*command, *sources], check=True)
    done = subprocess.run(
        [program, "-max_total_time=10", "-print_final_stats=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stderr.split("number_of_executed_units:")[1].split()[0]) > 10_000
