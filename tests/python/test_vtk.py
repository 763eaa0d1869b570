"""Arrays to and from VTK: types, shapes, names, refusals."""

import subprocess
import sys
from unittest import mock

import numpy as np
import pytest

import tack
import tack.interop.vtk as tv

vtk = pytest.importorskip(
    "vtkmodules.vtkCommonCore", reason="needs vtk: ./dev test installs it", exc_type=ImportError
)


@pytest.fixture(scope="module", autouse=True)
def support():
    return tv.install_dlpack_support()


def address(vtk_array):
    return np.frombuffer(vtk_array, np.uint8).ctypes.data


def filled(kind, values, components=1):
    array = getattr(vtk, kind)()
    array.SetNumberOfComponents(components)
    array.SetNumberOfTuples(len(values) // components)
    for k, value in enumerate(values):
        array.SetValue(k, value)
    return array


def kind_of(value):
    return type(value).__name__


def read_only():
    values = np.zeros(4)
    values.flags.writeable = False
    return tack.from_dlpack(values)


KINDS = {
    "vtkCharArray": tack.int8,
    "vtkSignedCharArray": tack.int8,
    "vtkUnsignedCharArray": tack.uint8,
    "vtkShortArray": tack.int16,
    "vtkUnsignedShortArray": tack.uint16,
    "vtkIntArray": tack.int32,
    "vtkUnsignedIntArray": tack.uint32,
    "vtkLongArray": tack.int64,
    "vtkUnsignedLongArray": tack.uint64,
    "vtkLongLongArray": tack.int64,
    "vtkUnsignedLongLongArray": tack.uint64,
    "vtkIdTypeArray": tack.int64,
    "vtkFloatArray": tack.float32,
    "vtkDoubleArray": tack.float64,
    "vtkTypeInt8Array": tack.int8,
    "vtkTypeUInt16Array": tack.uint16,
    "vtkTypeInt64Array": tack.int64,
    "vtkTypeFloat64Array": tack.float64,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_numeric_vtk_array_is_imported_where_it_lies(kind):
    source = getattr(vtk, kind)()
    source.SetNumberOfComponents(3)
    source.SetNumberOfTuples(2)
    array = tv.vtk_to_array(source)
    assert (array.dtype, array.shape, array.writable) == (KINDS[kind], (2, 3), True)
    assert array.ptr == address(source)
    array[1, 2] = 65
    assert source.GetComponent(1, 2) == 65


EXPORTED = {
    tack.int8: "vtkSignedCharArray",
    tack.int16: "vtkShortArray",
    tack.int32: "vtkIntArray",
    tack.int64: "vtkLongLongArray",
    tack.uint8: "vtkUnsignedCharArray",
    tack.uint16: "vtkUnsignedShortArray",
    tack.uint32: "vtkUnsignedIntArray",
    tack.uint64: "vtkUnsignedLongLongArray",
    tack.float32: "vtkFloatArray",
    tack.float64: "vtkDoubleArray",
}


@pytest.mark.parametrize("dtype", EXPORTED, ids=lambda dtype: dtype.name)
def test_every_dtype_that_vtk_has_is_exported_where_it_lies(dtype):
    array = tack.full((4, 2), 9, dtype)
    result = tv.array_to_vtk(array, name="nine")
    assert isinstance(result, getattr(vtk, EXPORTED[dtype]))
    assert (result.GetNumberOfTuples(), result.GetNumberOfComponents()) == (4, 2)
    assert result.GetName() == "nine"
    assert address(result) == array.ptr
    result.SetComponent(3, 1, 5)
    assert array[3, 1] == 5
    assert tv.vtk_to_array(result).ptr == array.ptr


def test_one_component_is_imported_as_one_dimension():
    assert tv.vtk_to_array(filled("vtkFloatArray", [1, 2, 3])).numpy().tolist() == [1, 2, 3]


def test_flatten_lays_the_components_of_a_tuple_side_by_side():
    source = filled("vtkIntArray", range(6), components=3)
    assert tv.vtk_to_array(source).shape == (2, 3)
    assert tv.vtk_to_array(source, flatten=True).numpy().tolist() == [0, 1, 2, 3, 4, 5]


def test_capacity_beyond_the_tuples_is_no_part_of_the_shape():
    """enthought/mayavi#197"""
    source = vtk.vtkFloatArray()
    source.SetNumberOfComponents(2)
    source.ReserveTuples(1000)
    for k in range(3):
        source.InsertNextTuple((k, 10 * k))
    assert tv.vtk_to_array(source).numpy().tolist() == [[0, 0], [1, 10], [2, 20]]


def test_unsigned_characters_stay_uint8():
    """pyvista/pyvista#64"""
    array = tv.vtk_to_array(filled("vtkUnsignedCharArray", range(256)))
    assert array.dtype is tack.uint8
    assert array.numpy().tolist() == list(range(256))


def test_an_import_leaves_names_attributes_and_modification_time_as_they_were():
    source = filled("vtkFloatArray", range(4), components=2)
    source.SetName("velocity")
    source.SetComponentName(1, "v")
    table = vtk.vtkLookupTable()
    source.SetLookupTable(table)
    source.GetInformation().Set(vtk.vtkDataArray.UNITS_LABEL(), "m/s")
    before = source.GetMTime()
    tv.vtk_to_array(source)
    assert source.GetName() == "velocity"
    assert [source.GetComponentName(k) for k in (0, 1)] == [None, "v"]
    assert source.GetLookupTable() is table
    assert source.GetInformation().Get(vtk.vtkDataArray.UNITS_LABEL()) == "m/s"
    assert source.GetMTime() == before


@pytest.mark.parametrize("components", [1, 3])
def test_an_empty_vtk_array_is_imported_with_its_components(components):
    source = vtk.vtkDoubleArray()
    source.SetNumberOfComponents(components)
    array = tv.vtk_to_array(source)
    assert array.shape == ((0,) if components == 1 else (0, 3))
    assert array.dtype is tack.float64


def test_an_empty_array_is_exported_with_its_components():
    """pyvista/pyvista#9286"""
    result = tv.array_to_vtk(tack.zeros((0, 2)), name="none")
    assert (result.GetNumberOfTuples(), result.GetNumberOfComponents()) == (0, 2)
    assert result.GetName() == "none"
    assert tv.vtk_to_array(result).shape == (0, 2)


@pytest.mark.parametrize("shape", [(3, 0), (0, 0)])
def test_tuples_of_no_components_are_refused(shape):
    """pyvista/pyvista#9286"""
    with pytest.raises(ValueError, match=r"array_to_vtk: shape .* tuples of no components"):
        tv.array_to_vtk(tack.zeros(shape))


@pytest.mark.parametrize(
    "shape, n_components, tuples, components",
    [
        ((6,), None, 6, 1),
        ((6,), 3, 2, 3),
        ((6,), np.int64(2), 3, 2),
        ((2, 3), None, 2, 3),
        ((2, 3), 3, 2, 3),
        ((2, 3, 4), 4, 6, 4),
        ((2, 3, 4), 1, 24, 1),
        ((), None, 1, 1),
    ],
)
def test_the_shape_and_n_components_give_the_tuples(shape, n_components, tuples, components):
    result = tv.array_to_vtk(tack.zeros(shape), n_components)
    assert (result.GetNumberOfTuples(), result.GetNumberOfComponents()) == (tuples, components)


@pytest.mark.parametrize(
    "shape, n_components, error, message",
    [
        ((2, 3), 2, ValueError, r"n_components=2 contradicts shape \(2, 3\)"),
        ((6,), 4, ValueError, r"6 values .* do not divide .* n_components=4"),
        ((6,), 0, ValueError, "n_components is 0"),
        ((6,), -3, ValueError, "n_components is -3"),
        ((6,), 2.0, TypeError, "n_components is 2.0, not an int"),
        ((6,), True, TypeError, "n_components is True, not an int"),
        ((6,), "3", TypeError, "n_components is '3', not an int"),
        ((2, 2, 2), 3, ValueError, "8 values .* do not divide"),
    ],
)
def test_n_components_that_does_not_fit_is_refused(shape, n_components, error, message):
    with pytest.raises(error, match=f"array_to_vtk: {message}"):
        tv.array_to_vtk(tack.zeros(shape), n_components)


def test_three_dimensions_need_n_components():
    """pyvista/pyvista#5102"""
    with pytest.raises(ValueError, match="3 dimensions; say with n_components"):
        tv.array_to_vtk(tack.zeros((4, 3, 3)))


@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16"])
def test_a_dtype_that_vtk_lacks_is_refused_with_what_it_takes(dtype):
    with pytest.raises(TypeError, match=f"no arrays of {dtype}; it takes int8, .*, float64"):
        tv.array_to_vtk(tack.zeros(4, dtype=dtype))


def test_a_read_only_array_is_refused_naming_copy():
    with pytest.raises(ValueError, match=r"array_to_vtk: .*read-only.*copy\(\)"):
        tv.array_to_vtk(read_only())


def test_an_object_that_answers_to_any_name_is_no_vtk_array():
    with pytest.raises(TypeError, match="vtk_to_array: MagicMock is not"):
        tv.vtk_to_array(mock.MagicMock())


@pytest.mark.parametrize("source", [None, 3, "text", np.zeros(3), vtk.vtkObject()], ids=kind_of)
def test_what_is_no_vtk_array_cannot_be_imported(source):
    with pytest.raises(TypeError, match=f"vtk_to_array: {type(source).__name__} is not"):
        tv.vtk_to_array(source)


@pytest.mark.parametrize("source", [None, 3, np.zeros(3)], ids=kind_of)
def test_what_is_no_tack_array_cannot_be_exported(source):
    with pytest.raises(TypeError, match="array_to_vtk: got .*, not a tack.Array"):
        tv.array_to_vtk(source)


@pytest.mark.parametrize("kind", ["vtkBitArray", "vtkStringArray", "vtkVariantArray"])
def test_arrays_without_numbers_of_whole_bytes_are_a_type_error(kind):
    source = getattr(vtk, kind)()
    source.SetNumberOfValues(8)
    with pytest.raises(TypeError, match="vtk_to_array: VTK_"):
        tv.vtk_to_array(source)


def test_a_structure_of_arrays_is_refused_by_name():
    """pyvista/pyvista-xarray#9"""
    source = vtk.vtkSOADataArrayTemplate["float32"]()
    source.SetNumberOfComponents(2)
    source.SetNumberOfTuples(3)
    source.SetName("uv")
    with pytest.raises(ValueError, match=r"VTK_SOA_DATA_ARRAY of float 'uv' .*DeepCopy\(\)"):
        tv.vtk_to_array(source)


@pytest.mark.parametrize("kind", ["vtkAffineArray", "vtkConstantArray", "vtkIndexedArray"])
def test_an_implicit_array_is_refused_before_its_memory_is_asked_for(kind):
    source = getattr(vtk, kind)["float32"]()
    with pytest.raises(ValueError, match=r"vtk_to_array: .*DeepCopy\(\)"):
        tv.vtk_to_array(source)


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(TypeError):
        tv.array_to_vtk(tack.zeros(3), name=3)


def test_modified_makes_the_range_new():
    """pyvista/pyvista#1262"""
    array = tack.zeros(8)
    result = tv.array_to_vtk(array, name="x")
    assert result.GetRange() == (0, 0)
    array.fill(3)
    assert result.GetRange() == (0, 0)  # VTK's cache
    tv.modified(result)
    assert result.GetRange() == (3, 3)


def test_a_kernel_takes_a_vtk_array_s_memory_and_gives_its_own():
    @tack.kernel
    def double(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]

    source = filled("vtkFloatArray", range(5))
    out = tack.empty(5)
    double(tv.vtk_to_array(source), out)
    result = tv.array_to_vtk(out)
    assert [result.GetValue(k) for k in range(5)] == [0, 2, 4, 6, 8]


def test_the_stand_in_is_a_dlpack_producer_and_consumer_as_vtk_s_module(support):
    source = filled("vtkFloatArray", range(6), components=2)
    producer = support.DLPackArray(source)
    assert producer.__dlpack_device__() == (1, 0)
    view = np.from_dlpack(producer)
    assert view.ctypes.data == address(source)
    assert view.tolist() == [[0, 1], [2, 3], [4, 5]]
    values = np.arange(4.0)
    result = support.dlpack_to_vtk(values, name="values")
    assert address(result) == values.ctypes.data
    assert (result.GetName(), result.GetNumberOfTuples()) == ("values", 4)
    assert support.supported_device_types() == (1,)


def test_the_stand_in_gives_legacy_capsules_unless_asked_for_versioned_ones(support):
    source = filled("vtkFloatArray", range(3))
    assert '"dltensor"' in repr(support.vtk_to_dlpack(source))
    assert '"dltensor_versioned"' in repr(support.vtk_to_dlpack(source, versioned=True))
    with pytest.raises(BufferError, match="copy"):
        support.DLPackArray(source).__dlpack__(copy=True)


@pytest.mark.parametrize(
    "values, error, message",
    [
        (np.zeros((2, 2, 2)), ValueError, r"shape \(2, 2, 2\)"),
        (np.zeros(3, np.float16), TypeError, "float16"),
        (read_only(), ValueError, "read-only"),
    ],
)
def test_the_stand_in_refuses_what_vtk_cannot_have(support, values, error, message):
    with pytest.raises(error, match=f"dlpack_to_vtk: .*{message}"):
        support.dlpack_to_vtk(values)


def test_installing_the_stand_in_again_gives_the_one_that_is_there(support):
    assert tv.install_dlpack_support() is support
    assert sys.modules["vtkmodules.util.dlpack_support"] is support
    from vtkmodules.util import dlpack_support

    assert dlpack_support is support


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_the_module_does_not_import_vtk():
    run(
        "import sys, tack.interop.vtk\n"
        "assert not [name for name in sys.modules if name.startswith('vtkmodules')]"
    )


@pytest.mark.parametrize("call", ["vtk_to_array(None)", "array_to_vtk(tack.zeros(3))"])
def test_without_dlpack_support_the_error_names_both_ways_out(call):
    run(
        "import tack, tack.interop.vtk as tv\n"
        "try:\n"
        f"    tv.{call}\n"
        "except RuntimeError as error:\n"
        "    text = str(error)\n"
        "assert 'vtkmodules.util.dlpack_support' in text, text\n"
        "assert 'newer VTK' in text and 'install_dlpack_support()' in text, text\n"
    )


def test_without_vtk_the_error_says_so():
    run(
        "import sys\n"
        "sys.modules['vtkmodules'] = None\n"
        "import tack, tack.interop.vtk as tv\n"
        "for call in (lambda: tv.vtk_to_array(None), tv.install_dlpack_support):\n"
        "    try:\n"
        "        call()\n"
        "    except RuntimeError as error:\n"
        "        assert 'install the package vtk' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError('nothing was raised')\n"
    )


def test_a_vtk_before_9_7_gets_no_stand_in():
    run(
        "import tack.interop.vtk as tv\n"
        "from vtkmodules import vtkCommonCore\n"
        "class vtkVersion:\n"
        "    GetVTKMajorVersion = staticmethod(lambda: 9)\n"
        "    GetVTKMinorVersion = staticmethod(lambda: 6)\n"
        "vtkCommonCore.vtkVersion = vtkVersion\n"
        "try:\n"
        "    tv.install_dlpack_support()\n"
        "except RuntimeError as error:\n"
        "    assert 'VTK 9.6' in str(error) and '9.7' in str(error), error\n"
        "else:\n"
        "    raise AssertionError('nothing was raised')\n"
    )
