"""The VTK demo: its field and surface against NumPy, its picture, and that nothing is a copy.

Each program has a process of its own, since VTK chooses its window as it is imported.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.partner(name) for name in ("torch", "vtk", "pyvista", "matplotlib")]
FIRST, LAST = 40, 70  # the slices that are compared
DEMO = f"""
import sys
sys.path.insert(0, {str(ROOT / "examples")!r})
import numpy as np
import demo_vtk
"""


def run(program, folder):
    """With the folder as its argument, from a file there, where kernels find their text."""
    script = folder / "program.py"
    script.write_text(DEMO + program)
    done = subprocess.run(
        [sys.executable, script, folder],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What the demo printed, the path of its picture, and arrays of the slices."""
    folder = tmp_path_factory.mktemp("frog")
    program = f"""
folder = sys.argv[1]
image, skeleton, gradient, surface = demo_vtk.main(folder + "/frog.png", (240, 180))
some = slice({FIRST}, {LAST})
on_surface = demo_vtk.tv.point_data(surface)
np.savez(
    folder + "/slices.npz",
    labels=demo_vtk.tv.point_data(image)["MetaImage"].numpy().reshape(skeleton.shape)[some],
    skeleton=skeleton.numpy()[some],
    gradient=gradient.numpy()[some],
    points=demo_vtk.tv.points(surface).numpy(),
    point_gradient=on_surface["gradient"].numpy(),
)
"""
    printed = run(program, folder)
    with np.load(folder / "slices.npz") as slices:
        return printed, folder / "frog.png", dict(slices)


def along(values, weights, axis):
    reach = len(weights) // 2
    padded = np.pad(values, [(reach, reach) if a == axis else (0, 0) for a in range(3)], "edge")
    count = values.shape[axis]
    return sum(
        weight * np.take(padded, range(k, k + count), axis) for k, weight in enumerate(weights)
    )


def test_the_field_is_the_gaussian_of_the_mask(results):
    _, _, slices = results
    at = np.arange(-4, 5)
    weights = np.exp(-0.5 * (at / 1.2) ** 2)
    weights /= weights.sum()
    expected = (slices["labels"] == 13).astype(np.float64)
    for axis in range(3):
        expected = along(expected, weights, axis)
    # Nearer to the ends the slices that are not here count.
    np.testing.assert_allclose(slices["skeleton"][4:-4], expected[4:-4], atol=1e-6)
    assert expected[4:-4].max() > 0.99


def test_the_gradient_is_numpy_s(results):
    _, _, slices = results
    z, y, x = np.gradient(slices["skeleton"].astype(np.float64), 1.5, 1, 1)
    expected = np.sqrt(x * x + y * y + z * z)
    np.testing.assert_allclose(slices["gradient"][1:-1], expected[1:-1], atol=1e-6)


def test_the_surface_is_where_the_field_is_one_half(results):
    _, _, slices = results
    points = slices["points"][:, ::-1].astype(np.float64) / (1.5, 1, 1) - (FIRST, 0, 0)
    inside = (points[:, 0] > 0) & (points[:, 0] < LAST - FIRST - 1)
    points = points[inside]
    assert len(points) > 20_000
    # Each lies on an edge between two voxels.
    low = np.floor(points + 1e-4).astype(int)
    part = np.clip(points - low, 0, 1)
    high = low + (part > 1e-4)
    part = part.max(axis=1)
    field = slices["skeleton"].astype(np.float64)
    there = (1 - part) * field[tuple(low.T)] + part * field[tuple(high.T)]
    np.testing.assert_allclose(there, 0.5, atol=2e-3)


def test_the_gradient_came_along_to_the_surface(results):
    _, _, slices = results
    assert 0.05 < np.percentile(slices["point_gradient"], 2)
    assert np.percentile(slices["point_gradient"], 98) < 0.4


def test_the_picture_shows_something_light_on_a_dark_ground(results):
    from matplotlib import image

    _, picture, _ = results
    pixels = image.imread(picture)[..., :3]
    assert pixels.shape == (180, 240, 3)
    brightness = pixels.max(axis=2)
    assert brightness[:5].max() < 0.3  # no bones up there
    assert 0.05 < (brightness > 0.5).mean() < 0.5
    # lit and shaded, not one flat colour
    assert brightness[brightness > 0.3].std() > 0.1


def test_every_array_is_the_same_memory_on_both_sides(results):
    lines = [line for line in results[0].splitlines() if " 0x" in line]
    assert len(lines) == 4
    for line in lines:
        assert line.endswith("same memory")
        here, there = [word for word in line.split() if word.startswith("0x")]
        assert here == there


def test_kernels_run_on_vtk_arrays_from_threads_while_vtk_renders_another_data_set(tmp_path):
    program = """
import threading
demo_vtk.use_software_window()
from vtkmodules.vtkCommonCore import vtkFloatArray
from vtkmodules.vtkFiltersSources import vtkSphereSource
from vtkmodules.vtkFiltersCore import vtkElevationFilter
import tack, tack.interop.vtk as tv
tv.install_dlpack_support()

@tack.kernel
def add_one(x):
    for i in range(x.size):
        x[i] += 1

sources = [vtkFloatArray() for _ in range(4)]
done = threading.Event()
counts = [0] * 4

def work(k):
    sources[k].SetNumberOfTuples(300_000)
    sources[k].Fill(0)
    while not done.is_set() or not counts[k]:
        add_one(tv.vtk_to_array(sources[k]))
        counts[k] += 1

threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for thread in threads:
    thread.start()
picture = sys.argv[1] + "/sphere.png"
sphere = vtkSphereSource()
elevation = vtkElevationFilter()
elevation.SetInputConnection(sphere.GetOutputPort())
for turn in range(10):
    elevation.SetLowPoint(0, 0, -turn)
    elevation.Update()
    demo_vtk.save_picture(elevation.GetOutput(), "Elevation", picture, (120, 90))
done.set()
for thread in threads:
    thread.join()
for source, count in zip(sources, counts):
    assert source.GetRange() == (count, count), (source.GetRange(), count)
"""
    run(program, tmp_path)
    assert (tmp_path / "sphere.png").stat().st_size > 1000
