import builtins
from types import EllipsisType
from typing import (
    Any,
    ClassVar,
    NamedTuple,
    Protocol,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    overload,
)

import numpy as np
import numpy.typing as npt

from tack import interop as interop
from tack.kernel import atomic_add as atomic_add
from tack.kernel import atomic_max as atomic_max
from tack.kernel import atomic_min as atomic_min
from tack.kernel import cross as cross
from tack.kernel import dot as dot
from tack.kernel import func as func
from tack.kernel import kernel as kernel
from tack.kernel import length as length
from tack.kernel import matrix as matrix
from tack.kernel import ndrange as ndrange
from tack.kernel import random as random
from tack.kernel import vector as vector

__all__ = [
    "Array",
    "CompileError",
    "DType",
    "Device",
    "Explanation",
    "ExportedMemory",
    "NonContiguousError",
    "__version__",
    "arange",
    "array",
    "array_from_ptr",
    "asarray",
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "bfloat16",
    "bool",
    "cross",
    "default_device",
    "device",
    "device_options",
    "devices",
    "dot",
    "empty",
    "explain",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "full",
    "func",
    "import_memory",
    "int16",
    "int32",
    "int64",
    "int8",
    "interop",
    "kernel",
    "length",
    "matrix",
    "ndrange",
    "num_threads",
    "ones",
    "random",
    "set_default_device",
    "set_num_threads",
    "synchronize",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "vector",
    "zeros",
]

__version__: str

class _SupportsDLPack(Protocol):
    def __dlpack__(self) -> Any: ...

