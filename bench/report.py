"""The table as text and as a page of docs/."""

import datetime
import os
import platform
import textwrap
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rows import TOPICS, UNITS, Row

import tack

CAUSES = Path(__file__).resolve().parent / "causes.md"
PACKAGES = ("numpy", "torch", "numba", "warp-lang", "apache-tvm-ffi", "vtk")
HEADINGS = ("row", "Tack", "peers, the best first", "ratio", "bar", "")


def figure(value, unit):
    if value is None:
        return "-"
    scaled = value / UNITS[unit]
    return f"{scaled:.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f} {unit}"


@dataclass
class Result:
    """A row and what was measured, in seconds or bytes. peers: (library, figure), best first."""

    row: Row
    own: float | None
    peers: list

    @property
    def ratio(self):
        return self.own / self.peers[0][1] if self.own is not None and self.peers else None

    @property
    def missed(self):
        """By which factor the bar is missed; 0 where it is met; None where there is no telling."""
        if self.own is None:
            return None
        if self.row.at_most is not None:
            factor = self.own / (self.row.at_most * UNITS[self.row.unit])
        elif self.row.times_peer is not None and self.ratio is not None:
            factor = self.ratio / self.row.times_peer
        else:
            return None
        return factor if factor > 1 else 0

    def cells(self):
        row = self.row
        others = [f"{name} {figure(value, row.unit)}" for name, value in self.peers]
        bar = "-"
        if row.at_most is not None:
            bar = f"{row.at_most:g} {row.unit}"
        elif row.times_peer is not None:
            bar = f"{row.times_peer:g}x"
        return (
            row.name,
            figure(self.own, row.unit),
            ", ".join(others) or "-",
            "-" if self.ratio is None else f"{self.ratio:.2f}x",
            bar,
            "-" if self.missed is None else "missed" if self.missed else "met",
        )


def table(results):
    lines = [HEADINGS, *(result.cells() for result in results)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines
    )


def causes():
    """The text for each row in causes.md, whose headings are rows' names."""
    sections = CAUSES.read_text().split("\n## ")[1:]
    return {name: text.strip() for name, _, text in (s.partition("\n") for s in sections)}


def misses(results):
    """A paragraph for each missed bar: by how much, and the cause."""
    known = causes()
    unknown = "No cause is written in bench/causes.md."
    return [
        textwrap.fill(
            f"**{result.row.name}**: {result.missed:.2f} times the bar. "
            + known.get(result.row.name, unknown),
            width=100,
        )
        for result in results
        if result.missed
    ]


def machine():
    """Pairs of what the figures depend on."""
    with open("/proc/cpuinfo") as lines:
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    versions = [f"tack {tack.__version__}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} -")
    return [
        ("processor", f"{models[0] if models else platform.machine()}, {len(models)} cores"),
        ("system", f"{platform.system()} {platform.release()}, Python {platform.python_version()}"),
        ("versions", ", ".join(versions)),
        ("load", f"{os.getloadavg()[0]:.1f} on {len(models)} cores when the run began"),
        ("date", datetime.date.today().isoformat()),
    ]


def markdown_table(results):
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(result.cells() for result in results)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(results, facts):
    parts = [
        "# Benchmarks",
        "`./dev bench --write` makes this page; `./dev bench` prints the table.",
        "\n".join(f"- {name}: {fact}" for name, fact in facts),
        "## How it is measured\n\n"
        "Tack and its peers take turns, and each figure is the best of its samples: up to 15 "
        "processes of their own for what happens once in a process (3 for the slow ones; one "
        "before them, which is not counted, brings the files into the page cache), else up to 50 "
        "batches of about 5 ms in one process, by `timeit`, whose loop adds a few nanoseconds. The "
        "clock is `time.perf_counter_ns`, and resident memory is that of `/proc/self/statm`; MB "
        "are 10^6 bytes. The ratio is to the best peer. A dash stands where a library or a file is "
        "missing. Nothing fails on a missed bar. Figures of a loaded machine (see above) are too "
        "high, most of all where compilers work.",
    ]
    for topic, title in TOPICS.items():
        chosen = [result for result in results if result.row.topic == topic]
        if chosen:
            told = "\n".join(f"- {result.row.name}: {result.row.what}." for result in chosen)
            parts += [f"## {title}", markdown_table(chosen), told]
    parts += ["## Missed bars", *(misses(results) or ["None."])]
    return "\n\n".join(parts) + "\n"
