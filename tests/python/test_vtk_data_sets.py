"""The arrays of VTK's and PyVista's data sets as mappings, and their points."""

import numpy as np
import pytest

import tack
import tack.interop.vtk as tv

core = pytest.importorskip(
    "vtkmodules.vtkCommonCore", reason="needs vtk: ./dev test installs it", exc_type=ImportError
)
model = pytest.importorskip("vtkmodules.vtkCommonDataModel")


@pytest.fixture(scope="module", autouse=True)
def support():
    return tv.install_dlpack_support()


@pytest.fixture
def image():
    """3 x 2 x 2 points, 2 cells, with the point array 'density': 0 ... 11."""
    image = model.vtkImageData()
    image.SetDimensions(3, 2, 2)
    density = core.vtkFloatArray()
    density.SetName("density")
    for k in range(12):
        density.InsertNextValue(k)
    image.GetPointData().AddArray(density)
    return image


def address(vtk_array):
    return np.frombuffer(vtk_array, np.uint8).ctypes.data


def test_an_array_is_got_without_a_copy(image):
    array = tv.point_data(image)["density"]
    assert array.numpy().tolist() == list(range(12))
    assert array.ptr == address(image.GetPointData().GetArray("density"))


def test_an_array_is_set_without_a_copy(image):
    values = tack.ones((2, 3))
    tv.cell_data(image)["flux"] = values
    result = image.GetCellData().GetArray("flux")
    assert address(result) == values.ptr
    assert (result.GetNumberOfTuples(), result.GetNumberOfComponents()) == (2, 3)


def test_any_dlpack_producer_is_set_without_a_copy(image):
    values = np.arange(12.0)
    tv.point_data(image)["x"] = values
    assert address(image.GetPointData().GetArray("x")) == values.ctypes.data


def test_the_dimensions_of_an_image_become_its_tuples(image):
    data = tv.point_data(image)
    data["field"] = tack.zeros((2, 2, 3))
    data["vectors"] = tack.zeros((2, 2, 3, 3))
    assert data["field"].shape == (12,)
    assert data["vectors"].shape == (12, 3)


def test_setting_a_name_again_replaces_the_array_which_stays_active(image):
    image.GetPointData().SetActiveScalars("density")
    data = tv.point_data(image)
    data["density"] = tack.full((12, 3), 5, tack.float64)
    assert len(data) == 1
    assert data["density"].shape == (12, 3)
    assert image.GetPointData().GetScalars().GetName() == "density"


def test_setting_tells_the_data_set_that_it_has_changed(image):
    before = image.GetMTime()
    tv.point_data(image)["density"] = tack.zeros(12)
    assert image.GetMTime() > before


@pytest.mark.parametrize("shape", [(11,), (13,), (3, 4), (0,), (2, 3, 3)])
def test_a_tuple_count_that_does_not_fit_changes_nothing(image, shape):
    data = tv.point_data(image)
    with pytest.raises(ValueError, match=r"'density': .*12 points"):
        data["density"] = tack.zeros(shape)
    assert data["density"].numpy().tolist() == list(range(12))
    with pytest.raises(ValueError, match="'new'"):
        data["new"] = tack.zeros(shape)
    assert list(data) == ["density"]


@pytest.mark.parametrize(
    "value, error",
    [
        (np.zeros(12, np.float16), TypeError),
        (np.zeros(12, bool), TypeError),
        (np.frombuffer(bytes(12), np.uint8), ValueError),
        ("text", TypeError),
        (None, TypeError),
    ],
)
def test_what_vtk_cannot_have_changes_nothing(image, value, error):
    data = tv.point_data(image)
    with pytest.raises(error):
        data["density"] = value
    with pytest.raises(error):
        data["new"] = value
    assert list(data) == ["density"]
    assert data["density"].numpy().tolist() == list(range(12))


def test_a_name_that_is_no_text_is_refused(image):
    with pytest.raises(TypeError, match="name is a str"):
        tv.point_data(image)[3] = tack.zeros(12)
    assert list(tv.point_data(image)) == ["density"]


@pytest.mark.parametrize("name", ["nothing", 0, None])
def test_an_unknown_name_is_a_key_error(image, name):
    data = tv.point_data(image)
    assert name not in data
    with pytest.raises(KeyError):
        data[name]
    with pytest.raises(KeyError):
        del data[name]


def test_an_array_is_deleted_by_name_and_its_view_lives_on(image):
    data = tv.point_data(image)
    view = data["density"]
    del data["density"]
    assert len(data) == 0
    assert image.GetPointData().GetNumberOfArrays() == 0
    assert view.numpy().tolist() == list(range(12))


def test_the_mapping_is_a_mapping(image):
    data = tv.point_data(image)
    data.update(a=tack.zeros(12), b=tack.ones(12))
    assert list(data) == ["density", "a", "b"]
    assert data.get("nothing") is None
    assert data.pop("b").numpy().tolist() == [1] * 12
    assert [name for name, _ in data.items()] == ["density", "a"]
    assert repr(data) == "<arrays of vtkImageData: density, a>"


