"""Statements, variables and control flow of the kernel language."""

from __future__ import annotations

import ast

from .._core import CompileError
from ..kernel import Func, ndrange
from . import unsupported
from .expressions import NOT_STATIC
from .names import assigned_names, constant, escapes, reads_memory
from .variables import Variables


def used_as_array(node, name):
    """Whether a statement indexes a parameter or asks for its extents."""
    return any(
        isinstance(part, (ast.Subscript, ast.Attribute))
        and isinstance(part.value, ast.Name)
        and part.value.id == name
        for part in ast.walk(node)
    )


class Routine(Variables):
    """Translates one kernel or device function into the program."""

    def translate(self):
        self.builder.source(self.source.file, self.source.line, "\n".join(self.lines))
        self.check_signature()
        body = self.region = self.node.body
        self.local_names = assigned_names(body)
        self.array_names = {
            name
            for name in self.parameters.keys() - self.shapes.keys()
            if any(used_as_array(s, name) for s in body)
        }
        self.begin_parameters()
        self.block(body)

    # statements

    def block(self, statements):
        for statement in statements:
            self.touched = False
            method = getattr(self, "statement_" + type(statement).__name__, None)
            if method is None:
                self.unsupported(statement)
            try:
                method(statement)
            except RecursionError:
                self.fail(statement, "nested too deeply; assign parts of it to variables")

    def nested(self, statements):
        self.depth += 1
        self.block(statements)
        self.depth -= 1

    def statement_Pass(self, node):
        pass

    def statement_Expr(self, node):
        value = node.value
        if isinstance(value, ast.Constant) and (value.value is ... or isinstance(value.value, str)):
            return
        if isinstance(value, ast.Call):
            result = self.value_Call(value, is_statement=True)
            self.at(node)
            self.builder.evaluate(result)
            return
        self.value(value)
        self.fail(node, "this statement has no effect; assign its value, or leave it out")

    def statement_Assign(self, node):
        value = node.value
        if len(node.targets) > 1 and not isinstance(value, ast.Constant):
            value = self.temporary(value)
        for target in node.targets:
            self.assign(target, value)

    def statement_AnnAssign(self, node):
        if node.value is None:
            self.fail(node, "a variable gets its type from its value; assign one here")
        dtype = self.annotated_dtype(node.annotation)
        if dtype is None or not isinstance(node.target, ast.Name):
            self.assign(node.target, node.value)
            return
        self.check_assignable(node.target)
        value = self.value(node.value)
        self.at(node)
        self.assign_variable(node.target, self.builder.cast(dtype, value))

    def statement_AugAssign(self, node):
        target = node.target
        if isinstance(target, ast.Name):
            self.check_assignable(target)
            current = ast.Name(target.id, ast.Load())
        elif isinstance(target, ast.Subscript):
            if not self.shape_of(target.value):
                self.require_iteration(node, f"a store to '{ast.unparse(target.value)}'")
            index = target.slice
            elements = index.elts if isinstance(index, ast.Tuple) else [index]
            kept = [self.temporary(e) if reads_memory(e) else e for e in elements]
            if isinstance(index, ast.Tuple):
                index = ast.copy_location(ast.Tuple(kept, ast.Load()), index)
            else:
                index = kept[0]
            target = ast.copy_location(ast.Subscript(target.value, index, ast.Store()), target)
            current = ast.Subscript(target.value, index, ast.Load())
        else:
            self.refuse_target(target)
        ast.copy_location(current, node.target)
        self.assign(target, ast.copy_location(ast.BinOp(current, node.op, node.value), node))

    def assign(self, target, value):
        self.touched = False
        if isinstance(target, ast.Name):
            self.check_assignable(target)
            if self.shape_of(value):
                self.assign_vector(target, value)
            else:
                self.assign_variable(target, self.value(value))
        elif isinstance(target, ast.Subscript) and self.shape_of(target.value):
            self.assign_component(target, value)
        elif isinstance(target, ast.Subscript):
            self.require_iteration(target, f"a store to '{ast.unparse(target.value)}'")
            array, stored = self.array(target.value), self.value(value)
            indices = self.indices(target.value, target.slice)
            self.effects = True
            self.at(target)
            self.builder.store(array, indices, stored)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.assign_each(target.elts, self.unpacked(value, len(target.elts)))
        else:
            self.refuse_target(target)

    def refuse_target(self, target):
        if isinstance(target, ast.Starred):
            self.unsupported(target)
        self.fail(
            target,
            f"'{ast.unparse(target)}' cannot be assigned in a kernel; "
            "variables and elements of arrays can be",
        )

    def unpacked(self, value, count):
        """The nodes that a tuple on the right side consists of."""
        values, shape = self.elements(value), self.shape_of(value)
        callee = self.static(value.func) if isinstance(value, ast.Call) else None
        if len(shape) == 1:
            base = value if isinstance(value, ast.Name) else self.temporary(value)
            values = [ast.Subscript(base, ast.Constant(k), ast.Load()) for k in range(shape[0])]
        elif isinstance(callee, Func):
            results = self.program.device_function(callee, self, value).results
            if results is not None and len(results) == count:
                values = self.call_results(value, callee)
        elif callee is divmod:
            self.callee(value)
            self.check_count(value, 2)
            a, b = (self.once(x) if self.effectful(x) else x for x in value.args)
            values = [ast.BinOp(a, op, b) for op in (ast.FloorDiv(), ast.Mod())]
        elif isinstance(value, ast.Attribute) and value.attr == "shape":
            values = [ast.Subscript(value, ast.Constant(k), ast.Load()) for k in range(count)]
            for extent in values:
                extent.ndim = count
        if values is None or len(values) != count:
            self.fail(value, f"{count} targets need {count} values, separated by commas")
        return [ast.copy_location(v, v if hasattr(v, "lineno") else value) for v in values]

    def assign_each(self, targets, values):
        """Assigns a tuple. Python evaluates the whole right side first."""
        stored, stores_memory, in_order = set(), False, True
        for target, value in zip(targets, values):
            reads = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
            if reads & stored or (stores_memory and reads_memory(value)):
                in_order = False
            stored |= assigned_names([target])
            stores_memory = stores_memory or isinstance(target, ast.Subscript)
        if not in_order or any(self.effectful(value) for value in values[1:]):
            values = [v if isinstance(v, ast.Constant) else self.temporary(v) for v in values]
        for target, value in zip(targets, values):
            self.assign(target, value)

    # branches and loops

    def statement_If(self, node):
        known = self.known_condition(node.test)
        if known is not None:
            self.block(node.body if known else node.orelse)
            return
        condition = self.value(node.test)
        self.at(node)
        self.builder.if_begin(condition)
        self.nested(node.body)
        if node.orelse:
            self.builder.if_else()
            self.nested(node.orelse)
        self.builder.end()

    def known_condition(self, node):
        """The truth of a condition that is a constant, else None."""
        value = node.value if isinstance(node, ast.Constant) else self.static(node)
        found = None if value is NOT_STATIC else constant(value)
        return bool(found[1]) if found else None

    def statement_While(self, node):
        self.refuse_else(node, "while")
        condition = self.conditional_value(node.test)
        self.at(node)
        self.builder.while_loop(condition)
        self.loop_body("while", node.body)

    def loop_body(self, kind, statements):
        self.loops.append(kind)
        self.nested(statements)
        self.loops.pop()
        self.builder.end()

    def refuse_else(self, node, keyword):
        if node.orelse:
            self.fail(
                node.orelse[0],
                unsupported.message(
                    f"else after {keyword}",
                    "set a variable before break and test it after the loop",
                ),
            )

    def statement_For(self, node):
        self.refuse_else(node, "for")
        axes, targets = self.axes(node), self.loop_variables(node)
        if len(axes) != len(targets):
            self.fail(
                node.target,
                f"{len(targets)} loop variables for {len(axes)} axes; write one variable for each",
            )
        if self.is_kernel and self.depth == 0:
            self.parallel_loop(node, axes, targets)
        else:
            self.serial_loop(node, axes, targets)

    def axes(self, node):
        """The arguments of range for each axis of a loop."""
        call = node.iter
        callee = self.static(call.func) if isinstance(call, ast.Call) else None
        if callee is range or callee is ndrange:
            self.callee(call)
            axes = [call.args] if callee is range else [self.elements(a) or [a] for a in call.args]
            for axis in axes or [[]]:
                if not 1 <= len(axis) <= 3:
                    self.fail(call, "a range takes a stop, a start and a stop, or these and a step")
                if len(axis) == 3 and self.static_integer(axis[2]) == 0:
                    self.refuse_step(axis[2])
            return axes
        if isinstance(call, ast.Name) and call.id in self.parameters:
            advice = f"write `for i in range(len({call.id})):` and read {call.id}[i]"
        else:
            name = getattr(callee, "__name__", None)
            advice = unsupported.BUILTINS.get(
                name if isinstance(call, ast.Call) else None,
                "loops run over range(...) and tack.ndrange(...)",
            )
        self.fail(call, f"a loop cannot run over '{ast.unparse(call)}'; {advice}")

    def refuse_step(self, node):
        """Python's range raises ValueError for it."""
        try:
            self.fail(node, "the step of a range cannot be 0")
        except CompileError as error:
            raise ValueError(str(error)) from None

    def loop_variables(self, node):
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        for target in targets:
            if not isinstance(target, ast.Name):
                self.fail(target, "a loop variable must be a name")
            self.check_assignable(target)
        if len({target.id for target in targets}) != len(targets):
            self.fail(node.target, "each axis needs a loop variable of its own")
        return targets

    def range_values(self, node, axis):
        start, stop, step = {1: [None, *axis, None], 2: [*axis, None], 3: axis}[len(axis)]
        return (
            self.number(node, 0) if start is None else self.value(start),
            self.value(stop),
            self.number(node, 1) if step is None else self.value(step),
        )

    def parallel_loop(self, node, axes, targets):
        for target in targets:
            if target.id in self.outer.keys() | self.parameters.keys():
                self.fail(
                    target,
                    f"'{target.id}' has a value from before this parallel loop; "
                    "give the loop a variable of its own",
                )
        ranges = [self.range_values(node, axis) for axis in axes]
        self.inner, self.region = {}, node.body
        reassigned = assigned_names(node.body)
        counters = [self.builder.local(target.id) for target in targets]
        self.at(node)
        self.builder.parallel(counters, ranges)
        self.begin_pass(targets, counters, [t.id in reassigned for t in targets])
        self.loop_body("parallel", node.body)
        self.ended |= self.inner.keys()
        self.inner, self.region = None, self.node.body

    def serial_loop(self, node, axes, targets):
        if len(axes) > 1:
            axes = [[self.kept(bound) for bound in axis] for axis in axes]
        escaping = [any(escapes(s, target.id) for s in self.region) for target in targets]
        counters = []
        for axis, target in zip(axes, targets):
            values = self.range_values(node, axis)
            counters.append(self.builder.local(target.id))
            self.at(node)
            self.builder.for_range(counters[-1], values)
        self.begin_pass(targets, counters, escaping)
        self.loop_body("ndrange" if len(axes) > 1 else "for", node.body)
        for _ in axes[1:]:
            self.builder.end()

    def begin_pass(self, targets, counters, copied):
        """Gives the loop variables their values. The body may change a copy, not a counter."""
        scope = self.outer if self.inner is None else self.inner
        for target, counter, copy in zip(targets, counters, copied):
            if copy:
                self.at(target)
                self.assign_variable(target, self.builder.use_local(counter))
            else:
                scope[target.id] = counter

    def kept(self, bound):
        """A bound of nested loops, which Python evaluates once before the outermost."""
        return bound if self.static_integer(bound) is not None else self.temporary(bound)

    def statement_Break(self, node):
        if self.loops[-1] == "ndrange":
            self.fail(
                node,
                "break would leave only one of the loops that tack.ndrange stands "
                "for; write nested loops over range",
            )
        self.at(node)
        self.builder.break_loop()

    def statement_Continue(self, node):
        self.at(node)
        self.builder.continue_loop()

    def statement_Return(self, node):
        if self.is_kernel:
            self.return_from_kernel(node)
        elif node.value is None:
            self.at(node)
            self.builder.return_nothing()
        else:
            self.return_from_function(node)

    def return_from_function(self, node):
        nodes = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        results = tuple(self.shape_of(n) for n in nodes)
        if self.results not in (None, results):
            self.fail(node, "every return must give as many values, of the same shapes")
        self.results = results
        values = []
        for n, shape in zip(nodes, results):
            values += [part() for part in self.vector(n).parts] if shape else [self.value(n)]
        self.at(node)
        self.builder.return_values(values)

    def return_from_kernel(self, node):
        if node.value is not None:
            self.fail(node, "a kernel returns nothing; store the result to an array parameter")
        if self.inner is not None:
            self.fail(
                node,
                "return would end the whole kernel from inside a parallel loop; "
                "write continue to end this iteration",
            )
        if self.depth:
            self.fail(
                node,
                "a kernel can return only at its top level; put what follows into the other branch",
            )
        self.at(node)
        self.builder.return_nothing()
