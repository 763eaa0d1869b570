"""Tack is imported once in a process: what is refused says so and does the first one no harm."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import {module} as interpreters

ATTEMPT = '''
import sys
sys.path[:] = {path!r}
try:
    import tack
except ImportError as error:
    assert "subinterpreters are not supported" in str(error), error
else:
    raise AssertionError("tack was imported")
'''

def attempt():
    one = interpreters.create()
    failed = interpreters.run_string(one, ATTEMPT)
    assert failed is None, failed
    interpreters.destroy(one)

{first}
import tack
array = tack.zeros(2)
attempt()
array[0] = 1
assert tack.asarray(array.numpy(), tack.float32).tolist() == [1, 0]
"""


@pytest.mark.parametrize("first", ["attempt()", ""], ids=["before", "after"])
def test_a_subinterpreter_is_refused_and_does_no_harm(first):
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    program = PROGRAM.format(module=module, path=sys.path, first=first)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_second_import_is_refused_and_does_no_harm():
    program = """
import sys, tack
first = dict(sys.modules)
for name in [name for name in first if name.startswith("tack")]:
    del sys.modules[name]
try:
    import tack as second
except ImportError as error:
    assert "loaded once" in str(error)
else:
    raise AssertionError
assert tack.asarray([1, 2], tack.float32).tolist() == [1, 2]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
