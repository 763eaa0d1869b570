"""The examples: their numbers against NumPy's or a law, and that each draws its picture."""

import importlib
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.partner("matplotlib")


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


def colours(picture):
    """How many colours a picture has."""
    from matplotlib import image

    pixels = (image.imread(picture)[..., :3] * 255).astype(int)
    return len(np.unique(pixels.reshape(-1, 3), axis=0))


def test_the_stencil_is_numpys_and_its_spots_grow(example, tmp_path, capsys):
    stencil = example("stencil")
    u, v = stencil.seeded(64)

    def laplacian(x):
        return sum(np.roll(x, s, axis) for s in (1, -1) for axis in (0, 1)) - 4 * x

    for _ in range(10):
        du, dv, reaction = laplacian(u), laplacian(v), u * v * v
        u, v = (
            u + 0.2 * du - reaction + 0.035 * (1 - u),
            v + 0.1 * dv + reaction - (0.035 + 0.062) * v,
        )
    got = stencil.main(tmp_path / "few.png", size=64, steps=10)
    np.testing.assert_allclose(got, (u, v), rtol=1e-5, atol=1e-6)

    _, v = stencil.main(tmp_path / "picture.png", steps=1500)
    assert "v covers" in capsys.readouterr().out
    assert (v > 0.1).mean() > 2 * (stencil.seeded(256)[1] > 0.1).mean()
    assert colours(tmp_path / "picture.png") > 100


def test_the_particles_keep_their_momentum_and_are_pulled_as_numpy_says(example, tmp_path):
    particles, tack = example("particles"), importlib.import_module("tack")
    position, velocity, mass = tack.empty((50, 3)), tack.empty((50, 3)), tack.empty(50)
    particles.place(7, position, velocity, mass)
    p, v, m = (x.numpy().astype(np.float64) for x in (position, velocity, mass))
    d = p[None, :, :] - p[:, None, :]
    square = (d**2).sum(axis=2) + particles.SOFTENING**2
    v += 0.01 * (d * (m / square**1.5)[..., None]).sum(axis=1)
    particles.advance(position, velocity, mass, 0.01)
    np.testing.assert_allclose(velocity.numpy(), v, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(position.numpy(), p + 0.01 * v, rtol=1e-4, atol=1e-5)
    assert m.sum() == pytest.approx(2)

    *_, drift = particles.main(tmp_path / "picture.png", stars=500, steps=100)
    assert drift < 1e-5
    assert colours(tmp_path / "picture.png") >= 4


def test_the_image_filter_is_nearer_to_the_clean_photograph_and_keeps_its_edges(example, tmp_path):
    image_filter = example("image_filter")
    clean, noisy, filtered = image_filter.main(tmp_path / "picture.png")
    assert image_filter.error(filtered, clean) < 0.6 * image_filter.error(noisy, clean)
    i, j, r = 100, 150, image_filter.RADIUS
    around = noisy[i - r : i + r + 1, j - r : j + r + 1].astype(np.float64)
    rows, columns = np.mgrid[-r : r + 1, -r : r + 1]
    exponent = (rows**2 + columns**2) / 2.5**2
    exponent += ((around - around[r, r]) ** 2).sum(axis=2) / 60.0**2
    weight = np.exp(-0.5 * exponent)[..., None]
    mean = (weight * around).sum(axis=(0, 1)) / weight.sum()
    assert np.abs(filtered[i, j] - mean).max() <= 0.51
    assert colours(tmp_path / "picture.png") > 1000


def test_the_histogram_counts_every_step_of_every_walker(example, tmp_path):
    counts = example("histogram").main(tmp_path / "picture.png", walkers=10_000)
    assert counts.sum() == 10_000 * 200
    assert 0.2 < (counts > 0).mean() < 0.9
    # de Jong's attractor stays within 2 of the origin, on both axes.
    assert not counts[:5].any() and not counts[:, -5:].any()
    assert colours(tmp_path / "picture.png") > 100


def test_the_mandelbrot_set_is_where_complex_numbers_say(example, tmp_path):
    steps = example("mandelbrot").main(tmp_path / "picture.png", most=300)
    rows, columns = steps.shape
    scale = 0.006 / columns
    for i, j in [(0, 0), (100, 300), (240, 360), (300, 500), (479, 719)]:
        c = complex(-0.7436 + scale * (j - columns / 2), 0.1318 - scale * (i - rows / 2))
        z, n = 0j, 0
        while z.real**2 + z.imag**2 <= 256 and n < 300:
            z, n = z * z + c, n + 1
        if n == 300:
            assert steps[i, j] == 0
        else:
            smooth = n + 1 - np.log2(np.log(abs(z)) / np.log(2))
            assert steps[i, j] == pytest.approx(smooth, abs=1e-3)
    assert colours(tmp_path / "picture.png") > 300
