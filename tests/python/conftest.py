"""Which tests run: `--scope` and the markers `partner` and `slow`."""

import importlib.util
from collections import Counter

import pytest

# What ./dev test installs; the other partners come with ./dev test --all.
CORE_PARTNERS = {"matplotlib", "ml_dtypes", "numpy", "nvidia", "pyvista", "torch", "tvm_ffi", "vtk"}

skipped_partners = pytest.StashKey[Counter]()


def pytest_addoption(parser):
    parser.addoption(
        "--scope",
        choices=["core", "rest", "all"],
        default="core",
        help="core: no slow tests, core partners only; rest: what core leaves out; all: both",
    )


def needed_partners(item):
    return {mark.args[0] for mark in item.iter_markers("partner")}


def is_core(item):
    return item.get_closest_marker("slow") is None and needed_partners(item) <= CORE_PARTNERS


def pytest_collection_modifyitems(config, items):
    config.stash[skipped_partners] = Counter()
    if config.getoption("scope") == "rest":
        config.hook.pytest_deselected(items=[item for item in items if is_core(item)])
        items[:] = [item for item in items if not is_core(item)]
    for item in items:
        if config.getoption("scope") == "core" and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: ./dev test --all runs it"))
        for name in sorted(needed_partners(item)):
            if importlib.util.find_spec(name) is None:
                how = "./dev test" if name in CORE_PARTNERS else "./dev test --all"
                item.add_marker(pytest.mark.skip(reason=f"needs {name}: {how} installs it"))
                config.stash[skipped_partners][name] += 1


def pytest_terminal_summary(terminalreporter, config):
    for name, count in sorted(config.stash[skipped_partners].items()):
        terminalreporter.line(f"Partner {name} is not installed: {count} of its tests skipped.")
