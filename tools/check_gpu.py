"""`./dev check-gpu`: builds Tack with what a machine with a GPU has, tests and measures it there.

No LLVM, no pthreadpool, no GoogleTest, no network, and no Python package but those of the Python
that runs this. Everything is written to build/gpu. One deadline holds for all of it; what has not
ended by then is lost alone, and each line is printed once it is known.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "gpu"
PREFIX = FOLDER / "prefix"
TESTS = ROOT / "tests" / "python"
PARTNERS_SUITE = TESTS / "test_gpu_partners.py"
SIMULATORS = Path(os.environ.get("TACK_BUILD") or ROOT / "build")

# For all: the build, the tests and the figures, for which the last of it is kept.
SECONDS = 8 * 60
MEASURING_SECONDS = 100
# A rehearsal's machine may be any: enough to find what hangs.
DRY_SECONDS = 25 * 60
DRIVER = "TACK_CUDA_DRIVER"
# What a partner's Python says, where it can use the GPU.
PARTNERS = {
    "torch": "import torch; assert torch.cuda.is_available(); print(torch.__version__)",
    "cupy": "import cupy; assert cupy.cuda.is_available(); print(cupy.__version__)",
    "jax": "import jax; assert jax.default_backend() == 'gpu'; print(jax.__version__)",
}
SUITE_ROW = "{:<36} {:>7} {:>7} {:>7} {:>7}  {}"


def main():
    parser = argparse.ArgumentParser(prog="./dev check-gpu", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--no-gpu",
        action="store_true",
        help="a rehearsal on the simulated driver that ./dev test has built",
    )
    parser.add_argument("suites", nargs="*", help="only these modules of tests/python")
    options = parser.parse_args()
    end = monotonic() + (DRY_SECONDS if options.no_gpu else SECONDS)
    if options.no_gpu:
        simulate()
    if reason := why_no_gpu():
        sys.exit(f"check-gpu: no GPU was found here: {reason}")
    if not options.no_gpu:
        os.environ["TACK_TEST_REAL_GPU"] = "1"
        if nvrtc := find_nvrtc():
            os.environ.setdefault("TACK_NVRTC", str(nvrtc))
    os.environ["TACK_CACHE_DIR"] = str(FOLDER / "cache")
    build(end)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(PREFIX), os.environ.get("PYTHONPATH", "")])
    status = run_until(monotonic() + 60, [sys.executable, "-m", "tack"])
    absent = report_partners()
    results = run_suites(choose_suites(options), end - MEASURING_SECONDS, options.no_gpu)
    measured = measure(end, options.no_gpu)
    failures = ["python -m tack"] if status.returncode else []
    failures += [result.suite for result in results if not result.passed]
    failures += [] if options.no_gpu else [f"{name} is absent" for name in absent]
    failures += [] if measured else ["figures"]
    print(f"\nFailures: {len(failures)}", *failures, sep="\n    ")
    sys.exit(1 if failures else 0)


# The machine


def simulate():
    """Puts the simulated driver in the real one's place, for this process and those it starts."""
    folder = SIMULATORS / "sim" / "cuda"
    for name, file in {DRIVER: "libcuda.so.1", "TACK_NVRTC": "libnvrtc.so.13"}.items():
        found = next(iter(sorted(folder.rglob(file))), None)
        if found is None:
            sys.exit(f"check-gpu: {file} is not in {folder}: ./dev test builds the simulator")
        os.environ.setdefault(name, str(found))
    os.environ.setdefault("TACK_SIM_CACHE", str(SIMULATORS / "cache" / "sim"))
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


def report_partners():
    """Prints the partners' versions; the names of those that cannot use a GPU here."""
    absent = []
    for name, code in PARTNERS.items():
        done = run_until(monotonic() + 60, [sys.executable, "-c", code], capture=True)
        if done.returncode == 0:
            print(f"Partner {name} {done.stdout.strip()}", flush=True)
        else:
            last = (done.stderr.strip().splitlines() or ["did not end in time"])[-1]
            print(f"Partner {name} cannot use a GPU here: {last}", flush=True)
            absent.append(name)
    return absent


