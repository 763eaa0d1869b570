# Internal: what users need of it is in the package's own stubs.
from typing import Any

def __getattr__(name: str) -> Any: ...
