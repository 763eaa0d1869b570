"""Exchange with other libraries, in each direction that they have, and what they cannot do.

The table in docs/dlpack.md says the same; each "no" of it is a test here.
"""

import gc
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tack
from tack.interop.dlpack import dlpack_to_array, live_exports

HERE = Path(__file__).parent


@tack.kernel
def store(x):
    for i in range(x.size):
        x[i] = 1


def read_only_array():
    source = np.arange(6, dtype=np.float32)
    source.flags.writeable = False
    return tack.from_dlpack(source)


def assert_stays_read_only(array):
    """An import of read-only memory, through all that may be done with it."""
    assert not array.writable
    view = array.reshape(-1)
    assert not view.writable
    with pytest.raises(ValueError, match="read-only"):
        store(view)
    assert not tack.from_dlpack(view).writable
    assert not np.from_dlpack(view).flags.writeable
    assert not view.numpy().flags.writeable
    assert memoryview(view).readonly
    assert view.copy().writable


@pytest.fixture
def no_pins_left():
    """Nothing of the test stays exported."""
    before = live_exports()
    yield
    gc.collect()
    assert live_exports() == before


# NumPy


def test_numpy_both_ways(no_pins_left):
    source = np.arange(6.0).reshape(2, 3)
    array = tack.from_dlpack(source)
    again = np.from_dlpack(array)
    assert again.ctypes.data == array.ptr == source.ctypes.data
    again[0, 0] = 7
    assert array[0, 0] == source[0, 0] == 7


def test_numpys_read_only_arrays_stay_so():
    assert_stays_read_only(read_only_array())


def test_bytes_stay_read_only():
    source = b"abcdef"
    assert_stays_read_only(tack.asarray(source))
    assert source == b"abcdef"


def test_a_read_only_array_of_tacks_stays_so():
    assert_stays_read_only(dlpack_to_array(tack.zeros(3), writable=False))


# PyTorch


@pytest.mark.partner("torch")
def test_pytorch_takes_views_by_each_of_its_functions(no_pins_left):
    import torch

    array = tack.arange(6, dtype=tack.float32)
    for tensor in (
        torch.from_dlpack(array),
        torch.from_dlpack(array, device="cpu"),
        torch.as_tensor(array),
        torch.frombuffer(array, dtype=torch.float32),
        torch.from_numpy(array.numpy()),
    ):
        assert tensor.data_ptr() == array.ptr


# PyTorch has no read-only tensors: pytorch/pytorch#188554
@pytest.mark.partner("torch")
def test_pytorch_writes_through_a_read_only_array():
    import torch

    array = dlpack_to_array(tack.zeros(2), writable=False)
    torch.from_dlpack(array)[0] = 9
    assert array[0] == 9
    assert tack.from_dlpack(torch.from_dlpack(array)).writable


@pytest.mark.partner("torch")
def test_pytorch_passes_its_copy_on_which_no_export_offers():
    import torch

    with pytest.raises(BufferError, match=r"Export a\.copy\(\)"):
        torch.from_dlpack(tack.zeros(2), copy=True)


@pytest.mark.partner("torch")
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "complex64"])
def test_pytorchs_other_dtypes_are_refused_by_name(name):
    import torch

    with pytest.raises(TypeError, match=name):
        tack.from_dlpack(torch.zeros(2, dtype=getattr(torch, name)))


# pytorch/pytorch#171820: what fails leaves nothing behind
@pytest.mark.partner("torch")
def test_a_refused_tensor_of_pytorchs_is_released(no_pins_left):
    import torch

    array = tack.zeros((2, 3))
    tensor = torch.from_dlpack(array).T
    with pytest.raises(tack.NonContiguousError):
        tack.from_dlpack(tensor)
    assert live_exports() > 0
    del tensor


# JAX


@pytest.mark.partner("jax")
def test_jax_both_ways(no_pins_left):
    import jax.numpy as jnp

    array = tack.arange(6, dtype=tack.float32).reshape(2, 3)
    values = jnp.from_dlpack(array)
    assert values.unsafe_buffer_pointer() == array.ptr
    back = tack.from_dlpack(values)
    assert (back.ptr, back.shape) == (array.ptr, (2, 3))
    del values, back


@pytest.mark.partner("jax")
@pytest.mark.parametrize("name", ["bool", "bfloat16", "int8", "uint32", "float16"])
def test_jaxs_dtypes_both_ways(name):
    import jax.numpy as jnp

    values = jnp.ones(3, name)
    array = tack.from_dlpack(values)
    assert array.dtype.name == name
    assert jnp.from_dlpack(array).dtype == values.dtype


# JAX's arrays never change, and its capsules cannot say so
@pytest.mark.partner("jax")
def test_jaxs_arrays_stay_read_only():
    import jax.numpy as jnp

    values = jnp.arange(6, dtype=jnp.float32)
    assert_stays_read_only(tack.from_dlpack(values))
    assert values.tolist() == [0, 1, 2, 3, 4, 5]


