"""What needs a vtkmodules.util.dlpack_support that no released VTK has, against a fake of it."""

import sys
import types

import managed_tensor
import numpy as np
import pytest

import tack
import tack.interop.vtk as tv

SUPPORT = "vtkmodules.util.dlpack_support"
HANDLES = {"driver": 11, "device": 22, "context": 33}


class FakeSupport(types.ModuleType):
    """VTK arrays are stood for by any DLPack producer; what goes to VTK is kept in `exported`."""

    def __init__(self):
        super().__init__(SUPPORT)
        self.exported = []

    def vtk_to_dlpack(self, array, device_id=0, versioned=False):
        return array.__dlpack__()

    def dlpack_to_vtk(self, source, name=None):
        self.exported.append((source.shape, name, source.__dlpack__()))
        return self.exported[-1]


@pytest.fixture
def fake(monkeypatch):
    module = FakeSupport()
    monkeypatch.setitem(sys.modules, SUPPORT, module)
    return module


def level_zero_device(context):
    return types.SimpleNamespace(name="level_zero", context=context)


def test_an_import_adopts_the_capsule_of_vtk_s_own_module(fake):
    producer = managed_tensor.Producer(versioned=False, shape=(4, 2))
    array = tv.vtk_to_array(producer)
    assert array.shape == (4, 2)
    assert managed_tensor.capsule_name(producer.capsule) == "used_dltensor"
    del array
    assert producer.deleted == 1


@pytest.mark.parametrize("shape, flatten", [((8, 1), False), ((4, 2), True), ((8, 1), True)])
def test_one_component_and_flatten_give_one_dimension(fake, shape, flatten):
    producer = managed_tensor.Producer(versioned=False, shape=shape)
    array = tv.vtk_to_array(producer, flatten=flatten)
    assert array.numpy().tolist() == list(range(8))
    del array
    assert producer.deleted == 1


def test_an_export_gives_vtk_s_own_module_tuples_and_the_name(fake):
    before = tack.interop.dlpack.live_exports()
    array = tack.zeros((2, 3, 4))
    tv.array_to_vtk(array, 4, name="x")
    (shape, name, capsule), *_ = fake.exported
    assert (shape, name) == ((6, 4), "x")
    assert tack.interop.dlpack.live_exports() == before + 1
    del capsule
    fake.exported.clear()
    assert tack.interop.dlpack.live_exports() == before


@pytest.mark.parametrize(
    "array, n_components, error",
    [
        (tack.zeros((2, 3)), 2, ValueError),
        (tack.zeros((2, 2, 2)), None, ValueError),
        (tack.zeros(4, dtype="bool"), None, TypeError),
        (tack.from_dlpack(np.frombuffer(b"abcd", np.uint8)), None, ValueError),
    ],
)
def test_a_mistake_is_found_before_vtk_is_touched(fake, array, n_components, error):
    with pytest.raises(error):
        tv.array_to_vtk(array, n_components)
    assert fake.exported == []


def test_an_empty_array_does_not_reach_vtk_s_own_module(fake):
    pytest.importorskip(
        "vtkmodules.vtkCommonCore", reason="needs vtk: ./dev test installs it", exc_type=ImportError
    )
    result = tv.array_to_vtk(tack.zeros((0, 3)), name="none")
    assert (result.GetNumberOfTuples(), result.GetNumberOfComponents()) == (0, 3)
    assert fake.exported == []


def test_the_stand_in_never_replaces_vtk_s_own_module(fake):
    assert tv.install_dlpack_support() is fake
    assert sys.modules[SUPPORT] is fake


def test_what_vtk_s_own_module_raises_is_passed_on(fake):
    def refuse(array, device_id=0, versioned=False):
        raise ValueError("implicit")

    fake.vtk_to_dlpack = refuse
    with pytest.raises(ValueError, match="^implicit$"):
        tv.vtk_to_array(object())


# Level Zero


def test_init_level_zero_adopts_vtk_s_handles(fake, monkeypatch):
    asked = []

    def set_default_device(name, **options):
        asked.append((name, options))
        return "the device"

    monkeypatch.setattr(tack, "set_default_device", set_default_device)
    fake.level_zero_handles = lambda: HANDLES
    assert tv.init_level_zero() == "the device"
    assert asked == [("level_zero", {"external_context": HANDLES})]


@pytest.mark.parametrize("handles", [None, {}])
def test_init_level_zero_without_handles_says_why_there_may_be_none(fake, handles):
    fake.level_zero_handles = lambda: handles
    with pytest.raises(RuntimeError, match="init_level_zero: .*too old.*Viskores.*Level Zero"):
        tv.init_level_zero()


def test_init_level_zero_with_a_vtk_without_the_function_is_the_same_error(fake):
    with pytest.raises(RuntimeError, match="init_level_zero: .*too old"):
        tv.init_level_zero()


def test_the_guard_lets_vtk_s_own_context_pass(fake):
    fake.level_zero_handles = lambda: HANDLES
    tv._require_shared_level_zero_context(level_zero_device(33))


@pytest.mark.parametrize("handles", [None, {}, {**HANDLES, "context": 34}])
def test_the_guard_refuses_another_context_naming_init_level_zero(fake, handles):
    fake.level_zero_handles = lambda: handles
    with pytest.raises(RuntimeError, match=r"different Level Zero contexts.*init_level_zero\(\)"):
        tv._require_shared_level_zero_context(level_zero_device(33))


def test_the_guard_refuses_where_vtk_has_no_handles_function(fake):
    with pytest.raises(RuntimeError, match="init_level_zero"):
        tv._require_shared_level_zero_context(level_zero_device(33))


def test_the_guard_asks_for_the_handles_each_time(fake):
    contexts = iter((33, 34))
    fake.level_zero_handles = lambda: {**HANDLES, "context": next(contexts)}
    tv._require_shared_level_zero_context(level_zero_device(33))
    with pytest.raises(RuntimeError):
        tv._require_shared_level_zero_context(level_zero_device(33))


def test_the_guard_does_not_ask_on_other_devices(fake):
    fake.level_zero_handles = lambda: pytest.fail("asked for")
    tv._require_shared_level_zero_context(tack.device("cpu"))
    tv.array_to_vtk(tack.zeros(3))
    tv.vtk_to_array(managed_tensor.Producer(versioned=False, shape=(8, 1)))


def test_a_refused_device_tensor_stays_in_its_capsule(fake, monkeypatch):
    monkeypatch.setattr(tack, "device", lambda name, index: level_zero_device(33))
    producer = managed_tensor.Producer(
        versioned=False, shape=(8, 1), device_type=managed_tensor.ONEAPI
    )
    with pytest.raises(RuntimeError, match="init_level_zero"):
        tv.vtk_to_array(producer)
    assert managed_tensor.capsule_name(producer.capsule) == "dltensor"
    assert producer.deleted == 0


def test_a_tensor_on_a_device_that_tack_cannot_use_is_refused_by_the_import(fake):
    producer = managed_tensor.Producer(
        versioned=False, shape=(8, 1), device_type=managed_tensor.CUDA, device_id=99
    )
    with pytest.raises(RuntimeError, match="from_dlpack"):
        tv.vtk_to_array(producer)
    assert producer.deleted == 0
