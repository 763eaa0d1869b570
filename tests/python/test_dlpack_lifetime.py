"""Pins and deleters: from threads, with consumers that fail, and while the interpreter closes."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from managed_tensor import Producer

import tack
from tack.interop.dlpack import live_exports

pytestmark = pytest.mark.usefixtures("backend")


def in_threads(work, count=8):
    """Runs work(k) in threads that start together, and passes an error on."""
    barrier = threading.Barrier(count)
    errors = []

    def run(k):
        barrier.wait()
        try:
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


CONSUMERS = {
    "consumed": lambda array, version: tack.from_dlpack(array.__dlpack__(max_version=version)),
    "unconsumed": lambda array, version: array.__dlpack__(max_version=version),
    "by numpy": lambda array, version: np.from_dlpack(array),
    "exchange api": lambda array, version: tack.from_dlpack(array),
}


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("consume", CONSUMERS.values(), ids=CONSUMERS)
def test_pins_return_to_the_baseline_from_threads(consume, version):
    before = live_exports()
    array = tack.zeros(64)
    in_threads(lambda k: [consume(array, version) for _ in range(200)])
    assert live_exports() == before


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_consumer_that_fails_leaves_no_pin(backend, version):
    other = "cuda" if backend == "cpu" else "cpu"
    before = live_exports()

    class Failing:
        """Hands out a capsule of an array and then goes wrong."""

        def __dlpack__(self, **keywords):
            self.capsule = tack.zeros(4).__dlpack__(max_version=version)
            raise RuntimeError("after the export")

    def consume(k):
        for _ in range(50):
            with pytest.raises(RuntimeError, match="after the export"):
                tack.from_dlpack(Failing())
            with pytest.raises(RuntimeError, match=other):
                tack.from_dlpack(tack.zeros(4).__dlpack__(max_version=version), device=other)

    in_threads(consume)
    assert live_exports() == before


def test_deleters_run_once_from_threads():
    producers = [Producer(versioned=k % 2 == 0) for k in range(200)]
    arrays = [tack.from_dlpack(p) for p in producers]
    views = [[array.reshape(2, 4) for _ in range(8)] for array in arrays]
    arrays.clear()
    in_threads(lambda k: [view.__setitem__(k, None) for view in views])
    assert [p.deleted for p in producers] == [1] * 200


def test_one_capsule_is_consumed_by_one_of_many_threads():
    producer = Producer()
    capsule = producer.make_capsule()
    taken, refused = [], []

    def consume(k):
        try:
            taken.append(tack.from_dlpack(capsule))
        except ValueError:
            refused.append(k)

    in_threads(consume)
    assert (len(taken), len(refused)) == (1, 7)
    taken.clear()
    assert producer.deleted == 1


# A reference from the interpreter's own state outlives the modules.
AT_EXIT = {
    "a capsule": "sys.kept = tack.zeros(4).__dlpack__()",
    "a versioned capsule": "sys.kept = tack.zeros(4).__dlpack__(max_version=(1, 0))",
    "a consumer's array": "sys.kept = np.from_dlpack(tack.zeros(4))",
    "a buffer": "sys.kept = memoryview(tack.zeros(4))",
    "an import": "sys.kept = tack.from_dlpack(np.zeros(4))",
    "an import of an import": "sys.kept = tack.from_dlpack(np.from_dlpack(tack.zeros(4)))",
    "an import of bytes": "sys.kept = tack.asarray(b'abcd')",
    "a cycle": "sys.kept = [tack.from_dlpack(np.zeros(4))]; sys.kept.append(sys.kept)",
    "a thread's local": """
import threading
local = threading.local()
local.kept = tack.from_dlpack(np.zeros(4))
sys.kept = local
""",
    "a daemon thread": """
import threading, time
def hold():
    kept = tack.from_dlpack(np.zeros(4))
    while True:
        tack.from_dlpack(np.zeros(4))
threading.Thread(target=hold, daemon=True).start()
time.sleep(0.05)
""",
    "an atexit function": """
import atexit
kept = [tack.from_dlpack(np.zeros(4)), tack.zeros(4).__dlpack__()]
atexit.register(kept.clear)
""",
}


@pytest.mark.parametrize("kept", AT_EXIT.values(), ids=AT_EXIT)
def test_what_is_kept_until_the_interpreter_closes_does_no_harm(kept):
    program = f"import sys\nimport numpy as np\nimport tack\n{kept}\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# The last array of a foreign tensor is dropped by a thread that is no Python thread.
@pytest.mark.partner("torch")
def test_a_pytorch_thread_may_drop_the_last_array():
    import torch

    producer = Producer()
    tensor = torch.from_dlpack(tack.from_dlpack(producer))
    tensor = tensor.requires_grad_()
    loss = (tensor * tensor).sum()
    del tensor
    loss.backward()
    del loss
    assert producer.deleted == 1