def run_until(end, command, capture=False, **options):
    """A finished process; with all that it has started it is killed at the time `end`."""
    if capture:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [str(part) for part in command]
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            out, error = process.communicate(timeout=max(1, end - monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, error = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, error)


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


def build(end):
    start = monotonic()
    options = "-G Ninja -DTACK_CLANG=OFF -DTACK_PTHREADPOOL=OFF -DTACK_TESTS=OFF -DTACK_PYTHON=ON"
    options = [*options.split(), f"-DPython_EXECUTABLE={sys.executable}"]
    options.append("-DCMAKE_INSTALL_LIBDIR=lib")
    step(end, "configure", "cmake", "-S", ROOT, "-B", FOLDER, *options)
    step(end, "compile", "cmake", "--build", FOLDER)
    shutil.rmtree(PREFIX, ignore_errors=True)
    for component in ("runtime", "development", "python"):
        step(
            end,
            f"install-{component}",
            "cmake",
            "--install",
            FOLDER,
            "--component",
            component,
            "--prefix",
            PREFIX / "tack",
        )
    print(
        f"Built without LLVM, pthreadpool and GoogleTest in {monotonic() - start:.0f} s", flush=True
    )


def step(end, name, *command):
    log = FOLDER / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        done = run_until(end, command, stdout=out, stderr=out)
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
    return [PARTNERS_SUITE, *filter(needs_a_device, sorted(TESTS.glob("test_*.py")))]


def needs_a_device(path):
    """It runs on every backend, see tests/python/backends.py, or has tests for every driver."""
    text = path.read_text()
    return '= pytest.mark.usefixtures("backend")' in text or "\n@on_driver" in text


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


def run_suites(suites, end, dry):
    """One process for each module, as many at a time as there are processors for it."""
    # A rehearsal is without what the machine with the GPU may be without.
    absent = {"hypothesis"} if dry else set()
    hide(absent)
    results = []
    print("\n" + SUITE_ROW.format("suite", "passed", "failed", "skipped", "seconds", ""))
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        running = [pool.submit(run_suite, suite, absent, end) for suite in suites]
        for done in as_completed(running):
            results.append(done.result())
            report_suite(results[-1])
    run = [result for result in results if result.tests]
    print(
        f"Suites: {len(run)} run, {len(results) - len(run)} not; tests: "
        f"{sum(r.tests - r.failed - r.skipped for r in run)} passed, "
        f"{sum(r.failed for r in run)} failed, {sum(r.skipped for r in run)} skipped"
        + (f"; without {', '.join(absent)}" if absent else ""),
        flush=True,
    )
    return results


def hide(names):
    """The modules of these names cannot be imported by the processes started from now on."""
    folder = FOLDER / "hidden"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('{name} is hidden')\n")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ["PYTHONPATH"]])


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
        "-p",
        "no:hypothesispytest",  # which needs hypothesis at its end
        "-q",
        "--scope=core",
        f"--junitxml={report}",
        "--rootdir",
        ROOT,
        suite,
    ]
    if "@on_driver" in suite.read_text():
        command += ["-m", "driver"]
    # Suites at the same time would compile what a simulated compiler collects from all of them.
    environment = {**os.environ, "TACK_SIM_SOURCES": str(report.with_suffix(".sources"))}
    start = monotonic()
    if start > end:
        result.note = "not run: no time was left"
        return result
    with result.log.open("w") as out:
        done = run_until(end, command, stdout=out, stderr=out, cwd=ROOT, env=environment)
    result.seconds = monotonic() - start
    if done.returncode == -signal.SIGKILL:
        result.note = "did not end in time"
        return result
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


def report_suite(result):
    passed = result.tests - result.failed - result.skipped
    counts = [passed, result.failed, result.skipped, f"{result.seconds:.0f}", result.note]
    print(SUITE_ROW.format(result.suite, *counts).rstrip(), flush=True)
    if not result.passed and result.log.exists():
        print(f"    The end of {result.log}:")
        print(*result.log.read_text().splitlines()[-30:], sep="\n    ", flush=True)


# Measuring


def measure(end, dry):
    """Prints the figures as they come; False where one is missing."""
    command = [sys.executable, ROOT / "bench" / "gpu.py", *(["--small"] if dry else [])]
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    late = threading.Timer(max(1, end - monotonic()), os.killpg, (process.pid, signal.SIGKILL))
    late.daemon = True
    late.start()
    complete, missed, libraries = True, 0, []
    with process:
        for line in process.stdout:
            row = json.loads(line)
            if "libraries" in row:
                libraries = row["libraries"]
                print("\n" + figures_line("", "unit", libraries, "bars"))
            elif "error" in row:
                complete = False
                print(f"{row['name']}: {row['error']}", flush=True)
            else:
                bars = "; ".join(
                    f"{text}, {'met' if met else 'MISSED'}" for text, met in row["bars"]
                )
                figures = [number(row["figures"].get(name)) for name in libraries]
                print(figures_line(row["name"], row["unit"], figures, bars), flush=True)
                missed += sum(not met for _, met in row["bars"])
    late.cancel()
    if dry:
        print("These are figures of a simulated driver: neither they nor the bars mean anything.")
    else:
        print(f"Bars missed: {missed}. They fail nothing: a test is what must pass.")
    if process.returncode:
        in_time = process.returncode != -signal.SIGKILL
        why = f"ended with status {process.returncode}" if in_time else "did not end in time"
        print(f"check-gpu: bench/gpu.py {why}", file=sys.stderr)
    return complete and not process.returncode


def figures_line(name, unit, figures, bars):
    cells = "".join(f"{figure:<23}" for figure in figures)
    return f"{name:<40} {unit:<5} {cells} {bars}".rstrip()


def number(value):
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


if __name__ == "__main__":
    main()
