"""The NVRTC of PyPI's nvidia-cuda-nvrtc, which compiles without a GPU.

As a program: compiles a folder of sources, as the stand-in collects them, and prints the failures.
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


def load():
    path = library_path()
    if path is None:
        raise RuntimeError("NVRTC: nvidia-cuda-nvrtc is not installed; ./dev test installs it")
    return ctypes.CDLL(str(path))


def _text(nvrtc, program, what):
    size = ctypes.c_size_t()
    nvrtc[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc[f"nvrtcGet{what}"](program, text)
    return text.raw


def compile_source(nvrtc, source, options, names=()):
    """(result, log, binary) of one compilation; `options` and `names` are strings."""
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    for name in names:
        nvrtc.nvrtcAddNameExpression(program, name.encode())
    arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    result = nvrtc.nvrtcCompileProgram(program, len(options), arguments)
    log = _text(nvrtc, program, "ProgramLog").rstrip(b"\0").decode()
    binary = b"" if result else _text(nvrtc, program, "CUBIN")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return result, log, binary


def is_architecture(option):
    return option.startswith(("-arch=", "--gpu-architecture=", "-arch ", "--gpu-architecture "))


def compile_files(paths):
    """Failures among sources with their .options beside them, as "FILE for sm_XX: log" strings."""
    nvrtc = load()
    failures = []
    for path in map(Path, paths):
        options = path.with_suffix(".options").read_text().splitlines()
        options = [option for option in options if not is_architecture(option)]
        for architecture in ARCHITECTURES:
            result, log, binary = compile_source(
                nvrtc, path.read_text(), [*options, f"-arch={architecture}"]
            )
            if result != 0 or not binary.startswith(b"\x7fELF"):
                failures.append(f"{path} for {architecture}: error {result}: {log}")
    return failures


def compile_all(folder, processes=2, batch=32):
    """(number of sources, failures) of a folder that the stand-in filled (TACK_SIM_SOURCES).

    Each batch runs in a process of its own, since NVRTC never gives its memory back.
    """
    paths = sorted(Path(folder).glob("*.cu"))
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
            return [f"{files[0]} to {files[-1]}: the compiler ended with {result.returncode}: "
                    f"{result.stderr[-2000:]}"]
        return json.loads(result.stdout)

    with ThreadPoolExecutor(processes) as pool:
        return len(paths), [failure for part in pool.map(run, batches) for failure in part]


if __name__ == "__main__":
    print(json.dumps(compile_files(sys.argv[1:])))
