"""Runs a program of native/, named on the command line; its figures are printed.

It is compiled against the installed C++ package, and VTK's where its name says so, once in the
folder for compiled code.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

name = sys.argv[1]
source = Path(__file__).parents[1] / "native" / f"{name}.cpp"
package = Path(importlib.util.find_spec("tack").origin).parent
program = Path(os.environ["TACK_CACHE_DIR"]) / name
if not program.exists():
    command = ["g++", "-std=c++20", "-O2", source, "-o", program]
    command += [f"-I{package / 'include'}"]
    command += [package / "lib" / "libtack.so.0", f"-Wl,-rpath,{package / 'lib'}"]
    if name.startswith("vtk"):
        headers = sorted(Path("/usr/include").glob("vtk-*"))
        if not headers:
            raise ModuleNotFoundError("VTK's C++ headers")
        command += ["-isystem", headers[-1]]
        command += [f"-lvtkCommonCore-{headers[-1].name.removeprefix('vtk-')}"]
    subprocess.run(command, check=True)
subprocess.run([program], check=True)
