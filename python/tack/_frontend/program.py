"""A kernel and the device functions it calls, as one program."""

from __future__ import annotations

from collections import namedtuple

from .. import _core
from .statements import Routine

# effects: whether it stores to memory. results: the shapes of what it returns, () for a number;
# None for nothing. No dataclass: its module imports inspect, which would be a third of the time of
# a process's first launch.
DeviceFunction = namedtuple("DeviceFunction", "handle parameters effects results")


class Program:
    """What the routines of one program share while it is built."""

    def __init__(self, source):
        self.builder = _core.ProgramBuilder(source.name)
        self.used = {}
        self._functions = {}
        self._active = []
        self._source = source

    def build(self):
        Routine(self, self._source).translate()
        return self.builder.finish()

    def device_function(self, func, caller, node):
        """The function in the program, translated at its first use."""
        if func in self._active:
            cycle = [*self._active[self._active.index(func) :], func]
            caller.fail(
                node,
                f"recursion: {' -> '.join(f.__name__ for f in cycle)}; "
                "device functions are inlined, so write a loop",
            )
        source = func._source
        # Of what is passed, the program's functions are typed by use but for vectors' shapes.
        shapes = dict(zip(source.parameters, map(caller.shape_of, node.args)))
        key = func, tuple(shapes.values())
        if key not in self._functions:
            self._active.append(func)
            routine = Routine(self, source, shapes)
            handle = self.builder.begin_function(source.name, routine.flat_parameters)
            routine.translate()
            self.builder.end_function()
            self._active.pop()
            self._functions[key] = DeviceFunction(
                handle, source.parameters, routine.effects, routine.results
            )
        return self._functions[key]


def build_program(source):
    """Returns the program of a kernel and the places of what it captured.

    Each place is (dict of globals, name) or (cell, None). A mistake in the kernel or in a device
    function raises CompileError with its location.
    """
    program = Program(source)
    built = program.build()
    return built, list(program.used.values())
