"""An image filter: takes the noise out of a photograph and keeps its edges (bilateral filter).

The photograph is matplotlib's sample; its bytes go in as they are and come out as bytes. Saves the
noisy picture and the filtered one side by side.

    python examples/image_filter.py [picture.png]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import tack

RADIUS = 5


@tack.kernel
def add_noise(seed, strength, image):
    for i, j, c in tack.ndrange(image.shape[0], image.shape[1], image.shape[2]):
        noise = tack.random(seed, i, j, c) - 0.5
        image[i, j, c] = round(image[i, j, c] + strength * noise)


@tack.func
def pixel(image, i, j):
    return tack.vector(
        tack.float32(image[i, j, 0]), tack.float32(image[i, j, 1]), tack.float32(image[i, j, 2])
    )


@tack.kernel
def bilateral(image, out, distance, difference):
    """Means over a pixel's surroundings; what is far, or of another colour, counts for less."""
    rows, columns, _ = image.shape
    for i, j in tack.ndrange(rows, columns):
        own = pixel(image, i, j)
        total, weights = 0.0 * own, 0.0
        for k, m in tack.ndrange((-RADIUS, RADIUS + 1), (-RADIUS, RADIUS + 1)):
            other = pixel(image, min(max(i + k, 0), rows - 1), min(max(j + m, 0), columns - 1))
            d = other - own
            exponent = (k * k + m * m) / (distance * distance) + tack.dot(d, d) / (
                difference * difference
            )
            weight = math.exp(tack.float32(-0.5) * exponent)
            total += weight * other
            weights += weight
        total /= weights
        for c in range(3):
            out[i, j, c] = round(total[c])


def photograph():
    """The sample photograph: uint8, rows x columns x 3."""
    from matplotlib import cbook, image

    with cbook.get_sample_data("grace_hopper.jpg") as file:
        return np.ascontiguousarray(image.imread(file)[:320, 80:400])


def error(image, reference):
    return np.sqrt(np.mean((image.astype(np.float64) - reference) ** 2))


def main(picture="build/image_filter.png"):
    clean = photograph()
    noisy, filtered = clean.copy(), np.empty_like(clean)
    add_noise(3, 80.0, noisy)
    bilateral(noisy, filtered, 2.5, 60.0)
    before, after = error(noisy, clean), error(filtered, clean)
    print(f"distance from the clean photograph: {before:.1f} before, {after:.1f} after, of 255")

    from matplotlib import image

    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    image.imsave(picture, np.hstack([noisy, filtered]))
    return clean, noisy, filtered


if __name__ == "__main__":
    main(*sys.argv[1:])
