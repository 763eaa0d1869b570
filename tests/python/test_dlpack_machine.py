"""Import, export, reshape, launch, drop and gc in any order; and many round trips."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from managed_tensor import READ_ONLY, Producer

import tack
from tack.interop.dlpack import live_exports

pytestmark = pytest.mark.usefixtures("backend")


@tack.kernel
def add(x, value):
    for i in range(x.size):
        x[i] = x[i] + value


class Memory:
    """One block of eight float32, whoever made it: its values and who still uses it."""

    def __init__(self, values, writable, producer=None):
        self.values = list(values)
        self.writable = writable
        self.producer = producer
        self.users = 0  # arrays, views and capsules over it


class Handle:
    """Something over a memory: a tack.Array, a NumPy view or a capsule."""

    def __init__(self, memory, thing, exports=0):
        self.memory = memory
        self.thing = thing
        self.exports = exports  # of Tack's tensors that it holds
        memory.users += 1

    def drop(self):
        self.memory.users -= 1
        self.thing = None


class Exchange(RuleBasedStateMachine):
    arrays = Bundle("arrays")
    views = Bundle("views")
    capsules = Bundle("capsules")

    @initialize()
    def start(self):
        gc.collect()
        self.baseline = live_exports()
        self.memories = []
        self.handles = []

    def keep(self, handle):
        self.handles.append(handle)
        return handle

    def new_memory(self, *arguments):
        self.memories.append(Memory(*arguments))
        return self.memories[-1]

    # where arrays come from

    @rule(target=arrays)
    def make(self):
        memory = self.new_memory([0] * 8, True)
        return self.keep(Handle(memory, tack.zeros(8)))

    @rule(target=arrays, versioned=st.booleans(), flags=st.sampled_from([0, READ_ONLY]))
    def import_a_producer(self, versioned, flags):
        producer = Producer(versioned=versioned, flags=flags)
        memory = self.new_memory(range(8), not (versioned and flags), producer)
        return self.keep(Handle(memory, tack.from_dlpack(producer)))

    @rule(versioned=st.booleans())
    def refuse_a_producer(self, versioned):
        producer = Producer(versioned=versioned, strides=(2,))
        with pytest.raises(tack.NonContiguousError):
            tack.from_dlpack(producer)
        assert producer.deleted == 0

    @rule(target=arrays, capsule=consumes(capsules))
    def import_a_capsule(self, capsule):
        handle = Handle(capsule.memory, tack.from_dlpack(capsule.thing), capsule.exports)
        with pytest.raises(ValueError, match="consumed already"):
            tack.from_dlpack(capsule.thing)
        self.drop(capsule)
        return self.keep(handle)

    @rule(target=arrays, array=arrays)
    def import_over_the_exchange_api(self, array):
        exports = array.exports + 1
        return self.keep(Handle(array.memory, tack.from_dlpack(array.thing), exports))

    @rule(target=arrays, view=views)
    def import_a_view(self, view):
        return self.keep(Handle(view.memory, tack.from_dlpack(view.thing), view.exports))

    @rule(target=arrays, array=arrays, shape=st.sampled_from([(8,), (2, 4), (2, 2, 2), (1, 8, 1)]))
    def reshape(self, array, shape):
        return self.keep(Handle(array.memory, array.thing.reshape(shape), array.exports))

    # where they go

    @rule(target=capsules, array=arrays, version=st.sampled_from([None, (1, 0)]))
    def export(self, array, version):
        # A legacy capsule cannot say that the memory is read-only.
        if version is None and not array.memory.writable:
            version = (1, 0)
        capsule = array.thing.__dlpack__(max_version=version)
        return self.keep(Handle(array.memory, capsule, array.exports + 1))

    @rule(target=views, array=arrays)
    def give_to_numpy(self, array):
        if array.thing.device.name != "cpu":
            with pytest.raises((BufferError, RuntimeError, ValueError)):
                np.from_dlpack(array.thing)
            return multiple()
        view = np.from_dlpack(array.thing)
        return self.keep(Handle(array.memory, view, array.exports + 1))

    # what is done with them

    @rule(array=arrays, value=st.integers(-4, 4))
    def launch(self, array, value):
        if array.memory.writable:
            add(array.thing.reshape(-1), value)
            array.memory.values = [v + value for v in array.memory.values]
        else:
            with pytest.raises(ValueError, match="read-only"):
                add(array.thing.reshape(-1), value)

    @rule(view=views, value=st.integers(-4, 4))
    def write_through_numpy(self, view, value):
        assert view.thing.flags.writeable == view.memory.writable
        if view.memory.writable:
            view.thing[...] = value
            view.memory.values = [value] * 8

    @rule(handle=st.one_of(consumes(arrays), consumes(views), consumes(capsules)))
    def forget(self, handle):
        self.drop(handle)

    @rule()
    def collect(self):
        gc.collect()

    def drop(self, handle):
        self.handles.remove(handle)
        handle.drop()

    # what always holds

    @invariant()
    def contents_are_as_written(self):
        for handle in self.handles:
            if isinstance(handle.thing, (tack.Array, np.ndarray)):
                assert handle.thing.reshape(-1).tolist() == handle.memory.values
            if isinstance(handle.thing, tack.Array):
                assert handle.thing.writable == handle.memory.writable

    @invariant()
    def deleters_run_once_and_with_the_last_user(self):
        for memory in self.memories:
            if memory.producer:
                assert memory.producer.deleted == (memory.users == 0)

    @invariant()
    def pins_are_those_of_the_exports_in_use(self):
        used = any(handle.exports for handle in self.handles)
        assert (live_exports() > self.baseline) == used

    def teardown(self):
        for handle in list(self.handles):
            self.drop(handle)
        gc.collect()
        assert live_exports() == self.baseline
        self.deleters_run_once_and_with_the_last_user()


@pytest.fixture
def small_heap():
    """What lives already is not looked at by the many collections of a test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("small_heap")
