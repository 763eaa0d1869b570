"""`python -m tack`: what is installed, which devices can be used, and the compiled kernels."""

import argparse
import json
import os
import sys
from importlib import metadata
from pathlib import Path

import tack
from tack import _core

DESCRIPTION = """\
Without arguments: versions, the compiler, the folder of compiled kernels, and every backend that
Tack knows with its devices or the reason why there are none; and whether VTK can be met."""

# Whether arrays go to and from the VTK that is there. Found without importing it, which takes long.
OWN_SUPPORT = "exchanges arrays through its own vtkmodules.util.dlpack_support"
STAND_IN = (
    "has no dlpack_support; tack.interop.vtk.install_dlpack_support() puts a stand-in for host "
    "arrays in its place"
)
TOO_OLD = "cannot exchange arrays safely; VTK 9.7 and newer can"

NO_CACHE = "no disk cache: none of TACK_CACHE_DIR, XDG_CACHE_HOME and HOME is set"


def vtk_status():
    try:
        vtk = metadata.distribution("vtk")
    except metadata.PackageNotFoundError:
        return None
    if vtk.locate_file("vtkmodules/util/dlpack_support.py").exists():
        exchange = OWN_SUPPORT
    else:
        release = tuple(int(part) for part in vtk.version.split(".")[:2])
        exchange = STAND_IN if release >= (9, 7) else TOO_OLD
    return {"version": vtk.version, "exchange": exchange}


def status():
    used, limit, entries = _core.cache_usage()
    return {
        "tack": tack.__version__,
        "libtack": _core.__version__,
        "python": sys.version.split()[0],
        "compiler": _core.compiler_description(),
        "cache": {
            "folder": _core.cache_directory() or None,
            "bytes": used,
            "limit": limit,
            "entries": entries,
        },
        "threads": tack.num_threads(),
        "devices": [str(device) for device in tack.devices()],
        "backends": [
            {"name": name, "state": state, "detail": detail}
            for name, state, detail in _core.backend_status()
        ],
        "vtk": vtk_status(),
    }


def abbreviated(folder):
    home = os.environ.get("HOME", "").rstrip("/")
    return "~" + folder[len(home) :] if home and folder.startswith(home + "/") else folder


def as_table(report):
    cache = report["cache"]
    if cache["folder"]:
        megabytes = [round(cache[key] / 2**20) for key in ("bytes", "limit")]
        folder = f"cache {abbreviated(cache['folder'])} ({megabytes[0]} MB of {megabytes[1]})"
    else:
        folder = NO_CACHE
    heading = [
        f"tack {report['tack']}",
        f"libtack {report['libtack']}",
        report["compiler"],
        folder,
    ]
    lines = ["   ".join(heading)]
    names = max(len(row["name"]) for row in report["backends"])
    states = max(len(row["state"]) for row in report["backends"])
    for row in report["backends"]:
        first, *more = row["detail"].splitlines() or [""]
        lines.append(f"{row['name']:<{names}}  {row['state']:<{states}}  {first}".rstrip())
        lines += [" " * (names + states + 4) + text for text in more]
    vtk = report["vtk"]
    lines.append(f"VTK {vtk['version']} {vtk['exchange']}" if vtk else "VTK is not installed")
    return "\n".join(lines)


def as_cache_line(clear):
    folder = _core.cache_directory()
    if not folder:
        return NO_CACHE
    if clear:
        return f"{folder}: removed {kernels(_core.clear_cache())}"
    used, limit, entries = _core.cache_usage()
    return f"{folder}: {kernels(entries)}, {used} of {limit} bytes"


def kernels(count):
    return f"{count} compiled kernel{'' if count == 1 else 's'}"


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m tack", description=DESCRIPTION)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="the same report as one JSON object")
    what.add_argument(
        "--cmake-dir",
        action="store_true",
        help="the folder of TackConfig.cmake, for cmake -DTack_ROOT=$(python -m tack --cmake-dir)",
    )
    what.add_argument("--version", action="version", version=f"tack {tack.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="cache")
    cache = commands.add_parser(
        "cache",
        help="the compiled kernels on disk: where they are and how much they take",
        description="Where the compiled kernels are kept, how many and how much they take.",
    )
    cache.add_argument("--clear", action="store_true", help="remove every compiled kernel")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    if options.cmake_dir:
        print(Path(tack.__file__).parent / "lib" / "cmake" / "Tack")
    elif options.command == "cache":
        print(as_cache_line(options.clear))
    elif options.json:
        print(json.dumps(status(), indent=2))
    else:
        print(as_table(status()))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        sys.exit(f"python -m tack: {error}")
