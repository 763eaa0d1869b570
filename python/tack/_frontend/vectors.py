"""Small vectors and matrices in the kernel language: local variables, one for each component."""

from __future__ import annotations

import ast
from collections import namedtuple
from math import prod

from ..kernel import Func
from . import unsupported
from .expressions import BINARY, UNARY, Expressions
from .functions import VECTORS
from .names import reads_memory

# shape: (n,), or (rows, columns). parts: what makes each component's value, row by row, as
# functions without arguments. locals: where each component is a variable, else None. No dataclass,
# as for DeviceFunction.
Vector = namedtuple("Vector", "shape parts locals", defaults=(None,))


def described(shape):
    if not shape:
        return "a number"
    return f"a vector of {shape[0]}" if len(shape) == 1 else f"a {shape[0]} x {shape[1]} matrix"


class Vectors(Expressions):
    def shape_of(self, node):
        """() for a number, else the shape of the vector or matrix. Evaluates nothing."""
        if isinstance(node, ast.Name):
            found = self.found(node.id)
            return found.shape if isinstance(found, Vector) else ()
        if not hasattr(node, "shape"):
            find = getattr(self, "shape_of_" + type(node).__name__, None)
            node.shape = find(node) if find else ()
        return node.shape

    def shape_of_UnaryOp(self, node):
        return () if isinstance(node.op, ast.Not) else self.shape_of(node.operand)

    def shape_of_BinOp(self, node):
        left, right = self.shape_of(node.left), self.shape_of(node.right)
        if not isinstance(node.op, ast.MatMult):
            return left or right
        return (left[:-1] + right[1:]) if left and right else ()

    def shape_of_Call(self, node):
        callee = self.static(node.func)
        if isinstance(callee, Func):
            results = self.program.device_function(callee, self, node).results
            return results[0] if results and len(results) == 1 else ()
        name = VECTORS.get(id(callee))
        if name == "vector":
            return (len(node.args),)
        if name == "matrix":
            return len(node.args), len(self.elements(node.args[0]) or "") if node.args else 0
        return (3,) if name == "cross" else ()

    def require_number(self, node):
        shape = self.shape_of(node)
        if shape:
            what, name = described(shape), ast.unparse(node)
            element = f"{name}[{', '.join('0' * len(shape))}]"
            advice = (
                f"take an element, as in {element}"
                if name.isidentifier()
                else "assign it to a variable and take its elements"
            )
            self.fail(node, f"{what} where a number is needed; {advice}")

    # components

    def vector(self, node):
        """The vector or matrix that a node stands for."""
        if not self.shape_of(node):
            self.fail(node, f"a number where a vector is needed; write it as {_EXAMPLE}")
        return getattr(self, "vector_" + type(node).__name__)(node)

    def vector_Name(self, node):
        return self.read(node)

    def vector_UnaryOp(self, node):
        operand, op = self.vector(node.operand), UNARY[type(node.op).__name__]

        def of(part):
            def make():
                value = part()
                self.at(node)
                return self.builder.unary(op, value)

            return make

        return Vector(operand.shape, [of(part) for part in operand.parts])

    def vector_BinOp(self, node):
        if isinstance(node.op, ast.MatMult):
            return self.product(node)
        op, shape = BINARY[type(node.op).__name__], self.shape_of(node)
        left = self.parts(node, node.left, shape)
        if self.effectful(node.right):
            left = self.kept_parts(node.left, shape, left)
        right = self.parts(node, node.right, shape)
        parts = [self.combined(node, op, a, b) for a, b in zip(left, right)]
        return Vector(shape, parts)

    def combined(self, node, op, left, right):
        def make():
            a, b = left(), right()
            self.at(node)
            return self.builder.binary(op, a, b)

        return make

    def parts(self, node, side, shape):
        """The components of an operand; a number stands beside each component of the other."""
        own = self.shape_of(side)
        if own and own != shape:
            left, right = described(self.shape_of(node.left)), described(own)
            self.fail(node, f"{left} with {right}; components are combined one by one")
        return self.vector(side).parts if own else [self.repeated(side)] * prod(shape)

    def repeated(self, node):
        """What makes a number's value as often as it is needed."""
        if self.effectful(node):
            node = self.once(node)
        elif reads_memory(node) and not (self.conditional or self.touched):
            node = self.temporary(node)
        return lambda: self.value(node)

    def kept_vector(self, node):
        """A vector's components, each computed once where statements can be put before this."""
        vector = self.vector(node)
        return self.kept_parts(node, vector.shape, vector.parts, vector.locals)

    def kept_parts(self, node, shape, parts, variables=None):
        if variables is not None or self.conditional or self.touched:
            return parts
        kept = self.variables("t", shape)
        self.assign_parts(node, kept, parts)
        self.touched = False
        return kept.parts

    def variables(self, name, shape):
        """A vector of new variables, or for () one alone."""
        names = [f"{name}{k}" for k in range(prod(shape))] if shape else [name]
        handles = [self.builder.local(n) for n in names]
        return Vector(shape, [lambda h=h: self.builder.use_local(h) for h in handles], handles)

    def assign_parts(self, node, target, parts):
        for handle, part in zip(target.locals, parts):
            value = part()
            self.at(node)
            self.builder.assign(handle, value)

    def common(self, node, parts, k):
        """The k-th value, in the type that all have together."""
        values = [parts[k](), *(part() for j, part in enumerate(parts) if j != k)]
        self.at(node)
        return self.builder.common(values)

    # functions and products

    def vector_Call(self, node):
        callee = self.callee(node)
        if isinstance(callee, Func):
            (result,) = self.call_results(node, callee)
            return self.read(result)
        return getattr(self, "call_" + VECTORS[id(callee)])(node)

    def call_vector(self, node):
        if not 2 <= len(node.args) <= 4:
            self.fail(node, f"a vector of {len(node.args)}; it takes 2 to 4 numbers, as {_EXAMPLE}")
        return self.made(node, node.args)

    def call_matrix(self, node):
        rows = [self.elements(row) for row in node.args]
        if not 2 <= len(rows) <= 4 or any(
            row is None or len(row) != len(rows[0]) or not 2 <= len(row) <= 4 for row in rows
        ):
            self.fail(
                node,
                "a matrix takes 2 to 4 rows, tuples of equally many numbers, 2 to 4, as in "
                "tack.matrix((a, b), (c, d))",
            )
        return self.made(node, [element for row in rows for element in row])

    def made(self, node, numbers):
        parts = [self.repeated(number) for number in numbers]
        made = [lambda k=k: self.common(node, parts, k) for k in range(len(parts))]
        return Vector(self.shape_of(node), made)

    def call_cross(self, node):
        a, b = self.two_vectors(node)
        if len(a) != 3:
            self.fail(node, f"{ast.unparse(node.func)}() takes two vectors of 3")

        def part(i, j):
            products = [self.combined(node, "multiply", a[p], b[q]) for p, q in ((i, j), (j, i))]
            return self.combined(node, "subtract", *products)

        return Vector((3,), [part(1, 2), part(2, 0), part(0, 1)])

    def call_dot(self, node):
        return self.sum_of_products(node, *self.two_vectors(node))()

    def call_length(self, node):
        self.check_count(node, 1)
        parts = self.kept_vector(node.args[0])
        square = self.sum_of_products(node, parts, parts)()
        self.at(node)
        return self.builder.math("sqrt", [square])

    def two_vectors(self, node):
        self.check_count(node, 2)
        shapes = [self.shape_of(argument) for argument in node.args]
        if shapes[0] != shapes[1] or len(shapes[0]) != 1:
            what = " and ".join(described(shape) for shape in shapes)
            self.fail(node, f"{ast.unparse(node.func)}() of {what}; it takes two equal vectors")
        first = self.kept_vector(node.args[0])
        return first, self.kept_vector(node.args[1])

    def sum_of_products(self, node, left, right):
        products = [self.combined(node, "multiply", a, b) for a, b in zip(left, right)]
        total = products[0]
        for product in products[1:]:
            total = self.combined(node, "add", total, product)
        return total

    def product(self, node):
        """left @ right; a vector is a row before the @ and a column after it."""
        left, right = self.shape_of(node.left), self.shape_of(node.right)
        if not left or not right:
            self.unsupported(node.op, unsupported.OPERATORS, node)
        if left[-1] != right[0]:
            self.fail(node, f"{described(left)} @ {described(right)}: the sizes do not meet")
        a, b = self.kept_vector(node.left), self.kept_vector(node.right)
        inner, columns = right[0], prod(right[1:])
        parts = [
            self.sum_of_products(node, a[r * inner : (r + 1) * inner], b[c::columns])
            for r in range(len(a) // inner)
            for c in range(columns)
        ]
        return Vector(self.shape_of(node), parts)

    # elements

    def component(self, node):
        """v[k] or m[i, j]: constant or computed; what is not there is 0."""
        vector = self.vector(node.value)
        known, tests = self.position(node, vector.shape)
        if known is not None:
            return vector.parts[known]()
        result = self.number(node, 0)
        for k in reversed(range(len(vector.parts))):
            condition = tests(k)
            part = vector.parts[k]()
            self.at(node)
            result = self.builder.select(condition, part, result)
        return result

    def position(self, node, shape):
        """(place, None) of a constant index, else (None, what tests for being at place k)."""
        index = node.slice
        indices = index.elts if isinstance(index, ast.Tuple) else [index]
        if len(indices) != len(shape):
            example = "v[0]" if len(shape) == 1 else "m[0, 1]"
            self.fail(node, f"{described(shape)} takes {len(shape)} indices, as in {example}")
        place, constants = 0, [self.static_integer(i) for i in indices]
        for constant, extent, i in zip(constants, shape, indices):
            if isinstance(i, ast.Constant) and type(i.value) is not int:
                self.fail(i, "an index is an integer; convert it with int(...)")
            if constant is not None and not 0 <= constant < extent:
                self.fail(i, f"index {constant} of {extent}; it must be 0 to {extent - 1}")
            place = place * extent + (constant or 0)
        if None not in constants:
            return place, None
        numbers = [self.repeated(i) for i in indices]

        def tests(k):
            wanted, result = divmod(k, shape[1]) if len(shape) == 2 else (k,), None
            for number, value in zip(numbers, wanted):
                pair = number(), self.number(node, value)
                self.at(node)
                test = self.builder.compare("equal", *pair)
                result = test if result is None else self.builder.logical_and(result, test)
            return result

        return None, tests

    def assign_component(self, target, value):
        if not isinstance(target.value, ast.Name):
            self.refuse_target(target)
        self.check_assignable(target.value)
        vector, stored = self.read(target.value), self.repeated(value)
        known, tests = self.position(target, vector.shape)
        for k, (handle, part) in enumerate(zip(vector.locals, vector.parts)):
            if known is None:
                condition = tests(k)
                chosen = stored(), part()
                self.at(target)
                result = self.builder.select(condition, *chosen)
            else:
                # All components keep one type, which the new value may widen.
                result = self.common(target, [stored, part], 0 if k == known else 1)
            self.at(target)
            self.builder.assign(handle, result)

    def assign_vector(self, target, value):
        vector = self.vector(value)
        reads_itself = any(
            isinstance(part, ast.Name) and part.id == target.id for part in ast.walk(value)
        )
        scope = self.outer if self.inner is None else self.inner
        found = scope.get(target.id)
        if found is None:
            found = scope[target.id] = self.variables(target.id, vector.shape)
        shape = found.shape if isinstance(found, Vector) else ()
        if shape != vector.shape:
            self.fail(
                target,
                f"'{target.id}' is {described(shape)} and cannot become "
                f"{described(vector.shape)}; use another name",
            )
        parts = vector.parts
        if reads_itself:
            kept = self.variables("t", vector.shape)
            self.assign_parts(target, kept, parts)
            parts = kept.parts
        self.assign_parts(target, found, parts)


_EXAMPLE = "tack.vector(x, y, z)"
