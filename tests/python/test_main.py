"""`python -m tack`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tack


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "tack", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def output(*arguments, **environment):
    done = run(*arguments, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_table_names_versions_compiler_cache_and_every_backend(tmp_path):
    heading, *rows, _ = output(TACK_CACHE_DIR=str(tmp_path)).splitlines()
    assert heading.startswith(f"tack {tack.__version__}   libtack {tack.__version__}   ")
    assert str(tmp_path) in heading
    assert heading.endswith("(0 MB of 512)")
    first_lines = [row for row in rows if not row.startswith(" ")]
    assert [row.split()[0] for row in first_lines] == ["cpu", "cuda", "hip", "level_zero", "metal"]
    assert rows[0].split()[1] == "ready"


def test_every_backend_that_is_not_ready_gives_a_reason():
    report = json.loads(output("--json"))
    for row in report["backends"]:
        assert row["state"] in ("ready", "not found", "not usable", "not built")
        assert len(row["detail"].split()) > 2, row


def test_json_holds_what_the_table_holds(tmp_path):
    report = json.loads(output("--json", TACK_CACHE_DIR=str(tmp_path), TACK_CACHE_MAX_MB="7"))
    assert report["tack"] == report["libtack"] == tack.__version__
    assert report["cache"] == {
        "folder": str(tmp_path),
        "bytes": 0,
        "limit": 7 * 2**20,
        "entries": 0,
    }
    assert report["devices"] == [str(device) for device in tack.devices()]
    assert report["compiler"]
    assert report["threads"] >= 1


def fake_vtk(folder, version, *files):
    """A folder for PYTHONPATH with what pip writes of a VTK; importing it is an error."""
    about = folder / f"vtk-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vtk\nVersion: {version}\n")
    for file in ("vtkmodules/__init__.py", *files):
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise AssertionError('VTK was imported')\n")
    packages = Path(tack.__file__).parents[1]
    return {"PYTHONPATH": os.pathsep.join(map(str, [folder, packages]))}


@pytest.mark.parametrize(
    "version, files, text",
    [
        ("9.8.0", ["vtkmodules/util/dlpack_support.py"], "its own vtkmodules.util.dlpack_support"),
        ("9.7.2", [], "tack.interop.vtk.install_dlpack_support()"),
        ("9.10.0rc1", [], "tack.interop.vtk.install_dlpack_support()"),
        ("9.6.1", [], "VTK 9.7 and newer"),
    ],
)
def test_the_last_line_says_how_the_installed_vtk_exchanges_arrays(tmp_path, version, files, text):
    environment = fake_vtk(tmp_path, version, *files)
    last = output(**environment).splitlines()[-1]
    assert last.startswith(f"VTK {version} ")
    assert text in last
    report = json.loads(output("--json", **environment))
    assert report["vtk"]["version"] == version
    assert text in report["vtk"]["exchange"]


def test_the_home_folder_is_abbreviated(tmp_path):
    heading = output(TACK_CACHE_DIR="", XDG_CACHE_HOME="", HOME=str(tmp_path)).splitlines()[0]
    assert "cache ~/.cache/tack (" in heading


def test_without_any_folder_the_table_says_that_there_is_no_cache():
    environment = {"TACK_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": ""}
    assert "no disk cache" in output(**environment).splitlines()[0]
    assert json.loads(output("--json", **environment))["cache"]["folder"] is None
    assert "no disk cache" in output("cache", "--clear", **environment)


def test_cache_clear_removes_the_entries_and_says_how_many(tmp_path):
    program = (
        "import tack\n"
        "@tack.kernel\n"
        "def double(x):\n"
        "    for i in range(x.size):\n"
        "        x[i] = 2 * x[i]\n"
        "double(tack.ones(3))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(program)
    folder = tmp_path / "cache"
    subprocess.run(
        [sys.executable, script], env={**os.environ, "TACK_CACHE_DIR": str(folder)}, check=True
    )
    assert "1 compiled kernel" in output("cache", TACK_CACHE_DIR=str(folder))
    cleared = output("cache", "--clear", TACK_CACHE_DIR=str(folder))
    assert cleared == f"{folder}: removed 1 compiled kernel\n"
    assert "removed 0 compiled kernels" in output("cache", "--clear", TACK_CACHE_DIR=str(folder))


def test_cmake_dir_is_inside_the_package():
    folder = Path(output("--cmake-dir").strip())
    assert folder == Path(tack.__file__).parent / "lib" / "cmake" / "Tack"


def test_help_names_every_option():
    text = output("--help")
    for option in ("--json", "--cmake-dir", "--version", "cache"):
        assert option in text
    assert "--clear" in output("cache", "--help")


@pytest.mark.parametrize("arguments", [["--jsn"], ["cash"], ["cache", "--clean"]])
def test_an_unknown_argument_is_refused_with_the_usage(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "usage: python -m tack" in done.stderr
