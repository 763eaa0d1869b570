"""The functions of Python and Tack that kernels can call."""

from __future__ import annotations

import math

from .. import _core
from ..kernel import (
    atomic_add,
    atomic_max,
    atomic_min,
    cross,
    dot,
    length,
    matrix,
    vector,
)

# By identity, so that a name the user bound to one of them works too.
ATOMICS = {id(atomic_add): "add", id(atomic_min): "minimum", id(atomic_max): "maximum"}

# Python 3.10 has no math.cbrt and math.exp2; kernels do.
MATH_OBJECTS = {name: getattr(math, name, object()) for name in _core.math_functions()}
MATH = {id(function): name for name, function in MATH_OBJECTS.items()}
TWO_ARGUMENTS = ("atan2", "copysign", "fmod", "hypot")
# Those that the program builds from its operators.
COMPOSED_MATH = {id(f): f.__name__ for f in (math.degrees, math.fabs, math.pow, math.radians)}
COMPOSED_MATH[id(math.log)] = "log"

VECTORS = {id(f): f.__name__ for f in (cross, dot, length, matrix, vector)}
BUILTINS = {id(f): f.__name__ for f in (abs, divmod, len, max, min, pow, round)}
