"""A frog's skeleton: VTK's volume through Tack kernels back into VTK's pipeline, without a copy.

The volume is PyVista's segmented frog, a label for each voxel. One kernel, run along each axis,
smooths the mask of the skeleton, another computes its gradient's length. VTK contours the first
and colours it by the second, PyTorch counts in the same memory. Saves the picture.

    python examples/demo_vtk.py [picture.png]
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch

import tack
import tack.interop.vtk as tv

SKELETON = 13  # its label in the volume
SIGMA = 1.2  # of the Gaussian, in voxels


@tack.kernel
def select(labels, label, mask):
    for i in range(labels.size):
        mask[i] = 1 if labels[i] == label else 0


@tack.kernel
def smooth(source, weights, out):
    """One pass along the middle axis. Beyond the ends their values go on."""
    for i, j, k in tack.ndrange(out.shape[0], out.shape[1], out.shape[2]):
        total = tack.float32(0)
        for w in range(weights.size):
            at = min(max(j + w - weights.size // 2, 0), out.shape[1] - 1)
            total += weights[w] * source[i, at, k]
        out[i, j, k] = total


@tack.kernel
def gradient_length(f, dx, dy, dz, out):
    for k, j, i in tack.ndrange(f.shape[0], f.shape[1], f.shape[2]):
        # one-sided differences at the faces
        west, east = max(i - 1, 0), min(i + 1, f.shape[2] - 1)
        south, north = max(j - 1, 0), min(j + 1, f.shape[1] - 1)
        below, above = max(k - 1, 0), min(k + 1, f.shape[0] - 1)
        x = (f[k, j, east] - f[k, j, west]) / ((east - west) * dx)
        y = (f[k, north, i] - f[k, south, i]) / ((north - south) * dy)
        z = (f[above, j, i] - f[below, j, i]) / ((above - below) * dz)
        out[k, j, i] = math.sqrt(x * x + y * y + z * z)


def gaussian(sigma):
    at = np.arange(-math.ceil(3 * sigma), math.ceil(3 * sigma) + 1)
    weights = np.exp(-0.5 * (at / sigma) ** 2)
    return tack.from_dlpack((weights / weights.sum()).astype(np.float32))


def smoothed_mask(labels, label):
    """The Gaussian of the mask of a label, in memory of Tack; labels of shape (z, y, x)."""
    nz, ny, nx = labels.shape
    weights = gaussian(SIGMA)
    one, other = tack.empty(labels.shape), tack.empty(labels.shape)
    select(labels.reshape(-1), label, one.reshape(-1))
    for shape in [(nz * ny, nx, 1), (nz, ny, nx), (1, nz, ny * nx)]:
        smooth(one.reshape(shape), weights, other.reshape(shape))
        one, other = other, one
    return one


def use_software_window():
    """VTK's render window takes EGL or OSMesa, whichever is there; before VTK is imported."""
    for library, window in [
        ("libEGL.so.1", "vtkEGLRenderWindow"),
        ("libOSMesa.so.8", "vtkOSOpenGLRenderWindow"),
    ]:
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        os.environ.setdefault("VTK_DEFAULT_OPENGL_WINDOW", window)
        return
    sys.exit("demo_vtk: neither libEGL nor OSMesa was found; ./dev demo vtk installs one")


def read_frog():
    from vtkmodules.vtkIOXML import vtkXMLImageDataReader

    reader = vtkXMLImageDataReader()
    package = Path(importlib.util.find_spec("pyvista").origin).parent
    reader.SetFileName(str(package / "examples" / "frog_tissues.vti"))
    reader.Update()
    return reader.GetOutput()


def contour(image, name, value):
    """The surface where the named point array has the value, with the others on its points."""
    from vtkmodules.vtkFiltersCore import vtkFlyingEdges3D

    image.GetPointData().SetActiveScalars(name)
    edges = vtkFlyingEdges3D()
    edges.SetInputData(image)
    edges.SetValue(0, value)
    edges.ComputeNormalsOn()
    edges.InterpolateAttributesOn()
    edges.Update()
    return edges.GetOutput()


