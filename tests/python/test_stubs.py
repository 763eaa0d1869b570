"""The stubs agree with the package, and USAGE's Python passes mypy."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tack

ROOT = Path(__file__).parents[2]
USAGE = ROOT / "tests" / "typing" / "usage.py"
PACKAGES = Path(tack.__file__).parents[1]


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Runs a module of mypy's; both tests share its cache, since NumPy's stubs take long."""
    folder = tmp_path_factory.mktemp("mypy")
    config = folder / "mypy.ini"
    config.write_text(
        f"[mypy]\nstrict = True\ncache_dir = {folder / 'cache'}\n"
        "[mypy-tack._frontend.*,tack.__main__]\nignore_errors = True\n"
    )
    # mypy finds site-packages by itself and refuses it here.
    environment = {**os.environ}
    environment.pop("MYPYPATH", None)
    if PACKAGES.name != "site-packages":
        environment["MYPYPATH"] = str(PACKAGES)

    def run(module, *arguments, config_option):
        return subprocess.run(
            [sys.executable, "-m", module, config_option, str(config), *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )

    return run


def test_usage_passes_mypy_in_strict_mode(mypy):
    done = mypy("mypy", str(USAGE), config_option="--config-file")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_mistake_in_the_use_of_a_stub_is_found(mypy, tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import tack\ntack.zeros('3')\ntack.zeros(3).shpae\n")
    done = mypy("mypy", str(wrong), config_option="--config-file")
    assert done.stdout.count("error:") >= 2, done.stdout + done.stderr


MODULES = ["tack", "tack.kernel", "tack.interop", "tack.interop.dlpack", "tack.interop.vtk"]


def stub_tree(module):
    importlib.import_module(module)
    return ast.parse(Path(sys.modules[module].__file__).with_suffix(".pyi").read_text())


def stub_parameters(node):
    """(name, has a default), as the stub writes them."""
    arguments = node.args
    by_position = arguments.posonlyargs + arguments.args
    defaults = len(by_position) - len(arguments.defaults)
    found = [(a.arg, k >= defaults) for k, a in enumerate(by_position)]
    found += [("*" + arguments.vararg.arg, False)] if arguments.vararg else []
    found += [(a.arg, d is not None) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    found += [("**" + arguments.kwarg.arg, False)] if arguments.kwarg else []
    return found


def runtime_parameters(function):
    if hasattr(function, "__nb_signature__"):
        text = re.sub(r"\\\d+", "0", function.__nb_signature__[0][0])
        return stub_parameters(ast.parse(text + ": ...").body[0])
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        (marks.get(p.kind, "") + p.name, p.default is not inspect.Parameter.empty)
        for p in inspect.signature(function).parameters.values()
    ]


def functions(body):
    """Functions by name but for those with several signatures and Python's own methods."""
    found = [node for node in body if isinstance(node, ast.FunctionDef)]
    return {n.name: n for n in found if not n.decorator_list and not n.name.startswith("__")}


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_lists_the_public_names_of_its_module(module):
    tree = stub_tree(module)
    lists = [
        n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"
    ]
    names = ast.literal_eval(lists[0])
    runtime = sys.modules[module]
    assert sorted(names) == sorted(runtime.__all__)
    declared = {
        name
        for node in tree.body
        for name in (
            [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef))
            else [node.target.id] if isinstance(node, ast.AnnAssign)
            else [alias.asname for alias in node.names] if isinstance(node, ast.ImportFrom)
            else []
        )
    }  # fmt: skip
    assert set(names) <= declared
    for name in names:
        assert hasattr(runtime, name)


@pytest.mark.parametrize("module", MODULES)
def test_functions_have_the_stubs_parameters(module):
    for name, node in functions(stub_tree(module).body).items():
        function = getattr(sys.modules[module], name)
        if name != "kernel":
            assert stub_parameters(node) == runtime_parameters(function), name


@pytest.mark.parametrize("name", ["Array", "DType", "Device", "ExportedMemory"])
def test_classes_have_the_stubs_members(name):
    (node,) = [n for n in stub_tree("tack").body if isinstance(n, ast.ClassDef) and n.name == name]
    runtime = getattr(tack, name)
    stub = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    if sys.version_info < (3, 12):
        stub -= {"__buffer__"}  # a slot without a name there
    for member in stub:
        assert hasattr(runtime, member)
    assert {m for m in dir(runtime) if not m.startswith("_")} <= stub
    for member, function in functions(node.body).items():
        assert stub_parameters(function) == runtime_parameters(getattr(runtime, member)), member


def test_usage_runs():
    done = subprocess.run([sys.executable, str(USAGE)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
