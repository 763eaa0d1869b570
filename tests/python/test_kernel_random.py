"""tack.random: the published vectors of Philox4x32-10, and what its users rely on."""

import numpy as np
import pytest
from launcher import kernel
from test_kernel_errors import error_of_body, in_loop

import tack

pytestmark = pytest.mark.usefixtures("backend")

# Random123's known answers for philox4x32-10: counter, key, output.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb"),
]


def words(text):
    return [int(word, 16) for word in text.split()]


@kernel
def one(seed, i, j, single, double):
    for _ in range(1):
        single[0] = tack.random(seed, i, j)
        double[0] = tack.random(seed, i, j, dtype=tack.float64)


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_the_published_vectors_come_out(counter, key, output):
    c, k, out = words(counter), words(key), words(output)
    single, double = np.zeros(1, np.float32), np.zeros(1)
    one(k[0] | k[1] << 32, c[0] | c[1] << 32, c[2] | c[3] << 32, single, double)
    assert single[0] * 2**24 == out[0] >> 8
    assert double[0] * 2**53 == (out[0] | out[1] << 32) >> 11


def philox(key, i, j=0):
    """The first 64 bits of a block."""
    k = [key & 0xFFFFFFFF, key >> 32]
    c = [i & 0xFFFFFFFF, i >> 32, j & 0xFFFFFFFF, j >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0] | c[1] << 32


@kernel
def many(seed, out):
    for i in range(len(out)):
        out[i, 0] = tack.random(seed, i, dtype=tack.float64)
        out[i, 1] = tack.random(seed, i, 1, dtype=tack.float64)
        out[i, 2] = tack.random(seed, i, 1, 2, dtype=tack.float64)
        out[i, 3] = tack.random(seed, i, 1, 2, 3, dtype=tack.float64)


def test_further_indices_are_counters_under_the_block_before_as_key():
    out = np.zeros((20, 4))
    many(99, out)
    for i, row in enumerate(out):
        pair = philox(99, i, 1)
        blocks = philox(99, i), pair, philox(pair, 2), philox(pair, 2, 3)
        assert row.tolist() == [(block >> 11) / 2**53 for block in blocks]


@kernel
def fill(seed, out):
    for i in range(len(out)):
        out[i] = tack.random(seed, i)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_are_uniform_in_0_to_1(dtype):
    out = np.zeros(200_000, dtype)
    fill(7, out)
    assert 0 <= out.min() and out.max() < 1
    counts = np.histogram(out, 100, (0, 1))[0]
    # A chi-square of 99 degrees of freedom; the numbers are the same at every run.
    assert 60 < ((counts - 2000) ** 2 / 2000).sum() < 150


def test_the_numbers_depend_on_seed_and_index_and_not_on_the_threads():
    first, again, other, part = (np.zeros(100_000, np.float32) for _ in range(4))
    threads = tack.num_threads()
    fill(1, first)
    tack.set_num_threads(1)
    try:
        fill(1, again)
    finally:
        tack.set_num_threads(threads)
    fill(2, other)
    fill(1, part[:10])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(part[:10], first[:10])
    assert (first == other).mean() < 0.001


@kernel
def narrow(x, out):
    for i in range(len(x)):
        out[i] = x[i] * tack.random(x[i] + 0, i)


def test_integers_of_any_dtype_are_seeds_and_the_result_is_float32():
    x, out, reference = np.array([-3], np.int8), np.zeros(1), np.zeros(1)
    narrow(x, out)
    fill(-3, reference)
    assert out[0] == np.float32(-3) * np.float32(reference[0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("tack.random(n)", ["a seed and one index or more", "tack.random(seed, i)"]),
        ("tack.random(n, i, dtype=tack.int32)", ["tack.float32 or tack.float64"]),
        ("tack.random(n, i, seed=3)", ["keyword argument 'seed'"]),
        ("tack.random(n, x[i])", ["random() takes integers, not a float64", "int(...)"]),
    ],
)
def test_a_mistake_in_a_call_is_named(call, words):
    message = error_of_body(in_loop(f"x[i] = {call}"))
    assert all(word in message for word in words), message


@kernel
def rounded(x, out):
    for i in range(len(x)):
        out[i] = round(x[i])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_round_is_to_the_nearest_half_to_even_in_the_same_dtype(dtype):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.49, 1e4]).astype(dtype)
    out = np.zeros(len(x))
    rounded(x, out)
    np.testing.assert_array_equal(out, np.round(x))
    assert np.signbit(out[3]) == np.signbit(np.round(x[3]))
