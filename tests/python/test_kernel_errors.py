"""What the kernel language refuses: where the error points, and what it says to write instead."""

import functools
import itertools
import linecache
import math
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from launcher import Launcher

import tack

pytestmark = pytest.mark.usefixtures("backend")

_numbers = itertools.count()


def define(text, **names):
    """Runs the text as a file of its own, whose lines can be read; returns its names."""
    text = textwrap.dedent(text).lstrip("\n")
    file = f"<kernel {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace = {"tack": tack, "math": math, "np": np, **names}
    exec(compile(text, file, "exec"), namespace)
    return namespace


def error_of(text, **names):
    """The message of the error that defining and launching the kernel `k` raises."""
    with pytest.raises(tack.CompileError) as caught:
        Launcher(define(text, **names)["k"])(np.zeros(8), 3)
    return str(caught.value)


def error_of_body(body, **names):
    header = "@tack.kernel\ndef k(x, n):\n"
    return error_of(header + textwrap.indent(textwrap.dedent(body).strip("\n"), "    "), **names)


def in_loop(statement):
    return "for i in range(n):\n" + textwrap.indent(statement, "    ")


def test_an_error_gives_file_line_column_the_line_and_a_caret():
    message = error_of_body("for i in range(n):\n    x[i] = [1, 2]")
    assert re.fullmatch(
        r"<kernel \d+>:4:16: error: a list cannot be used in a kernel; .*\n"
        r"    x\[i\] = \[1, 2\]\n"
        r"           \^",
        message,
    )


def test_a_column_counts_characters_not_bytes():
    line, caret = error_of_body("häßlich = 'text'").splitlines()[1:]
    assert line[caret.index("^")] == "'"


