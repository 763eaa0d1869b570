"""Compiles vtk_cpp.cpp once in a folder for compiled code and runs it: its figures are printed."""

import importlib.util
import os
import subprocess
from pathlib import Path

headers = sorted(Path("/usr/include").glob("vtk-*"))
if not headers:
    raise ModuleNotFoundError("VTK's C++ headers")
package = Path(importlib.util.find_spec("tack").origin).parent
program = Path(os.environ["TACK_CACHE_DIR"]) / "vtk_cpp"
if not program.exists():
    command = ["g++", "-std=c++20", "-O2", Path(__file__).with_suffix(".cpp"), "-o", program]
    command += [f"-I{package / 'include'}", "-isystem", headers[-1]]
    command += [package / "lib" / "libtack.so.0", f"-Wl,-rpath,{package / 'lib'}"]
    command += [f"-lvtkCommonCore-{headers[-1].name.removeprefix('vtk-')}"]
    subprocess.run(command, check=True)
subprocess.run([program], check=True)
