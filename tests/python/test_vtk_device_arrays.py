"""Device arrays and a VTK that exchanges host memory only; a stand-in plays the device's array."""

from types import SimpleNamespace

import pytest

import tack
import tack.interop.vtk as tv

pytestmark = pytest.mark.partner("vtk")


def test_the_stand_in_refuses_device_memory_and_says_where_it_must_be(monkeypatch):
    support = tv.install_dlpack_support()
    far = SimpleNamespace(
        device=SimpleNamespace(name="cuda"),
        ndim=1,
        shape=(3,),
        size=3,
        writable=True,
        dtype=tack.float32,
    )
    monkeypatch.setattr(tack, "from_dlpack", lambda source: far)
    with pytest.raises(ValueError, match=r"host memory only.*to_device\('cpu'\)"):
        support.dlpack_to_vtk(object())
