"""Generated programs: as Python text, which is also what they mean, and as calls of the C++ API.

A program works on four arrays, of float64, float32, int64 and int32, one element of each in an
iteration, with six local variables. Each value that is kept is converted to the dtype of its
place, so that Python, whose variables have none, computes with the same dtypes.

Expressions are tuples: ("lit", number), ("get", variable), ("load", array), ("index", loop) and
(operator, operand, ...). Statements are ("set", variable, e), ("store", array, e), ("add", array,
e), ("if", e, block, block), ("for", loop, start, stop, step, block), ("while", loop, limit, e,
block), ("break",) and ("continue",); a block is a list.
"""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st
from kernel_support import FLOATS, INTEGERS

ARRAYS = {"arg0": "float64", "arg1": "float32", "arg2": "int64", "arg3": "int32"}
LOCALS = {
    "f": "float64",
    "g": "float32",
    "p": "int64",
    "q": "int32",
    "r": "uint32",
    "s": "int8",
}
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]
FLOAT_OPERATORS = ["+", "-", "*", "/", "//", "%"]
INTEGER_OPERATORS = ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "min", "max"]


def of_kind(names, floating):
    return sorted(n for n, dtype in names.items() if dtype.startswith("float") == floating)


# generation


@st.composite
def leaves(draw, floating, loops):
    choices = ["get", "load"] + (["index"] if loops and not floating else [])
    match draw(st.sampled_from(choices)):
        case "get":
            return "get", draw(st.sampled_from(of_kind(LOCALS, floating)))
        case "load":
            return "load", draw(st.sampled_from(of_kind(ARRAYS, floating)))
        case _:
            return "cast", "int64", ("index", draw(st.sampled_from(loops)))


@st.composite
def literals(draw, floating):
    number = draw(st.integers(0, 9))
    return "lit", number / 4 if floating else number


@st.composite
def numbers(draw, floating, loops, depth):
    if depth == 0:
        return draw(leaves(floating, loops))
    part = numbers(floating, loops, depth - 1)
    match draw(st.integers(0, 9)):
        case 0:
            return draw(st.sampled_from(["-", "abs"])), draw(part)
        case 1:
            if floating:
                return "sqrt", ("abs", draw(part))
            return "~", draw(part)
        case 2:
            dtypes = [d for d in LOCALS.values() if d.startswith("float") == floating]
            other = draw(numbers(draw(st.booleans()), loops, 0))
            return "cast", draw(st.sampled_from(dtypes)), other
        case 3:
            dtype = "float64" if floating else "int64"
            branches = (("cast", dtype, draw(part)) for _ in range(2))
            return "select", draw(conditions(loops, 0)), *branches
        case _:
            operator = draw(st.sampled_from(FLOAT_OPERATORS if floating else INTEGER_OPERATORS))
            right = draw(st.one_of(part, literals(floating)))
            return operator, draw(part), right


@st.composite
def conditions(draw, loops, depth):
    if depth > 0:
        operator = draw(st.sampled_from(["and", "or", "not", "compare"]))
        if operator == "not":
            return "not", draw(conditions(loops, depth - 1))
        if operator != "compare":
            return operator, draw(conditions(loops, depth - 1)), draw(conditions(loops, depth - 1))
    left = draw(numbers(draw(st.booleans()), loops, depth))
    right = draw(st.one_of(numbers(draw(st.booleans()), loops, 0), literals(False)))
    return draw(st.sampled_from(COMPARISONS)), left, right


def converted(place, dtypes, value):
    return "cast", dtypes[place], value


@st.composite
def blocks(draw, loops, depth):
    return draw(st.lists(statements(loops, depth), min_size=1, max_size=3))


