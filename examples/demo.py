"""Terrain: elevations from NumPy through a Tack kernel into PyTorch, without a copy.

The elevations are matplotlib's sample of the Jacksboro fault, int16 metres on a grid in degrees.
One kernel computes slope, aspect and hillshade; slope and aspect go into arrays that Tack
allocated, the hillshade into a tensor that PyTorch did. Saves the shaded relief as a picture.

    python examples/demo.py [picture.png]
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import numpy as np
import torch

import tack

METRES_PER_DEGREE = 111_200.0  # of latitude; of longitude, times the latitude's cosine
SUN_AZIMUTH = math.radians(315.0)  # north-west, clockwise from north
SUN_ALTITUDE = math.radians(45.0)


@tack.kernel
def terrain(z, dx, dy, exaggeration, slope, aspect, shade):
    """slope: radians. aspect: radians clockwise from north, downhill. shade: 0 to 1.

    z: elevation in metres, row 0 in the north. dx, dy: grid spacing in metres.
    """
    for i, j in tack.ndrange(z.shape[0], z.shape[1]):
        # one-sided differences at the edges
        north = max(i - 1, 0)
        south = min(i + 1, z.shape[0] - 1)
        west = max(j - 1, 0)
        east = min(j + 1, z.shape[1] - 1)
        rise_east = tack.float32(z[i, east]) - tack.float32(z[i, west])
        rise_north = tack.float32(z[north, j]) - tack.float32(z[south, j])
        to_east = rise_east / ((east - west) * dx)
        to_north = rise_north / ((south - north) * dy)
        gradient = math.sqrt(to_east * to_east + to_north * to_north)
        slope[i, j] = math.atan(gradient)
        downhill = math.atan2(-to_east, -to_north)
        if downhill < 0:
            downhill += 2 * math.pi
        aspect[i, j] = downhill
        steepness = math.atan(exaggeration * gradient)
        light = math.sin(SUN_ALTITUDE) * math.cos(steepness) + math.cos(SUN_ALTITUDE) * math.sin(
            steepness
        ) * math.cos(SUN_AZIMUTH - downhill)
        shade[i, j] = max(light, 0.0)


def load_elevation():
    """Elevations (rows from north to south, int16 metres) and the spacing in metres, dx and dy."""
    import matplotlib

    path = Path(matplotlib.get_data_path()) / "sample_data" / "jacksboro_fault_dem.npz"
    with np.load(path) as dem:
        latitude = math.radians(0.5 * (float(dem["ymin"]) + float(dem["ymax"])))
        dx = float(dem["dx"]) * METRES_PER_DEGREE * math.cos(latitude)
        dy = float(dem["dy"]) * METRES_PER_DEGREE
        return dem["elevation"], dx, dy


def save_picture(shade, elevation, path):
    """Shaded relief: elevation as colour, hillshade as light."""
    from matplotlib import colormaps, image

    low, high = np.percentile(elevation, [1, 99])
    height = np.clip((elevation - low) / (high - low), 0, 1)
    tint = colormaps["gist_earth"](0.25 + 0.65 * height)[..., :3]
    lit = np.clip(tint * (0.25 + 0.95 * shade[..., None]), 0, 1)
    image.imsave(path, lit.repeat(2, axis=0).repeat(2, axis=1))  # two pixels a cell


def main(picture="build/demo.png"):
    elevation, dx, dy = load_elevation()
    times = {}

    def timed(name, function):
        start = time.perf_counter()
        result = function()
        times[name] = time.perf_counter() - start
        return result

    z = timed("import", lambda: tack.from_dlpack(elevation))
    slope = tack.empty(elevation.shape)
    aspect = tack.empty(elevation.shape)
    shade = torch.empty(elevation.shape)
    arguments = (z, dx, dy, 2.0, slope, aspect, shade)
    timed("first launch, compile included", lambda: terrain(*arguments))
    timed("launch", lambda: terrain(*arguments))
    torch_slope = timed("export", lambda: torch.from_dlpack(slope))
    torch_aspect = torch.from_dlpack(aspect)

    print(f"elevation {elevation.shape[0]} x {elevation.shape[1]}, {dx:.1f} m x {dy:.1f} m a cell")
    for name, there, here in [
        ("elevation  NumPy -> Tack   ", elevation.ctypes.data, z.ptr),
        ("slope      Tack  -> PyTorch", slope.ptr, torch_slope.data_ptr()),
        ("aspect     Tack  -> PyTorch", aspect.ptr, torch_aspect.data_ptr()),
        ("hillshade  PyTorch -> Tack ", shade.data_ptr(), tack.from_dlpack(shade).ptr),
    ]:
        verdict = "same memory" if there == here else "COPIED"
        print(f"{name}  {there:#x}  {here:#x}  {verdict}")
    for name, seconds in times.items():
        print(f"{name:32} {seconds * 1e3:8.3f} ms")
    print(
        f"PyTorch reads: mean slope {torch_slope.rad2deg().mean():.1f} degrees, "
        f"steepest {torch_slope.rad2deg().max():.1f}, "
        f"{(torch.cos(torch_aspect) > 0).float().mean():.0%} of the cells face north"
    )
    path = Path(picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_picture(shade.numpy(), elevation, path)
    print(f"picture: {path.resolve()}")
    return elevation, dx, dy, slope, aspect, shade


if __name__ == "__main__":
    main(*sys.argv[1:])
