"""Atomic updates that many passes make of the same element, for each dtype that has them."""

import numpy as np
import pytest

import tack

pytestmark = pytest.mark.usefixtures("backend")

DTYPES = ["int32", "uint32", "int64", "uint64", "float32", "float64"]
UPDATES = {"add": np.add, "min": np.minimum, "max": np.maximum}


@tack.kernel
def update(cells, data):
    for i in range(len(data)):
        tack.atomic_add(cells, 0, data[i])
        tack.atomic_min(cells, 1, data[i])
        tack.atomic_max(cells, 2, data[i])


@tack.kernel
def add_for_old(cell, data, old):
    for i in range(len(data)):
        old[i] = tack.atomic_add(cell, 0, data[i])


@tack.kernel
def min_for_old(cell, data, old):
    for i in range(len(data)):
        old[i] = tack.atomic_min(cell, 0, data[i])


@tack.kernel
def max_for_old(cell, data, old):
    for i in range(len(data)):
        old[i] = tack.atomic_max(cell, 0, data[i])


WITH_OLD = {"add": add_for_old, "min": min_for_old, "max": max_for_old}


def values(dtype, count=3000):
    """Numbers over the dtype's range; floats whose sums are exact in any order."""
    random = np.random.default_rng(5)
    if dtype.startswith("float"):
        return (random.integers(-2000, 2000, count) / 4).astype(dtype)
    limits = np.iinfo(dtype)
    data = random.integers(limits.min, limits.max, count, dtype, endpoint=True)
    data[[7, 8]] = limits.min, limits.max
    return data


@pytest.mark.parametrize("dtype", DTYPES)
def test_updates_of_one_element_are_all_made(dtype):
    data = values(dtype)
    cells = tack.array(np.full(3, data[0]))
    update(cells, tack.array(data))
    total = np.append(data, data[0]).sum(dtype=dtype)
    assert cells.tolist() == [total, data.min(), data.max()]


@pytest.mark.parametrize("operation", UPDATES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_update_gives_the_element_that_the_one_before_it_left(dtype, operation):
    data = values(dtype)
    cell, old = tack.array(data[:1]), tack.zeros(len(data), dtype)
    WITH_OLD[operation](cell, tack.array(data), old)
    old = old.numpy()
    left = UPDATES[operation](old, data)
    assert left.dtype == dtype
    # Whatever their order, what the updates left is what they found, but for the two ends.
    assert np.array_equal(np.sort([*left, data[0]]), np.sort([*old, cell[0]]))
