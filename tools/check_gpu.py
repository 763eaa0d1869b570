"""`./dev check-gpu`: builds Tack with what a machine with a GPU has, tests and measures it there.

No LLVM, no pthreadpool, no GoogleTest, no network, and no Python package but those of the Python
that runs this. Everything is written to build/gpu.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "gpu"
PREFIX = FOLDER / "prefix"
TESTS = ROOT / "tests" / "python"
PARTNERS_SUITE = TESTS / "test_gpu_partners.py"
SIMULATORS = Path(os.environ.get("TACK_BUILD") or ROOT / "build")

# Of the eight minutes that the whole may take: what comes after the build.
TEST_SECONDS = 240
MEASURING_SECONDS = 100
# For a dry run, whose machine may be any: enough to find what hangs.
DRY_SECONDS = 1500
DRIVER = "TACK_CUDA_DRIVER"


def main():
    parser = argparse.ArgumentParser(prog="./dev check-gpu", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--no-gpu",
        action="store_true",
        help="a rehearsal on the simulated driver that ./dev test has built",
    )
    parser.add_argument("suites", nargs="*", help="only these modules of tests/python")
    options = parser.parse_args()
    if options.no_gpu:
        simulate()
    if reason := why_no_gpu():
        sys.exit(f"check-gpu: no GPU was found here: {reason}")
    if not options.no_gpu:
        os.environ["TACK_TEST_REAL_GPU"] = "1"
        if nvrtc := find_nvrtc():
            os.environ.setdefault("TACK_NVRTC", str(nvrtc))
    os.environ["TACK_CACHE_DIR"] = str(FOLDER / "cache")
    build()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(PREFIX), os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-m", "tack"], check=True)
    results = run_suites(choose_suites(options), options.no_gpu)
    report_suites(results)
    measured = measure(options.no_gpu)
    sys.exit(0 if measured and all(result.passed for result in results) else 1)


# The machine


def simulate():
    """Puts the simulated driver in the real one's place, for this process and those it starts."""
    folder = SIMULATORS / "sim" / "cuda"
    for name, file in {DRIVER: "libcuda.so.1", "TACK_NVRTC": "libnvrtc.so.13"}.items():
        found = next(iter(sorted(folder.rglob(file))), None)
        if found is None:
            sys.exit(f"check-gpu: {file} is not in {folder}: ./dev test builds the simulator")
        os.environ.setdefault(name, str(found))
    os.environ.setdefault("TACK_SIM_CACHE", str(FOLDER / "cache" / "sim"))
    # Else it would end each process that has used a device, since those are never destroyed.
    os.environ.setdefault("TACK_SIM_REPORT", str(FOLDER / "simulator.txt"))


