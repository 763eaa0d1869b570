"""Which layer may include which headers, and that the backends' folders look alike."""

import re

from source_files import ROOT, report, text_of, tracked

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
PYTHON = re.compile(r"(Python\.h$|nanobind/|pybind11/|numpy/)")
LLVM = re.compile(r"(llvm|clang(?!/tack_clang\.h$)|lld)(-c)?/")
DRIVERS = re.compile(r"(cuda|nvrtc|hip/|level_zero/|ze_api|zes_api|Metal/|CL/|vulkan/)")
VTK = re.compile(r"vtk[A-Z]")
INTERNAL = re.compile(r"(array|backend|clang|codegen|device|interop|kernel)/")

# Folder, what must not be included there, why.
RULES = [
    ("include/", PYTHON, "the C++ API knows no Python"),
    ("include/", LLVM, "only src/clang knows LLVM"),
    ("include/", DRIVERS, "drivers are opened at run time, without their headers"),
    ("include/", INTERNAL, "a public header stands without src/"),
    ("src/", PYTHON, "the library knows no Python"),
    ("src/", LLVM, "only src/clang knows LLVM"),
    ("src/", DRIVERS, "drivers are opened at run time, without their headers"),
    ("src/", VTK, "VTK is met through include/tack/vtk.hpp only"),
    ("python/src/", LLVM, "only src/clang knows LLVM"),
    ("python/src/", DRIVERS, "drivers are opened at run time, without their headers"),
]
# src/clang is the one place for LLVM's own headers.
EXEMPT = {("src/clang/", LLVM)}
# Every backend has these; more is its own affair.
BACKEND_FILES = {"backend.cpp", "backend.hpp", "buffer.cpp", "compiler.cpp"}


def exempt(path, pattern):
    return any(path.startswith(folder) and pattern is rule for folder, rule in EXEMPT)


def included_headers():
    for path in tracked("include", "src", "python/src"):
        if path.endswith((".cpp", ".hpp", ".h")):
            for header in INCLUDE.findall(text_of(path)):
                yield path, header


def backends():
    folders = {path.split("/")[2] for path in tracked("src/backend") if path.count("/") > 2}
    return folders - {"gpu"}


problems = [
    f"{path}: includes {header}: {reason}"
    for path, header in included_headers()
    for folder, pattern, reason in RULES
    if path.startswith(folder) and pattern.match(header) and not exempt(path, pattern)
]
for backend in sorted(backends()):
    missing = BACKEND_FILES - {path.name for path in (ROOT / "src/backend" / backend).iterdir()}
    problems += [f"src/backend/{backend}: has no {name}" for name in sorted(missing)]
report(problems)
