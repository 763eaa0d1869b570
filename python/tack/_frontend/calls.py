"""Calls in the kernel language."""

from __future__ import annotations

import ast
import builtins
import math
import sys
from types import FunctionType

from .. import _core
from ..kernel import Func, ndrange, random
from . import unsupported
from .expressions import NOT_STATIC
from .functions import (
    ATOMICS,
    BUILTINS,
    COMPOSED_MATH,
    MATH,
    MATH_OBJECTS,
    TWO_ARGUMENTS,
    VECTORS,
)
from .names import dtype_name
from .vectors import Vectors


class Calls(Vectors):
    def value_Call(self, node, is_statement=False):
        callee = self.callee(node)
        if isinstance(callee, Func):
            return self.call_func(node, callee, is_statement)
        key = id(callee)
        if key in ATOMICS:
            return self.call_atomic(node, ATOMICS[key])
        if key in VECTORS:
            self.require_number(node)
            return getattr(self, "call_" + VECTORS[key])(node)
        if callee is random:
            return self.call_random(node)
        if key in BUILTINS:
            return getattr(self, "builtin_" + BUILTINS[key])(node)
        if key in COMPOSED_MATH:
            return getattr(self, "math_" + COMPOSED_MATH[key])(node)
        if key in MATH:
            return self.math(node, MATH[key])
        dtype = dtype_name(callee)
        if dtype is not None:
            operand = self.argument_values(node, 1)[0]
            self.at(node)
            return self.builder.cast(dtype, operand)
        self.refuse_call(node, callee)

    def callee(self, node):
        callee = self.static(node.func)
        name = ast.unparse(node.func)
        if callee is NOT_STATIC:
            hint = "write a loop over the elements"
            if name.endswith(".astype"):
                hint = "write tack.float32(x[i]) to convert an element"
            self.fail(node.func, f"'{name}' cannot be called in a kernel; {hint}")
        word = node.keywords[0] if node.keywords else None
        if word is not None and (callee is not random or word.arg != "dtype"):
            self.fail(
                word.value,
                f"keyword argument '{word.arg}' of {name}(): "
                "arguments are passed by position in a kernel",
            )
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self.unsupported(argument)
        return callee

    def refuse_call(self, node, callee):
        name = ast.unparse(node.func)
        own = getattr(callee, "__name__", name)
        if isinstance(callee, _core.Kernel):
            advice = "a kernel cannot launch another; make the shared part a @tack.func function"
        elif callee is ndrange:
            advice = "it stands in `for i, j in tack.ndrange(...)` only"
        elif getattr(builtins, own, None) is callee:
            advice = unsupported.BUILTINS.get(own, "abs, divmod, len, max, min, pow and round can")
        elif getattr(math, own, None) is callee:
            known = sorted({*MATH_OBJECTS, *COMPOSED_MATH.values()})
            advice = unsupported.MATH.get(own, "write it in a @tack.func function")
            advice += f"; of the math module, kernels have {', '.join(known)}"
        elif isinstance(callee, FunctionType):
            advice = "decorate it with @tack.func"
        elif getattr(sys.modules.get("numpy"), own, None) is callee and hasattr(math, own):
            advice = f"write math.{own}"
        else:
            advice = "@tack.func functions, functions of the math module and dtypes can be"
        self.fail(node.func, f"'{name}' cannot be called in a kernel; {advice}")

    def argument_values(self, node, count):
        self.check_count(node, count)
        return [self.value(argument) for argument in node.args]

    def check_count(self, node, count):
        if len(node.args) != count:
            plural = "" if count == 1 else "s"
            self.fail(
                node,
                f"{ast.unparse(node.func)}() takes {count} argument{plural}, not {len(node.args)}",
            )

    # device functions and atomics

    def call_func(self, node, callee, is_statement):
        function = self.program.device_function(callee, self, node)
        self.check_count(node, len(function.parameters))
        name, results = ast.unparse(node.func), function.results
        if results is None and not is_statement:
            self.fail(node, f"{name}() returns nothing, so it has no value")
        if results is not None and len(results) > 1 and not is_statement:
            names = ", ".join("abcdefgh"[: len(results)])
            self.fail(node, f"{name}() returns {len(results)} values: `{names} = {name}(...)`")
        if function.effects:
            self.require_iteration(node, f"{name}() stores to memory")
            self.effects = True
        arguments = []
        for argument in node.args:
            if self.shape_of(argument):
                arguments += [part() for part in self.vector(argument).parts]
            else:
                arguments.append(self.value(argument))
        self.touched = True
        self.at(node)
        return self.builder.call(function.handle, arguments)

    def call_results(self, node, callee):
        """Calls a function of several values or vectors; returns nodes that read them."""
        results = self.program.device_function(callee, self, node).results
        self.require_hoistable(node)
        call = self.call_func(node, callee, is_statement=True)
        self.touched = False
        names, targets = [], []
        for shape in results:
            name, kept = self.temporary_variable(node, shape)
            names.append(name)
            targets += kept.locals if shape else [kept]
        self.at(node)
        self.builder.unpack(targets, call)
        return names

    def call_random(self, node):
        name = ast.unparse(node.func)
        dtype = dtype_name(self.static(node.keywords[0].value)) if node.keywords else "float32"
        if dtype not in ("float32", "float64"):
            self.fail(node.keywords[0].value, f"dtype of {name}() is tack.float32 or tack.float64")
        if len(node.args) < 2:
            self.fail(node, f"{name}() takes a seed and one index or more, as in {name}(seed, i)")
        operands = [self.value(argument) for argument in node.args]
        self.at(node)
        return self.builder.random(dtype, operands)

    def call_atomic(self, node, operation):
        name = ast.unparse(node.func)
        self.check_count(node, 3)
        target, index, value = node.args
        if isinstance(target, ast.Subscript):
            self.fail(
                target,
                f"{name}() takes the array, the index and the value: "
                f"{name}({ast.unparse(target.value)}, "
                f"{ast.unparse(target.slice)}, {ast.unparse(value)})",
            )
        self.require_iteration(node, f"{name}()")
        array = self.array(target)
        indices, operand = self.indices(target, index), self.value(value)
        self.effects = self.touched = True
        self.at(node)
        return self.builder.atomic(operation, array, indices, operand)

    # builtins

    def builtin_abs(self, node):
        operand = self.argument_values(node, 1)[0]
        self.at(node)
        return self.builder.unary("absolute", operand)

    def builtin_len(self, node):
        self.check_count(node, 1)
        argument = node.args[0]
        shape, value = self.shape_of(argument), self.static(argument)
        if shape or isinstance(value, tuple):
            return self.number(node, shape[0] if shape else len(value))
        if isinstance(argument, ast.Attribute) and argument.attr == "shape":
            array = self.array(argument.value)
            self.at(node)
            return self.builder.ndim(array)
        return self.extent(node, argument, ast.Constant(0))

    def builtin_round(self, node):
        if len(node.args) == 2:
            self.fail(node, "round() takes one number here; scale it, round(x * 100) / 100")
        operand = self.argument_values(node, 1)[0]
        self.at(node)
        return self.builder.unary("round", operand)

    def builtin_pow(self, node):
        return self.binary(node, "power", *self.argument_values(node, 2))

    def builtin_divmod(self, node):
        self.fail(node, "divmod() gives two values; write `q, r = divmod(a, b)`")

    def builtin_min(self, node):
        return self.extremum(node, "minimum")

    def builtin_max(self, node):
        return self.extremum(node, "maximum")

    def extremum(self, node, operation):
        if len(node.args) < 2:
            self.fail(
                node,
                f"{ast.unparse(node.func)}() takes two or more numbers in a kernel; "
                "for the elements of an array, compare them in a loop",
            )
        result = self.value(node.args[0])
        for argument in node.args[1:]:
            result = self.binary(node, operation, result, self.value(argument))
        return result

    def binary(self, node, operation, left, right):
        self.at(node)
        return self.builder.binary(operation, left, right)

    # the math module

    def math(self, node, name):
        if name == "hypot" and len(node.args) != 2:
            return self.math_hypot(node)
        operands = self.argument_values(node, 2 if name in TWO_ARGUMENTS else 1)
        self.at(node)
        return self.builder.math(name, operands)

    def floating(self, node, argument):
        """The argument as a float: float32 stays, an integer becomes float64."""
        return self.binary(node, "multiply", self.value(argument), self.number(node, 1.0))

    def math_hypot(self, node):
        """Of any number of coordinates, as Python's."""
        if not node.args:
            self.check_count(node, 2)
        result = self.floating(node, node.args[0])
        result = self.builder.unary("absolute", result)
        for argument in node.args[1:]:
            operands = [result, self.value(argument)]
            self.at(node)
            result = self.builder.math("hypot", operands)
        return result

    def math_fabs(self, node):
        self.check_count(node, 1)
        operand = self.floating(node, node.args[0])
        return self.builder.unary("absolute", operand)

    def math_pow(self, node):
        self.check_count(node, 2)
        operands = [self.floating(node, argument) for argument in node.args]
        return self.binary(node, "power", *operands)

    def math_degrees(self, node):
        return self.scaled(node, 180.0 / math.pi)

    def math_radians(self, node):
        return self.scaled(node, math.pi / 180.0)

    def scaled(self, node, factor):
        operand = self.argument_values(node, 1)[0]
        return self.binary(node, "multiply", operand, self.number(node, factor))

    def math_log(self, node):
        if len(node.args) != 2:
            return self.math(node, "log")
        logarithms = []
        for argument in node.args:
            operand = self.value(argument)
            self.at(node)
            logarithms.append(self.builder.math("log", [operand]))
        return self.binary(node, "divide", *logarithms)
