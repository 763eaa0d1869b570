from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, ParamSpec, SupportsIndex, TypeAlias, TypeVar, overload

import tack

__all__ = [
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "cross",
    "dot",
    "func",
    "kernel",
    "length",
    "matrix",
    "ndrange",
    "random",
    "vector",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Index: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...]
_Axis: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...]

class _Kernel(Generic[_P]):
    __wrapped__: Callable[_P, object]
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> None: ...
    def inspect(self, *args: Any, mode: Literal["ir", "source", "assembly"] = "ir") -> str: ...

class Func(Generic[_P, _R]):
    __wrapped__: Callable[_P, _R]
    def __init__(self, function: Callable[_P, _R]) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...

@overload
def kernel(function: Callable[_P, object], /) -> _Kernel[_P]: ...
@overload
def kernel(
    function: None = None, /, *, fast_math: bool = False, check_bounds: bool = False
) -> Callable[[Callable[_P, object]], _Kernel[_P]]: ...
def func(function: Callable[_P, _R], /) -> Func[_P, _R]: ...
def ndrange(*axes: _Axis) -> Iterator[Any]: ...
def atomic_add(array: tack.Array | Any, index: _Index, value: Any) -> Any: ...
def atomic_min(array: tack.Array | Any, index: _Index, value: Any) -> Any: ...
def atomic_max(array: tack.Array | Any, index: _Index, value: Any) -> Any: ...
def random(
    seed: SupportsIndex,
    index: SupportsIndex,
    /,
    *indices: SupportsIndex,
    dtype: tack.DType | None = None,
) -> Any: ...
def vector(*numbers: Any) -> Any: ...
def matrix(*rows: tuple[Any, ...]) -> Any: ...
def dot(u: Any, v: Any, /) -> Any: ...
def cross(u: Any, v: Any, /) -> Any: ...
def length(v: Any, /) -> Any: ...
