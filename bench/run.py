"""Figures of Tack side by side with other libraries': `./dev bench [--write] [--only WORD]`.

It asserts nothing: a bar that is missed is said, with its cause in causes.md, and that is all.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import report
from measure import best_of_each, caches_in
from rows import ROWS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


def parse():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.partition(":")[0])
    how_much = parser.add_mutually_exclusive_group()
    how_much.add_argument("--write", action="store_true", help="keep the table in docs/")
    how_much.add_argument("--only", metavar="WORD", help="only rows with WORD in their names")
    arguments = parser.parse_args()
    rows = [row for row in ROWS if not arguments.only or arguments.only in row.name]
    if not rows:
        names = ", ".join(row.name for row in ROWS)
        parser.error(f"no row has '{arguments.only}' in its name: {names}")
    unknown = report.causes().keys() - {row.name for row in ROWS}
    if unknown:
        parser.error(f"causes.md explains rows that there are not: {', '.join(sorted(unknown))}")
    return arguments, rows


def measure(row):
    """The row's Result. What a library failed with goes to stderr and counts as missing."""
    names = ["Tack", *(name for name, _ in row.peers)]
    figures = best_of_each([row.tack, *(way for _, way in row.peers)])
    for index, value in enumerate(figures):
        if isinstance(value, Exception):
            print(f"  {names[index]}: {type(value).__name__}: {value}", file=sys.stderr)
            figures[index] = None
    peers = [pair for pair in zip(names[1:], figures[1:]) if pair[1] is not None]
    return report.Result(row, figures[0], sorted(peers, key=lambda pair: pair[1]))


def main():
    arguments, rows = parse()
    facts = report.machine()
    start = perf_counter()
    results = []
    with tempfile.TemporaryDirectory(prefix="tack-bench-") as folder:
        os.environ.update(caches_in(folder))
        for number, row in enumerate(rows, 1):
            print(f"[{number}/{len(rows)}] {row.name}", file=sys.stderr, flush=True)
            results.append(measure(row))
    print("\n".join(f"{name}: {fact}" for name, fact in facts))
    print("", report.table(results), "", *report.misses(results), sep="\n")
    if arguments.write:
        PAGE.write_text(report.page(results, facts))
        print(f"\n{PAGE} is written.")
    print(f"\nIt took {perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
