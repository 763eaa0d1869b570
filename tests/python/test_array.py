"""Making arrays, their attributes, elements and conversions."""

import copy
import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import tack
from tack.interop.dlpack import dlpack_to_array

pytestmark = pytest.mark.usefixtures("backend")

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
]  # fmt: skip


def read_only(values):
    return dlpack_to_array(tack.array(values), writable=False)


# dtypes


@pytest.mark.parametrize("name", [*DTYPES, "bfloat16"])
def test_a_dtype_is_one_object_with_name_and_itemsize(name):
    dtype = getattr(tack, name)
    assert isinstance(dtype, tack.DType)
    assert tack.DType(name) is dtype
    assert repr(dtype) == f"tack.{name}"
    assert dtype.name == name
    assert dtype.itemsize == (2 if name == "bfloat16" else np.dtype(name).itemsize)


@pytest.mark.parametrize("name", DTYPES)
def test_numpy_dtypes_scalar_types_and_codes_are_taken(name):
    wanted = getattr(tack, name)
    numpy_dtype = np.dtype(name)
    for given in (numpy_dtype, numpy_dtype.type, numpy_dtype.str, numpy_dtype.char, name):
        assert tack.empty(1, given).dtype is wanted
        assert wanted == given


def test_python_types_mean_what_they_mean_to_numpy():
    assert [tack.DType(t) for t in (int, float, bool)] == [tack.int64, tack.float64, tack.bool]


@pytest.mark.partner("ml_dtypes")
def test_bfloat16_of_ml_dtypes_is_taken():
    import ml_dtypes

    assert tack.DType(ml_dtypes.bfloat16) is tack.bfloat16
    assert tack.DType(np.dtype(ml_dtypes.bfloat16)) is tack.bfloat16


def test_dtypes_that_differ_are_unequal():
    assert tack.float32 != tack.float64
    assert tack.float32 != np.dtype("float64")
    assert tack.float32 != "no dtype"
    assert tack.float32 != 3
    assert len({tack.float32, tack.float64, tack.DType("float32")}) == 2


def test_a_big_endian_dtype_is_refused_by_name():
    with pytest.raises(TypeError, match=r"'>f4' is big-endian"):
        tack.empty(1, ">f4")
    with pytest.raises(TypeError, match=r"'>i2' is big-endian"):
        tack.array(np.arange(3, dtype=">i2"))


@pytest.mark.parametrize(
    "bad", ["complex64", "float128x", "no dtype", np.dtype("M8[s]"), 3, None, str]
)
def test_what_means_no_dtype_is_a_type_error(bad):
    with pytest.raises(TypeError, match="empty: "):
        tack.empty(1, bad)


def test_calling_a_dtype_gives_numpys_scalar():
    assert isinstance(tack.float32(1.5), np.float32)
    assert isinstance(tack.bool(2), np.bool_)


# making


def test_array_infers_as_numpy_does():
    for values in ([1, 2], [1.0, 2], [True, False], 7, [[1, 2], [3, 4]], [], np.float16(3)):
        array = tack.array(values)
        assert array.dtype == np.array(values).dtype
        assert array.shape == np.array(values).shape
        assert array.tolist() == np.array(values).tolist()


def test_array_always_copies():
    source = np.arange(4.0)
    array = tack.array(source)
    again = tack.array(array)
    source[0] = array[1] = 9
    assert array.tolist() == [0, 9, 2, 3]
    assert again.tolist() == [0, 1, 2, 3]


def test_array_takes_non_contiguous_data():
    source = np.arange(12).reshape(3, 4).T[::-1, ::2]
    assert tack.array(source).tolist() == source.tolist()


def test_array_converts_to_a_given_dtype():
    assert tack.array([1.7, -2.2], tack.int32).tolist() == [1, -2]
    assert tack.array(tack.array([1, 2]), "f4").dtype is tack.float32


def test_array_makes_bfloat16_rounding_once():
    # Rounded to float32 first, this would be a tie and go down to 1.
    just_above_the_tie = 1.0 + 2.0**-8 + 2.0**-40
    assert tack.array([just_above_the_tie], tack.bfloat16).tolist() == [1.0 + 2.0**-7]


