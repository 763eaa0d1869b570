"""Which tests run: `--scope`, the markers `partner` and `slow`, and on which backends."""

import importlib.util
import os
import shutil
from collections import Counter
from pathlib import Path

import backends
import pytest
import real_nvrtc

backends.simulate()

# What ./dev test installs; the other partners come with ./dev test --all.
CORE_PARTNERS = {"matplotlib", "ml_dtypes", "numpy", "nvidia", "pyvista", "torch", "tvm_ffi", "vtk"}

skipped_partners = pytest.StashKey[Counter]()
nvrtc_report = pytest.StashKey[list]()


def pytest_addoption(parser):
    parser.addoption(
        "--scope",
        choices=["core", "rest", "all"],
        default="core",
        help="core: no slow tests, core partners only; rest: what core leaves out; all: both",
    )


@pytest.fixture(params=backends.BACKENDS)
def backend(request):
    """The name of a backend; new arrays lie on its first device while the test runs."""
    import tack

    before = tack.default_device()
    tack.set_default_device(request.param)
    yield request.param
    tack.set_default_device(before)


def backend_of(item):
    return item.callspec.params.get("backend") if hasattr(item, "callspec") else None


def needed_partners(item):
    return {mark.args[0] for mark in item.iter_markers("partner")}


def is_core(item):
    return item.get_closest_marker("slow") is None and needed_partners(item) <= CORE_PARTNERS


def pytest_collection_modifyitems(config, items):
    config.stash[skipped_partners] = Counter()
    config.stash[nvrtc_report] = []
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
        if backend := backend_of(item):
            item.user_properties.append(("backend", backend))
            reason = backends.reason_to_skip(backend, item.module.__name__, item.name)
            if reason:
                item.add_marker(pytest.mark.skip(reason=f"{backend}: {reason}"))


def pytest_sessionfinish(session):
    """What the stand-in for NVRTC has compiled, here and in the C++ tests, the real one compiles
    too. The sources stay with the kernels in the disk cache, which do not come by here again."""
    if backends.real_gpu():
        return
    sources = Path(os.environ["TACK_SIM_SOURCES"])
    count = len(list(sources.glob("*.cu")))
    report = session.config.stash[nvrtc_report]
    if real_nvrtc.library_path() is None:
        report.append(f"NVRTC is not installed: {count} sources of kernels are not compiled by it.")
        return
    new, failures = real_nvrtc.compile_new(sources)
    kinds = ", ".join(real_nvrtc.ARCHITECTURES)
    report.append(
        f"NVRTC compiled {new} sources of kernels for {kinds}: {len(failures)} failures; "
        f"{count - new} others it has accepted before."
    )
    report += failures
    if failures:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        # What lies compiled in there would not come by here again.
        cache = Path(os.environ.get("TACK_CACHE_DIR", "nowhere"))
        if backends.BUILD in cache.parents:
            shutil.rmtree(cache)


def pytest_terminal_summary(terminalreporter, config):
    for name, count in sorted(config.stash[skipped_partners].items()):
        terminalreporter.line(f"Partner {name} is not installed: {count} of its tests skipped.")
    for line in config.stash[nvrtc_report]:
        terminalreporter.line(line)
    for backend in backends.BACKENDS:
        report_backend(terminalreporter, backend)


def report_backend(terminalreporter, backend):
    run, skipped = 0, Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport):  # a deselected item, a warning
                continue
            if ("backend", backend) not in report.user_properties:
                continue
            if report.skipped:
                skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1
            elif report.when == "call":
                run += 1
    if run or skipped:
        terminalreporter.line(f"Backend {backend}: {run} tests run, {skipped.total()} skipped.")
        for reason, count in sorted(skipped.items()):
            terminalreporter.line(f"    {count} {reason.removeprefix(f'{backend}: ')}")