# jax-ml/jax#29810: JAX copies what is aligned to less than 64 bytes
@pytest.mark.partner("jax")
def test_jax_copies_memory_of_lesser_alignment():
    import jax.numpy as jnp

    memory = tack.zeros(32).numpy()
    shifted = tack.from_dlpack(memory[1:17])
    assert jnp.from_dlpack(shifted).unsafe_buffer_pointer() != shifted.ptr


# tvm-ffi


@pytest.mark.partner("tvm_ffi")
def test_tvm_ffi_calls_with_arrays_and_gives_arrays_back(no_pins_left):
    import tvm_ffi

    array = tack.arange(4, dtype=tack.float32)
    result = tvm_ffi.get_global_func("testing.echo")(array)
    assert type(result) is tack.Array
    assert result.ptr == array.ptr
    assert tvm_ffi.convert(lambda tensor: tensor.shape[0])(array) == 4
    del result


@pytest.mark.partner("tvm_ffi")
def test_tvm_ffi_has_no_read_only_tensors():
    import tvm_ffi

    assert tack.from_dlpack(tvm_ffi.from_dlpack(read_only_array())).writable


# pyarrow


@pytest.mark.partner("pyarrow")
def test_pyarrow_both_ways(no_pins_left):
    import pyarrow

    values = pyarrow.array([1.0, 2.0, 3.0])
    assert tack.from_dlpack(values[1:]).tolist() == [2, 3]
    array = tack.arange(3, dtype=tack.float64)
    buffer = pyarrow.py_buffer(array)
    assert (buffer.address, buffer.is_mutable) == (array.ptr, True)
    tensor = pyarrow.Tensor.from_numpy(array.numpy())
    assert tack.asarray(tensor, copy=False).ptr == array.ptr
    assert pyarrow.Array.from_dlpack(array).to_pylist() == [0, 1, 2]
    del buffer, tensor


@pytest.mark.partner("pyarrow")
def test_pyarrows_arrays_stay_read_only():
    import pyarrow

    assert_stays_read_only(tack.from_dlpack(pyarrow.array([1, 2, 3])))
    assert_stays_read_only(tack.asarray(pyarrow.py_buffer(b"abc")))
    assert not pyarrow.py_buffer(read_only_array()).is_mutable


@pytest.mark.partner("pyarrow")
@pytest.mark.parametrize("values", [[1, None], [True, False], ["a"]])
def test_pyarrow_has_no_capsules_of_nulls_bits_and_text(values):
    import pyarrow

    with pytest.raises(TypeError, match="(?i)nulls|bit-packed|string"):
        tack.from_dlpack(pyarrow.array(values))


# mpi4py


@pytest.mark.partner("mpi4py")
def test_two_mpi_processes_send_and_receive_arrays():
    launcher = shutil.which("mpirun", path=Path(sys.executable).parent)
    command = [launcher, "-n", "2", "--oversubscribe", sys.executable, HERE / "mpi_partner.py"]
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


# Numba


@pytest.mark.partner("numba")
def test_numba_compiles_for_the_numpy_view():
    import numba

    array = tack.arange(4, dtype=tack.float32)

    @numba.njit
    def double(values):
        for k in range(values.shape[0]):
            values[k] *= 2

    double(array.numpy())
    assert array.tolist() == [0, 2, 4, 6]


@pytest.mark.partner("numba")
def test_numba_refuses_to_store_into_a_read_only_view():
    import numba

    @numba.njit
    def set_first(values):
        values[0] = 9

    with pytest.raises(numba.TypingError, match="readonly"):
        set_first(read_only_array().numpy())


@pytest.mark.partner("numba")
def test_numba_knows_no_shape_of_an_array_itself():
    import numba

    with pytest.raises(numba.TypingError, match="'shape'"):
        numba.njit(lambda values: values.shape[0])(tack.zeros(3))


# Dr.Jit


@pytest.mark.partner("drjit")
def test_drjit_both_ways():
    import drjit
    from drjit.llvm import Float, TensorXf

    values = drjit.arange(Float, 6)
    assert tack.from_dlpack(values).tolist() == [0, 1, 2, 3, 4, 5]
    assert tack.from_dlpack(drjit.zeros(TensorXf, (2, 3))).shape == (2, 3)
    array = tack.arange(6, dtype=tack.float32)
    assert tack.from_dlpack(Float(array)).ptr == array.ptr
    assert TensorXf(array.reshape(2, 3)).shape == (2, 3)


@pytest.mark.partner("drjit")
def test_drjit_forgets_that_an_array_is_read_only():
    from drjit.llvm import Float

    assert tack.from_dlpack(Float(read_only_array())).writable


@pytest.mark.partner("drjit")
def test_drjit_hands_out_what_it_differentiates():
    import drjit
    from drjit.llvm.ad import Float

    values = Float(1, 2, 3)
    drjit.enable_grad(values)
    assert tack.from_dlpack(values).tolist() == [1, 2, 3]


# Warp


@pytest.fixture
def warp():
    import warp

    warp.config.quiet = True
    warp.init()
    return warp


