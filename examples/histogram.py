"""A histogram: where the points of a strange attractor (de Jong's) come to lie.

Many walkers start at random and count their steps in one two-dimensional array, with atomics,
since two of them may be in the same cell. Saves the counts as a picture.

    python examples/histogram.py [picture.png]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import tack


@tack.kernel
def walk(seed, walkers, steps, a, b, c, d, counts):
    rows, columns = counts.shape
    for i in range(walkers):
        x = 4.0 * tack.random(seed, i, 0) - 2.0
        y = 4.0 * tack.random(seed, i, 1) - 2.0
        for k in range(-20, steps):
            x, y = math.sin(a * y) - math.cos(b * x), math.sin(c * x) - math.cos(d * y)
            if k >= 0:  # the first steps lead onto the attractor
                row = int((y + 2.05) / 4.1 * rows)
                column = int((x + 2.05) / 4.1 * columns)
                tack.atomic_add(counts, (row, column), 1)


def main(picture="build/histogram.png", size=600, walkers=40_000, steps=200):
    counts = tack.zeros((size, size), dtype=tack.int32)
    walk(1, walkers, steps, 1.4, -2.3, 2.4, -2.1, counts)
    seen = counts.numpy()
    print(f"{seen.sum()} steps in {(seen > 0).mean():.0%} of the cells, up to {seen.max()} in one")

    from matplotlib import image

    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    image.imsave(picture, np.log1p(seen), cmap="magma")
    return seen


if __name__ == "__main__":
    main(*sys.argv[1:])
