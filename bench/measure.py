"""The ways to measure a figure. Each is prepared once and then sampled in turn with its peers.

A way has `prepare()`, which raises ImportError where the library is missing; `sample()`, which
returns seconds or bytes; and `rounds` and `budget`: the most samples, and the seconds after which
five are enough.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from time import perf_counter, sleep

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


class TimedOnNew:
    """A call timed on arguments made for it and used once: the seconds of one call, of a hundred.

    setup: a function without arguments that returns the function to call and one that makes its
    argument.
    """

    rounds, budget = 200, 1.5

    def __init__(self, setup):
        self._setup = setup

    def prepare(self):
        self._function, self._make = self._setup()

    def sample(self):
        function, made = self._function, [self._make() for _ in range(100)]
        start = perf_counter()
        for argument in made:
            function(argument)
        return (perf_counter() - start) / len(made)


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
        lines = [line.split() for line in done.stdout.splitlines()]
        return {words[1]: float(words[2]) for words in lines if words[:1] == ["figure"]}


def c_library(source, *options):
    """The shared library of a C file in native/."""
    with tempfile.TemporaryDirectory(prefix="tack-bench-") as folder:
        path = Path(folder) / "library.so"
        command = ["gcc", "-O3", "-shared", "-fPIC", HERE / "native" / source, "-o", path, *options]
        subprocess.run(command, check=True)
        return ctypes.CDLL(path)


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
