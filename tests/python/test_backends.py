"""The table of what the suites leave out on a backend, tests/python/backends.py."""

import fnmatch
import re
from pathlib import Path

import backends
import pytest

PATTERNS = [p.strip() for rows in backends.SKIPS.values() for p in rows.split("\n") if p.strip()]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_row_names_tests_that_run_on_every_backend(pattern):
    module, name = pattern.partition("[")[0].split("::")
    text = (Path(__file__).parent / f"{module}.py").read_text()
    assert 'usefixtures("backend")' in text
    assert fnmatch.filter(re.findall(r"^def (test_\w+)", text, re.MULTILINE), name)


def test_the_cpp_suites_leave_tests_out_for_the_same_reasons():
    source = (Path(__file__).parents[1] / "cpp" / "backends.cpp").read_text()
    reasons = re.findall(r'^constexpr const char\* \w+ = "(.*)";', source, re.MULTILINE)
    assert len(reasons) == 4
    assert set(reasons) <= {reason for _, reason in backends.SKIPS}


def test_nothing_is_left_out_on_the_cpu():
    for pattern in PATTERNS:
        module, name = pattern.split("::")
        assert backends.reason_to_skip("cpu", module, name) is None


def test_a_pattern_with_a_bracket_is_one_of_parameters():
    module, name = "test_kernel_math", "test_a_float64_function_is_within_the_backends_limit"
    assert backends.reason_to_skip("cuda", module, f"{name}[cuda-lgamma]")
    assert backends.reason_to_skip("cuda", module, f"{name}[cuda-gamma]") is None
