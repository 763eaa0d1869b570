"""The demo: its values against NumPy's, its picture, and that nothing in it is a copy."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.partner("torch"), pytest.mark.partner("matplotlib")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import demo as module
    finally:
        sys.path.pop(0)
    return module


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "terrain.png"


@pytest.fixture(scope="module")
def results(demo, picture):
    return demo.main(picture)


def gradients(elevation, dx, dy):
    z = np.pad(elevation.astype(np.float64), 1, mode="edge")
    width = np.full(elevation.shape[1], 2.0)
    height = np.full((elevation.shape[0], 1), 2.0)
    width[[0, -1]] = height[[0, -1]] = 1.0
    east = (z[1:-1, 2:] - z[1:-1, :-2]) / (width * dx)
    north = (z[:-2, 1:-1] - z[2:, 1:-1]) / (height * dy)
    return east, north


def test_the_slope_is_numpy_s(results):
    elevation, dx, dy, slope, _, _ = results
    expected = np.arctan(np.hypot(*gradients(elevation, dx, dy)))
    np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_the_aspect_is_numpy_s_where_the_ground_is_not_flat(results):
    elevation, dx, dy, _, aspect, _ = results
    east, north = gradients(elevation, dx, dy)
    sloping = np.hypot(east, north) > 0
    expected = np.arctan2(-east, -north) % (2 * np.pi)
    difference = np.abs(aspect.numpy() - expected)[sloping]
    # 0 and 2 pi are one direction.
    assert np.minimum(difference, 2 * np.pi - difference).max() < 1e-5


def test_a_slope_that_faces_the_sun_is_brighter_than_one_that_faces_away(results):
    *_, slope, aspect, shade = results
    steep = slope.numpy() > np.radians(15)
    off_sun = np.abs((aspect.numpy() - np.radians(315) + np.pi) % (2 * np.pi) - np.pi)
    light = shade.numpy()
    facing = light[steep & (off_sun < 0.5)]
    turned = light[steep & (off_sun > 2.6)]
    assert facing.size > 1000
    assert turned.size > 1000
    assert facing.min() > turned.max()


def test_the_picture_shows_every_cell_and_is_not_blank(results, picture):
    from matplotlib import image

    pixels = image.imread(picture)
    elevation = results[0]
    assert pixels.shape[:2] == (2 * elevation.shape[0], 2 * elevation.shape[1])
    assert pixels[..., :3].std() > 0.1


def test_every_array_is_the_same_memory_on_both_sides(demo, tmp_path, capsys):
    demo.main(tmp_path / "again.png")
    lines = [line for line in capsys.readouterr().out.splitlines() if " 0x" in line]
    assert len(lines) == 4
    for line in lines:
        assert line.endswith("same memory")
        here, there = [word for word in line.split() if word.startswith("0x")]
        assert here == there