def test_any_order_of_imports_exports_launches_and_drops():
    run_state_machine_as_test(
        Exchange,
        settings=settings(max_examples=25, stateful_step_count=40, deadline=None, database=None),
    )


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


ROUND_TRIPS = {
    "numpy": lambda array: np.from_dlpack(tack.from_dlpack(np.from_dlpack(array))),
    "capsules": lambda array: tack.from_dlpack(array.__dlpack__()),
    "versioned capsules": lambda array: tack.from_dlpack(array.__dlpack__(max_version=(1, 0))),
    "exchange api": tack.from_dlpack,
    "buffers": lambda array: tack.asarray(memoryview(array)),
    "array interface": lambda array: tack.asarray(Interface(array)),
    "refusals": lambda array: refused(array),
    "explanations": tack.explain,
}


class Interface:
    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__


def refused(array):
    with pytest.raises(tack.NonContiguousError):
        tack.from_dlpack(array.numpy().T)


@pytest.mark.parametrize("way", ROUND_TRIPS)
def test_many_round_trips_leave_resident_memory_flat(way):
    array = tack.zeros((4, 8))
    go = ROUND_TRIPS[way]
    for _ in range(5_000):
        go(array)
    before = resident_bytes()
    for _ in range(20_000 if way in ("refusals", "explanations") else 100_000):
        go(array)
    gc.collect()
    # One leaked managed tensor each time would be 15 MB, one leaked block of any kind 1.6 MB.
    assert resident_bytes() - before < 1 << 20


def test_an_import_is_no_cycle_that_waits_for_the_collector():
    gc.disable()
    try:
        producer = Producer()
        array = tack.from_dlpack(producer)
        alive = weakref.ref(array)
        del array
        assert alive() is None
        assert producer.deleted == 1
    finally:
        gc.enable()
