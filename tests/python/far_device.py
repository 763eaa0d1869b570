"""tests/native/far_device.cpp as a device of Tack's, with memory that only copies reach."""

import ctypes
import os
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from native import LIBRARY, ROOT, compiled

import tack

STREAM = 0x5EED
REFUSED_STREAM = 0xBAD
HANDLE = 77


@cache
def library():
    output = Path(mkdtemp(prefix="tack-far-device-")) / "far_device.so"
    sources = [ROOT / "src" / "array" / "buffer.cpp", ROOT / "src" / "backend" / "backend.cpp"]
    flags = ["-shared", "-fPIC", "-fvisibility=hidden", f"-I{ROOT / 'src'}"]
    compiled(output, *flags, sources=["far_device.cpp", *sources])
    ctypes.CDLL(LIBRARY / "libtack.so.0", os.RTLD_LAZY)
    loaded = ctypes.CDLL(output)
    loaded.far_waited.restype = ctypes.c_uint64
    output.unlink()
    output.parent.rmdir()
    return loaded


class FarDevice:
    """One that is the default device until close(); device is its tack.Device."""

    def __init__(self):
        self.library = library()
        self.library.far_make_default()
        self.library.far_forget()
        self.device = tack.default_device()

    def close(self):
        tack.set_default_device("cpu")

    @property
    def waited(self):
        """The streams that it was told to wait for, in order."""
        return [self.library.far_waited(k) for k in range(self.library.far_waits())]

    @property
    def synchronized(self):
        return self.library.far_synchronized()
