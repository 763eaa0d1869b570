"""Particles: two galaxies meet, every star pulled by every other one.

Positions and velocities are vectors of three in the kernels; the stars come from tack.random, so
that they are the same at every run. Saves the stars seen from above as a picture.

    python examples/particles.py [picture.png]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import tack

SOFTENING = 0.05
CORE = 0.95  # of a galaxy's mass, which is 1; its other stars share the rest


@tack.kernel
def place(seed, position, velocity, mass):
    """Two discs that turn about a core, one tilted, on the way to each other."""
    n = position.shape[0]
    for i in range(n):
        side = 1 if i % 2 else -1
        mass[i] = CORE if i < 2 else (1.0 - CORE) / (n // 2 - 1)
        radius = 0.15 + 0.85 * math.sqrt(tack.random(seed, i, 0))
        angle = 2.0 * math.pi * tack.random(seed, i, 1)
        speed = math.sqrt((CORE + (1.0 - CORE) * radius * radius) / radius)
        if i < 2:
            radius = speed = 0.0
        p = radius * tack.vector(math.cos(angle), math.sin(angle), 0.0)
        v = speed * tack.vector(-math.sin(angle), math.cos(angle), 0.0)
        if side > 0:
            tilt = tack.matrix((1, 0, 0), (0, 0.6, -0.8), (0, 0.8, 0.6))
            p, v = tilt @ p, tilt @ v
        p += side * tack.vector(1.5, 0.7, 0.0)
        v -= side * tack.vector(0.5, 0.0, 0.0)
        for k in range(3):
            position[i, k] = p[k]
            velocity[i, k] = v[k]


@tack.func
def star(x, i):
    return tack.vector(x[i, 0], x[i, 1], x[i, 2])


@tack.kernel
def advance(position, velocity, mass, dt):
    n = position.shape[0]
    for i in range(n):
        own = star(position, i)
        pull = tack.vector(0.0, 0.0, 0.0)
        for j in range(n):
            d = star(position, j) - own
            square = tack.dot(d, d) + SOFTENING * SOFTENING
            pull += d * (mass[j] / (square * math.sqrt(square)))
        v = star(velocity, i) + dt * pull
        velocity[i, 0], velocity[i, 1], velocity[i, 2] = v
    for i, k in tack.ndrange(n, 3):
        position[i, k] += dt * velocity[i, k]


def main(picture="build/particles.png", stars=2400, steps=220, dt=0.015):
    position, velocity, mass = tack.empty((stars, 3)), tack.empty((stars, 3)), tack.empty(stars)
    place(7, position, velocity, mass)
    momentum = mass.numpy() @ velocity.numpy()
    for _ in range(steps):
        advance(position, velocity, mass, dt)
    drift = np.abs(mass.numpy() @ velocity.numpy() - momentum).max()
    print(f"{stars} stars, {steps} steps; the momentum has changed by {drift:.1e}")

    from matplotlib import image

    seen = position.numpy()
    size = 480
    counts, _, _ = np.histogram2d(-seen[:, 1], seen[:, 0], size // 2, [(-3, 3)] * 2)
    light = np.sqrt(np.minimum(counts, 6)).repeat(2, axis=0).repeat(2, axis=1)
    Path(picture).parent.mkdir(parents=True, exist_ok=True)
    image.imsave(picture, light, cmap="inferno")
    return position, velocity, mass, drift


if __name__ == "__main__":
    main(*sys.argv[1:])
