"""Generated programs: a kernel computes what Python does, and C++ builds the same program."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kernel_programs import ARRAYS, CppWriter, interpret, programs, python_text
from kernel_support import assert_same, define, hard_values, numpys, run

import tack

pytestmark = pytest.mark.usefixtures("backend")

SIZE = 37
settings.register_profile(
    "kernels",
    deadline=None,
    database=None,
    derandomize=True,
    max_examples=2000 if os.environ.get("TACK_EXHAUSTIVE") else 150,
    suppress_health_check=list(HealthCheck),
)
kernels = settings.get_profile("kernels")


@pytest.fixture(scope="session")
def cpp():
    """The C++ front end as a Python module, from TACK_CPP_BUILDER or the build folder."""
    folder = os.environ.get("TACK_CPP_BUILDER")
    root = Path(__file__).parents[2]
    folder = Path(folder) if folder else root / "build" / "python" / "cpp_builder"
    files = sorted(folder.glob("cpp_builder.*.so"))
    assert files, (
        f"no cpp_builder module in {folder}: build with -DTACK_TESTS=ON -DTACK_PYTHON=ON, or name "
        "the folder in TACK_CPP_BUILDER"
    )
    spec = importlib.util.spec_from_file_location("cpp_builder", files[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrays():
    random = np.random.default_rng(1)
    return [random.choice(hard_values(dtype), SIZE) for dtype in ARRAYS.values()]


@kernels
@given(programs)
def test_a_program_computes_what_python_does_with_numpys_scalars(program):
    text = python_text(program)
    got, expected = arrays(), arrays()
    define(text)(*got)
    interpret(text, expected)
    for name, a, b in zip(ARRAYS, got, expected):
        assert_same(a, b, f"{name} after\n{text}")


def renamed(text):
    """A program's text without its first line, local variables named by their order."""
    fixed = {"parallel", "for", "in", "range", "while", "if", "else", "break", "continue"}
    fixed |= {"and", "or", "not", "abs", "min", "max", "sqrt", "shape", *ARRAYS}
    names = {}

    def rename(match):
        name = match[0]
        if name in fixed or name in dir(tack):
            return name
        return names.setdefault(name, f"v{len(names)}")

    return re.sub(r"[A-Za-z_]\w*(\.\d+)?", rename, text.partition("\n")[2])


@kernels
@given(programs)
def test_cpp_and_python_build_the_same_program(cpp, program):
    kernel = define(python_text(program))
    from_python = kernel.inspect(*arrays(), mode="ir")
    assert renamed(CppWriter(cpp).program(program)) == renamed(from_python)


# + - * / and sqrt


def expression_trees():
    leaf = st.sampled_from(["x", "y", "x", "y", "0.5", "3", "0.1"])
    operators = st.sampled_from("+-*/")
    return st.recursive(
        leaf,
        lambda part: st.one_of(
            st.builds("({} {} {})".format, part, operators, part),
            # NumPy's root of a number alone is a float64; a kernel's stays weak.
            part.map(lambda e: f"math.sqrt(abs({e if re.search('[xy]', e) else 'x'}))"),
            st.builds("(-{})".format, part),
        ),
        max_leaves=12,
    ).filter(lambda e: re.search("[xy]", e))


@kernels
@given(st.lists(expression_trees(), min_size=8, max_size=8))
@example(["x * y + x", "x * y - y * x", "x / y * y", "-x * y - x", "x * 0.1 + y", "y - x * x"])
def test_expressions_of_the_four_operators_and_sqrt_have_numpys_bits(expressions):
    for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        random = np.random.default_rng(2)
        ordinary = random.normal(size=(2, 300)).astype(dtype)
        hard = random.choice(hard_values(dtype), (2, 300))
        x, y = np.concatenate([ordinary, hard], axis=1)
        results = run(expressions, [dtype] * len(expressions), {"x": x, "y": y})
        for e, got in zip(expressions, results):
            expected = np.broadcast_to(numpys(e, {"x": x, "y": y}), x.shape)
            assert_same(got, expected, e, [x, y])
