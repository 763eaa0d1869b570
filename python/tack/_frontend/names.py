"""What a function sees beyond its own variables, and which variables it has."""

from __future__ import annotations

import ast
import builtins
import sys
from types import ModuleType

import tack

MISSING = object()

# Their attributes are taken as fixed: no launch looks at them again.
_FIXED_MODULES = ("math", "tack", "numpy", "builtins")


def is_fixed_module(value):
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] in _FIXED_MODULES


class Captured:
    """Resolves a function's free names and records where each value came from."""

    def __init__(self, function, used):
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        self._globals = function.__globals__
        self._used = used

    def lookup(self, name):
        """The value of a name, as Python would find it; MISSING where it has none yet."""
        if name in self._cells:
            cell = self._cells[name]
            self._used[id(cell), None] = (cell, None)
            try:
                return cell.cell_contents
            except ValueError:
                return MISSING
        value = self._globals.get(name, MISSING)
        if value is MISSING:
            value = getattr(builtins, name, MISSING)
        if not is_fixed_module(value) and (name in self._globals or value is MISSING):
            self._used[id(self._globals), name] = (self._globals, name)
        return value

    def attribute(self, module, name):
        if not is_fixed_module(module):
            self._used[id(module), name] = (vars(module), name)
        return getattr(module, name, MISSING)

    def names(self):
        return [*self._cells, *self._globals, *dir(builtins)]


def dtype_name(value):
    """The dtype's name where value is one (Tack's, NumPy's or a NumPy scalar type), else None."""
    if isinstance(value, tack.DType):
        return value.name
    if value is int:
        return "int64"
    if value is float:
        return "float64"
    if value is bool:
        return "bool"
    numpy = sys.modules.get("numpy")
    if numpy is not None and (
        isinstance(value, numpy.dtype)
        or (isinstance(value, type) and issubclass(value, numpy.generic))
    ):
        try:
            return _known(numpy.dtype(value).name)
        except TypeError:
            return None
    return None


def _known(name):
    return name if isinstance(getattr(tack, name, None), tack.DType) else None


def constant(value):
    """(dtype's name or None for a weak number, Python number) of a captured value, or None."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        name = _known(value.dtype.name)
        if name is None:
            return None
        if name == "bool":
            return name, bool(value)
        return name, int(value) if "int" in name else float(value)
    if isinstance(value, bool):
        return None, value
    if isinstance(value, int):
        return None, int(value)
    if isinstance(value, float):
        return None, float(value)
    return None


def assigned_names(body):
    """The names that the statements assign: local variables, in Python's sense."""
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def reads_memory(node):
    """Whether evaluating a node twice may read two values, or costs more than arithmetic."""
    return any(isinstance(part, (ast.Subscript, ast.Call)) for part in ast.walk(node))


def escapes(node, name, inside=False):
    """Whether a loop variable is used other than by reading it in the loops that set it."""
    if isinstance(node, ast.For) and name in assigned_names([node.target]):
        return (
            inside
            or escapes(node.iter, name)
            or any(escapes(statement, name, True) for statement in node.body)
        )
    if isinstance(node, ast.Name) and node.id == name:
        return not inside or isinstance(node.ctx, ast.Store)
    return any(escapes(child, name, inside) for child in ast.iter_child_nodes(node))


def did_you_mean(name, candidates):
    import difflib

    close = difflib.get_close_matches(name, [str(c) for c in candidates], 1)
    return f"; did you mean '{close[0]}'?" if close else ""
