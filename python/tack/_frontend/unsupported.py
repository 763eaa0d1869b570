"""What the kernel language leaves out, and what to write instead."""

from __future__ import annotations

_LOOP = "write a for loop that assigns a variable or stores elements"
_OUTSIDE = "do it before or after the launch"
_MODULE_LEVEL = "write it outside the kernel, decorated with @tack.func"

# ast node -> (its name, the way to write it in a kernel)
SYNTAX = {
    "ListComp": ("a list comprehension", _LOOP),
    "SetComp": ("a set comprehension", _LOOP),
    "DictComp": ("a dict comprehension", _LOOP),
    "GeneratorExp": ("a generator expression", _LOOP),
    "List": ("a list", "use local variables, or an array parameter"),
    "Set": ("a set", "use local variables, or an array parameter"),
    "Dict": ("a dict", "use local variables, or an array parameter"),
    "Tuple": ("a tuple as a value", "use one variable for each element"),
    "Starred": ("a starred expression", "write out each element"),
    "JoinedStr": ("an f-string", "store numbers to an array and format them after the launch"),
    "Lambda": ("a lambda", _MODULE_LEVEL),
    "NamedExpr": ("an assignment expression (:=)", "assign in a statement of its own, before"),
    "Slice": ("a slice", "index one element at a time in a loop"),
    "Await": ("await", _OUTSIDE),
    "Yield": ("yield", "store each value to an array"),
    "YieldFrom": ("yield from", "store each value to an array"),
    "With": ("a with statement", _OUTSIDE),
    "AsyncWith": ("an async with statement", _OUTSIDE),
    "AsyncFor": ("an async for loop", "write for"),
    "Try": ("a try statement", "test for the condition with if; kernels raise nothing"),
    "TryStar": ("a try statement", "test for the condition with if; kernels raise nothing"),
    "Raise": ("raise", "store a status to an array and test it after the launch"),
    "Assert": ("assert", "store a status to an array and test it after the launch"),
    "Match": ("a match statement", "write if, elif and else"),
    "FunctionDef": ("a nested function", _MODULE_LEVEL),
    "AsyncFunctionDef": ("a nested async function", _MODULE_LEVEL),
    "ClassDef": ("a class", "use local variables and array parameters"),
    "Global": ("global", "pass an array parameter and store to it"),
    "Nonlocal": ("nonlocal", "pass an array parameter and store to it"),
    "Import": ("an import", "write it outside the kernel"),
    "ImportFrom": ("an import", "write it outside the kernel"),
    "Delete": ("del", "leave it out; variables end with their loop"),
    "TypeAlias": ("a type alias", "write it outside the kernel"),
}

OPERATORS = {
    "MatMult": ("the operator @", "write the sum of products in a loop"),
    "Is": ("is", "write =="),
    "IsNot": ("is not", "write !="),
    "In": ("in", "compare with == in a loop"),
    "NotIn": ("not in", "compare with != in a loop"),
}

_FUNCTION = "write it in a @tack.func function, as a loop"

MATH = {
    "comb": _FUNCTION,
    "dist": "write tack.length(u - v) of two vectors",
    "factorial": "write math.gamma(n + 1)",
    "fma": "write x * y + z, which fast_math=True may contract",
    "frexp": "write math.floor(math.log2(abs(x))) for the exponent",
    "fsum": "add up in a for loop",
    "gcd": _FUNCTION,
    "isclose": "write abs(a - b) <= tolerance * max(abs(a), abs(b))",
    "isqrt": "write int(math.sqrt(n))",
    "lcm": _FUNCTION,
    "ldexp": "write x * 2.0 ** i",
    "modf": "write x - math.trunc(x) and math.trunc(x)",
    "perm": _FUNCTION,
    "prod": "multiply in a for loop",
    "remainder": "write x - y * round(x / y)",
    "sumprod": "add up in a for loop, or write tack.dot(u, v) of two vectors",
}

BUILTINS = {
    "print": "store to an array and print it after the launch",
    "sum": "add up in a for loop, or with tack.atomic_add",
    "any": _LOOP,
    "all": _LOOP,
    "range": "it stands in `for i in range(...)` only",
    "enumerate": "write `for i in range(len(x))` and read x[i]",
    "zip": "write `for i in range(len(x))` and read x[i] and y[i]",
    "complex": "use two arrays, of real and imaginary parts",
    "str": "format numbers after the launch",
    "isinstance": "types are settled for each launch; write one kernel for all of them",
    "open": _OUTSIDE,
    "input": _OUTSIDE,
}


def message(what, instead):
    return f"{what} cannot be used in a kernel; {instead}"
