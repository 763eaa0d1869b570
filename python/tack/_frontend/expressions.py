"""Expressions of the kernel language."""

from __future__ import annotations

import ast
import math
from types import ModuleType

from ..kernel import Func
from . import unsupported
from .functions import ATOMICS, MATH_OBJECTS
from .names import MISSING, constant, did_you_mean

NOT_STATIC = object()

BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mult": "multiply",
    "Div": "divide",
    "FloorDiv": "floor_divide",
    "Mod": "remainder",
    "Pow": "power",
    "BitAnd": "bit_and",
    "BitOr": "bit_or",
    "BitXor": "bit_xor",
    "LShift": "shift_left",
    "RShift": "shift_right",
}
UNARY = {"USub": "negative", "UAdd": "positive", "Invert": "invert", "Not": "logical_not"}
_COMPARE = {
    "Eq": "equal",
    "NotEq": "not_equal",
    "Lt": "less",
    "LtE": "less_equal",
    "Gt": "greater",
    "GtE": "greater_equal",
}


class Expressions:
    """Translates expressions; statements.py adds variables and control flow.

    Each method named value_X takes a node of type X and returns the program's value for it.
    """

    # set by variables.Variables
    builder = program = captured = None
    parameters: dict[str, int]
    local_names: set[str]
    array_names: set[str]  # the parameters that are used as arrays
    effects = False  # whether anything so far stores to memory
    conditional = False  # within what may not be evaluated: no statement may be put before it
    touched = False  # whether the statement so far reads memory or has an effect

    # locations and errors

    def at(self, node):
        line = self.lines[node.lineno - self.source.line]
        self.builder.at(node.lineno, len(line.encode()[: node.col_offset].decode()) + 1)

    def fail(self, node, message):
        self.at(node)
        self.builder.fail(message)

    def unsupported(self, node, table=unsupported.SYNTAX, where=None):
        name = type(node).__name__
        what, instead = table.get(name, (f"the syntax '{name}'", "write it in simpler statements"))
        self.fail(where or node, unsupported.message(what, instead))

    # names and constants

    def is_variable(self, name):
        return name in self.local_names or name in self.parameters

    def static(self, node):
        """The Python object that names and attributes from outside the kernel stand for."""
        if isinstance(node, ast.Name) and not self.is_variable(node.id):
            value = self.captured.lookup(node.id)
            if value is MISSING:
                known = [*self.local_names, *self.parameters, *self.captured.names()]
                self.fail(node, f"'{node.id}' is not defined{did_you_mean(node.id, known)}")
            return value
        if isinstance(node, ast.Attribute):
            base = self.static(node.value)
            return base if base is NOT_STATIC else self.static_attribute(node, base)
        if isinstance(node, ast.Subscript):
            base = self.static(node.value)
            return base if base is NOT_STATIC else self.static_element(node, base)
        return NOT_STATIC

    def static_attribute(self, node, base):
        if not isinstance(base, ModuleType):
            self.fail(
                node,
                f"attribute '{node.attr}' of '{ast.unparse(node.value)}', which is of type "
                f"{type(base).__name__}: kernels look into modules only; "
                "assign the attribute to a variable outside the kernel, or pass it as a parameter",
            )
        value = self.captured.attribute(base, node.attr)
        if value is MISSING and base is math:
            value = MATH_OBJECTS.get(node.attr, MISSING)
        if value is MISSING:
            hint = did_you_mean(node.attr, dir(base))
            self.fail(node, f"module '{base.__name__}' has no attribute '{node.attr}'{hint}")
        return value

    def static_element(self, node, base):
        name = ast.unparse(node.value)
        if not isinstance(base, tuple):
            self.refuse_captured(node.value, base)
        index = self.static_integer(node.slice)
        if index is None:
            self.fail(
                node.slice,
                f"the index of '{name}', a tuple from outside the kernel, must be a constant; "
                "pass an array parameter to index it with a variable",
            )
        if not -len(base) <= index < len(base):
            self.fail(node.slice, f"index {index} of '{name}', a tuple of {len(base)} elements")
        return base[index]

    def static_integer(self, node):
        """The value of an integer that is known now, else None."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.static_integer(node.operand)
            return None if value is None else -value
        value = node.value if isinstance(node, ast.Constant) else self.static(node)
        found = None if value is NOT_STATIC else constant(value)
        return found[1] if found and type(found[1]) is int else None

    def elements(self, node):
        """The nodes that a tuple, written here or captured, consists of; None for the rest."""
        if isinstance(node, ast.Tuple):
            return node.elts
        value = self.static(node)
        if not isinstance(value, tuple):
            return None
        elements = [ast.Subscript(node, ast.Constant(k), ast.Load()) for k in range(len(value))]
        return [ast.copy_location(element, node) for element in elements]

    def refuse_captured(self, node, value):
        name, kind = ast.unparse(node), type(value).__name__
        if hasattr(value, "__dlpack__") or hasattr(value, "__array__"):
            advice = "pass it to the kernel as a parameter"
        elif isinstance(value, (list, tuple)):
            advice = "only a tuple of numbers, indexed by a constant, can be used"
        elif callable(value):
            advice = "call it, if it is a @tack.func function"
        else:
            advice = "int, float, bool and NumPy scalars can be; pass anything else as a parameter"
        self.fail(node, f"'{name}' is of type {kind}, which a kernel cannot capture; {advice}")

    def number(self, node, value):
        self.at(node)
        if isinstance(value, bool):
            return self.builder.literal_bool(value)
        if isinstance(value, int):
            return self.builder.literal_integer(value)
        return self.builder.literal_float(value)

    def static_value(self, node, value):
        found = constant(value)
        if found is None:
            self.refuse_captured(node, value)
        dtype, number = found
        literal = self.number(node, number)
        return literal if dtype is None else self.builder.cast(dtype, literal)

    def value_Constant(self, node):
        if isinstance(node.value, (bool, int, float)):
            return self.number(node, node.value)
        what, instead = {
            str: ("a string", "numbers and array parameters can be"),
            bytes: ("a bytes object", "pass an array parameter of uint8"),
            complex: ("a complex number", "use two values, the real and the imaginary part"),
            type(None): ("None", "use a number that stands for it"),
        }.get(type(node.value), ("'...'", "index one element at a time"))
        self.fail(node, unsupported.message(what, instead))

    def value_Name(self, node):
        name = node.id
        if name in self.local_names:
            local = self.read(node)
            self.at(node)
            return self.builder.use_local(local)
        if name in self.parameters:
            self.at(node)
            return self.builder.use_parameter(self.parameters[name])
        return self.static_value(node, self.static(node))

    # operators

    def value(self, node):
        """The value of a number."""
        self.require_number(node)
        method = getattr(self, "value_" + type(node).__name__, None)
        if method is None:
            self.unsupported(node)
        return method(node)

    def conditional_value(self, node):
        """The value of what may not be evaluated."""
        before, self.conditional = self.conditional, True
        value = self.value(node)
        self.conditional = before
        return value

    def value_UnaryOp(self, node):
        operand = self.value(node.operand)
        self.at(node)
        return self.builder.unary(UNARY[type(node.op).__name__], operand)

    def value_BinOp(self, node):
        op = BINARY.get(type(node.op).__name__)
        if op is None:
            return self.product(node).parts[0]()
        left, right = self.value(node.left), self.value(node.right)
        self.at(node)
        return self.builder.binary(op, left, right)

    def value_BoolOp(self, node):
        join = self.builder.logical_and if isinstance(node.op, ast.And) else self.builder.logical_or
        result = self.value(node.values[0])
        for operand in node.values[1:]:
            right = self.conditional_value(operand)
            self.at(node)
            result = join(result, right)
        return result

    def value_Compare(self, node):
        operands = [node.left, *node.comparators]
        # All but the ends stand in two comparisons and would have their effect twice.
        if any(self.effectful(operand) for operand in operands[1:-1]):
            operands[:-1] = [self.once(operand) for operand in operands[:-1]]
        result = None
        for op, left, right in zip(node.ops, operands, operands[1:]):
            name = _COMPARE.get(type(op).__name__)
            if name is None:
                self.unsupported(op, unsupported.OPERATORS, node)
            evaluate = self.value if result is None else self.conditional_value
            pair = evaluate(left), evaluate(right)
            self.at(node)
            compared = self.builder.compare(name, *pair)
            result = compared if result is None else self.builder.logical_and(result, compared)
        return result

    def value_IfExp(self, node):
        condition = self.value(node.test)
        chosen = self.conditional_value(node.body), self.conditional_value(node.orelse)
        self.at(node)
        return self.builder.select(condition, *chosen)

    # arrays

    def array(self, node):
        """The array parameter that a node names."""
        if isinstance(node, ast.Subscript):
            self.fail(node, "an element has no elements; write x[i, j] for x[i][j]")
        if not isinstance(node, ast.Name):
            self.fail(node, "only an array parameter can be indexed")
        if node.id in self.local_names and node.id not in self.array_names:
            self.fail(
                node,
                f"'{node.id}' is a local variable, which holds one number; "
                "only an array parameter has elements",
            )
        if node.id not in self.parameters:
            self.refuse_captured(node, self.static(node))
        return self.parameters[node.id]

    def indices(self, array, node):
        """The values of an index expression. array: the node that is indexed."""
        elements = node.elts if isinstance(node, ast.Tuple) else [node]
        values = []
        for axis, element in enumerate(elements):
            number = self.static_integer(element)
            if number is not None and number < 0:
                self.fail(
                    element,
                    f"index {number}: a negative index does not count from the end in a kernel; "
                    f"write {array.id}.shape[{axis}] - {-number}",
                )
            values.append(self.value(element))
        return values

    def value_Subscript(self, node):
        if self.shape_of(node.value):
            return self.component(node)
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return self.extent(node, node.value.value, node.slice)
        value = self.static(node)
        if value is not NOT_STATIC:
            return self.static_value(node, value)
        array = self.array(node.value)
        indices = self.indices(node.value, node.slice)
        self.touched = True
        self.at(node)
        return self.builder.load(array, indices)

    def extent(self, node, array, axis):
        parameter, number = self.array(array), self.static_integer(axis)
        if number is None:
            self.fail(axis, f"the axis of {array.id}.shape must be a constant, as in shape[0]")
        self.at(node)
        return self.builder.extent(parameter, number, getattr(node, "ndim", -1))

    def value_Attribute(self, node):
        value = self.static(node)
        if value is not NOT_STATIC:
            return self.static_value(node, value)
        if node.attr in ("size", "ndim"):
            array = self.array(node.value)
            self.at(node)
            return getattr(self.builder, node.attr)(array)
        name = ast.unparse(node.value)
        if node.attr == "shape":
            self.fail(node, f"'{name}.shape' is a tuple; index it, as in {name}.shape[0]")
        self.fail(
            node,
            f"'{name}' has no attribute '{node.attr}' in a kernel; an array has shape[axis], "
            f"size and ndim, and len({name})",
        )

    # effects

    def effectful(self, node):
        """Whether evaluating an expression changes memory."""
        return any(
            self.call_has_effect(call) for call in ast.walk(node) if isinstance(call, ast.Call)
        )

    def call_has_effect(self, node):
        callee = self.static(node.func)
        if isinstance(callee, Func):
            return self.program.device_function(callee, self, node).effects
        return id(callee) in ATOMICS

    def once(self, node):
        """A node that stands for the value of another, which is evaluated now."""
        if isinstance(node, ast.Constant):
            return node
        self.require_hoistable(node)
        return self.temporary(node)

    def require_hoistable(self, node):
        if self.conditional or self.touched:
            self.fail(
                node,
                "this must be evaluated before the rest of the statement; "
                "assign it to a variable first",
            )
