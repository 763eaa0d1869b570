"""What `import tack` does not do."""

import subprocess
import sys

import pytest

import tack


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


LOADED = """
import sys, tack
with open("/proc/self/maps") as maps:
    libraries = {line.split("/")[-1].strip() for line in maps if "/" in line}
"""


def test_import_loads_neither_numpy_nor_what_reads_source():
    unwanted = ["numpy", "ast", "inspect", "linecache", "ml_dtypes", "torch", "ctypes", "typing"]
    loaded = run(f"{LOADED}print(*[name for name in {unwanted} if name in sys.modules])")
    assert loaded.split() == []


# pytorch/pytorch#117043: no driver is opened, let alone initialised
def test_import_loads_no_compiler_and_no_driver():
    names = run(f"{LOADED}print(*sorted(libraries))").split()
    assert any(name.startswith("_core") for name in names)
    unwanted = ("libLLVM", "libclang", "libtack_clang", "libcuda", "libamdhip", "libze_loader")
    assert [name for name in names if name.startswith(unwanted)] == []


def test_arrays_without_numpy_in_use_do_not_import_it():
    program = """
import sys, tack
array = tack.full((2, 3), 1.5)
array[...] = 2
array[0, 1] = 4
repr(array), array.tolist(), memoryview(array), array.copy().reshape(-1), list(tack.ones(3))
tack.from_dlpack(array)
print("numpy" in sys.modules)
"""
    assert run(program) == "False\n"


def test_import_starts_no_thread():
    assert run("import os, tack; print(len(os.listdir('/proc/self/task')))") == "1\n"


# pytorch/pytorch#117043
def test_a_forked_child_can_use_arrays():
    program = """
import os, tack
child = os.fork()
if child == 0:
    os._exit(0 if tack.full(4, 2.0).tolist() == [2.0] * 4 else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run(program) == "0\n"


def test_the_version_is_the_librarys():
    assert tack.__version__ == tack._core.__version__
    assert tack.__version__.count(".") == 2


def test_every_public_name_is_there():
    for name in tack.__all__:
        assert getattr(tack, name) is not None


def test_a_missing_name_is_an_attribute_error():
    with pytest.raises(AttributeError):
        tack.no_such_name  # noqa: B018