def why_no_gpu():
    """None where the driver has a device, else what it says."""
    path = os.environ.get(DRIVER) or "libcuda.so.1"
    # In a process of its own: a driver that has been started cannot be used in a forked one.
    code = (
        "import ctypes, sys\n"
        "cuda, count = ctypes.CDLL(sys.argv[1]), ctypes.c_int()\n"
        "started = cuda.cuInit(0)\n"
        "cuda.cuDeviceGetCount(ctypes.byref(count))\n"
        "sys.exit(0 if count.value else f'cuInit gave {started}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def find_nvrtc():
    """NVRTC in this Python's packages, such as PyTorch installs, or in a CUDA toolkit; or None."""
    folders = [
        folder
        for name in ("purelib", "platlib")
        for folder in Path(sysconfig.get_path(name)).glob("nvidia/*/lib")
    ]
    toolkits = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    if nvcc := shutil.which("nvcc"):
        toolkits.append(str(Path(nvcc).resolve().parents[1]))
    folders += [Path(toolkit) / "lib64" for toolkit in toolkits if toolkit]
    for folder in folders:
        for path in sorted(folder.glob("libnvrtc.so.1?"), reverse=True):
            return path
    return None


# Building


def build():
    start = monotonic()
    options = "-G Ninja -DTACK_CLANG=OFF -DTACK_PTHREADPOOL=OFF -DTACK_TESTS=OFF -DTACK_PYTHON=ON"
    options = [*options.split(), f"-DPython_EXECUTABLE={sys.executable}"]
    options.append("-DCMAKE_INSTALL_LIBDIR=lib")
    step("configure", "cmake", "-S", ROOT, "-B", FOLDER, *options)
    step("compile", "cmake", "--build", FOLDER)
    shutil.rmtree(PREFIX, ignore_errors=True)
    for component in ("runtime", "development", "python"):
        step(
            f"install-{component}",
            "cmake",
            "--install",
            FOLDER,
            "--component",
            component,
            "--prefix",
            PREFIX / "tack",
        )
    print(f"Built without LLVM and pthreadpool in {monotonic() - start:.0f} s", flush=True)


def step(name, *command):
    log = FOLDER / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        done = subprocess.run([str(part) for part in command], stdout=out, stderr=out)
    if done.returncode:
        print(*log.read_text().splitlines()[-40:], sep="\n", file=sys.stderr)
        sys.exit(f"check-gpu: {name} failed, see {log}")


# Testing


@dataclass
class Result:
    suite: str
    tests: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0
    log: Path | None = None
    note: str = ""  # why it did not run, or not to its end

    @property
    def passed(self):
        return not self.failed and (not self.note or self.log is None)


def choose_suites(options):
    if options.suites:
        return [TESTS / f"{Path(name).stem}.py" for name in options.suites]
    # What runs on every backend says so, see tests/python/backends.py.
    every = [
        p for p in sorted(TESTS.glob("test_*.py")) if 'usefixtures("backend")' in p.read_text()
    ]
    return [*every, PARTNERS_SUITE]


def missing_modules(path, absent):
    """What a module and those beside it import on their first level and this Python has not."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.partition(".")[0])
    missing = set()
    for name in names - {"tack", path.stem}:
        beside = path.with_name(f"{name}.py")
        if beside.exists():
            missing |= missing_modules(beside, absent)
        elif name in absent or importlib.util.find_spec(name) is None:
            missing.add(name)
    return missing


def run_suites(suites, dry):
    """One process for each module, as many at a time as there are processors for it."""
    end = monotonic() + (DRY_SECONDS if dry else TEST_SECONDS)
    # A rehearsal is without what the machine with the GPU may be without.
    absent = {"hypothesis"} if dry else set()
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda suite: run_suite(suite, absent, end), suites))


def run_suite(suite, absent, end):
    result = Result(suite.stem)
    if missing := missing_modules(suite, absent):
        result.note = f"not run: needs {', '.join(sorted(missing))}"
        return result
    report = FOLDER / "results" / f"{suite.stem}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    result.log = report.with_suffix(".log")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-q",
        "--scope=core",
        f"--junitxml={report}",
        "--rootdir",
        ROOT,
        suite,
    ]
    # What a simulated compiler collects is removed at each session's end.
    environment = {**os.environ, "TACK_SIM_SOURCES": str(report.with_suffix(".sources"))}
    start = monotonic()
    with result.log.open("w") as out:
        try:
            done = subprocess.run(
                [str(part) for part in command],
                stdout=out,
                stderr=out,
                cwd=ROOT,
                env=environment,
                timeout=max(1, end - start),
            )
        except subprocess.TimeoutExpired:
            result.note = "did not end in time"
            return result
    result.seconds = monotonic() - start
    if not report.exists():
        result.note = f"ended with status {done.returncode} and no report"
        return result
    for counted in ElementTree.parse(report).iter("testsuite"):
        result.tests += int(counted.get("tests"))
        result.failed += int(counted.get("failures")) + int(counted.get("errors"))
        result.skipped += int(counted.get("skipped"))
    if done.returncode and not result.failed:
        result.note = f"ended with status {done.returncode}"
    return result


def report_suites(results):
    print_table(
        ["suite", "passed", "failed", "skipped", "seconds", ""],
        [
            [
                r.suite,
                r.tests - r.failed - r.skipped,
                r.failed,
                r.skipped,
                f"{r.seconds:.0f}",
                r.note,
            ]
            for r in results
        ],
    )
    for result in results:
        if not result.passed:
            print(f"\n{result.suite}, the end of {result.log}:")
            print(*result.log.read_text().splitlines()[-30:], sep="\n")


# Measuring


def measure(dry):
    """Prints the figures; False where there are none."""
    command = [sys.executable, ROOT / "bench" / "gpu.py", *(["--small"] if dry else [])]
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        text=True,
        timeout=DRY_SECONDS if dry else MEASURING_SECONDS,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    libraries = list(dict.fromkeys(name for row in rows for name in row["figures"]))
    lines, missed = [], 0
    for row in rows:
        figures = [row["figures"].get(name) for name in libraries]
        bars = [f"{text}, {'met' if met else 'MISSED'}" for text, met in row["bars"]]
        lines.append([row["name"], row["unit"], *map(number, figures), "; ".join(bars)])
        missed += sum(not met for _, met in row["bars"])
    print_table(["", "unit", *libraries, "bars"], lines)
    if dry:
        print("These are figures of a simulated driver: neither they nor the bars mean anything.")
    else:
        print(f"Bars missed: {missed}. They fail nothing: a test is what must pass.")
    if done.returncode:
        print(f"check-gpu: bench/gpu.py ended with status {done.returncode}", file=sys.stderr)
    return not done.returncode


def number(value):
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def print_table(header, lines):
    cells = [[str(cell) for cell in line] for line in [header, *lines]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    print()
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    sys.stdout.flush()


if __name__ == "__main__":
    main()