def test_an_error_in_a_device_function_points_into_it():
    message = error_of(
        """
        @tack.func
        def f(v):
            return [v]

        @tack.kernel
        def k(x, n):
            for i in range(n):
                x[i] = f(i)
        """
    )
    assert ":3:12: error: a list" in message and "return [v]" in message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("y = [v for v in x]", ["a list comprehension", "for loop"]),
        ("y = {v for v in x}", ["a set comprehension", "for loop"]),
        ("y = {v: 1 for v in x}", ["a dict comprehension", "for loop"]),
        ("y = sum(v for v in x)", ["'sum'", "tack.atomic_add"]),
        ("y = [1, 2]", ["a list", "local variables"]),
        ("y = {1: 2}", ["a dict", "local variables"]),
        ("y = {1, 2}", ["a set", "local variables"]),
        ("y = 1, 2", ["a tuple as a value", "one variable for each"]),
        ("a, *b = 1, 2", ["a starred expression", "each element"]),
        ("y = 'text'", ["a string"]),
        ("y = b'text'", ["a bytes object", "uint8"]),
        ("y = f'{n}'", ["an f-string", "after the launch"]),
        ("y = 2j", ["a complex number", "imaginary"]),
        ("y = None", ["None"]),
        ("f = lambda v: v", ["a lambda", "@tack.func"]),
        ("if (y := n) > 1:\n    pass", ["assignment expression", "before"]),
        ("with x:\n    pass", ["a with statement", "before or after the launch"]),
        ("try:\n    pass\nexcept ValueError:\n    pass", ["a try statement", "if"]),
        ("raise ValueError", ["raise", "after the launch"]),
        ("assert n", ["assert", "after the launch"]),
        ("match n:\n    case 1:\n        pass", ["a match statement", "elif"]),
        ("def f():\n    pass", ["a nested function", "@tack.func"]),
        ("class A:\n    pass", ["a class"]),
        ("global g", ["global", "array parameter"]),
        ("import os", ["an import", "outside the kernel"]),
        ("del n", ["del"]),
        ("yield n", ["yield", "array"]),
        ("print(n)", ["'print'", "after the launch"]),
        ("while n:\n    pass\nelse:\n    pass", ["else after while", "before break"]),
        ("for i in range(n):\n    pass\nelse:\n    pass", ["else after for", "before break"]),
        ("n == 3", ["no effect"]),
        ("y: tack.float32", ["type from its value"]),
    ],
)
def test_unsupported_syntax_is_named_with_what_to_write_instead(body, words):
    message = error_of_body(body)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("x[1:3] = 0", ["a slice", "one element at a time"]),
        ("x[:] = 0", ["a slice", "one element at a time"]),
        ("x[...] = 0", ["'...'", "one element at a time"]),
        ("x[i][0] = 1", ["x[i, j] for x[i][j]"]),
        ("x[i] = x @ x", ["the operator @", "loop"]),
        ("x[i] = n is None", ["is", "write =="]),
        ("x[i] = n in (1, 2)", ["in", "compare with =="]),
        ("x[i] = x.sum()", ["'x.sum'", "loop over the elements"]),
        ("x[i] = x.astype(int)", ["'x.astype'", "tack.float32(x[i])"]),
        ("x[i] = x.T", ["no attribute 'T'", "shape[axis]"]),
        ("x[i] = x.shape", ["'x.shape' is a tuple", "x.shape[0]"]),
        ("x[i] = x.shape[i]", ["x.shape", "constant"]),
        ("a, b = x.shape", ["'x' has 1 dimension", "unpacked into 2"]),
        ("x[i] = max(n, key=n)", ["keyword argument 'key' of max()", "by position"]),
        ("x[i] = max(x)", ["two or more numbers", "loop"]),
        ("x[i] = divmod(i, 2)", ["q, r = divmod(a, b)"]),
        ("x[i] = round(n, 2)", ["one number", "round(x * 100) / 100"]),
        ("x[i] = math.gcd(n, n)", ["'math.gcd'", "as a loop", "kernels have"]),
        ("x[i] = math.isclose(n, n)", ["'math.isclose'", "abs(a - b) <= tolerance", "sqrt"]),
        ("x[i] = math.sinn(n)", ["no attribute 'sinn'", "did you mean 'sin'?"]),
        ("x[i] = math.sin(n, n)", ["math.sin() takes 1 argument, not 2"]),
        ("x[i] = np.sin(n)", ["'np.sin'", "write math.sin"]),
        ("x[i] = k(x, n)", ["'k'", "a kernel cannot launch another", "@tack.func"]),
        ("x[i] = plain(n)", ["'plain'", "decorate it with @tack.func"]),
        ("x[i] = colour", ["'colour' is not defined", "did you mean 'color'?"]),
        ("a, b = i", ["2 targets need 2 values"]),
        ("n.value = 3", ["'n.value' cannot be assigned"]),
        ("tack.atomic_add(x[i], 1)", ["takes 3 arguments, not 2"]),
        ("tack.atomic_add(x[i], 1, 2)", ["tack.atomic_add(x, i, 2)"]),
        ("y = 1\ny[0] = 2", ["'y' is a local variable", "array parameter"]),
        ("for v in x:\n    pass", ["range(len(x))", "x[i]"]),
        ("for j, v in enumerate(x):\n    pass", ["range(len(x))", "x[i]"]),
        ("for a, b in zip(x, x):\n    pass", ["range(len(x))", "y[i]"]),
        ("for j in tack.ndrange(2, 3):\n    pass", ["1 loop variables for 2 axes"]),
        ("for j, j in tack.ndrange(2, 3):\n    pass", ["variable of its own"]),
        ("for j in range():\n    pass", ["a range takes"]),
        ("for a, b in tack.ndrange(2, 3):\n    break", ["break", "nested loops over range"]),
    ],
)
def test_a_mistake_in_an_iteration_is_named_with_what_to_write_instead(statement, words):
    message = error_of_body(in_loop(statement), plain=lambda v: v, color=3)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("index", "advice"),
    [("-1", "x.shape[0] - 1"), ("i, -2", "x.shape[1] - 2"), ("LAST", "x.shape[0] - 1")],
)
def test_a_negative_constant_index_is_refused_with_the_way_to_write_it(index, advice):
    for statement in (f"x[{index}] = 0", f"y = x[{index}]", f"tack.atomic_add(x, ({index}), 1)"):
        assert f"write {advice}" in error_of_body(in_loop(statement), LAST=-1)


@pytest.mark.parametrize("statement", ["x[0] = 1", "x[0] += 1", "tack.atomic_add(x, 0, 1)"])
def test_memory_is_not_written_outside_parallel_loops(statement):
    message = error_of_body(statement)
    assert "outside a parallel loop" in message
    assert "for i in range(1)" in message and "tack.atomic_add" in message


def test_a_device_function_that_stores_is_not_called_outside_parallel_loops():
    message = error_of(
        """
        @tack.func
        def clear(x):
            x[0] = 0

        @tack.kernel
        def k(x, n):
            clear(x)
        """
    )
    assert "clear() stores to memory outside a parallel loop" in message


def test_a_store_in_a_loop_under_a_branch_is_told_that_only_outer_loops_are_parallel():
    message = error_of_body("if n > 0:\n    for i in range(n):\n        x[i] = 1")
    assert "only loops at the kernel's top level are parallel" in message


def test_break_in_a_parallel_loop_is_refused_at_its_line():
    """taichi-dev/taichi#4223"""
    message = error_of_body("for i in range(n):\n    if x[i] > 1:\n        break")
    assert ":5:" in message and "parallel loop" in message and "continue" in message


