"""./dev lint: every check runs, then the exit status says whether all have passed."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
# The generated and the foreign stay out; the plugin's LLVM headers alone take minutes.
CPP_FOLDERS = ("include", "src", "python/src", "sim", "tests", "examples")
TIDY_FOLDERS = ("src", "python/src")
TIDY_EXCLUDED = "src/clang"
PYTHON_FOLDERS = ("python", "tests", "examples", "bench")


def cpp_files():
    paths = [path for folder in CPP_FOLDERS for path in (ROOT / folder).rglob("*")]
    return sorted(path for path in paths if path.suffix in {".cpp", ".hpp", ".h"})


def run(*command):
    result = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.returncode == 0, result.stdout


def clang_format():
    return run(BIN / "clang-format", "--dry-run", "--Werror", *cpp_files())


def clang_tidy():
    commands = json.loads((ROOT / "build" / "compile_commands.json").read_text())
    files = sorted({Path(command["file"]) for command in commands})
    files = [
        file
        for file in files
        if any(file.is_relative_to(ROOT / folder) for folder in TIDY_FOLDERS)
        and not file.is_relative_to(ROOT / TIDY_EXCLUDED)
    ]

    def check(file):
        # GCC's own warning options are in the database.
        options = ("--quiet", "--extra-arg=-Wno-unknown-warning-option", "-p", ROOT / "build")
        return run(BIN / "clang-tidy", *options, file)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(check, files))
    return all(passed for passed, _ in results), "".join(
        text for passed, text in results if not passed
    )


def ruff():
    checked, problems = run(BIN / "ruff", "check", *PYTHON_FOLDERS)
    formatted, differences = run(BIN / "ruff", "format", "--check", *PYTHON_FOLDERS)
    return checked and formatted, problems + differences


def mypy():
    stubs = sorted((ROOT / "python" / "tack").rglob("*.pyi"))
    users = sorted((ROOT / "tests" / "typing").glob("*.py"))
    return run(BIN / "mypy", *stubs, *users)


def project_rules():
    results = [
        run(sys.executable, file) for file in sorted(Path(__file__).parent.glob("check_*.py"))
    ]
    return all(passed for passed, _ in results), "".join(text for _, text in results)


def main():
    failed = []
    for check in (clang_format, ruff, project_rules, mypy, clang_tidy):
        start = time.monotonic()
        name = check.__name__.replace("_", " ")
        print(f"{name} ...", end=" ", flush=True)
        passed, output = check()
        print(f"{'passed' if passed else 'FAILED'} in {time.monotonic() - start:.0f} s")
        if not passed:
            print(output)
            failed.append(name)
    if failed:
        sys.exit(f"dev lint: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
