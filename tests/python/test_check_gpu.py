"""`./dev check-gpu` where there is no GPU: it says so, and what needs none of it works."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def check_gpu(*arguments, **environment):
    """On a machine without what the session's conftest has set up."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TACK_")}
    environment = {**kept, "TACK_DEV_PYTHON": sys.executable, **environment}
    if build := os.environ.get("TACK_BUILD"):
        environment["TACK_BUILD"] = build
    return subprocess.run(
        [ROOT / "dev", "check-gpu", *arguments], capture_output=True, text=True, env=environment
    )


def test_without_a_gpu_it_says_so_in_one_sentence_and_fails():
    done = check_gpu(TACK_CUDA_DRIVER="/nowhere/libcuda.so.1")
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("check-gpu: no GPU was found here: ")
    assert "/nowhere/libcuda.so.1" in line


@pytest.mark.slow
def test_a_build_without_anything_optional_passes_all_suites_on_the_simulator(capsys):
    done = check_gpu("--no-gpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Built without LLVM, pthreadpool and GoogleTest" in done.stdout
    rows = dict(re.findall(r"^(test_\w+) +(\d+ .*)", done.stdout, re.MULTILINE))
    suites = {
        path.stem
        for path in Path(__file__).parent.glob("test_*.py")
        if re.search(r'^\w+ = .*fixtures\("backend"\)|^@on_driver', path.read_text(), re.MULTILINE)
    }
    assert rows.keys() == suites | {"test_gpu_partners"}
    not_run = {suite for suite, row in rows.items() if row.startswith("0 ")}
    assert not_run == {suite for suite, row in rows.items() if row.endswith("needs hypothesis")}
    assert not_run == {"test_dlpack_machine", "test_kernel_programs"}
    (summary,) = re.findall(r"^Suites: .*; without hypothesis$", done.stdout, re.MULTILINE)
    with capsys.disabled():
        print(f"\n{summary}, LLVM, pthreadpool and GoogleTest")
    assert re.search(r"^launch with 3 arrays +us +[\d.]+", done.stdout, re.MULTILINE)
    assert re.search(r"^Failures: 0$", done.stdout, re.MULTILINE)


def test_its_tree_is_small_enough_to_carry():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    sizes = [(ROOT / name).stat().st_size for name in listed.stdout.split("\0") if name]
    assert 0 < sum(sizes) < 64 << 20
