"""The Mandelbrot set: how soon z * z + c leaves the circle of radius 2, as a picture.

The points of the set cost the most steps and those around it few, so the iterations of the loop
are of very unequal length.

    python examples/mandelbrot.py [picture.png]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import tack


@tack.kernel
def mandelbrot(out, x, y, width, most):
    """out: the steps until a point leaves, with a fraction for smooth colours; 0 in the set.

    x, y: the picture's centre. width: of the picture. most: steps until a point counts as inside.
    """
    rows, columns = out.shape
    for i, j in tack.ndrange(rows, columns):
        scale = width / columns
        c = tack.vector(x + scale * (j - 0.5 * columns), y - scale * (i - 0.5 * rows))
        z, steps = tack.vector(0.0, 0.0), 0
        while tack.dot(z, z) <= 256.0 and steps < most:
            z = tack.vector(z[0] * z[0] - z[1] * z[1], 2.0 * z[0] * z[1]) + c
            steps += 1
        out[i, j] = 0.0
        if steps < most:
            out[i, j] = steps + 1 - math.log2(0.5 * math.log(tack.dot(z, z)) / math.log(2.0))


def main(picture="build/mandelbrot.png", rows=480, columns=720, most=1000):
    out = tack.empty((rows, columns))
    mandelbrot(out, -0.7436, 0.1318, 0.006, most)
    steps = out.numpy()
    print(f"{steps.mean():.0f} steps a point, up to {steps.max():.0f}")

    from matplotlib import colormaps, image

    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    shade = 0.5 - 0.5 * np.cos(np.sqrt(np.maximum(steps, 0)) * 0.9)
    colour = colormaps["twilight_shifted"](shade)[..., :3]
    image.imsave(picture, np.where(steps[..., None] == 0, 0.0, colour))
    return steps


if __name__ == "__main__":
    main(*sys.argv[1:])
