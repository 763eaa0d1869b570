"""Vectors and matrices as local variables, and functions that return several values."""

import numpy as np
import pytest
from launcher import kernel
from test_kernel_errors import error_of, error_of_body, in_loop

import tack

pytestmark = pytest.mark.usefixtures("backend")

RNG = np.random.default_rng(4)


@kernel
def arithmetic(x, out):
    for i in range(len(x)):
        u = tack.vector(x[i, 0], x[i, 1], x[i, 2])
        v = -u + 2 * u // 3 - (u - 1) % 2
        v = v / 4 + u * u
        v -= u
        out[i, 0], out[i, 1], out[i, 2] = v


def test_operators_act_component_by_component_and_with_numbers():
    x, out = RNG.normal(size=(5, 3)), np.zeros((5, 3))
    arithmetic(x, out)
    np.testing.assert_array_equal(out, (-x + 2 * x // 3 - (x - 1) % 2) / 4 + x * x - x)


@kernel
def products(x, out):
    for _ in range(1):
        m = tack.matrix((x[0], x[1], x[2]), (x[3], x[4], x[5]))
        t = tack.matrix((x[0], x[3]), (x[1], x[4]), (x[2], x[5]))
        v = tack.vector(x[6], x[7], x[8])
        w = m @ v
        s = m @ t
        r = w @ m
        out[0], out[1] = w
        out[2], out[3], out[4], out[5] = s[0, 0], s[0, 1], s[1, 0], s[1, 1]
        out[6], out[7], out[8] = r
        out[9] = v @ v


def test_matrix_products_are_numpys():
    x, out = RNG.integers(-9, 9, 9).astype(float), np.zeros(10)
    products(x, out)
    m, v = x[:6].reshape(2, 3), x[6:]
    assert out.tolist() == [*(m @ v), *(m @ m.T).ravel(), *(m @ v @ m), v @ v]


@kernel
def geometry(x, out):
    for _ in range(1):
        u = tack.vector(x[0], x[1], x[2])
        v = tack.vector(x[3], x[4], x[5])
        out[0], out[1], out[2] = tack.cross(u, v)
        out[3] = tack.dot(u, v)
        out[4] = tack.length(u - v)
        out[5] = len(u)


def test_dot_cross_and_length_are_numpys():
    x, out = RNG.integers(-9, 9, 6).astype(float), np.zeros(6)
    geometry(x, out)
    u, v = x[:3], x[3:]
    assert out.tolist() == [*np.cross(u, v), u @ v, np.linalg.norm(u - v), 3]


@kernel
def elements(k, out):
    for i in range(len(out)):
        v = tack.vector(10, 20, 30)
        v[k[i]] += 1
        v[0] = v[0] + 5
        m = tack.matrix((1, 2), (3, 4))
        m[1, k[i]] = 9
        out[i, 0], out[i, 1], out[i, 2] = v
        out[i, 3] = v[k[i]]
        out[i, 4] = m[1, 0] * 10 + m[1, 1]
        out[i, 5] = m[k[i], 1]


def test_an_element_is_read_and_assigned_by_a_constant_or_a_computed_index():
    out = np.zeros((4, 6), dtype=int)
    elements(np.array([0, 1, 2, 7]), out)
    assert out.tolist() == [
        [16, 20, 30, 16, 94, 2],
        [15, 21, 30, 21, 39, 9],
        [15, 20, 31, 31, 34, 0],
        [15, 20, 30, 0, 34, 0],
    ]


@kernel
def common_type(x, n, out):
    for i in range(len(x)):
        v = tack.vector(1, x[i], n[i])
        out[i, 0] = v[0] / 3
        w = tack.vector(n[i], 2)
        w[1] = 0.5
        out[i, 1] = w[0] / 2


def test_all_components_have_the_type_that_they_have_together():
    x, out = np.ones(1, np.float32), np.zeros((1, 2))
    common_type(x, np.array([7], np.int8), out)
    assert out[0, 0] == np.float32(1) / np.float32(3)
    assert out[0, 1] == 3.5


@kernel
def swapped(out):
    for _ in range(1):
        u, v = tack.vector(1, 2), tack.vector(3, 4)
        u, v = v, u
        v = tack.vector(v[1], v[0])
        w = v
        w[0] = 9
        out[0], out[1] = u
        out[2], out[3] = v
        out[4] = w[0]


def test_vectors_are_values_and_the_right_side_comes_first():
    out = np.zeros(5)
    swapped(out)
    assert out.tolist() == [3, 4, 2, 1, 9]


@kernel
def escape_time(c, out):
    for i in range(len(c)):
        z, n = tack.vector(0.0, 0.0), 0
        while tack.dot(z, z) <= 4 and n < 50:
            z = tack.vector(z[0] * z[0] - z[1] * z[1], 2 * z[0] * z[1])
            z += tack.vector(c[i, 0], c[i, 1])
            n += 1
        out[i] = n


def test_vectors_change_in_loops_and_stand_in_their_conditions():
    c, out = np.array([[0.0, 0.0], [1.0, 0.0], [-0.75, 0.2]]), np.zeros(3)
    escape_time(c, out)
    expected = []
    for x, y in c:
        z, n = 0j, 0
        while z.real**2 + z.imag**2 <= 4 and n < 50:
            z, n = z * z + complex(x, y), n + 1
        expected.append(n)
    assert out.tolist() == expected


@kernel
def outside(x, out):
    shift = tack.vector(1, 2)
    shift[1] = 5
    for i in range(len(x)):
        moved = shift + x[i]
        out[i, 0], out[i, 1] = moved


def test_a_vector_from_outside_a_parallel_loop_is_seen_in_it():
    out = np.zeros((2, 2))
    outside(np.array([1.0, 10.0]), out)
    assert out.tolist() == [[2, 6], [11, 15]]


# functions


@tack.func
def reflected(v, normal):
    """Returns early."""
    if tack.dot(v, normal) >= 0:
        return v
    return v - 2 * tack.dot(v, normal) * normal


@tack.func
def ordered(a, b):
    if b < a:
        a, b = b, a
    return a, b


@tack.func
def eigen(m, count):
    v = tack.vector(1.0, 0.5)
    for _ in range(count):
        v = m @ v
        v /= tack.length(v)
    return tack.dot(v, m @ v), v


@kernel
def calls(x, out):
    for _ in range(1):
        out[0], out[1] = reflected(tack.vector(x[0], x[1]), tack.vector(0, 1))
        low, high = ordered(x[0], x[1])
        out[2], out[3] = low, high
        value, direction = eigen(tack.matrix((2.0, 1.0), (1.0, 2.0)), 60)
        out[4], out[5] = value, direction[0] - direction[1]
        w = 2 * reflected(tack.vector(x[0], x[1], x[1]), tack.vector(1, 0, 0)) + 1
        out[6], out[7], out[8] = w


def test_functions_take_and_return_vectors_and_several_values():
    out = np.zeros(9)
    calls(np.array([3.0, -2.0]), out)
    np.testing.assert_allclose(out, [3, 2, -2, 3, 3, 0, 7, -3, -3], rtol=0, atol=1e-12)


@tack.func
def counted(count, v):
    return tack.atomic_add(count, 0, 1), v


@kernel
def effects(count, out):
    for i in range(len(out)):
        old, w = counted(count, tack.vector(i, tack.atomic_add(count, 1, 1)))
        out[old] = w[0] + w[1]


def test_a_function_of_several_values_is_called_once():
    count, out = np.zeros(2, np.int64), np.zeros(1)
    effects(count, out)
    assert count.tolist() == [1, 1] and out[0] == 0


# mistakes


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("x[i] = tack.vector(1, 2)", ["a vector of 2 where a number", "assign it to a variable"]),
        ("v = tack.vector(1, 2)\nx[i] = v", ["a vector of 2", "v[0]"]),
        ("m = tack.matrix((1, 2), (3, 4))\nx[i] = abs(m)", ["a 2 x 2 matrix", "m[0, 0]"]),
        ("v = tack.vector(1)", ["a vector of 1", "2 to 4 numbers"]),
        ("v = tack.vector(1, 2, 3, 4, 5)", ["a vector of 5", "2 to 4 numbers"]),
        ("m = tack.matrix((1, 2), (3,))", ["equally many", "tack.matrix((a, b), (c, d))"]),
        ("m = tack.matrix(1, 2)", ["equally many", "tack.matrix((a, b), (c, d))"]),
        ("v = tack.vector(1, 2) + tack.vector(1, 2, 3)", ["a vector of 2 with a vector of 3"]),
        ("v = tack.vector(1, 2) @ tack.vector(1, 2, 3)", ["the sizes do not meet"]),
        ("v = tack.vector(1, 2)\nx[i] = v[2]", ["index 2 of 2", "0 to 1"]),
        ("v = tack.vector(1, 2)\nx[i] = v[-1]", ["index -1 of 2"]),
        ("v = tack.vector(1, 2)\nx[i] = v[0.5]", ["an index is an integer"]),
        ("v = tack.vector(1, 2)\nx[i] = v[0, 1]", ["1 indices, as in v[0]"]),
        ("m = tack.matrix((1, 2), (3, 4))\nx[i] = m[0]", ["2 indices, as in m[0, 1]"]),
        ("v = tack.vector(1, 2)\nv = 1", ["'v' is a vector", "another name"]),
        ("v = 1\nv = tack.vector(1, 2)", ["'v' is a number", "a vector of 2"]),
        ("v = tack.vector(1, 2)\nv = tack.vector(1, 2, 3)", ["a vector of 2", "a vector of 3"]),
        ("x[i] = tack.dot(tack.vector(1, 2), i)", ["a vector of 2 and a number"]),
        ("v = tack.cross(tack.vector(1, 2), tack.vector(1, 2))", ["two vectors of 3"]),
        ("x[i] = tack.length(i)", ["a number where a vector is needed"]),
        ("v = tack.vector(1, 2)\na, b, c = v", ["3 targets need 3 values"]),
        ("tack.vector(1, 2)", ["a vector of 2"]),
    ],
)
def test_a_mistake_with_a_vector_is_named(statement, words):
    message = error_of_body(in_loop(statement))
    assert all(word in message for word in words), message


def test_an_element_of_a_vector_from_outside_a_parallel_loop_is_not_assigned():
    message = error_of_body("v = tack.vector(1, 2)\n" + in_loop("v[0] = i"))
    assert "'v' comes from outside this parallel loop" in message


@pytest.mark.parametrize(
    ("body", "call", "words"),
    [
        ("return v, v", "x[i] = f(i)", ["returns 2 values", "a, b = f(...)"]),
        ("return v, v", "a, b, c = f(i)", ["3 targets need 3 values"]),
        ("if v > 1:\n        return v, v\n    return v", "x[i] = f(i)", ["as many values"]),
        ("return tack.vector(v, v)", "x[i] = f(i)", ["a vector of 2 where a number"]),
        ("return v, v", "y = n > 1 and f(i)", ["returns 2 values"]),
        ("return tack.vector(v, v)", "y = n > 1 and f(i)[0] > 1", ["to a variable first"]),
    ],
)
def test_a_call_of_a_function_of_several_values_must_take_them(body, call, words):
    message = error_of(
        f"""
@tack.func
def f(v):
    {body}

@tack.kernel
def k(x, n):
    for i in range(n):
        {call}
"""
    )
    assert all(word in message for word in words), message