@st.composite
def statements(draw, loops, depth):
    value = numbers(draw(st.booleans()), loops, 2)
    kinds = ["set", "set", "store", "add"]
    if depth > 0:
        kinds += ["if", "for", "while"]
        kinds += ["leave"] * bool(loops)
    match kind := draw(st.sampled_from(kinds)):
        case "set":
            place = draw(st.sampled_from(sorted(LOCALS)))
            return kind, place, converted(place, LOCALS, draw(value))
        case "store" | "add":
            array = draw(st.sampled_from(sorted(ARRAYS)))
            return kind, array, converted(array, ARRAYS, draw(value))
        case "if":
            otherwise = draw(st.one_of(st.just([]), blocks(loops, depth - 1)))
            return kind, draw(conditions(loops, 1)), draw(blocks(loops, depth - 1)), otherwise
        case "leave":
            end = draw(st.sampled_from(["break", "continue"]))
            return "if", draw(conditions(loops, 0)), [(end,)], []
        case "for":
            loop = f"k{len(loops)}"
            start, stop = draw(st.integers(-2, 5)), draw(st.integers(-2, 5))
            step = draw(st.sampled_from([-2, -1, 1, 2]))
            body = draw(blocks([*loops, loop], depth - 1))
            return kind, loop, start, stop, step, body
        case _:
            loop = f"w{len(loops)}"
            limit, condition = draw(st.integers(1, 4)), draw(conditions(loops, 0))
            return kind, loop, limit, condition, draw(blocks([*loops, loop], depth - 1))


def numbered(program):
    """The program with a name of its own for each loop."""
    numbers = itertools.count()

    def renamed(part, names):
        match part:
            case list():
                return [renamed(statement, names) for statement in part]
            case ("for" | "while") as kind, loop, *rest:
                names = {**names, loop: f"{loop[0]}{next(numbers)}"}
                return kind, names[loop], *(renamed(p, names) for p in rest)
            case "index", loop:
                return "index", names[loop]
            case tuple():
                return tuple(renamed(p, names) for p in part)
        return part

    return renamed(program, {})


programs = blocks([], 3).map(numbered)


# as Python


def text_of(e):
    match e:
        case "lit", number:
            return repr(number)
        case "get", name:
            return name
        case "load", array:
            return f"{array}[i]"
        case "index", loop:
            return loop
        case "cast", dtype, operand:
            return f"tack.{dtype}({text_of(operand)})"
        case "select", condition, a, b:
            return f"({text_of(a)} if {text_of(condition)} else {text_of(b)})"
        case ("min" | "max" | "abs") as name, *operands:
            return f"{name}({', '.join(map(text_of, operands))})"
        case "sqrt", operand:
            return f"math.sqrt({text_of(operand)})"
        case "not", operand:
            return f"(not {text_of(operand)})"
        case operator, operand:
            return f"({operator}{text_of(operand)})"
        case operator, a, b:
            return f"({text_of(a)} {operator} {text_of(b)})"


def lines_of(block, indent):
    for statement in block:
        match statement:
            case "set", name, e:
                yield f"{indent}{name} = {text_of(e)}"
            case "store", array, e:
                yield f"{indent}{array}[i] = {text_of(e)}"
            case "add", array, e:
                yield f"{indent}{array}[i] += {text_of(e)}"
            case "if", condition, then, otherwise:
                yield f"{indent}if {text_of(condition)}:"
                yield from lines_of(then, indent + "    ")
                if otherwise:
                    yield f"{indent}else:"
                    yield from lines_of(otherwise, indent + "    ")
            case "for", loop, start, stop, step, body:
                yield f"{indent}for {loop} in range({start}, {stop}, {step}):"
                yield from lines_of(body, indent + "    ")
            case "while", loop, limit, condition, body:
                yield f"{indent}{loop} = tack.int64(0)"
                yield f"{indent}while ({loop} < {limit}) and {text_of(condition)}:"
                yield f"{indent}    {loop} = tack.int64({loop} + 1)"
                yield from lines_of(body, indent + "    ")
            case (leave,):
                yield f"{indent}{leave}"


def python_text(program):
    lines = ["@tack.kernel", f"def kernel({', '.join(ARRAYS)}):", "    for i in range(len(arg0)):"]
    lines += [f"        {name} = tack.{dtype}(0)" for name, dtype in LOCALS.items()]
    return "\n".join([*lines, *lines_of(program, "        ")]) + "\n"