def test_arrays_without_a_name_are_not_listed_and_of_two_alike_the_first_counts(image):
    nameless, twin = core.vtkFloatArray(), core.vtkIntArray()
    for array in (nameless, twin):
        array.SetNumberOfTuples(12)
        image.GetPointData().AddArray(array)
    twin.SetName("density")
    data = tv.point_data(image)
    assert list(data) == ["density"]
    assert data["density"].dtype is tack.float32


def test_an_array_of_text_is_found_and_refused_as_no_numbers(image):
    names = core.vtkStringArray()
    names.SetName("names")
    names.SetNumberOfValues(12)
    image.GetPointData().AddArray(names)
    data = tv.point_data(image)
    assert "names" in data
    with pytest.raises(TypeError, match="VTK_STRING_ARRAY of string 'names'"):
        data["names"]


def test_field_arrays_have_any_number_of_tuples(image):
    data = tv.field_data(image)
    data["times"] = tack.zeros(5)
    data["matrix"] = tack.zeros((3, 3))
    assert data["times"].shape == (5,)
    assert image.GetFieldData().GetArray("matrix").GetNumberOfTuples() == 3


def test_a_table_has_only_field_data_and_says_so():
    with pytest.raises(TypeError, match=r"Table has no GetPointData\(\)"):
        tv.point_data(model.vtkTable())


def test_a_composite_data_set_is_refused_naming_its_blocks():
    with pytest.raises(TypeError, match="MultiBlockDataSet .*each of its blocks"):
        tv.point_data(model.vtkMultiBlockDataSet())


def test_points_are_the_coordinates_in_place():
    mesh = model.vtkPolyData()
    points = core.vtkPoints()
    points.InsertNextPoint(1, 2, 3)
    points.InsertNextPoint(4, 5, 6)
    mesh.SetPoints(points)
    array = tv.points(mesh)
    assert array.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    array[1, 0] = 40
    assert mesh.GetPoint(1) == (40, 5, 6)


def test_points_of_a_mesh_without_any_are_none():
    assert tv.points(model.vtkPolyData()) is None


def test_the_implicit_points_of_an_image_are_refused(image):
    with pytest.raises(ValueError, match=r"VTK_STRUCTURED_POINT_ARRAY .*DeepCopy\(\)"):
        tv.points(image)


def test_what_has_no_points_is_refused():
    with pytest.raises(TypeError, match="Table has no points"):
        tv.points(model.vtkTable())


def test_modified_on_the_points_makes_the_bounds_new():
    mesh = model.vtkPolyData()
    points = core.vtkPoints()
    points.InsertNextPoint(0, 0, 0)
    points.InsertNextPoint(1, 1, 1)
    mesh.SetPoints(points)
    assert mesh.GetBounds()[1] == 1
    tv.points(mesh)[1, 0] = 9
    tv.modified(points.GetData())
    points.Modified()
    assert mesh.GetBounds()[1] == 9


def test_modified_runs_a_filter_again(image):
    from vtkmodules.vtkFiltersCore import vtkContourFilter

    field = tack.zeros(12)
    tv.point_data(image)["field"] = field
    image.GetPointData().SetActiveScalars("field")
    contour = vtkContourFilter()
    contour.SetInputData(image)
    contour.SetValue(0, 0.5)
    contour.Update()
    assert contour.GetOutput().GetNumberOfPoints() == 0
    for k in (0, 3, 6, 9):
        field[k] = 1
    tv.modified(image.GetPointData().GetArray("field"))
    contour.Update()
    assert contour.GetOutput().GetNumberOfPoints() > 0
    assert {contour.GetOutput().GetPoint(k)[0] for k in range(4)} == {0.5}


@pytest.mark.partner("pyvista")
def test_pyvista_s_meshes_are_data_sets():
    import pyvista

    mesh = pyvista.Sphere()
    data = tv.point_data(mesh)
    normals = data["Normals"]
    assert normals.shape == (mesh.n_points, 3)
    data["height"] = tack.from_dlpack(np.arange(float(mesh.n_points)))
    assert mesh["height"][7] == 7
    tv.points(mesh)[0, 0] = 12
    assert mesh.points[0, 0] == 12


@pytest.mark.partner("pyvista")
def test_an_array_that_pyvista_put_under_two_names_may_be_imported_under_both():
    import pyvista

    mesh = pyvista.ImageData(dimensions=(2, 2, 2))
    mesh.point_data["x"] = np.arange(8.0)
    mesh.point_data["y"] = mesh.point_data["x"]
    data = tv.point_data(mesh)
    x, y = data["x"], data["y"]
    assert x.ptr == y.ptr
    del mesh.point_data["x"], data["y"], mesh
    assert x.numpy().tolist() == y.numpy().tolist() == list(range(8))
