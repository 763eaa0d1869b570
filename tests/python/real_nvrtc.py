"""The NVRTC of PyPI's nvidia-cuda-nvrtc, which compiles without a GPU.

As a program it compiles the sources that are its arguments and prints the failures as JSON.
"""

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ARCHITECTURES = ("sm_75", "sm_90", "sm_120")


def library_path():
    """Path of libnvrtc in the installed package, or None."""
    found = importlib.util.find_spec("nvidia")
    for folder in found.submodule_search_locations if found else ():
        for path in sorted(Path(folder).glob("*/lib/libnvrtc.so.*")):
            if "alt" not in path.name:
                return path
    return None


def load(path=None):
    """The real NVRTC, or what has its interface at `path`."""
    path = path or library_path()
    if path is None:
        raise RuntimeError("NVRTC: nvidia-cuda-nvrtc is not installed; ./dev test installs it")
    return ctypes.CDLL(str(path))


def _text(nvrtc, program, what):
    size = ctypes.c_size_t()
    nvrtc[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc[f"nvrtcGet{what}"](program, text)
    return text.raw


def compile_source(nvrtc, source, options):
    """(result, log, binary) of one compilation."""
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    result = nvrtc.nvrtcCompileProgram(program, len(options), arguments)
    log = _text(nvrtc, program, "ProgramLog").rstrip(b"\0").decode()
    binary = b"" if result else _text(nvrtc, program, "CUBIN")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return result, log, binary


def lowered_name(nvrtc, source, name):
    program = ctypes.c_void_p()
    lowered = ctypes.c_char_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    nvrtc.nvrtcAddNameExpression(program, name.encode())
    nvrtc.nvrtcCompileProgram(program, 0, None)
    nvrtc.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(lowered))
    text = (lowered.value or b"").decode()
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return text


def without_architecture(options):
    names = ("-arch", "--gpu-architecture")
    kept = [option for option in options if option.partition("=")[0] not in names]
    for name in set(names) & set(options):
        kept.remove(options[options.index(name) + 1])
    return kept


def compile_files(paths):
    """Failures among sources with their .options beside them, as "FILE for sm_XX: log" strings."""
    nvrtc = load()
    failures = []
    for path in map(Path, paths):
        options = without_architecture(path.with_suffix(".options").read_text().splitlines())
        for architecture in ARCHITECTURES:
            result, log, binary = compile_source(
                nvrtc, path.read_text(), [*options, f"-arch={architecture}"]
            )
            if result != 0 or not binary.startswith(b"\x7fELF"):
                failures.append(f"{path} for {architecture}: error {result}: {log}")
    return failures


def compile_all(folder, processes=2, batch=32):
    """Failures among the sources that the stand-in has put into a folder (TACK_SIM_SOURCES)."""
    return compile_in_processes(sorted(Path(folder).glob("*.cu")), processes, batch)


def identity():
    """What another NVRTC, or other architectures, would not be."""
    path = library_path()
    status = path.stat()
    return " ".join([path.name, str(status.st_size), str(status.st_mtime_ns), *ARCHITECTURES])


def compile_new(folder):
    """(how many, failures) of a folder's sources that this NVRTC has not accepted before.

    Each has a file beside it that says which NVRTC has. What fails leaves the folder.
    """
    accepted_by = identity()
    new = [
        path
        for path in sorted(Path(folder).glob("*.cu"))
        if not (stamp := path.with_suffix(".accepted")).exists() or stamp.read_text() != accepted_by
    ]
    failures = compile_in_processes(new)
    for path in new:
        if any(str(path) in failure for failure in failures):
            path.unlink()
        else:
            path.with_suffix(".accepted").write_text(accepted_by)
    return len(new), failures


def compile_in_processes(paths, processes=2, batch=32):
    """Each batch has a process of its own, since NVRTC never gives its memory back."""
    batches = [paths[start : start + batch] for start in range(0, len(paths), batch)]
    # The simulator would be found as the driver of this compiler.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LD_")}

    def run(files):
        result = subprocess.run(
            [sys.executable, __file__, *map(str, files)],
            capture_output=True,
            text=True,
            env=environment,
        )
        if result.returncode != 0:
            return [
                f"{', '.join(map(str, files))}: the compiler ended with {result.returncode}: "
                f"{result.stderr[-2000:]}"
            ]
        return json.loads(result.stdout)

    with ThreadPoolExecutor(processes) as pool:
        return [failure for part in pool.map(run, batches) for failure in part]


if __name__ == "__main__":
    print(json.dumps(compile_files(sys.argv[1:])))
