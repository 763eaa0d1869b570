"""The backends that the suites run on, and the one table of what they leave out, with reasons.

A module whose tests run on every backend says `pytestmark = pytest.mark.usefixtures("backend")`.
"""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

BUILD = Path(os.environ.get("TACK_BUILD") or Path(__file__).parents[2] / "build")

BACKENDS = ["cpu"]

DLPACK_DEVICE = {"cpu": 1, "cuda": 2}

# For each backend whose driver is simulated: what puts the simulator in the driver's place.
SIMULATORS = {
    "cuda": {
        "TACK_CUDA_DRIVER": BUILD / "sim" / "cuda" / "libcuda.so.1",
        "TACK_NVRTC": BUILD / "sim" / "cuda" / "libnvrtc.so.13",
        "TACK_SIM_CACHE": BUILD / "cache" / "sim",
    },
}


def simulate():
    """Puts the simulators in the drivers' place, unless TACK_TEST_REAL_GPU asks for the real ones.

    What the environment names already is kept. Before the first use of a backend.
    """
    if os.environ.get("TACK_TEST_REAL_GPU"):
        return
    for backend in BACKENDS:
        for name, value in SIMULATORS.get(backend, {}).items():
            os.environ.setdefault(name, str(value))


HOST_VIEW = "a view of the memory by the host, which reaches no device's"
HOST_MEMORY = "is about memory that the host hands in or out"
HOST_THREADS = "is about the threads of the host"
NO_LAUNCH = "launches nothing: what it tests is the same for every backend"
PYTHONS_KERNEL = "calls tack's kernel object itself, with arrays of the host"
OWN_PROCESS = "runs a program of its own, on the host"
ULP = "how exact the function is, is the device's vendor's affair"

# (backends, module, test, reason); names as patterns of fnmatch, a test with its parameters where
# the pattern ends in a bracket. "devices" is every backend but the CPU.
SKIPS: list[tuple[str, str, str, str]] = []


def reason_to_skip(backend, module, test):
    """Why the table leaves a test out on a backend; None where it does not.

    test: the name with its parameters, as "test_x[cuda-int8]".
    """
    for backends, modules, tests, reason in SKIPS:
        listed = backend != "cpu" if backends == "devices" else backend == backends
        name = test if tests.endswith("]") else test.partition("[")[0]
        if listed and fnmatch.fnmatchcase(module, modules) and matches(name, tests):
            return reason
    return None


def matches(name, pattern):
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))
