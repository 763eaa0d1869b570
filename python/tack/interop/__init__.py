"""Exchange of arrays with other libraries, beyond tack.from_dlpack and Array.__dlpack__."""

from tack.interop import dlpack

__all__ = ["dlpack"]
