"""Random exchanges between VTK and Tack, and VTK's own operations between: vtk_operations.py SEED.

Every view holds the values that it had when it was made, whatever happens to VTK's array.
"""

import gc
import random
import sys
import warnings

import numpy as np
from vtkmodules import vtkCommonCore as core
from vtkmodules import vtkCommonDataModel as model
from vtkmodules.util.numpy_support import numpy_to_vtk

import tack
import tack.interop.vtk as tv

warnings.simplefilter("ignore", DeprecationWarning)
tv.install_dlpack_support()
choose = random.Random(int(sys.argv[1]))
sources, views, images = [], [], []


def new_source():
    size = choose.randrange(0, 400)
    values = np.full((size, 3), choose.randrange(1000), np.float64)
    kind = choose.randrange(3)
    if kind == 0:
        return tv.array_to_vtk(tack.from_dlpack(values), 3, "tack")
    if kind == 1:
        return numpy_to_vtk(values, deep=0)
    array = core.vtkDoubleArray()
    array.SetNumberOfComponents(3)
    array.SetNumberOfTuples(size)
    memory = memoryview(array)
    if size:
        np.asarray(memory)[:] = values
    return array


def import_one():
    array = tv.vtk_to_array(choose.choice(sources))
    views.append((array, array.numpy().copy()))


def reshape_one():
    if views:
        array, values = choose.choice(views)
        views.append((array.reshape(array.size), values.ravel()))


def export_a_view():
    if views:
        array, _ = choose.choice(views)
        if array.ndim == 2:
            sources.append(tv.array_to_vtk(array, name="again"))


def move_one():
    # Not one that others share: VTK itself then leaves them with freed memory.
    index = choose.randrange(len(sources))
    array = sources[index]
    own = core.vtkDoubleArray()
    own.DeepCopy(array)
    if choose.random() < 0.5 or own.GetNumberOfTuples() == 0:
        array.ShallowCopy(own)
        return
    tv.vtk_to_array(own)
    views.append((tv.vtk_to_array(own), np.asarray(memoryview(own)).copy()))
    choose.choice(
        (
            lambda: own.InsertNextTuple((1.0, 2.0, 3.0)),
            lambda: own.Resize(choose.randrange(1, 2000)),
            lambda: own.Squeeze(),
            lambda: own.SetNumberOfTuples(choose.randrange(1, 2000)),
            lambda: own.Initialize(),
        )
    )()
    sources[index] = own


def share_one():
    other = core.vtkDoubleArray()
    other.ShallowCopy(choose.choice(sources))
    sources.append(other)


def put_into_a_data_set():
    image = model.vtkImageData()
    array = choose.choice(sources)
    image.SetDimensions(max(1, array.GetNumberOfTuples()), 1, 1)
    array.SetName("x")
    image.GetPointData().AddArray(array)
    images.append(image)
    copy = model.vtkImageData()
    copy.ShallowCopy(image)
    images.append(copy)


def take_from_a_data_set():
    if images:
        sources.append(choose.choice(images).GetPointData().GetArray("x"))


def drop_one():
    pile = choose.choice((sources, views, views, images))
    if pile and (pile is not sources or len(pile) > 1):
        pile.pop(choose.randrange(len(pile)))


OPERATIONS = [
    lambda: sources.append(new_source()),
    import_one,
    import_one,
    reshape_one,
    export_a_view,
    move_one,
    share_one,
    put_into_a_data_set,
    take_from_a_data_set,
    drop_one,
    drop_one,
    drop_one,
    gc.collect,
]
COUNT = 4000

sources.append(new_source())
for _ in range(COUNT):
    choose.choice(OPERATIONS[:-1] if choose.random() < 0.98 else OPERATIONS)()
    del sources[:-60], views[:-60], images[:-30]
    if views:
        array, values = choose.choice(views)
        assert np.array_equal(array.numpy(), values)
for array, values in views:
    assert np.array_equal(array.numpy(), values)
print(f"{COUNT} operations")