def save_picture(surface, colour_by, path, size):
    """The surface lit from above, coloured from the 2nd to the 98th percentile of an array."""
    from vtkmodules import vtkRenderingOpenGL2  # noqa: F401 (the renderer registers itself)
    from vtkmodules.vtkIOImage import vtkPNGWriter
    from vtkmodules.vtkRenderingCore import (
        vtkActor,
        vtkColorTransferFunction,
        vtkLightKit,
        vtkPolyDataMapper,
        vtkRenderer,
        vtkRenderWindow,
        vtkWindowToImageFilter,
    )

    low, high = np.percentile(tv.point_data(surface)[colour_by].numpy(), [2, 98])
    colours = vtkColorTransferFunction()
    colours.SetColorSpaceToLab()
    for at, colour in enumerate([(0.55, 0.18, 0.12), (0.93, 0.62, 0.32), (1.0, 0.95, 0.80)]):
        colours.AddRGBPoint(low + at / 2 * (high - low), *colour)
    mapper = vtkPolyDataMapper()
    mapper.SetInputData(surface)
    mapper.SetScalarModeToUsePointFieldData()
    mapper.SelectColorArray(colour_by)
    mapper.SetLookupTable(colours)
    actor = vtkActor()
    actor.SetMapper(mapper)
    actor.property.interpolation = 2  # Phong
    actor.property.ambient = 0.12
    actor.property.diffuse = 0.85
    actor.property.specular = 0.25
    actor.property.specular_power = 25

    renderer = vtkRenderer()
    renderer.AddActor(actor)
    renderer.SetBackground(0.05, 0.06, 0.09)
    renderer.SetBackground2(0.16, 0.19, 0.26)
    renderer.GradientBackgroundOn()
    lights = vtkLightKit()
    lights.SetKeyLightIntensity(0.95)
    lights.SetKeyToFillRatio(2.5)
    lights.AddLightsToRenderer(renderer)
    camera = renderer.GetActiveCamera()
    centre = np.array(surface.GetCenter())
    camera.SetFocalPoint(*centre)
    camera.SetPosition(*(centre + 1000 * np.array([0.45, -0.62, -0.72])))
    camera.SetViewUp(0, 0, -1)
    camera.SetViewAngle(25)
    renderer.ResetCamera()
    camera.Zoom(1.7)
    camera.SetWindowCenter(0.1, -0.2)
    renderer.ResetCameraClippingRange()

    window = vtkRenderWindow()
    window.SetOffScreenRendering(True)
    window.SetMultiSamples(4)
    window.SetSize(*size)
    window.AddRenderer(renderer)
    window.Render()
    grab = vtkWindowToImageFilter()
    grab.SetInput(window)
    grab.ReadFrontBufferOff()
    writer = vtkPNGWriter()
    writer.SetInputConnection(grab.GetOutputPort())
    writer.SetFileName(str(path))
    writer.Write()


def vtk_address(array):
    return np.asarray(memoryview(array)).ctypes.data


def main(picture="build/frog.png", size=(600, 450)):
    use_software_window()
    times = {}

    def timed(name, function):
        start = time.perf_counter()
        result = function()
        times[name] = time.perf_counter() - start
        return result

    image = timed("VTK reads the volume", read_frog)
    try:
        tv.install_dlpack_support()
    except RuntimeError as error:
        sys.exit(f"demo_vtk: {error}")
    nx, ny, nz = image.GetDimensions()
    voxels = image.GetPointData()
    data = tv.point_data(image)
    labels = timed("import", lambda: data["MetaImage"]).reshape(nz, ny, nx)
    skeleton = timed("mask and Gaussian, compiled", lambda: smoothed_mask(labels, SKELETON))
    timed("mask and Gaussian again", lambda: smoothed_mask(labels, SKELETON))
    gradient = tack.empty(skeleton.shape)
    timed("gradient, compiled", lambda: gradient_length(skeleton, *image.GetSpacing(), gradient))

    def export():
        data["skeleton"] = skeleton
        data["gradient"] = gradient

    timed("export", export)
    surface = timed("VTK contours", lambda: contour(image, "skeleton", 0.5))
    in_torch = torch.from_dlpack(skeleton)
    path = Path(picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    timed("VTK renders", lambda: save_picture(surface, "gradient", path, size))

    print(f"volume {nx} x {ny} x {nz}, {surface.GetNumberOfPoints():,} points on the surface")
    for name, there, here in [
        ("labels    VTK  -> Tack   ", vtk_address(voxels.GetArray("MetaImage")), labels.ptr),
        ("skeleton  Tack -> VTK    ", skeleton.ptr, vtk_address(voxels.GetArray("skeleton"))),
        ("gradient  Tack -> VTK    ", gradient.ptr, vtk_address(voxels.GetArray("gradient"))),
        ("skeleton  Tack -> PyTorch", skeleton.ptr, in_torch.data_ptr()),
    ]:
        verdict = "same memory" if there == here else "COPIED"
        print(f"{name}  {there:#x}  {here:#x}  {verdict}")
    for name, seconds in times.items():
        print(f"{name:28} {seconds * 1e3:9.3f} ms")
    inside = in_torch > 0.5
    print(
        f"PyTorch reads: {inside.sum():,} voxels inside the surface, {inside.float().mean():.1%} "
        f"of the volume; mean {in_torch[inside].mean():.2f} there"
    )
    print(f"picture: {path.resolve()}")
    return image, skeleton, gradient, surface


if __name__ == "__main__":
    main(*sys.argv[1:])
