"""The files under version control, as text, for the checks beside this file."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked(*patterns):
    """Paths relative to the root: what git has, or would take."""
    command = [
        "git",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
        "--",
        *patterns,
    ]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(path for path in set(output.split("\0")) if path and (ROOT / path).is_file())


def text_of(path):
    """None for what is not text."""
    try:
        return (ROOT / path).read_text()
    except UnicodeDecodeError:
        return None


def report(problems):
    """Prints them, one a line, and exits with the status."""
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
