"""Exchange of arrays with VTK, over DLPack and vtkmodules.util.dlpack_support.

No memory is copied: a VTK array and the Tack array made from it (or the other way round) are the
same memory, and either may be dropped first. docs/vtk.md says what each VTK release can do.
Importing this module does not import VTK.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from sys import modules

import tack
from tack._core import array_imported_before as _array_imported_before
from tack._core import by_dtype_on_host as _by_dtype_on_host
from tack._core import capsule_device as _capsule_device

__all__ = [
    "array_to_vtk",
    "cell_data",
    "field_data",
    "init_level_zero",
    "install_dlpack_support",
    "modified",
    "point_data",
    "points",
    "vtk_to_array",
]

_SUPPORT = "vtkmodules.util.dlpack_support"
_VTK_DTYPES = dict.fromkeys(
    (
        tack.int8,
        tack.int16,
        tack.int32,
        tack.int64,
        tack.uint8,
        tack.uint16,
        tack.uint32,
        tack.uint64,
        tack.float32,
        tack.float64,
    )
)
_LEVEL_ZERO_DEVICE_TYPE = 14  # kDLOneAPI

# The stand-in, once it is installed: arrays go to and from it without a capsule between.
_stand_in = None


def install_dlpack_support():
    """Puts a stand-in for vtkmodules.util.dlpack_support in its place, and returns it.

    For VTK releases without that module; it never replaces a real one, which is then returned. The
    stand-in exchanges host memory only. Raises RuntimeError for a VTK before 9.7, whose arrays
    cannot be shared safely when VTK moves their memory, and where VTK is not installed.
    """
    global _stand_in
    try:
        return import_module(_SUPPORT)
    except ImportError:
        pass
    _require_vtk("install_dlpack_support")
    version = _vtk_version()
    if version < (9, 7):
        raise RuntimeError(
            f"install_dlpack_support: VTK {version[0]}.{version[1]} cannot share its arrays "
            "safely: memory that VTK moves would be used after it is freed. Install VTK 9.7 or "
            "newer"
        )
    _stand_in = import_module("tack.interop._vtk_stand_in")
    modules[_SUPPORT] = import_module("vtkmodules.util").dlpack_support = _stand_in
    return _stand_in


def vtk_to_array(vtk_array, flatten=False):
    """A Tack array over a VTK data array's memory.

    Shape: (tuples, components), or (tuples,) for one component; with flatten=True always flat,
    (tuples * components,), the components of a tuple side by side. The VTK array may be dropped.
    Raises TypeError for what is no numeric VTK array, ValueError for one whose values do not lie in
    memory one after another (structure of arrays, implicit arrays), RuntimeError without
    vtkmodules.util.dlpack_support.
    """
    support = modules.get(_SUPPORT) or _dlpack_support("vtk_to_array")
    if support is _stand_in:
        array = _array_imported_before(vtk_array, flatten)
        return support.to_array(vtk_array, flatten) if array is None else array
    capsule = support.vtk_to_dlpack(vtk_array)
    device = _capsule_device(capsule)
    # Guarded before it is adopted, so that a refusal leaves the capsule to VTK.
    if device is not None and device[0] == _LEVEL_ZERO_DEVICE_TYPE:
        default = tack.default_device()
        _require_shared_level_zero_context(
            default if default.name == "level_zero" else tack.device("level_zero", device[1])
        )
    array = tack.from_dlpack(capsule)
    if flatten or array.shape[1] == 1:
        return array.reshape(array.size)
    return array


def array_to_vtk(array, n_components=None, name=None):
    """A VTK data array over a Tack array's memory, which stays alive until VTK drops it.

    n_components: values per tuple; by default 1 for a one-dimensional array and the last extent of
    a two-dimensional one. More dimensions need it. name: the VTK array's.
    Raises ValueError for a shape that does not make such tuples and for a read-only array, which
    VTK cannot have; TypeError for bool, float16 and bfloat16.
    """
    if not isinstance(array, tack.Array):
        raise TypeError(
            f"array_to_vtk: got {type(array).__name__}, not a tack.Array; "
            "make one with tack.from_dlpack(...)"
        )
    components = _components(array, n_components)
    if _stand_in is not None and modules.get(_SUPPORT) is _stand_in:
        vtk_class = _by_dtype_on_host(array, _stand_in.CLASSES)
        if vtk_class is not None:
            return _stand_in.from_array(vtk_class, array, components, name)
    if array.dtype not in _VTK_DTYPES:
        raise TypeError(
            f"array_to_vtk: VTK has no arrays of {array.dtype.name}; it takes "
            f"{', '.join(dtype.name for dtype in _VTK_DTYPES)}"
        )
    if not array.writable:
        raise ValueError(
            "array_to_vtk: the array is read-only, and VTK has no such arrays; pass array.copy()"
        )
    support = modules.get(_SUPPORT) or _dlpack_support("array_to_vtk")
    _require_shared_level_zero_context(array.device)
    if array.size == 0:
        # VTK's own module refuses null data, which is what an empty tensor has.
        stand_in = import_module("tack.interop._vtk_stand_in")
        return stand_in.from_array(stand_in.CLASSES[array.dtype], array, components, name)
    return support.dlpack_to_vtk(array.reshape(-1, components), name=name)


def modified(vtk_array):
    """Tells VTK that an array's values have changed: ranges are computed anew, filters run again.

    VTK cannot see writes through a Tack array. Call this after them, on the VTK array.
    """
    vtk_array.Modified()


def point_data(dataset):
    """The data set's point arrays as a mapping from name to Tack array; see `DataSetArrays`."""
    return DataSetArrays(dataset, "GetPointData", "GetNumberOfPoints")


