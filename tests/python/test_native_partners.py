"""Partners that are C or C++: a C library of tensors, nanobind's ndarray, libtorch."""

import gc
import sys
from pathlib import Path

import pytest
from native import compiled, dlpack_include, nanobind_module, run

import tack
from tack.interop.dlpack import dlpack_to_array, live_exports


@pytest.mark.partner("tvm_ffi")  # for its dlpack.h
def test_a_c_library_makes_and_takes_managed_tensors(tmp_path):
    include = dlpack_include()
    library = compiled(
        tmp_path / "library.o", "-c", include, sources=["tensor_library.c"], libtack=False
    )
    run(compiled(tmp_path / "use", include, library, sources=["use_tensor_library.cpp"]))


@pytest.mark.slow
@pytest.mark.partner("torch")
def test_libtorch_and_libtack_exchange_without_python(tmp_path):
    import torch
    from torch.utils.cpp_extension import include_paths

    libraries = Path(torch.__file__).parent / "lib"
    program = compiled(
        tmp_path / "use",
        *[f"-I{path}" for path in include_paths()],
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        f"-L{libraries}",
        "-ltorch_cpu",
        "-lc10",
        f"-Wl,-rpath,{libraries}",
        sources=["use_libtorch.cpp"],
    )
    run(program)


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    module = nanobind_module(tmp_path_factory.mktemp("nanobind"), "nanobind_arrays")
    yield module
    del sys.modules["nanobind_arrays"]


@pytest.mark.partner("nanobind")
def test_nanobind_writes_into_an_array(arrays):
    before = live_exports()
    array = tack.zeros((2, 3))
    arrays.add_one(array)
    assert array.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert arrays.address(array) == array.ptr
    assert live_exports() == before


@pytest.mark.partner("nanobind")
def test_nanobind_reads_a_read_only_array_and_does_not_write_it(arrays):
    array = dlpack_to_array(tack.ones((2, 3)), writable=False)
    assert arrays.total(array) == 6
    with pytest.raises(TypeError, match="incompatible function arguments"):
        arrays.add_one(array)


@pytest.mark.partner("nanobind")
def test_an_array_that_nanobind_keeps_stays_alive(arrays):
    before = live_exports()
    array = tack.full((2, 3), 7.0)
    arrays.keep(array)
    del array
    gc.collect()
    tack.zeros((2, 3))  # would take the memory
    assert arrays.kept_total() == 42
    arrays.let_go()
    gc.collect()
    assert live_exports() == before


@pytest.mark.partner("nanobind")
@pytest.mark.parametrize("read_only", [False, True])
def test_nanobinds_arrays_arrive_as_writable_as_they_are(arrays, read_only):
    array = tack.from_dlpack(arrays.make(read_only))
    assert (array.tolist(), array.writable) == ([[0, 1, 2], [3, 4, 5]], not read_only)