def test_new_arrays_default_to_float32_on_the_default_device(backend):
    for array in (tack.empty(2), tack.zeros(2), tack.ones(2), tack.full(2, 7)):
        assert array.dtype is tack.float32
        assert array.writable
        assert array.device == tack.device(backend)


def test_zeros_ones_and_full_have_those_values():
    assert tack.zeros((2, 2), tack.int8).tolist() == [[0, 0], [0, 0]]
    assert tack.ones((), tack.bool).tolist() is True
    assert tack.full(2, 2.5, tack.float64).tolist() == [2.5, 2.5]


def test_full_converts_as_a_kernels_cast():
    assert tack.full(1, 300, tack.uint8).item() == 255
    assert tack.full(1, -1.5, tack.uint8).item() == 0
    assert tack.full(1, float("nan"), tack.int32).item() == 0
    assert tack.full(1, 10**400, tack.float32).item() == float("inf")


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_full_is_exact_for_64_bit_integers(value):
    assert tack.full(1, value, tack.int64).item() == value
    assert tack.full(1, 2**64 - 1, tack.uint64).item() == 2**64 - 1


@pytest.mark.parametrize("arguments", [(5,), (2, 5), (2, 9, 3), (0.0, 1.0, 0.25), (5, 2, -1)])
def test_arange_is_numpys(arguments):
    array = tack.arange(*arguments)
    assert array.dtype == np.arange(*arguments).dtype
    assert array.tolist() == np.arange(*arguments).tolist()


@pytest.mark.parametrize("shape", [3, (3,), [3], np.int64(3), (np.int8(3),)])
def test_a_shape_is_an_int_or_a_sequence(shape):
    assert tack.zeros(shape).shape == (3,)


@pytest.mark.parametrize("shape", [1.5, "3", (1.5,), None, (2, "3")])
def test_a_shape_of_anything_else_is_a_type_error(shape):
    with pytest.raises(TypeError, match="zeros: shape must be an int or a tuple of ints"):
        tack.zeros(shape)


@pytest.mark.parametrize("shape", [-1, (2, -3), 2**80, (2**31, 2**31, 2**31)])
def test_a_shape_that_cannot_be_is_a_value_error(shape):
    with pytest.raises(ValueError, match="zeros: "):
        tack.zeros(shape)


def test_more_memory_than_there_is_gives_memory_error_with_the_size():
    with pytest.raises(MemoryError, match=str(2**52)):
        tack.empty(2**50, tack.float32)


def test_an_exportable_array_is_refused_on_the_cpu():
    with pytest.raises(RuntimeError, match="Backend cpu does not support memory export"):
        tack.empty(3, exportable=True)
    with pytest.raises(RuntimeError, match="Backend cpu does not support memory export"):
        tack.empty(3).export_memory()


# attributes


def test_attributes_describe_the_array():
    array = tack.zeros((2, 3, 4), tack.int16)
    assert (array.shape, array.ndim, array.size) == ((2, 3, 4), 3, 24)
    assert (array.itemsize, array.nbytes, array.strides) == (2, 48, (12, 4, 1))
    assert array.ptr % 64 == 0


def test_reshape_shares_memory_and_infers_one_extent():
    array = tack.arange(6)
    for other in (array.reshape(2, 3), array.reshape((2, -1)), array.reshape([-1, 3])):
        assert other.shape == (2, 3)
        assert other.ptr == array.ptr
    with pytest.raises(ValueError, match="reshape"):
        array.reshape(4, 2)


def test_reshape_keeps_a_read_only_array_read_only():
    assert not read_only([1, 2]).reshape(2, 1).writable


def test_arrays_compare_and_hash_by_identity():
    a, b = tack.zeros(1), tack.zeros(1)
    assert a == a
    assert a != b
    assert len({a, b, a}) == 2


def test_an_array_can_be_weakly_referenced():
    array = tack.zeros(1)
    reference = weakref.ref(array)
    assert reference() is array
    del array
    assert reference() is None