def cell_data(dataset):
    """The data set's cell arrays as a mapping from name to Tack array; see `DataSetArrays`."""
    return DataSetArrays(dataset, "GetCellData", "GetNumberOfCells")


def field_data(dataset):
    """The data set's field arrays as a mapping from name to Tack array; see `DataSetArrays`."""
    return DataSetArrays(dataset, "GetFieldData", None)


def points(dataset):
    """The coordinates of the data set's points, shape (points, 3), or None where it has none yet.

    Raises ValueError for the implicit points of an image or a rectilinear grid.
    """
    getter = getattr(dataset, "GetPoints", None)
    if getter is None:
        raise TypeError(f"points: {type(dataset).__name__} has no points")
    vtk_points = getter()
    return None if vtk_points is None else vtk_to_array(vtk_points.GetData())


class DataSetArrays(MutableMapping):
    """The named arrays of a data set's points, cells or fields, as Tack arrays.

    Getting one imports it without a copy. Setting one exports the Tack array (or what
    tack.from_dlpack takes) without a copy and adds it, or replaces the array of that name in place;
    its tuples must be as many as there are points or cells, else ValueError, and nothing is
    changed. Arrays without a name are not listed; of several with one name the first counts.
    """

    def __init__(self, dataset, getter, counter):
        attributes = getattr(dataset, getter, None)
        if attributes is None:
            raise TypeError(
                f"{type(dataset).__name__} has no {getter}(); pass a data set (of a composite one, "
                "each of its blocks)"
            )
        self._dataset = dataset
        self._attributes = attributes()
        self._counter = counter

    def __getitem__(self, name):
        return vtk_to_array(self._abstract_array(name))

    def __setitem__(self, name, value):
        if not isinstance(name, str):
            raise TypeError(f"an array's name is a str, not {type(name).__name__}")
        array = value if isinstance(value, tack.Array) else tack.from_dlpack(value)
        tuples, n_components = self._tuples(), None
        if tuples is not None:
            leading = array.shape[0] if array.ndim in (1, 2) else array.size
            if array.ndim > 2 and tuples > 0 and array.size % tuples == 0:
                leading, n_components = tuples, array.size // tuples
            if leading != tuples:
                raise ValueError(
                    f"'{name}': an array of shape {array.shape} has not one tuple for each of the "
                    f"{tuples} {self._counter.removeprefix('GetNumberOf').lower()}"
                )
        vtk_array = array_to_vtk(array, n_components, name)
        self._attributes.AddArray(vtk_array)
        modified(vtk_array)

    def __delitem__(self, name):
        self._abstract_array(name)
        self._attributes.RemoveArray(name)

    def __iter__(self):
        names = [
            self._attributes.GetArrayName(k) for k in range(self._attributes.GetNumberOfArrays())
        ]
        return iter(dict.fromkeys(name for name in names if name is not None))

    def __len__(self):
        return sum(1 for _ in self)

    def __contains__(self, name):
        return isinstance(name, str) and self._attributes.GetAbstractArray(name) is not None

    def __repr__(self):
        return f"<arrays of {self._dataset.GetClassName()}: {', '.join(self) or 'none'}>"

    def _abstract_array(self, name):
        array = self._attributes.GetAbstractArray(name) if isinstance(name, str) else None
        if array is None:
            raise KeyError(name)
        return array

    def _tuples(self):
        return None if self._counter is None else getattr(self._dataset, self._counter)()


