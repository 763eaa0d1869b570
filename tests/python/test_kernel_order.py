"""Operands and arguments are evaluated from left to right, and once, as in Python.

Each kernel runs one iteration in which a counter hands out numbers; the order shows in them.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernel_support import define

import tack

pytestmark = pytest.mark.usefixtures("backend")

PREAMBLE = """
@tack.func
def count(c):
    return tack.atomic_add(c, 0, 1)

@tack.func
def pair(a, b):
    return 10 * a + b

@tack.func
def store(c, v):
    c[1] = v
    return v

@tack.kernel
def kernel(c, x, out):
    for i in range(1):
"""


def run_once(statements):
    """The counter and the results of statements that count with count(c)."""
    kernel = define(PREAMBLE + "".join(f"        {line}\n" for line in statements.split("\n")))
    c, x, out = np.zeros(4, np.int64), np.arange(8), np.full(8, -1)
    kernel(c, x, out)
    return c.tolist(), out.tolist()


def as_python(statements):
    """What Python makes of the same statements."""
    c, x, out = [0] * 4, list(range(8)), [-1] * 8

    def atomic_add(array, index, value):
        old = array[index]
        array[index] += value
        return old

    class Tack:
        kernel = func = staticmethod(lambda f: f)

    Tack.atomic_add = staticmethod(atomic_add)
    scope = {"tack": Tack}
    text = PREAMBLE + "".join(f"        {line}\n" for line in statements.split("\n"))
    exec(text, scope)
    scope["kernel"](c, x, out)
    return [int(v) for v in c], [int(v) for v in out]


@pytest.mark.parametrize(
    "statements",
    [
        "out[0] = 10 * count(c) + 100 * count(c) + 1000 * count(c)",
        "out[0] = pair(count(c), count(c))",
        "out[0] = pair(pair(count(c), count(c)), count(c))",
        "out[0] = max(10 * count(c), 5 - count(c), 2 * count(c))",
        "out[0] = c[0] - 10 * count(c) + 100 * c[0]",
        "out[0] = 10 * c[0] + count(c) + 100 * c[0]",
        "out[count(c)] = count(c) + 5",
        "out[count(c) + 1] = c[0]",
        "out[0] = 2 * store(c, 7) + c[1]",
        "out[0] = c[1] + 2 * store(c, 7)",
        "out[0] = 5 + count(c)",
        "out[0] = x[count(c) + count(c)] * 10 + count(c)",
        "out[0] = tack.atomic_add(c, count(c) + 1, count(c)) + c[1]",
        "out[0] = count(c) - 1 if count(c) * 2 + count(c) > 0 else 5",
        "out[0] = 10 * count(c) + count(c) if x[0] > 0 else 20 * count(c) - count(c)",
        "out[0] = c[0] + (7 * count(c) - count(c) if x[1] > 0 else 0)",
        "out[0] = x[1] > 3 and count(c) - count(c) < 0",
        "out[0] = x[1] < 3 and count(c) - count(c) < 0",
        "out[0] = x[1] < 3 or count(c) - count(c) < 0",
        "out[0] = x[1] > 3 or count(c) - count(c) > 0",
        "out[0] = (count(c) < count(c)) + 2 * (c[0] == 2)",
        "while 3 * count(c) - 2 * count(c) < 4:\n    out[0] = c[0]\nout[1] = c[0]",
        "while count(c) < 4 and count(c) < 3:\n    if c[0] < 3:\n        continue\n    out[0] = 5",
        "for k in range(count(c) + 1, count(c) + 4, count(c) - 1):\n    out[k] = 10 * k + count(c)",
        "if count(c) > count(c):\n    out[0] = 1\nelif 2 * count(c) > count(c):\n    out[0] = c[0]",
        "a = 2 * count(c) + 3 * count(c)\nout[0], out[1] = a, count(c)",
        "out[count(c)] += 3 * count(c) + count(c)",
        "store(c, count(c) + 10 * count(c))",
    ],
)
def test_effects_happen_from_left_to_right_as_in_python(statements):
    assert run_once(statements) == as_python(statements)


def test_what_is_evaluated_before_an_effect_keeps_its_dtype():
    """Moving an operand into a variable of its own does not make a weak number strong."""
    kernel = define(
        "@tack.kernel\n"
        "def kernel(c, x, out):\n"
        "    for i in range(1):\n"
        "        out[0] = (2 if c[0] == 0 else 3) * x[0] + tack.atomic_add(c, 0, 1) * 0.0\n"
        "        out[1] = x[0] * 0.1 + tack.float32(tack.atomic_add(c, 0, 1)) * 0.1\n"
    )
    c, x, out = np.zeros(1, np.int32), np.array([0.7], np.float32), np.empty(2)
    kernel(c, x, out)
    assert out[0] == float(2 * np.float32(0.7))
    assert out[1] == float(np.float32(0.7) * np.float32(0.1) + np.float32(0.1))


def test_an_expression_without_effects_stays_one_expression():
    kernel = define(
        "@tack.kernel\n"
        "def kernel(c, x):\n"
        "    for i in range(1):\n"
        "        x[i] = x[i] * x[i + 1] + (x[2] if x[3] > 0 and x[4] > 0 else 5)\n"
        "        x[0] = 2 + tack.atomic_add(c, 0, 1)\n"
    )
    text = kernel.inspect(tack.zeros(4, tack.int32), tack.zeros(8), mode="ir")
    assert "\n        t" not in text