class _Sequence(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> SupportsIndex: ...

_DTypeLike: TypeAlias = DType | np.dtype[Any] | type[Any] | str
_DeviceLike: TypeAlias = Device | str
_ShapeLike: TypeAlias = SupportsIndex | _Sequence
_Option: TypeAlias = SupportsIndex | str | dict[str, int]

class DType:
    def __new__(cls, object: _DTypeLike, /) -> DType: ...
    @property
    def name(self) -> str: ...
    @property
    def itemsize(self) -> int: ...
    def __call__(self, value: Any = ..., /) -> Any: ...
    def __eq__(self, other: object, /) -> builtins.bool: ...
    def __ne__(self, other: object, /) -> builtins.bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> str: ...

bool: DType
int8: DType
int16: DType
int32: DType
int64: DType
uint8: DType
uint16: DType
uint32: DType
uint64: DType
float16: DType
bfloat16: DType
float32: DType
float64: DType

class NonContiguousError(ValueError, BufferError): ...
class CompileError(TypeError): ...

class Explanation(NamedTuple):
    type: str
    protocol: str | None
    device: str | None
    dtype: str | None
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    writable: builtins.bool | None
    ordering: str | None
    shared: builtins.bool
    copyable: builtins.bool
    reason: str
    @property
    def layout(self) -> str | None: ...
    @property
    def advice(self) -> str: ...

class Device:
    @property
    def name(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def memory_domain(self) -> str: ...
    @property
    def shares_external_context(self) -> builtins.bool: ...
    def memory_space(self, ptr: Any) -> str: ...
    @property
    def stream(self) -> int | None: ...
    def wait_for_stream(self, stream: SupportsIndex) -> None: ...
    def synchronize(self) -> None: ...
    def __eq__(self, other: object, /) -> builtins.bool: ...
    def __hash__(self) -> int: ...

class ExportedMemory:
    def __init__(
        self,
        backend: str,
        size: SupportsIndex,
        allocation_size: SupportsIndex,
        handle: SupportsIndex,
        handle_type: str,
        device_uuid: bytes | None = None,
    ) -> None: ...
    @property
    def backend(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def allocation_size(self) -> int: ...
    @property
    def handle(self) -> int: ...
    @property
    def handle_type(self) -> str: ...
    @property
    def device_uuid(self) -> bytes | None: ...
    def __eq__(self, other: object, /) -> builtins.bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

class Array:
    __dlpack_c_exchange_api__: ClassVar[Any]
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def ptr(self) -> int: ...
    @property
    def device(self) -> Device: ...
    @property
    def writable(self) -> builtins.bool: ...
    @overload
    def reshape(self, shape: _ShapeLike, /) -> Array: ...
    @overload
    def reshape(self, *shape: SupportsIndex) -> Array: ...
    def copy(self) -> Array: ...
    def to_device(self, device: _DeviceLike) -> Array: ...
    def fill(self, value: SupportsFloat | SupportsIndex) -> None: ...
    def numpy(self) -> npt.NDArray[Any]: ...
    def tolist(self) -> Any: ...
    @overload
    def item(self) -> Any: ...
    @overload
    def item(self, index: SupportsIndex | tuple[SupportsIndex, ...], /) -> Any: ...
    @overload
    def item(self, *index: SupportsIndex) -> Any: ...
    def export_memory(self) -> ExportedMemory: ...
    @overload
    def __getitem__(self, key: EllipsisType | tuple[EllipsisType], /) -> Array: ...
    @overload
    def __getitem__(self, key: SupportsIndex | tuple[SupportsIndex, ...], /) -> Any: ...
    @overload
    def __setitem__(
        self, key: EllipsisType | tuple[EllipsisType], value: Array | npt.ArrayLike, /
    ) -> None: ...
    @overload
    def __setitem__(
        self,
        key: SupportsIndex | tuple[SupportsIndex, ...],
        value: SupportsFloat | SupportsIndex,
        /,
    ) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Any: ...
    def __bool__(self) -> builtins.bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __index__(self) -> int: ...
    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: builtins.bool | None = None
    ) -> npt.NDArray[Any]: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: builtins.bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __copy__(self) -> Array: ...
    def __deepcopy__(self, memo: Any) -> Array: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def array(
    object: Array | npt.ArrayLike,
    dtype: _DTypeLike | None = None,
    device: _DeviceLike | None = None,
) -> Array: ...
def empty(
    shape: _ShapeLike,
    dtype: _DTypeLike = ...,
    device: _DeviceLike | None = None,
    exportable: builtins.bool = False,
) -> Array: ...
def zeros(
    shape: _ShapeLike, dtype: _DTypeLike = ..., device: _DeviceLike | None = None
) -> Array: ...
def ones(
    shape: _ShapeLike, dtype: _DTypeLike = ..., device: _DeviceLike | None = None
) -> Array: ...
def full(
    shape: _ShapeLike,
    value: SupportsFloat | SupportsIndex,
    dtype: _DTypeLike = ...,
    device: _DeviceLike | None = None,
) -> Array: ...
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: _DTypeLike | None = None,
    device: _DeviceLike | None = None,
) -> Array: ...
def array_from_ptr(
    ptr: Any,
    dtype: _DTypeLike,
    shape: _ShapeLike,
    writable: builtins.bool = False,
    device: _DeviceLike | None = None,
) -> Array: ...
def import_memory(
    memory: ExportedMemory | SupportsIndex,
    dtype: _DTypeLike,
    shape: _ShapeLike,
    *,
    allocation_size: SupportsIndex | None = None,
    device: _DeviceLike | None = None,
    writable: builtins.bool = True,
) -> Array: ...
def asarray(
    object: Any,
    dtype: _DTypeLike | None = None,
    device: _DeviceLike | None = None,
    copy: builtins.bool | None = None,
) -> Array: ...
def explain(x: object, /) -> Explanation: ...
def from_dlpack(
    source: _SupportsDLPack | Any,
    /,
    *,
    device: _DeviceLike | None = None,
    copy: builtins.bool = False,
) -> Array: ...
def device(name: str, index: int = 0, **options: _Option) -> Device: ...
def device_options(backend: str) -> frozenset[str]: ...
def set_default_device(device: _DeviceLike, index: int = 0, **options: _Option) -> Device: ...
def default_device() -> Device: ...
def devices() -> list[Device]: ...
def synchronize() -> None: ...
def num_threads() -> int: ...
def set_num_threads(threads: int) -> None: ...
