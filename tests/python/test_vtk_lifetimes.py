"""Memory of both VTK and Tack: whichever drops, moves or shares it, the other goes on."""

import gc
import itertools
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import tack
import tack.interop.vtk as tv

core = pytest.importorskip(
    "vtkmodules.vtkCommonCore", reason="needs vtk: ./dev test installs it", exc_type=ImportError
)
model = pytest.importorskip("vtkmodules.vtkCommonDataModel")
from vtkmodules.util import numpy_support  # noqa: E402

ORDERS = list(itertools.permutations(range(4)))
HERE = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def support():
    return tv.install_dlpack_support()


def counting(size, components=1):
    """A VTK array of 0, 1, 2, ..."""
    array = core.vtkFloatArray()
    array.SetNumberOfComponents(components)
    array.SetNumberOfTuples(size // components)
    np.asarray(memoryview(array)).ravel()[:] = np.arange(size)
    return array


class Watched:
    """A Tack array over NumPy's memory that tells whether that is still held."""

    def __init__(self, size=1000):
        memory = np.arange(size, dtype=np.float32)
        self._memory = weakref.ref(memory)
        self.array = tack.from_dlpack(memory)

    @property
    def alive(self):
        return self._memory() is not None


@pytest.mark.parametrize("order", ORDERS)
def test_an_import_its_reshape_its_source_and_a_sharer_may_be_dropped_in_any_order(order):
    source = counting(1000)
    array = tv.vtk_to_array(source)
    sharer = core.vtkFloatArray()
    sharer.ShallowCopy(source)
    held = [source, array, array.reshape(10, 100), sharer]
    del source, array, sharer
    for index in order:
        held[index] = None
        for left in held:
            if isinstance(left, tack.Array):
                assert left.numpy().ravel()[[0, 999]].tolist() == [0, 999]
            elif left is not None:
                assert left.GetValue(999) == 999


@pytest.mark.parametrize("order", ORDERS)
def test_an_export_its_array_its_import_and_a_sharer_may_be_dropped_in_any_order(order):
    watched = Watched()
    there = tv.array_to_vtk(watched.array, name="x")
    sharer = core.vtkFloatArray()
    sharer.ShallowCopy(there)
    held = [watched.array, there, tv.vtk_to_array(there), sharer]
    watched.array = None
    del there, sharer
    for index in order:
        assert watched.alive
        held[index] = None
        for left in held:
            if isinstance(left, tack.Array):
                assert left.numpy()[[0, 999]].tolist() == [0, 999]
            elif left is not None:
                assert left.GetValue(999) == 999
    assert not watched.alive


MOVES = {
    "ReserveTuples": lambda a: a.ReserveTuples(100_000),
    "SetNumberOfTuples": lambda a: a.SetNumberOfTuples(100_000),
    "InsertNextTuple": lambda a: [a.InsertNextTuple((1,)) for _ in range(5000)],
    "InsertNextValue": lambda a: [a.InsertNextValue(1) for _ in range(5000)],
    "Squeeze": lambda a: (a.SetNumberOfTuples(5), a.Squeeze()),
    "Initialize": lambda a: a.Initialize(),
    "ShallowCopy": lambda a: a.ShallowCopy(counting(3)),
    "DeepCopy": lambda a: a.DeepCopy(counting(3)),
    "SetVoidArray": lambda a: a.SetVoidArray(np.zeros(3, np.float32), 3, 1),
}


def resize(array):
    # Its old name is deprecated from VTK 9.7 on.
    with pytest.deprecated_call():
        array.Resize(100_000)


MOVES["Resize"] = resize


@pytest.mark.parametrize("move", MOVES)
def test_a_view_stays_as_it_was_when_vtk_moves_the_imported_array(move):
    source = counting(1000)
    array = tv.vtk_to_array(source)
    MOVES[move](source)
    garbage = [np.full(1000, -1, np.float32) for _ in range(50)]  # takes memory that was freed
    assert array.numpy().tolist() == list(range(1000))
    del garbage


@pytest.mark.parametrize("move", MOVES)
def test_a_tack_array_stays_as_it_was_when_vtk_moves_the_exported_array(move):
    array = tack.from_dlpack(np.arange(1000, dtype=np.float32))
    there = tv.array_to_vtk(array)
    view = tv.vtk_to_array(there)
    MOVES[move](there)
    assert array.numpy().tolist() == list(range(1000))
    assert view.numpy().tolist() == list(range(1000))


def test_what_vtk_has_moved_is_no_longer_shared_and_is_imported_anew():
    source = counting(1000)
    before = tv.vtk_to_array(source)
    source.SetNumberOfTuples(100_000)
    after = tv.vtk_to_array(source)
    assert after.ptr != before.ptr
    assert after.shape == (100_000,)
    after[0] = 7
    assert before[0] == 0
    assert source.GetValue(0) == 7


def test_an_import_while_there_are_no_tuples_leaves_the_capacity_to_vtk():
    source = counting(1000)
    first = tv.vtk_to_array(source)
    source.SetNumberOfTuples(0)
    assert tv.vtk_to_array(source).size == 0
    ptr = first.ptr
    del first
    garbage = [np.full(1000, -1, np.float32) for _ in range(50)]  # takes memory that was freed
    source.SetNumberOfTuples(1000)
    again = tv.vtk_to_array(source)
    assert again.ptr == ptr
    assert again.numpy().tolist() == list(range(1000))
    del garbage


def test_memory_that_numpy_support_shared_may_be_imported_and_outlives_everybody():
    memory = np.arange(1000, dtype=np.float32)
    source = numpy_support.numpy_to_vtk(memory, deep=0)
    array = tv.vtk_to_array(source)
    assert array.ptr == memory.ctypes.data
    watched = weakref.ref(memory)
    del source, memory
    assert array.numpy()[999] == 999
    del array
    gc.collect()
    assert watched() is None


def test_a_sharer_that_vtk_made_before_the_import_stays_valid():
    source = counting(1000)
    sharer = core.vtkFloatArray()
    sharer.ShallowCopy(source)
    first = tv.vtk_to_array(source)
    second = tv.vtk_to_array(sharer)
    assert first.ptr == second.ptr
    source.ShallowCopy(sharer)
    third = tv.vtk_to_array(source)
    del source, first, sharer
    assert second.numpy()[999] == third.numpy()[999] == 999


def test_an_import_does_not_keep_the_vtk_array_itself():
    source = counting(10)
    array = tv.vtk_to_array(source)
    deleted = []
    source.AddObserver("DeleteEvent", lambda *_: deleted.append(True))
    del source
    assert deleted == [True]
    assert array[9] == 9


def test_an_imported_array_is_not_referenced_by_its_import():
    source = counting(10)
    before = source.GetReferenceCount()
    arrays = [tv.vtk_to_array(source) for _ in range(10)]
    assert source.GetReferenceCount() == before
    assert len({array.ptr for array in arrays}) == 1


def test_importing_one_array_from_threads_makes_no_deeper_chain_of_buffers():
    source = counting(1000)

    def work():
        for _ in range(3000):
            assert tv.vtk_to_array(source).size == 1000

    run_threads(work, 6)
    depth, buffer = 0, source.GetBuffer()
    while hasattr(buffer, "_tack_kept"):
        depth, buffer = depth + 1, buffer._tack_kept.buffer
    assert depth == 1


def run_threads(work, count):
    problems = []

    def guarded():
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_ten_thousand_exports_leave_nothing_alive():
    before = tack.interop.dlpack.live_exports()
    watched = Watched()
    for _ in range(10_000):
        assert tv.array_to_vtk(watched.array, name="x").GetReferenceCount() == 1
    watched.array = None
    assert not watched.alive
    assert tack.interop.dlpack.live_exports() == before


def test_ten_thousand_imports_leave_nothing_alive():
    deleted = []
    for _ in range(10_000):
        source = counting(4)
        source.GetBuffer().AddObserver("DeleteEvent", lambda *_: deleted.append(None))
        array = tv.vtk_to_array(source)
        assert source.GetReferenceCount() == 1
        del source, array
    assert len(deleted) == 10_000


def test_arrays_that_only_a_data_set_has_go_with_it():
    """Python's own VTK objects for them are long gone by then."""
    watched = [Watched(8) for _ in range(2000)]
    images = []
    for one in watched:
        image = model.vtkImageData()
        image.SetDimensions(2, 2, 2)
        tv.point_data(image)["x"] = one.array
        one.array = None
        assert tv.point_data(image)["x"][7] == 7
        assert tv.point_data(image)["x"][7] == 7
        images.append(image)
    del image
    assert all(one.alive for one in watched)
    images.clear()
    assert not any(one.alive for one in watched)


def test_kernels_run_on_vtk_arrays_from_threads_while_pipelines_update():
    from vtkmodules.vtkFiltersCore import vtkElevationFilter
    from vtkmodules.vtkFiltersSources import vtkSphereSource

    @tack.kernel
    def add_one(x):
        for i in range(x.size):
            x[i] += 1

    def work():
        source = counting(4000)
        sphere = vtkSphereSource()
        elevation = vtkElevationFilter()
        elevation.SetInputConnection(sphere.GetOutputPort())
        for turn in range(60):
            add_one(tv.vtk_to_array(source))
            sphere.SetThetaResolution(8 + turn % 5)
            elevation.Update()
            heights = tv.point_data(elevation.GetOutput())["Elevation"]
            assert heights.size == elevation.GetOutput().GetNumberOfPoints()
            add_one(heights)
        assert source.GetValue(3999) == 3999 + 60

    run_threads(work, 4)


def test_the_process_ends_well_with_live_exports_and_imports():
    program = (
        "import numpy as np, tack, tack.interop.vtk as tv\n"
        "from vtkmodules import vtkCommonCore as core, vtkCommonDataModel as model\n"
        "tv.install_dlpack_support()\n"
        "kept = []\n"
        "for _ in range(200):\n"
        "    array = tv.array_to_vtk(tack.zeros(8), name='x')\n"
        "    kept += [array, tv.vtk_to_array(array)]\n"
        "image = model.vtkImageData()\n"
        "image.SetDimensions(2, 2, 2)\n"
        "tv.point_data(image)['x'] = np.zeros(8)\n"
        "image.Register(None)\n"  # never deleted
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("seed", range(3))
def test_any_sequence_of_operations_leaves_every_view_as_it_was(seed):
    """In a process of its own, which memory checks of the allocator end at a fault."""
    done = subprocess.run(
        [sys.executable, str(HERE / "vtk_operations.py"), str(seed)],
        env={**os.environ, "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "4000 operations\n"
