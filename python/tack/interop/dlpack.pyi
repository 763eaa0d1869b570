from typing import Any

from tack import Array, _DeviceLike, _SupportsDLPack

__all__ = ["array_to_dlpack", "dlpack_to_array", "live_exports"]

def array_to_dlpack(array: Array, max_version: tuple[int, int] | None = None) -> Any: ...
def dlpack_to_array(
    source: _SupportsDLPack | Any, writable: bool = True, device: _DeviceLike | None = None
) -> Array: ...
def live_exports() -> int: ...