def test_array_cannot_be_called_or_derived_from():
    with pytest.raises(TypeError):
        tack.Array()
    with pytest.raises(TypeError):
        type("Derived", (tack.Array,), {})


# elements


@pytest.mark.parametrize("name", [*DTYPES, "bfloat16"])
def test_elements_are_pythons_numbers(name):
    array = tack.zeros(2, name)
    array[1] = 1
    kind = bool if name == "bool" else float if "float" in name else int
    assert type(array[1]) is kind
    assert array[1] == 1
    assert array[0] == 0


def test_negative_indices_count_from_the_end():
    array = tack.array([[1, 2, 3], [4, 5, 6]])
    assert array[-1, -3] == 4
    array[-2, -1] = 9
    assert array[0, 2] == 9


@pytest.mark.parametrize("index", [(2, 0), (0, 3), (-3, 0), (0, -4)])
def test_an_index_out_of_bounds_is_an_index_error(index):
    array = tack.zeros((2, 3))
    with pytest.raises(IndexError, match="out of bounds for axis"):
        array[index]
    with pytest.raises(IndexError, match="out of bounds for axis"):
        array[index] = 1


def test_too_many_indices_are_an_index_error():
    with pytest.raises(IndexError, match=r"3 indices for an array of shape \(2, 3\)"):
        tack.zeros((2, 3))[0, 0, 0]
    with pytest.raises(IndexError):
        tack.zeros(())[0]


@pytest.mark.parametrize(
    "key", [0, slice(None), (slice(None), 0), (0, None), [0, 1], (..., 0), True, 1.0, ()]
)
def test_slicing_says_what_to_do(key):
    array = tack.zeros((2, 3))
    with pytest.raises(TypeError, match=r"no slicing.*a\.numpy\(\)\[\.\.\.\]"):
        array[key]
    with pytest.raises(TypeError, match="no slicing"):
        array[key] = 1


def test_ellipsis_is_the_array_itself():
    array = tack.zeros((2, 3))
    assert array[...] is array
    assert array[(...,)] is array


def test_a_zero_dimensional_array_has_one_element():
    array = tack.zeros((), tack.int32)
    array[()] = 4
    assert array[()] == 4
    assert array[...] is array


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("uint8", 256, OverflowError),
        ("uint8", -1, OverflowError),
        ("int64", 2**63, OverflowError),
        ("int32", float("nan"), ValueError),
        ("int32", float("inf"), OverflowError),
        ("int32", "3", TypeError),
        ("float32", "3", TypeError),
        ("float32", 1j, TypeError),
    ],
)
def test_an_element_that_does_not_fit_is_refused(name, value, error):
    array = tack.zeros(1, name)
    with pytest.raises(error):
        array[0] = value
    assert array[0] == 0


def test_a_float_stored_as_an_integer_is_truncated():
    array = tack.zeros(2, tack.int32)
    array[0] = -1.9
    array[1] = np.float32(2.9)
    assert array.tolist() == [-1, 2]


@pytest.mark.parametrize("value", [3, 2.5, True])
def test_assigning_a_number_to_the_whole_sets_every_element(value):
    array = tack.zeros((2, 2), tack.float64)
    array[...] = value
    assert array.tolist() == [[value, value], [value, value]]


def test_assigning_to_the_whole_broadcasts_and_casts_as_numpy():
    array = tack.zeros((2, 3), tack.int32)
    array[...] = np.array([1.9, 2, 3])
    assert array.tolist() == [[1, 2, 3], [1, 2, 3]]
    array[...] = tack.array([[7], [8]])
    assert array.tolist() == [[7, 7, 7], [8, 8, 8]]
    with pytest.raises(ValueError, match="broadcast"):
        array[...] = [1, 2]
    with pytest.raises(OverflowError):
        array[...] = 2**31


def test_fill_sets_every_element_as_a_cast_does():
    array = tack.zeros(3, tack.int8)
    array.fill(1000)
    assert array.tolist() == [127, 127, 127]
    with pytest.raises(TypeError, match="fill: value must be a number, not str"):
        array.fill("1")


