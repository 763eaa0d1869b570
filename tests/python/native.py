"""Compiles the partners that are C or C++, in tests/native."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import tack

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "native"
LIBRARY = Path(tack.__file__).parent / "lib"


def compiled(output, *arguments, sources, libtack=True):
    """The file that g++ makes of sources in tests/native, or of paths."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "the test needs a C++ compiler"
    command = [compiler, "-O1", f"-I{ROOT / 'include'}", "-o", output]
    for source in sources:
        kind = "c" if str(source).endswith(".c") else "c++"
        command += ["-x", kind, SOURCES / source]
    command += ["-x", "none", *([] if kind == "c" else ["-std=c++20"]), *arguments]
    if libtack:
        command += [f"-L{LIBRARY}", "-ltack", f"-Wl,-rpath,{LIBRARY}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


def run(program, **environment):
    """Its exit status is the line that failed, modulo 256."""
    done = subprocess.run(
        [program], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def dlpack_include():
    from tvm_ffi import libinfo

    return f"-I{libinfo.find_dlpack_include_path()}"


def nanobind_module(folder, name):
    """An extension module of tests/native, with nanobind's own sources compiled in."""
    import nanobind

    home = Path(nanobind.__file__).parent
    output = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiled(
        output,
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-strict-aliasing",
        f"-I{home / 'include'}",
        f"-I{home / 'ext' / 'robin_map' / 'include'}",
        f"-I{sysconfig.get_path('include')}",
        sources=[f"{name}.cpp", home / "src" / "nb_combined.cpp"],
        libtack=False,
    )
    sys.path.insert(0, str(folder))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(folder))
