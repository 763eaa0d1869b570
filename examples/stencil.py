"""A stencil: two chemicals that diffuse and react (Gray-Scott) grow spots that divide.

Each step reads the four neighbours of a cell, across the edges too, and writes a second pair of
arrays. Saves the second chemical as a picture.

    python examples/stencil.py [picture.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tack


@tack.func
def laplacian(x, i, j):
    n, m = x.shape
    up, down = i - 1 if i > 0 else n - 1, i + 1 if i < n - 1 else 0
    left, right = j - 1 if j > 0 else m - 1, j + 1 if j < m - 1 else 0
    return x[up, j] + x[down, j] + x[i, left] + x[i, right] - 4.0 * x[i, j]


@tack.kernel
def step(u, v, new_u, new_v, feed, kill):
    for i, j in tack.ndrange(u.shape[0], u.shape[1]):
        reaction = u[i, j] * v[i, j] * v[i, j]
        new_u[i, j] = u[i, j] + 0.2 * laplacian(u, i, j) - reaction + feed * (1.0 - u[i, j])
        new_v[i, j] = v[i, j] + 0.1 * laplacian(v, i, j) + reaction - (feed + kill) * v[i, j]


def seeded(size):
    """Chemical u everywhere, and spots of v at places that are the same at every run."""
    u, v = np.ones((size, size), np.float32), np.zeros((size, size), np.float32)
    for row, column in np.random.default_rng(1).integers(0, size - 8, (20, 2)):
        u[row : row + 8, column : column + 8] = 0.5
        v[row : row + 8, column : column + 8] = 0.25
    return u, v


def main(picture="build/stencil.png", size=256, steps=5000, feed=0.035, kill=0.062):
    now = [tack.array(x) for x in seeded(size)]
    after = [tack.empty((size, size)) for _ in now]
    for _ in range(steps):
        step(*now, *after, feed, kill)
        now, after = after, now
    u, v = (x.numpy() for x in now)
    print(f"after {steps} steps v covers {(v > 0.1).mean():.0%} of {size} x {size} cells")

    from matplotlib import image

    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    image.imsave(picture, v.repeat(2, axis=0).repeat(2, axis=1), cmap="magma")
    return u, v


if __name__ == "__main__":
    main(*sys.argv[1:])
