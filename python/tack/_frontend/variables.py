"""The signature and the variables of a kernel or device function."""

from __future__ import annotations

import ast
from math import prod

from . import unsupported
from .calls import Calls
from .names import MISSING, Captured, dtype_name
from .vectors import Vector

_NO_SOURCE = (
    "the text of '{name}' cannot be read: it was typed into a plain prompt, run by exec or loaded "
    "without its .py file. Define it in a file or a notebook cell, or register its text with "
    "linecache before it is decorated"
)
_UNORDERED = (
    "; iterations run at once and in any order. To accumulate, pass an array and write "
    "tack.atomic_add({name}, 0, value); for a value of one iteration, use a new variable"
)


class Variables(Calls):
    """The state of a kernel or device function while it is translated."""

    def __init__(self, program, source, shapes=None):
        """shapes: of a device function's arguments, by parameter; None makes a kernel."""
        self.program, self.builder, self.source = program, program.builder, source
        self.is_kernel = shapes is None
        self.results = None  # of a device function, see program.DeviceFunction
        self.captured = Captured(source.function, program.used)
        self.shapes = {name: shape for name, shape in (shapes or {}).items() if shape}
        self.parameters, self.flat_parameters = {}, []
        for name in source.parameters:
            self.parameters[name] = len(self.flat_parameters)
            count = prod(self.shapes.get(name, ()))
            self.flat_parameters += [f"{name}{k}" for k in range(count)] if count > 1 else [name]
        self.local_names = set()
        # A local or a Vector by name.
        self.outer = {}  # variables outside parallel loops, in a device function all
        self.inner = None  # variables of one iteration, inside a parallel loop
        self.ended = set()  # variables of parallel loops that have ended
        self.loops = []  # the kinds of those open: "parallel", "for", "ndrange" or "while"
        self.depth = 0  # of loops and branches
        self.temporaries = 0

        text = source.text()
        self.lines = text.split("\n")
        self.node = source.parse(text)

    # the signature

    def check_signature(self):
        name = self.source.name
        if name == "<lambda>":
            self.refuse("a lambda cannot be compiled; write a function with def")
        if self.node is None and not self.lines[0]:
            self.refuse(_NO_SOURCE.format(name=name))
        if self.node is None:
            self.refuse(
                f"the text here is not '{name}': the file has changed since it was "
                "loaded; load it again"
            )
        arguments = self.node.args
        if isinstance(self.node, ast.AsyncFunctionDef):
            self.fail(self.node, unsupported.message("async def", "write def"))
        for argument in (arguments.vararg, arguments.kwarg):
            if argument is not None:
                self.fail(
                    argument,
                    f"'{argument.arg}' takes any number of arguments; write out each parameter",
                )
        for argument in arguments.kwonlyargs:
            self.fail(
                argument,
                f"'{argument.arg}' is keyword-only; arguments are passed by "
                "position, so leave out the *",
            )
        for default in arguments.defaults:
            self.fail(default, "parameters have no default values; pass every argument")
        for argument in (arguments.posonlyargs + arguments.args)[:1]:
            if argument.arg in ("self", "cls"):
                self.fail(
                    argument,
                    f"a method cannot be compiled, because '{argument.arg}' is "
                    f"no array or number; leave out '{argument.arg}' and pass "
                    "what the function needs",
                )

    def refuse(self, message):
        self.builder.at(self.source.line, 0)
        self.builder.fail(message)

    def begin_parameters(self):
        for argument in self.node.args.posonlyargs + self.node.args.args:
            name, dtype = argument.arg, self.annotated_dtype(argument.annotation)
            self.at(argument)
            if self.is_kernel and dtype is None:
                self.builder.parameter(name)
            elif self.is_kernel:
                self.builder.scalar_parameter(name, dtype)
            # Parameters of device functions are typed by the call, whatever their annotation.
            cast = None if self.is_kernel else dtype
            if cast is not None or name in self.shapes:
                self.local_names.add(name)
            if name in self.local_names and name not in self.array_names:
                self.begin_as_variable(name, cast)

    def begin_as_variable(self, name, dtype):
        """Copies a parameter into a variable of its name, which can be assigned."""
        shape, first = self.shapes.get(name, ()), self.parameters[name]
        variable = self.variables(name, shape)
        for k, local in enumerate(variable.locals):
            value = self.builder.use_parameter(first + k)
            if dtype is not None:
                value = self.builder.cast(dtype, value)
            self.builder.assign(local, value)
        self.outer[name] = variable if shape else variable.locals[0]

    def annotated_dtype(self, annotation):
        """The dtype's name that an annotation gives; others are for the reader."""
        if annotation is None:
            return None
        value = MISSING
        if isinstance(annotation, ast.Name):
            value = self.captured.lookup(annotation.id)
        elif isinstance(annotation, ast.Attribute) and isinstance(annotation.value, ast.Name):
            module = self.captured.lookup(annotation.value.id)
            value = getattr(module, annotation.attr, MISSING)
        # A Python number stays weak: int, float and bool say no more than that it is one.
        is_python = value is int or value is float or value is bool
        return None if is_python else dtype_name(value)

    # variables

    def found(self, name):
        """What a variable is: a local or a Vector; None where it has no value yet."""
        return (self.inner or {}).get(name, self.outer.get(name))

    def read(self, node):
        name = node.id
        found = self.found(name)
        if found is not None:
            return found
        if name in self.ended:
            self.fail(
                node,
                f"'{name}' has a value only inside the parallel loop that assigns it; "
                "store it to an array to use it after the loop",
            )
        self.fail(node, f"'{name}' is used before it is assigned")

    def check_assignable(self, node):
        name = node.id
        if name in self.parameters and name in self.array_names:
            self.fail(
                node,
                f"'{name}' is an array parameter and cannot be assigned; "
                f"store to its elements, as in {name}[i] = value",
            )
        if self.inner is not None and name in (self.outer.keys() | self.parameters.keys()):
            self.fail(
                node,
                f"'{name}' comes from outside this parallel loop and cannot be "
                "assigned in it" + _UNORDERED.format(name=name),
            )

    def variable(self, node):
        self.check_assignable(node)
        scope = self.outer if self.inner is None else self.inner
        if node.id not in scope:
            scope[node.id] = self.builder.local(node.id)
        if isinstance(scope[node.id], Vector):
            self.fail(node, f"'{node.id}' is a vector and cannot become a number; use another name")
        return scope[node.id]

    def assign_variable(self, node, value):
        variable = self.variable(node)
        self.at(node)
        self.builder.assign(variable, value)

    def temporary(self, node):
        """Evaluates a node into a variable of its own; returns a node that reads that."""
        shape = self.shape_of(node)
        parts = self.vector(node).parts if shape else [lambda: self.value(node)]
        values = [part() for part in parts]
        self.touched = False
        name, kept = self.temporary_variable(node, shape)
        for local, value in zip(kept.locals if shape else [kept], values):
            self.at(node)
            self.builder.assign(local, value)
        return name

    def temporary_variable(self, node, shape):
        """A node that reads a new variable, and the variable."""
        self.temporaries += 1
        name = f"%{self.temporaries}"  # no identifier, so it meets no variable of the user's
        self.local_names.add(name)
        scope = self.outer if self.inner is None else self.inner
        kept = self.variables(f"t{self.temporaries}", shape)
        scope[name] = kept if shape else kept.locals[0]
        return ast.copy_location(ast.Name(name, ast.Load()), node), scope[name]

    def require_iteration(self, node, what):
        if not self.is_kernel or self.inner is not None:
            return
        advice = (
            "only loops at the kernel's top level are parallel, so move the loop or branch around "
            "it inside one"
            if self.loops
            else "write it in a loop of one pass, `for i in range(1):`, or accumulate in a "
            "parallel loop with tack.atomic_add"
        )
        self.fail(node, f"{what} outside a parallel loop; {advice}")
