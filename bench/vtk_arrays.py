"""What the rows of the exchange with VTK work on. VTK is imported by the set-up of the first."""

import numpy as np

import tack
import tack.interop.vtk as tv


def vtk_array(count):
    from vtkmodules.vtkCommonCore import vtkFloatArray

    tv.install_dlpack_support()
    array = vtkFloatArray()
    array.SetNumberOfTuples(count)
    return array


def tack_export(count):
    vtk_array(0)
    return {"export": tv.array_to_vtk, "x": tack.empty(count)}


def numpy_export(count):
    from vtkmodules.util.numpy_support import numpy_to_vtk

    return {"export": numpy_to_vtk, "x": np.empty(count, np.float32)}


def tack_import(count):
    array = vtk_array(count)
    tv.vtk_to_array(array)
    return {"take": tv.vtk_to_array, "x": array}


def numpy_import(count):
    from vtkmodules.util.numpy_support import vtk_to_numpy

    return {"take": vtk_to_numpy, "x": vtk_array(count)}


def tack_first_import(count):
    return tv.vtk_to_array, lambda: vtk_array(count)


def numpy_first_import(count):
    return numpy_import(0)["take"], lambda: vtk_array(count)
