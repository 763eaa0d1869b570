"""The Python in the documentation runs: each page's blocks in order, in one namespace."""

import ast
import linecache
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A plain block right after it is what it prints.
BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n+```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
WITHOUT_PARTNER = {*sys.stdlib_module_names, "numpy", "tack"}


def blocks(page):
    """The line that each block begins at, its text, and its output or None."""
    text = page.read_text()
    return [(text.count("\n", 0, m.start(1)) + 1, *m.groups()) for m in BLOCK.finditer(text)]


def imported_modules(source):
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.partition(".")[0])
    return names


def pages():
    found = []
    for page in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("README.md")]):
        modules = set().union(*(imported_modules(text) for _, text, _ in blocks(page)))
        marks = [pytest.mark.partner(name) for name in sorted(modules - WITHOUT_PARTNER)]
        found.append(pytest.param(page, id=page.name, marks=marks))
    return found


@pytest.mark.parametrize("page", pages())
def test_every_python_block_of_a_page_runs_and_prints_what_it_says(
    page, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": f"docs_{page.stem}"}
    for line, text, output in blocks(page):
        # Errors and kernels find their lines in the page itself.
        file, padded = f"{page}:{line}", "\n" * (line - 1) + text
        linecache.cache[file] = (len(padded), None, padded.splitlines(True), file)
        exec(compile(padded, file, "exec"), namespace)
        printed = capsys.readouterr().out
        if output is not None:
            assert printed == output, f"{page.name}:{line}"


def test_the_kernel_page_has_an_example_for_every_section():
    text = (ROOT / "docs" / "kernels.md").read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    without = [s.splitlines()[0] for s in sections if "```" not in s]
    assert without == []


CPP_BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What the text around a page's C++ takes as given.
CPP_GIVEN = {
    "cuda": "#include <vulkan/vulkan.h>\nextern tack::Array vertices; extern VkInstance instance;"
    "extern VkPhysicalDevice physical_device; extern VkDevice device; extern VkBuffer buffer;"
    "extern VkDeviceMemory imported;",
    "dlpack": "extern tack::dlpack::ManagedTensor* tensor;",
    "errors": "extern tack::dlpack::ManagedTensor* tensor;"
    "void use_a_copy(); void log(const char*);",
    "raw-pointers": "extern double* pointer; extern const double* const_pointer;"
    "extern std::int64_t nz, ny, nx, n;",
    "vtk": "#include <vtkImageData.h>\n#include <vtkPointData.h>\n"
    "extern vtkImageData* image; extern tack::Array out; extern tack::Kernel smooth;",
}


def cpp_blocks():
    for page in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("README.md")]):
        for number, match in enumerate(CPP_BLOCK.finditer(page.read_text())):
            yield pytest.param(page, match.group(1), id=f"{page.name}-{number}")


@pytest.mark.parametrize(("page", "block"), list(cpp_blocks()))
def test_every_cpp_block_of_a_page_compiles(page, block, tmp_path):
    if "<vulkan/vulkan.h>" in block and not Path("/usr/include/vulkan/vulkan.h").exists():
        pytest.skip("needs Vulkan's headers of libvulkan-dev: ./dev test installs them")
    options = [f"-I{ROOT / 'include'}"]
    if "<tack/vtk.hpp>" in block:
        headers = sorted(Path("/usr/include").glob("vtk-*"))
        if not headers:
            pytest.skip("needs VTK's C++ headers: ./dev test --vtk installs them")
        options += ["-isystem", headers[-1]]
    lines = block.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = [line for line in lines if line not in includes]
    every = [f"#include <tack/{name}.hpp>" for name in ("tack", "vector")]
    source = tmp_path / "block.cpp"
    given = CPP_GIVEN.get(page.stem, "")
    source.write_text("\n".join([*every, *includes, given, "void block() {", *body, "}\n"]))
    command = ["g++", "-std=c++20", "-fsyntax-only", *options, source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
