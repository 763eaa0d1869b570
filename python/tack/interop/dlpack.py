"""DLPack capsules, for callers that handle them themselves."""

from tack._core import array_to_dlpack, dlpack_to_array, live_exports

__all__ = ["array_to_dlpack", "dlpack_to_array", "live_exports"]
