"""The ways to measure a figure. Each is prepared once and then sampled in turn with its peers.

A way has `prepare()`, which raises ImportError where the library is missing; `sample()`, which
returns seconds or bytes; and `rounds` and `budget`: the most samples, and the seconds after which
five are enough.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from time import perf_counter, sleep

import tack

HERE = Path(__file__).resolve().parent


def caches_in(folder):
    """The environment variables with which Tack and its peers keep compiled code in a folder."""
    return {name: folder for name in ("TACK_CACHE_DIR", "NUMBA_CACHE_DIR", "WARP_CACHE_PATH")}


class Timed:
    """A statement timed in this process: the seconds of one run, from batches of about 5 ms.

    setup: a function without arguments that returns the names which the statement uses.
    """

    rounds, budget = 50, 1.5
    _batch = 5e-3

    def __init__(self, setup, statement):
        self._setup, self._statement = setup, statement

    def prepare(self):
        self._timer = timeit.Timer(self._statement, globals=self._setup())
        self._timer.timeit(1)  # compiles
        self._number = 1
        while self._number < 1_000_000 and self._timer.timeit(self._number) < self._batch / 4:
            self._number *= 4

    def sample(self):
        # The threads of other libraries keep spinning for a while after their last work.
        sleep(5e-3)
        self._timer.timeit(1)
        return self._timer.timeit(self._number) / self._number


class Fresh:
    """A figure that a script in fresh/ prints, in a process of its own for each sample.

    figure: the name before the figure in the script's output. cache: "empty" gives each process new
    folders for compiled code, "filled" those that a first process has filled. The first process is
    not counted: it brings the files into the page cache. Rows over the same script share processes.
    """

    budget = 20.0
    _series: dict = {}  # command and cache -> the folder for compiled code, outputs so far

    def __init__(self, script, *arguments, figure, cache="empty", rounds=15):
        self._command = [sys.executable, str(HERE / "fresh" / f"{script}.py"), *arguments]
        self._figure, self._cache, self.rounds = figure, cache, rounds
        self._taken = 0

    def prepare(self):
        key = (*self._command, self._cache)
        if key not in self._series:
            self._series[key] = tempfile.TemporaryDirectory(prefix="tack-bench-"), []
            self._run(self._series[key][0].name)
        self._folder, self._outputs = self._series[key]

    def sample(self):
        if self._taken == len(self._outputs):
            self._outputs.append(self._run(self._folder.name))
        self._taken += 1
        return self._outputs[self._taken - 1][self._figure]

    def _run(self, folder):
        if self._cache == "empty":
            shutil.rmtree(folder)
            os.mkdir(folder, 0o700)
        environment = {**os.environ, **caches_in(folder)}
        # An installed package has its bytecode.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        done = subprocess.run(self._command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            problem = done.stderr.strip().rpartition("\n")[2]
            missing = problem.startswith("ModuleNotFoundError")
            raise (ImportError if missing else RuntimeError)(problem)
        return figures_of(done.stdout)


def figures_of(output):
    """The figures that a program printed, by name."""
    lines = [line.split() for line in output.splitlines()]
    return {words[1]: float(words[2]) for words in lines if words[:1] == ["figure"]}


def compiled(source, *arguments):
    """What GCC makes of a file in native/, in a folder that lives as long as this process."""
    folder = tempfile.mkdtemp(prefix="tack-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / source.partition(".")[0]
    compiler = "gcc" if source.endswith(".c") else "g++"
    command = [compiler, "-O3", HERE / "native" / source, "-o", path, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    return path


class Native:
    """A figure that native/figures.cpp prints, built against the installed C++ package."""

    rounds, budget = 5, 20.0
    _program: list = []

    def __init__(self, figure):
        self._figure = figure

    def prepare(self):
        if not self._program:
            package = Path(tack.__file__).parent
            lib = package / "lib"
            options = ("-std=c++20", f"-I{package / 'include'}", f"-L{lib}", f"-Wl,-rpath,{lib}")
            self._program.append(compiled("figures.cpp", *options, "-l:libtack.so.0"))

    def sample(self):
        done = subprocess.run(self._program, capture_output=True, text=True, check=True)
        return figures_of(done.stdout)[self._figure]


class FileSize:
    """The bytes of a file, without its symbols if `stripped`.

    find: a function without arguments that returns the path, or None where there is no such file.
    """

    rounds, budget = 1, 0.0

    def __init__(self, find, stripped=False):
        self._find, self._stripped = find, stripped

    def prepare(self):
        self._path = self._find()
        if self._path is None:
            raise ImportError("no such file")

    def sample(self):
        if not self._stripped:
            return self._path.stat().st_size
        with tempfile.TemporaryDirectory(prefix="tack-bench-") as folder:
            copy = Path(folder) / self._path.name
            subprocess.run(["strip", "-o", copy, self._path], check=True)
            return copy.stat().st_size


def best_of_each(ways):
    """The smallest figure of each way, sampled in turn.

    One whose library is missing gives None, one that fails otherwise its Exception.
    """
    best: list = [None] * len(ways)
    spent = [0.0] * len(ways)
    turn = 0
    left = list(range(len(ways)))
    while left:
        for index in tuple(left):
            way, start = ways[index], perf_counter()
            try:
                if turn == 0:
                    way.prepare()
                    start = perf_counter()
                figure = way.sample()
            except Exception as problem:
                best[index] = None if isinstance(problem, ImportError) else problem
                left.remove(index)
                continue
            best[index] = figure if turn == 0 else min(best[index], figure)
            spent[index] += perf_counter() - start
            if turn + 1 == way.rounds or (turn + 1 >= 5 and spent[index] > way.budget):
                left.remove(index)
        turn += 1
    return best