def init_level_zero():
    """Makes Level Zero, in the context that VTK's device uses, the default device; returns it.

    Raises RuntimeError where VTK has no Level Zero handles to share.
    """
    handles = _level_zero_handles(_dlpack_support("init_level_zero"))
    if not handles:
        raise RuntimeError(
            "init_level_zero: VTK has no Level Zero context to share: it is too old, was built "
            "without Viskores on Kokkos' SYCL backend, or does not run on a Level Zero device"
        )
    return tack.set_default_device("level_zero", external_context=handles)


def _require_shared_level_zero_context(device):
    """Refuses an exchange with VTK on a Level Zero device of another context than VTK's.

    The driver vouches for a pointer from any context, so nobody else can notice.
    """
    if device.name != "level_zero":
        return
    handles = _level_zero_handles(_dlpack_support("vtk"))
    if not handles or handles["context"] != device.context:
        raise RuntimeError(
            "VTK and Tack use different Level Zero contexts, whose memory must not be exchanged; "
            "start Tack with tack.interop.vtk.init_level_zero() instead of "
            "tack.set_default_device('level_zero')"
        )


def _level_zero_handles(support):
    handles = getattr(support, "level_zero_handles", None)
    return handles() if handles is not None else None


def _components(array, n_components):
    """The values per tuple of an array. ValueError where its shape contradicts them."""
    shape = array.shape
    if n_components is None:
        if len(shape) == 1:
            return 1
    else:
        if isinstance(n_components, bool) or not hasattr(n_components, "__index__"):
            raise TypeError(f"array_to_vtk: n_components is {n_components!r}, not an int")
        n_components = n_components.__index__()
        if n_components < 1:
            raise ValueError(f"array_to_vtk: n_components is {n_components}; a tuple has 1 or more")
    if len(shape) == 2:
        if shape[1] == 0:
            raise ValueError(f"array_to_vtk: shape {shape} has tuples of no components")
        if n_components not in (None, shape[1]):
            raise ValueError(
                f"array_to_vtk: n_components={n_components} contradicts shape {shape}; "
                f"pass array.reshape(-1, {n_components})"
            )
        return shape[1]
    if len(shape) > 2 and n_components is None:
        raise ValueError(
            f"array_to_vtk: shape {shape} has {len(shape)} dimensions; "
            "say with n_components how many values make a tuple"
        )
    n_components = n_components or 1
    if array.size % n_components:
        raise ValueError(
            f"array_to_vtk: {array.size} values of shape {shape} do not divide into tuples of "
            f"n_components={n_components}"
        )
    return n_components


def _dlpack_support(operation):
    try:
        return import_module(_SUPPORT)
    except ImportError:
        _require_vtk(operation)
        version = ".".join(map(str, _vtk_version()))
        raise RuntimeError(
            f"{operation}: VTK {version} has no {_SUPPORT}. Install a newer VTK that has, or call "
            "tack.interop.vtk.install_dlpack_support() for a stand-in that exchanges host arrays "
            "(VTK 9.7 and newer)"
        ) from None


def _require_vtk(operation):
    try:
        import_module("vtkmodules.vtkCommonCore")
    except ImportError as error:
        raise RuntimeError(
            f"{operation}: VTK's Python modules cannot be imported ({error}); "
            "install the package vtk"
        ) from error


def _vtk_version():
    version = import_module("vtkmodules.vtkCommonCore").vtkVersion
    return version.GetVTKMajorVersion(), version.GetVTKMinorVersion()