@pytest.mark.parametrize("statement", ["s += x[i]", "s = 1", "n = 1", "s, t = 1, 2"])
def test_assigning_a_variable_from_outside_a_parallel_loop_shows_the_right_way(statement):
    message = error_of_body("s = 0\n" + in_loop(statement))
    assert "from outside this parallel loop" in message
    assert "tack.atomic_add" in message and "new variable" in message


def test_a_parallel_loop_needs_a_loop_variable_of_its_own():
    assert "'n' has a value from before" in error_of_body("for n in range(3):\n    pass")


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(n):\n    x[i] = t\n    t = 1",
        "for i in range(n):\n    if n > 1:\n        t = 1\n    x[i] = t",
        "for i in range(n):\n    for t in range(n):\n        pass\n    x[i] = t",
        "for i in range(n):\n    while x[i] > 1:\n        t = 1\n    x[i] = t",
    ],
)
def test_a_variable_that_may_have_no_value_is_not_read(body):
    """triton-lang/triton#11439"""
    message = error_of_body(body)
    assert "'t'" in message and "assigned" in message


def test_a_variable_of_an_iteration_ends_with_its_loop():
    message = error_of_body("for i in range(n):\n    t = 1\ns = t")
    assert "'t' has a value only inside the parallel loop" in message


def test_a_kernel_returns_nothing():
    assert "store the result to an array" in error_of_body("return n")
    assert "write continue" in error_of_body(in_loop("return"))


def test_an_array_parameter_is_not_assigned():
    assert "store to its elements, as in x[i] = value" in error_of_body(in_loop("x[i] = 1\nx = 2"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(3), ["ndarray", "as a parameter"]),
        ([1, 2], ["list", "a tuple of numbers"]),
        ("text", ["str", "int, float, bool and NumPy scalars"]),
        (None, ["NoneType"]),
        (1j, ["complex"]),
        (math.sin, ["builtin_function", "call it"]),
    ],
)
def test_a_captured_value_that_is_no_number_is_refused_with_its_name_and_type(value, words):
    message = error_of_body(in_loop("x[i] = captured"), captured=value)
    assert "'captured' is of type" in message and all(word in message for word in words), message


def test_an_attribute_of_a_captured_object_is_refused():
    message = error_of_body(in_loop("x[i] = options.scale"), options=slice(1))
    assert "attribute 'scale' of 'options'" in message and "slice" in message


def test_a_captured_tuple_is_indexed_by_constants_only():
    assert "must be a constant" in error_of_body(in_loop("x[i] = W[i]"), W=(1, 2))
    assert "a tuple of 2 elements" in error_of_body(in_loop("x[i] = W[2]"), W=(1, 2))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("x, n=3", ["no default values"]),
        ("*x", ["'x' takes any number of arguments"]),
        ("**x", ["'x' takes any number of arguments"]),
        ("*, x", ["'x' is keyword-only"]),
        ("self, x", ["a method cannot be compiled", "leave out 'self'"]),
    ],
)
@pytest.mark.parametrize("decorator", ["kernel", "func"])
def test_a_signature_that_kernels_cannot_have_is_refused(decorator, parameters, words):
    text = f"""
    @tack.{decorator}
    def f({parameters}):
        pass

    @tack.kernel
    def k(x, n):
        f(x, n)
    """
    message = error_of(text)
    assert all(word in message for word in words), message


def test_a_kernel_with_a_refused_signature_is_refused_when_it_is_defined():
    with pytest.raises(tack.CompileError, match="no default values"):
        define("@tack.kernel\ndef k(x, n=3):\n    pass\n")


def test_async_kernels_are_refused():
    with pytest.raises(tack.CompileError, match=r"async def.*write def"):
        define("@tack.kernel\nasync def k(x):\n    pass\n")


def test_a_lambda_is_refused():
    with pytest.raises(tack.CompileError, match=r"a lambda cannot be compiled; write .* def"):
        tack.kernel(lambda x: x)


def test_recursion_is_refused_naming_the_cycle():
    """taichi-dev/taichi#346"""
    message = error_of(
        """
        @tack.func
        def even(v):
            return odd(v - 1) if v > 0 else 1

        @tack.func
        def odd(v):
            return even(v - 1) if v > 0 else 0

        @tack.kernel
        def k(x, n):
            for i in range(n):
                x[i] = even(i)
        """
    )
    assert "recursion: even -> odd -> even" in message and "write a loop" in message
    assert ":7:" in message