@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.__setitem__(0, 1),
        lambda a: a.__setitem__(..., 1),
        lambda a: a.__setitem__(..., [1, 2]),
        lambda a: a.fill(1),
    ],
)
def test_a_host_write_to_a_read_only_array_is_a_runtime_error(write):
    array = read_only([5, 6])
    with pytest.raises(RuntimeError, match="read-only"):
        write(array)
    assert array.tolist() == [5, 6]


def test_deleting_an_element_is_a_type_error():
    array = tack.zeros(2)
    with pytest.raises(TypeError, match="cannot be deleted"):
        del array[0]


def test_len_is_the_first_extent_and_iteration_yields_elements():
    array = tack.array([1, 2, 3])
    assert len(array) == 3
    assert list(array) == [1, 2, 3]
    assert len(tack.zeros((4, 2))) == 4


def test_only_one_axis_can_be_iterated_over():
    with pytest.raises(TypeError, match=r"shape \(2, 2\).*tolist"):
        iter(tack.zeros((2, 2)))
    with pytest.raises(TypeError, match="no length"):
        len(tack.zeros(()))
    with pytest.raises(TypeError):
        iter(tack.zeros(()))


def test_item_takes_no_index_one_per_axis_or_a_flat_one():
    array = tack.array([[1, 2], [3, 4]])
    assert array.item(1, 0) == array.item((1, 0)) == array.item(2) == 3
    assert tack.array([[5]]).item() == 5
    with pytest.raises(ValueError, match=r"item: .*shape \(2, 2\)"):
        array.item()


def test_one_element_converts_to_a_number_and_a_truth_value():
    assert int(tack.array([[3.7]])) == 3
    assert float(tack.array(2)) == 2.0
    assert [10, 20, 30][tack.array(1)] == 20
    assert bool(tack.array([0.0])) is False
    with pytest.raises(ValueError, match="bool: "):
        bool(tack.zeros(2))
    with pytest.raises(TypeError):
        [1, 2][tack.array(1.0)]


# NumPy


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0)])
def test_numpy_is_a_view_of_the_same_memory(name, shape):
    array = tack.ones(shape, name)
    view = array.numpy()
    assert (view.dtype, view.shape) == (np.dtype(name), shape)
    assert view.flags.writeable
    if array.size:
        assert view.ctypes.data == array.ptr
        view[...] = 0
        assert not np.any(np.asarray(array.tolist()))


def test_a_view_keeps_the_memory_alive():
    view = tack.full(1000, 7.0).numpy()
    gc.collect()
    tack.full(1000, 8.0)
    assert (view == 7.0).all()


def test_a_view_of_a_read_only_array_is_read_only():
    array = read_only([1, 2])
    assert not array.numpy().flags.writeable
    assert not np.asarray(array).flags.writeable
    assert not np.frombuffer(array, dtype=np.int64).flags.writeable


@pytest.mark.partner("ml_dtypes")
def test_bfloat16_reaches_numpy_through_ml_dtypes():
    import ml_dtypes

    array = tack.array([1.5, -2.0], tack.bfloat16)
    for view in (array.numpy(), np.asarray(array)):
        assert view.dtype == ml_dtypes.bfloat16
        assert view.tolist() == [1.5, -2.0]
    again = tack.array(array.numpy())
    assert again.dtype is tack.bfloat16
    assert again.tolist() == [1.5, -2.0]


def test_bfloat16_to_numpy_without_ml_dtypes_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match="Install ml_dtypes"):
        tack.zeros(1, tack.bfloat16).numpy()