# what it means


def conversion(dtype):
    def convert(value):
        value = np.asarray(value)
        if value.dtype not in FLOATS or dtype not in INTEGERS:
            return value.astype(dtype)[()]
        info = np.iinfo(dtype)
        number = 0 if np.isnan(value) else np.clip(value, -(2.0**65), 2.0**65)
        return dtype.type(max(info.min, min(info.max, int(number))))

    return convert


class Interpreted:
    """Stands for tack and math where a program's text is run by Python, on NumPy's scalars."""

    kernel = staticmethod(lambda f: f)
    sqrt = np.sqrt


for _dtype in set(ARRAYS.values()) | set(LOCALS.values()):
    setattr(Interpreted, _dtype, staticmethod(conversion(np.dtype(_dtype))))


def interpret(text, arrays):
    # Python's min and max would give the number of one operand the dtype of neither.
    scope = {"tack": Interpreted, "math": Interpreted, "min": np.minimum, "max": np.maximum}
    exec(text, scope)
    with np.errstate(all="ignore"):
        scope["kernel"](*arrays)


# as C++


class CppWriter:
    """Calls the C++ API as a C++ function for the program would."""

    def __init__(self, cpp):
        self.cpp = cpp

    def program(self, program):
        return self.cpp.program(lambda *arrays: self.body(program, arrays))

    def body(self, program, arrays):
        self.arrays = dict(zip(ARRAYS, arrays))
        self.cpp.parallel(self.arrays["arg0"].shape(0), lambda i: self.iteration(program, i))

    def iteration(self, program, i):
        self.i, self.loops = i, {}
        zero = self.cpp.Expr(0)
        self.variables = {n: getattr(self.cpp, f"Var_{d}")(zero) for n, d in LOCALS.items()}
        self.block(program)

    def value(self, e):
        match e:
            case "lit", number:
                return self.cpp.Expr(number)
            case "get", name:
                return self.variables[name].get()
            case "load", array:
                return self.arrays[array].get(self.i)
            case "index", loop:
                index = self.loops[loop]
                return index if isinstance(index, self.cpp.Expr) else index.get()
            case "cast", dtype, operand:
                return self.cpp.cast(dtype, self.value(operand))
            case "select", *operands:
                return self.cpp.select(*map(self.value, operands))
            case operator, operand:
                return self.cpp.unary(operator, self.value(operand))
            case operator, a, b:
                return self.cpp.binary(operator, self.value(a), self.value(b))

    def block(self, block):
        for statement in block:
            self.statement(statement)

    def statement(self, statement):
        match statement:
            case "set", name, ("cast", _, e):
                self.variables[name].set(self.value(e))
            case "store", array, e:
                self.arrays[array].set(self.i, self.value(e))
            case "add", array, e:
                self.arrays[array].add(self.i, self.value(e))
            case "if", condition, then, otherwise:
                bodies = [lambda b=b: self.block(b) for b in (then, otherwise) if b]
                self.cpp.if_(self.value(condition), *bodies)
            case "for", loop, *bounds, body:
                self.cpp.for_(*map(self.cpp.Expr, bounds), lambda k: self.inside(loop, k, body))
            case "while", loop, limit, condition, body:
                self.while_(loop, limit, condition, body)
            case (leave,):
                getattr(self.cpp, leave + "_")()

    def inside(self, loop, index, body):
        self.loops[loop] = index
        self.block(body)

    def while_(self, loop, limit, condition, body):
        counter = self.loops[loop] = self.cpp.Var_int64(self.cpp.Expr(0))
        go_on = "and", ("<", ("index", loop), ("lit", limit)), condition

        def one_pass():
            counter.set(self.cpp.binary("+", counter.get(), self.cpp.Expr(1)))
            self.block(body)

        self.cpp.while_(lambda: self.value(go_on), one_pass)