def test_a_device_function_with_a_value_on_some_paths_only_is_refused():
    message = error_of(
        """
        @tack.func
        def f(v):
            if v > 1:
                return v

        @tack.kernel
        def k(x, n):
            for i in range(n):
                x[i] = f(i)
        """
    )
    assert "'f' may end without" in message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("x[i] = nothing(i)", ["nothing() returns nothing"]),
        ("x[i] = twice(i, i)", ["twice() takes 1 argument, not 2"]),
    ],
)
def test_a_call_that_does_not_fit_a_device_function_is_refused(body, words):
    functions = define(
        """
        @tack.func
        def nothing(v):
            pass

        @tack.func
        def twice(v):
            return 2 * v
        """
    )
    names = {name: functions[name] for name in ("nothing", "twice")}
    message = error_of_body(in_loop(body), **names)
    assert all(word in message for word in words), message


def test_a_statement_nested_too_deeply_is_refused():
    body = in_loop("x[i] = " + "-" * 90 + "i" + " + i" * 800)
    assert "assign parts of it to variables" in error_of_body(body)


def test_an_effect_that_may_not_happen_cannot_be_moved_before_its_statement():
    message = error_of_body(in_loop("y = n > 1 and 0 < tack.atomic_add(x, 0, 1) < 2"))
    assert "assign it to a variable first" in message


def test_code_without_source_says_why_there_is_none():
    """taichi-dev/taichi#2217"""
    namespace = {"tack": tack}
    exec("@tack.kernel\ndef k(x):\n    pass\n", namespace)
    with pytest.raises(tack.CompileError) as caught:
        Launcher(namespace["k"])(np.zeros(3))
    message = str(caught.value)
    assert "the text of 'k' cannot be read" in message
    assert "notebook cell" in message and "linecache" in message


def test_a_kernel_from_a_pyc_alone_says_that_there_is_no_source(tmp_path):
    """taichi-dev/taichi#2217"""
    source = tmp_path / "only_compiled.py"
    source.write_text("import tack\n\n@tack.kernel\ndef k(x):\n    pass\n")
    script = (
        "import py_compile, os, sys\n"
        f"py_compile.compile({str(source)!r}, cfile={str(source) + 'c'!r})\n"
        f"os.remove({str(source)!r})\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import numpy, tack, only_compiled\n"
        "try:\n    only_compiled.k(numpy.zeros(3))\n"
        "except tack.CompileError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "the text of 'k' cannot be read" in done.stdout, done.stderr


def test_a_file_changed_since_it_was_loaded_is_not_compiled(tmp_path):
    file = tmp_path / "changed.py"
    file.write_text("# the kernel was here\n\n\n")
    namespace = {"tack": tack}
    exec(compile("@tack.kernel\ndef k(x):\n    pass\n", str(file), "exec"), namespace)
    with pytest.raises(tack.CompileError, match="the file has changed since it was loaded"):
        Launcher(namespace["k"])(np.zeros(3))


def test_the_same_error_comes_at_every_launch():
    """NVIDIA/warp#1713"""
    kernel = define("@tack.kernel\ndef k(x):\n    for i in range(3):\n        x[i] = [i]\n")["k"]
    kernel, x, messages = Launcher(kernel), np.ones(3), set()
    for _ in range(3):
        with pytest.raises(tack.CompileError) as caught:
            kernel(x)
        messages.add(str(caught.value))
    assert len(messages) == 1 and (x == 1).all()


def test_an_unknown_option_is_a_type_error_naming_the_known_ones():
    with pytest.raises(TypeError, match=r"unknown option 'fastmath'; .* fast_math"):
        tack.kernel(fastmath=True)


@pytest.mark.parametrize("decorator", [tack.kernel, tack.func])
@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (3, "expected a Python function, got int"),
        (math.sin, "expected a Python function, got builtin_function_or_method"),
        (staticmethod(lambda: 0), "write @staticmethod above"),
        (functools.partial(print), "expected a Python function, got partial"),
    ],
)
def test_decorating_what_is_no_function_is_a_type_error(decorator, thing, words):
    with pytest.raises(TypeError, match=words):
        decorator(thing)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ndrange", (3,)),
        *((f"atomic_{op}", ([0], 0, 1)) for op in ("add", "min", "max")),
        ("random", (0, 1)),
        ("vector", (0, 1)),
        ("matrix", ((0, 1), (1, 0))),
        *((name, (0, 1)) for name in ("dot", "cross")),
        ("length", (0,)),
    ],
)
def test_what_belongs_into_kernels_says_so_outside_them(name, arguments):
    with pytest.raises(TypeError, match=rf"tack\.{name} works inside a @tack\.kernel"):
        getattr(tack, name)(*arguments)