def test_array_protocol_follows_numpys_copy_rules():
    array = tack.array([1.0, 2.0])
    assert np.asarray(array).ctypes.data == array.ptr
    assert array.__array__(copy=True).ctypes.data != array.ptr
    assert array.__array__(np.float64, copy=False).ctypes.data == array.ptr
    assert array.__array__(np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy=False"):
        array.__array__(np.float32, copy=False)


def test_array_interface_describes_host_memory():
    array = tack.zeros((2, 3), tack.int16)
    assert array.__array_interface__ == {
        "version": 3,
        "shape": (2, 3),
        "typestr": "<i2",
        "data": (array.ptr, False),
        "strides": None,
    }
    assert read_only([1]).__array_interface__["data"][1] is True
    assert not hasattr(tack.zeros(1, tack.bfloat16), "__array_interface__")


@pytest.mark.parametrize("name", DTYPES)
def test_the_buffer_has_numpys_format(name):
    view = memoryview(tack.zeros((2, 3), name))
    expected = memoryview(np.zeros((2, 3), name))
    assert (view.format, view.itemsize) == (expected.format, expected.itemsize)
    assert (view.shape, view.strides, view.c_contiguous) == ((2, 3), expected.strides, True)
    assert not view.readonly


def test_a_live_view_keeps_the_array_alive():
    array = tack.full(4, 3, tack.uint8)
    reference = weakref.ref(array)
    view = memoryview(array)
    del array
    assert reference() is not None
    assert bytes(view) == b"\3\3\3\3"
    view.release()
    assert reference() is None


# inducer/pycuda#182: receiving into read-only memory
def test_a_writable_buffer_of_a_read_only_array_is_refused():
    import io

    stream = io.BytesIO(bytes(range(16)))
    array = read_only([1, 2])
    with pytest.raises((BufferError, TypeError)):
        stream.readinto(array)
    assert array.tolist() == [1, 2]
    assert memoryview(array).readonly
    writable = tack.zeros(2, tack.int64)
    assert stream.readinto(writable) == 16


def test_bfloat16_has_bytes_but_no_buffer_format():
    array = tack.zeros(2, tack.bfloat16)
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(array)
    assert array.tolist() == [0.0, 0.0]


# the rest


def test_copies_are_new_memory_and_writable():
    array = read_only([1, 2])
    for other in (array.copy(), copy.copy(array), copy.deepcopy(array)):
        assert other.writable
        assert other.ptr != array.ptr
        assert other.tolist() == [1, 2]


def test_to_device_gives_the_array_itself_where_it_is(backend):
    array = tack.zeros(3)
    assert array.to_device(backend).ptr == array.ptr
    assert array.to_device(tack.device(backend)).ptr == array.ptr


def test_to_device_goes_to_the_host_and_back(backend):
    array = tack.arange(6).reshape(2, 3)
    for device in ("cpu", backend):
        there = array.to_device(device)
        assert (there.device, there.tolist()) == (tack.device(device), [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("values", "dtype", "text"),
    [
        ([1.0, 2.5], "float64", "shape=(2,), dtype=float64, device=cpu) [1.0, 2.5]"),
        (True, "bool", "shape=(), dtype=bool, device=cpu) True"),
        ([[1], [-2]], "int8", "shape=(2, 1), dtype=int8, device=cpu) [[1], [-2]]"),
        ([], "float32", "shape=(0,), dtype=float32, device=cpu) []"),
        ([0.1], "float32", "shape=(1,), dtype=float32, device=cpu) [0.1]"),
        (
            [np.nan, -np.inf, 1e30],
            "f8",
            "shape=(3,), dtype=float64, device=cpu) [nan, -inf, 1e+30]",
        ),
    ],
)
def test_repr_shows_shape_dtype_device_and_elements(values, dtype, text):
    assert repr(tack.array(values, dtype)) == f"tack.Array({text}"


def test_repr_of_a_long_array_is_short_and_shows_the_ends():
    assert repr(tack.arange(10**6)).endswith("[0, 1, 2, ..., 999997, 999998, 999999]")
    for ndim in (2, 3, 4, 5, 20, 64):
        assert len(repr(tack.zeros((2,) * min(ndim, 12) + (1,) * max(0, ndim - 12)))) < 1000


def test_repr_names_a_read_only_array():
    assert "read-only" in repr(read_only([1]))


def test_nothing_is_leaked_or_printed_at_exit():
    program = """
import tack, numpy as np
kept = tack.from_dlpack(np.arange(5))
view = memoryview(tack.zeros(3))
made = [tack.array([1, 2]).numpy(), tack.arange(3).__dlpack__(), tack.float32, tack.device("cpu")]
try:
    tack.zeros(-1)
except ValueError as error:
    failed = error
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"TACK_LEAK_WARNINGS": "1", "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