@pytest.mark.partner("warp")
def test_warp_both_ways(warp, no_pins_left):
    values = warp.array([1.0, 2.0, 3.0], dtype=warp.float32, device="cpu")
    assert tack.from_dlpack(values).ptr == values.ptr
    array = tack.zeros((2, 3))
    assert warp.from_dlpack(array).ptr == array.ptr
    vectors = warp.zeros(4, dtype=warp.vec3, device="cpu")
    assert tack.from_dlpack(vectors).shape == (4, 3)


@pytest.mark.partner("warp")
def test_warp_takes_no_array_of_zero_dimensions(warp):
    with pytest.raises(IndexError):
        warp.from_dlpack(tack.zeros(()))


@pytest.mark.partner("warp")
def test_warp_forgets_that_an_array_is_read_only(warp):
    assert tack.from_dlpack(warp.from_dlpack(read_only_array())).writable


@pytest.mark.partner("warp")
def test_warp_hands_out_what_it_differentiates(warp):
    values = warp.zeros(3, dtype=warp.float32, device="cpu", requires_grad=True)
    assert tack.from_dlpack(values).ptr == values.ptr


# MLX


@pytest.mark.partner("mlx")
def test_mlx_gives_views_and_takes_copies(no_pins_left):
    import mlx.core as mx

    values = mx.arange(6, dtype=mx.float32)
    assert tack.from_dlpack(values).ptr == np.asarray(memoryview(values)).ctypes.data
    assert tack.from_dlpack(mx.ones(3, dtype=mx.bfloat16)).dtype is tack.bfloat16
    array = tack.zeros(3)
    taken = mx.array(array)
    array[0] = 5
    assert taken.tolist() == [0, 0, 0]
    del taken


@pytest.mark.partner("mlx")
def test_mlxs_lazy_transpose_is_non_contiguous():
    import mlx.core as mx

    with pytest.raises(tack.NonContiguousError):
        tack.from_dlpack(mx.arange(6).reshape(2, 3).T)


# dpnp: real kDLOneAPI memory, on a CPU through OpenCL


@pytest.fixture(scope="module")
def dpnp():
    runtime = Path(sys.prefix) / "lib" / "libintelocl.so"
    os.environ.setdefault("OCL_ICD_FILENAMES", str(runtime))
    import dpnp

    return dpnp


@pytest.mark.partner("dpnp")
@pytest.mark.parametrize("arguments", [{}, {"device": "cpu"}, {"copy": True}])
def test_dpnps_memory_is_refused_by_the_host_with_the_devices_name(dpnp, arguments):
    values = dpnp.arange(6, dtype="f4")
    with pytest.raises(RuntimeError, match="kDLOneAPI"):
        tack.from_dlpack(values, **arguments)


@pytest.mark.partner("dpnp")
def test_dpnp_takes_a_copy(dpnp, no_pins_left):
    array = tack.arange(6, dtype=tack.float32)
    values = dpnp.asarray(array.numpy())
    assert dpnp.asnumpy(values).tolist() == array.tolist()


@pytest.mark.partner("dpnp")
def test_explain_names_dpnps_device(dpnp):
    record = tack.explain(dpnp.arange(6, dtype="f4"))
    assert (record.device, record.shared) == ("kDLOneAPI:0", False)
    assert "level_zero" in record.reason


# array-api-strict


@pytest.mark.partner("array_api_strict")
def test_array_api_strict_both_ways(no_pins_left):
    import array_api_strict as xp

    values = xp.arange(6, dtype=xp.float32)
    array = tack.from_dlpack(values)
    values[0] = 9
    assert array[0] == 9
    again = xp.from_dlpack(array)
    again[1] = 8
    assert array[1] == 8
    del again


@pytest.mark.partner("array_api_strict")
def test_array_api_strict_keeps_read_only():
    import array_api_strict as xp

    assert not tack.from_dlpack(xp.from_dlpack(read_only_array())).writable


@pytest.mark.partner("array_api_strict")
def test_array_api_strict_cannot_have_a_copy_of_an_export():
    import array_api_strict as xp

    with pytest.raises(BufferError, match=r"Export a\.copy\(\)"):
        xp.from_dlpack(tack.zeros(2), copy=True)


MODULES = {"PyTorch": "torch", "libtorch": "torch", "tvm-ffi": "tvm_ffi", "Dr.Jit": "drjit",
           "array-api-strict": "array_api_strict"}  # fmt: skip


def test_the_documentations_table_has_the_partners_that_are_tested():
    page = (HERE.parents[1] / "docs" / "dlpack.md").read_text()
    table = page.split("## Partners")[1].split("\n\n")[2]
    rows = [line.split("|")[1].strip() for line in table.splitlines()[2:]]
    documented = {MODULES.get(name, name.lower()) for name in rows}
    tests = "".join((HERE / f"test_{name}partners.py").read_text() for name in ("", "native_"))
    tested = set(re.findall(r'^@pytest\.mark\.partner\("(\w+)"\)', tests, re.MULTILINE))
    assert documented - {"numpy"} == tested
