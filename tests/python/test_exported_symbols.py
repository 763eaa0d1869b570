"""libtack and its compiler plugin export the API and nothing else.

After a change of the API, write the list anew with

    .venv/bin/python tests/python/test_exported_symbols.py
"""

import subprocess
from pathlib import Path

LIST = Path(__file__).parents[1] / "cpp" / "exported_symbols.txt"


def library_folder():
    import tack

    return Path(tack.__file__).parent / "lib"


def defined_symbols(library):
    """(nm's kind, demangled name) of each symbol that others can link with."""
    command = ["nm", "--dynamic", "--demangle", "--defined-only", str(library)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [tuple(line.split(" ", 2)[1:]) for line in output.splitlines()]


def api_symbols():
    """Weak functions are left out: which inline ones the compiler emits is its own affair."""
    symbols = defined_symbols(library_folder() / "libtack.so.0")
    return sorted({name for kind, name in symbols if kind != "W"})


def test_libtack_exports_the_listed_symbols():
    assert api_symbols() == LIST.read_text().splitlines()


def test_libtack_exports_only_names_of_namespace_tack():
    rtti = ("typeinfo for ", "typeinfo name for ", "vtable for ")
    for _, name in defined_symbols(library_folder() / "libtack.so.0"):
        for prefix in rtti:
            name = name.removeprefix(prefix)
        assert name.startswith("tack::"), name


def test_the_compiler_plugin_exports_only_its_c_functions():
    names = [name for _, name in defined_symbols(library_folder() / "libtack_clang.so")]
    assert sorted(names) == [
        "tack_clang_abi",
        "tack_clang_compile",
        "tack_clang_free",
        "tack_clang_version",
    ]


if __name__ == "__main__":
    LIST.write_text("".join(f"{name}\n" for name in api_symbols()))
