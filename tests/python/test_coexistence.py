"""Tack's compiler beside another library's LLVM, in one process and in both orders of loading."""

import os
import subprocess
import sys

import pytest

TACK = """
import tack

@tack.kernel
def scale(a, x):
    for i in range(x.size):
        x[i] = a * x[i] + 1

x = tack.arange(1000, dtype=tack.float32)
scale(3, x)
assert x.tolist() == [3 * k + 1 for k in range(1000)]
"""

NUMBA = """
import numba

@numba.njit
def numba_sum(n):
    total = 0.0
    for k in range(n):
        total += k * 0.5
    return total

assert numba_sum(1000) == 249750.0
"""

DRJIT = """
import drjit
from drjit.llvm import Float

assert drjit.sum(drjit.arange(Float, 1000) * 2)[0] == 999000
"""

JAX = """
import jax

assert jax.jit(lambda v: (v * 2).sum())(jax.numpy.arange(1000.0)) == 999000
"""

TORCH = """
import torch

@torch.jit.script
def torch_scale(v):
    return (v * 2 + 1).sum()

for _ in range(4):
    assert torch_scale(torch.arange(1000.0)) == 1000000
"""

VTK = """
from vtkmodules.vtkFiltersSources import vtkSphereSource

sphere = vtkSphereSource()
sphere.Update()
assert sphere.GetOutput().GetNumberOfPoints() == 50
"""

PARTNERS = [
    pytest.param(text, id=name, marks=pytest.mark.partner(module))
    for name, module, text in [
        ("numba", "numba", NUMBA),
        ("drjit", "drjit", DRJIT),
        ("jax", "jax", JAX),
        ("torch", "torch", TORCH),
        ("vtk", "vtk", VTK),
    ]
]


def run(*parts, tmp_path):
    """The parts as one program, compiled anew; its file is there for Tack to read."""
    script = tmp_path / "program.py"
    script.write_text("\n".join(parts))
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "TACK_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for fault in ("CommandLine Error", "LLVM ERROR", "Fatal Python error"):
        assert fault not in done.stderr


# pocl/pocl#1421: another LLVM loaded first, then last
@pytest.mark.parametrize("partner", PARTNERS)
@pytest.mark.parametrize("order", ["first", "last"])
def test_both_compile_whichever_is_loaded_first(partner, order, tmp_path):
    run(*((TACK, partner) if order == "first" else (partner, TACK)), tmp_path=tmp_path)


# pytorch/pytorch#96229: symbols of one LLVM that bind to the other's
@pytest.mark.parametrize("partner", PARTNERS)
@pytest.mark.parametrize("order", ["first", "last"])
def test_both_compile_with_global_symbols(partner, order, tmp_path):
    everything_global = "import os, sys\nsys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)"
    parts = (TACK, partner) if order == "first" else (partner, TACK)
    run(everything_global, *parts, tmp_path=tmp_path)


def test_tack_alone_compiles_with_global_symbols(tmp_path):
    run("import os, sys\nsys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)", TACK, tmp_path=tmp_path)
