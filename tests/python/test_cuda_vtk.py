"""The specification's exchange with VTK on CUDA, against a fake of VTK's own dlpack_support."""

import sys

import cuda_support as sim
import managed_tensor
import numpy as np
from cuda_support import on_simulator
from test_vtk_fake_support import SUPPORT, FakeSupport

import tack
import tack.interop.vtk as tv
from tack.interop.dlpack import live_exports


@tack.kernel
def double(x):
    for i, j in tack.ndrange(x.shape[0], x.shape[1]):
        x[i, j] *= 2


@on_simulator()
def test_an_array_of_a_filter_on_the_device_goes_to_a_kernel_and_back():
    fake = sys.modules[SUPPORT] = FakeSupport()
    sim.primary_context()
    tack.set_default_device("cuda")
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    allocation = sim.foreign(values)
    of_filter = managed_tensor.Producer(
        versioned=False, shape=(4, 2), device_type=managed_tensor.CUDA, data=allocation
    )
    questions = sim.calls("cuPointerGetAttributes")

    array = tv.vtk_to_array(of_filter)
    assert sim.calls("cuPointerGetAttributes") > questions
    assert (str(array.device), array.ptr, array.shape) == ("cuda", allocation, (4, 2))
    double(array)
    assert not sim.is_queued(array.device.stream)

    tv.array_to_vtk(array, name="doubled")
    shape, name, capsule = fake.exported.pop()
    tensor = managed_tensor.managed_tensor(capsule).tensor
    assert (shape, name, tensor.data) == ((4, 2), "doubled", allocation)
    assert (tensor.device_type, tensor.device_id) == (managed_tensor.CUDA, 0)
    assert np.array_equal(sim.host_copy(tensor.data, values), 2 * values)

    del array
    assert (of_filter.deleted, live_exports()) == (0, 1)
    del tensor, capsule
    assert (of_filter.deleted, live_exports()) == (1, 0)
    sim.cu("cuMemFree_v2", allocation)


@on_simulator()
def test_an_array_of_tacks_own_is_finished_when_vtk_gets_it():
    fake = sys.modules[SUPPORT] = FakeSupport()
    sim.primary_context()
    x = tack.ones((4, 2), device="cuda")
    double(x)
    tv.array_to_vtk(x)
    tensor = managed_tensor.managed_tensor(fake.exported[0][2]).tensor
    assert np.array_equal(sim.host_copy(tensor.data, np.ones((4, 2), "f")), np.full((4, 2), 2))
    tensor = None
    fake.exported.clear()
