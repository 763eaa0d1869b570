"""Kernels: Python functions that are compiled and run over arrays.

The language and its semantics are in docs/kernels.md.
"""

from __future__ import annotations

from . import _core

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

_OPTIONS = ("fast_math", "check_bounds")


def kernel(function=None, /, **options):
    """Makes a kernel of a function; calling it launches it.

    Use it bare, ``@tack.kernel``, or with options, ``@tack.kernel(fast_math=True)``:

    fast_math: lets the compiler reorder and contract floating-point operations (default False).
    check_bounds: checks each index while the kernel runs (default False). The first one found out
    of range is IndexError once the launch has completed; such elements are read as 0 and not
    stored.

    The function's text is read now and compiled at the first launch, once for each kind of
    arguments. What cannot be compiled raises `tack.CompileError` there. An unknown option, or
    something that is not a Python function, is TypeError.
    """
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(
                f"tack.kernel: unknown option '{name}'; the options are {', '.join(_OPTIONS)}"
            )
    if function is None:
        return lambda f: _make_kernel(f, **options)
    return _make_kernel(function, **options)


def _make_kernel(function, fast_math=False, check_bounds=False):
    # While a program starts rather than in the middle of its first launch.
    from ._frontend.program import build_program

    source = _source("tack.kernel", function)
    # What the last build found in the enclosing scopes: (globals, name) or (cell, None). The
    # launch compares these with the values of the last build and builds anew when one changed.
    captured: list[tuple[object, str | None]] = []

    def build():
        try:
            program, captured[:] = build_program(source)
        except (_core.CompileError, ValueError) as error:
            # Its text points into the kernel; the way through the front end would bury it.
            raise error.with_traceback(None) from None
        return program

    if source.refused_signature():
        build()
    options = bool(fast_math), bool(check_bounds)
    return _core.Kernel(build, source.parameters, *options, function, captured)


class Func:
    """A device function, made by `tack.func`: kernels call it, and so can Python."""

    def __init__(self, function):
        from functools import update_wrapper

        self._source = _source("tack.func", function)
        update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self):
        return f"<tack.func {self.__qualname__}>"


def func(function, /):
    """Makes a device function, which kernels and other device functions can call.

    It is typed by the arguments of each call, may return early and may take arrays. Called from
    Python it runs as Python. A recursive one is refused when a kernel that calls it is compiled.
    """
    return Func(function)


def _source(decorator, function):
    from ._frontend.source import Source

    if isinstance(function, (staticmethod, classmethod)):
        raise TypeError(
            f"{decorator}: got a {type(function).__name__}; write @staticmethod above @{decorator}"
        )
    # A wrapper made with functools.wraps stands for the function as the user wrote it.
    plain = function
    while hasattr(plain, "__wrapped__") and not isinstance(plain, (Func, _core.Kernel)):
        plain = plain.__wrapped__
    if not hasattr(plain, "__code__"):
        raise TypeError(
            f"{decorator}: expected a Python function, got {type(function).__name__}; "
            "decorate a `def`"
        )
    return Source(plain)


def _only_in_kernels(name):
    return TypeError(f"tack.{name} works inside a @tack.kernel or @tack.func function only")


def ndrange(*axes):
    """The index space of a loop: ``for i, j in tack.ndrange(n, (1, m - 1)):``.

    axes: one per loop variable, outermost first; an extent, or a tuple (start, stop) or
    (start, stop, step) that means what it means to `range`. Outside a kernel it is TypeError.
    """
    raise _only_in_kernels("ndrange")


def atomic_add(array, index, value):
    """Adds value to array[index] as one step among all iterations; returns the old element.

    index: an integer, or a tuple with one per dimension. Outside a kernel it is TypeError.
    """
    raise _only_in_kernels("atomic_add")


def atomic_min(array, index, value):
    """Stores the smaller of array[index] and value, as `atomic_add`; returns the old element."""
    raise _only_in_kernels("atomic_min")


def atomic_max(array, index, value):
    """Stores the larger of array[index] and value, as `atomic_add`; returns the old element."""
    raise _only_in_kernels("atomic_max")


def random(seed, index, /, *indices, dtype=None):
    """A number in [0, 1) that depends on the seed and the indices alone.

    seed, index, indices: integers; dtype: tack.float32, the default, or tack.float64. The generator
    is Philox4x32-10: the seed is the key and two indices the counter of a block, low words first (a
    missing second one is 0); each further pair is the counter of a block whose key is the first 64
    bits of the one before. Outside a kernel it is TypeError.
    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    raise _only_in_kernels("random")


def vector(*numbers):
    """A vector of 2 to 4 numbers, as a variable of a kernel: v[0], u + v, m @ v.

    Its components have one type, the promotion of all. Outside a kernel it is TypeError.
    """
    raise _only_in_kernels("vector")


def matrix(*rows):
    """A matrix of 2 to 4 rows, tuples of 2 to 4 numbers: m[i, j], m @ v, m @ m.

    Its components have one type, the promotion of all. Outside a kernel it is TypeError.
    """
    raise _only_in_kernels("matrix")


def dot(u, v, /):
    """The sum of the products of two vectors' components. Outside a kernel it is TypeError."""
    raise _only_in_kernels("dot")


def cross(u, v, /):
    """The cross product of two vectors of 3. Outside a kernel it is TypeError."""
    raise _only_in_kernels("cross")


def length(v, /):
    """The Euclidean norm of a vector. Outside a kernel it is TypeError."""
    raise _only_in_kernels("length")
