"""Device memory as handles: the record's values, and what import_memory makes of them."""

import copy
import pickle

import pytest
from far_device import HANDLE, FarDevice

import tack

UUID = bytes(range(16))


@pytest.fixture
def far():
    device = FarDevice()
    yield device
    device.close()


def record(**changes):
    fields = {"backend": "cuda", "size": 24, "allocation_size": 64, "handle": HANDLE}
    fields |= {"handle_type": "posix_fd", "device_uuid": UUID}
    return tack.ExportedMemory(**(fields | changes))


def test_an_arrays_record_has_plain_values(far):
    exported = tack.zeros((2, 3)).export_memory()
    values = (exported.backend, exported.size, exported.allocation_size, exported.handle)
    assert values == ("cuda", 24, 4096, HANDLE)
    assert (exported.handle_type, exported.device_uuid) == ("posix_fd", b"\3" * 16)


def test_the_host_exports_no_memory():
    with pytest.raises(RuntimeError, match="Backend cpu does not support memory export"):
        tack.zeros(2).export_memory()


def test_a_record_is_equal_to_its_copies():
    first = record()
    for other in (pickle.loads(pickle.dumps(first)), copy.deepcopy(first), record()):
        assert other == first and hash(other) == hash(first)
    assert first != record(handle=78)
    assert first != "posix_fd"


def test_the_text_of_a_record_makes_it_again():
    first = record()
    assert eval(repr(first), {"ExportedMemory": tack.ExportedMemory}) == first


def test_a_device_without_a_uuid_has_none():
    assert record(device_uuid=None).device_uuid is None


@pytest.mark.parametrize("field", ["size", "allocation_size", "handle"])
@pytest.mark.parametrize(
    ("value", "kind"), [(True, TypeError), ("7", TypeError), (1.5, TypeError), (-1, ValueError)]
)
def test_sizes_and_handles_are_ints_from_0(field, value, kind):
    with pytest.raises(kind, match=f"ExportedMemory: {field} "):
        record(**{field: value})


def test_sizes_have_63_bits():
    with pytest.raises(ValueError, match="beyond 63 bits"):
        record(allocation_size=2**63)


@pytest.mark.parametrize(("uuid", "kind"), [(b"123", ValueError), ("0" * 16, TypeError)])
def test_a_uuid_is_16_bytes(uuid, kind):
    with pytest.raises(kind, match="ExportedMemory: device_uuid"):
        record(device_uuid=uuid)


def test_a_record_becomes_an_array(far):
    array = tack.import_memory(record(), tack.float32, (2, 3))
    assert (array.shape, array.dtype, array.device) == ((2, 3), tack.float32, far.device)
    assert array.writable


def test_an_array_may_be_read_only(far):
    array = tack.import_memory(record(), "float32", 4, writable=False)
    with pytest.raises(RuntimeError, match="read-only"):
        array.fill(1)


def test_a_bare_handle_needs_the_size_of_its_allocation(far):
    assert tack.import_memory(HANDLE, "uint8", 64, allocation_size=64).nbytes == 64
    with pytest.raises(TypeError, match="import_memory: .*Pass allocation_size="):
        tack.import_memory(HANDLE, "uint8", 64)


def test_a_record_brings_its_own_size(far):
    with pytest.raises(TypeError, match="allocation_size is the record's"):
        tack.import_memory(record(), "uint8", 64, allocation_size=64)


@pytest.mark.parametrize(
    ("handle", "kind"),
    [(True, TypeError), ("7", TypeError), (None, TypeError), (1.5, TypeError), (-1, ValueError)],
)
def test_a_handle_is_an_int_from_0(handle, kind):
    with pytest.raises(kind, match="import_memory: memory "):
        tack.import_memory(handle, "uint8", 1, allocation_size=1)


def test_a_shape_beyond_the_allocation_is_refused(far):
    with pytest.raises(ValueError, match=r"takes 68 bytes, the allocation has 64"):
        tack.import_memory(record(), "float32", 17)


def test_what_the_driver_refuses_is_a_runtime_error(far):
    with pytest.raises(RuntimeError, match="import_memory: the driver refuses the handle"):
        tack.import_memory(record(handle=3), "uint8", 1)


def test_the_host_maps_no_handle():
    with pytest.raises(RuntimeError, match="import_memory: Backend cpu does not import memory"):
        tack.import_memory(record(), "uint8", 1, device="cpu")
