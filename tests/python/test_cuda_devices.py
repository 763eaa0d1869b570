"""CUDA devices that are there, and each way in which one, its driver or its compiler is not."""

import json
import shutil
from pathlib import Path

import cuda_support as sim
import managed_tensor
import numpy as np
import pytest
import real_nvrtc
from cuda_support import on_driver, on_simulator

import tack


@tack.kernel
def add(x, y):
    for i in range(len(x)):
        x[i] += y[i]


@tack.kernel
def double(x):
    for i in range(len(x)):
        x[i] *= 2


def doubled(device="cuda"):
    x = tack.array(np.arange(3, dtype=np.float32)).to_device(tack.device(device))
    double(x)
    return x.numpy().tolist()


# two devices


@on_simulator(devices=2)
def test_a_second_device_has_its_own_memory_and_index():
    x = tack.zeros(3, device="cuda:1")
    assert (str(x.device), x.device.index) == ("cuda:1", 1)
    assert x.device == tack.device("cuda", 1) != tack.device("cuda")
    assert x.__dlpack_device__() == (managed_tensor.CUDA, 1)
    capsule = x.__dlpack__()
    assert managed_tensor.managed_tensor(capsule).tensor.device_id == 1
    assert doubled("cuda:1") == [0, 2, 4]
    assert [str(d) for d in tack.devices()] == ["cpu", "cuda", "cuda:1"]


@on_simulator(devices=2)
def test_a_device_beyond_the_last_is_a_runtime_error_with_their_number():
    with sim.raises(RuntimeError, "cuda:3 of 2 devices"):
        tack.device("cuda:3")


@on_simulator()
def test_one_device_is_in_the_singular():
    with sim.raises(RuntimeError, "cuda:3 of 1 device;"):
        tack.device("cuda", 3)


@on_simulator(devices=2)
def test_arrays_of_two_devices_do_not_meet_in_a_launch_but_move():
    x, y = tack.zeros(3, device="cuda:0"), tack.ones(3, device="cuda:1")
    with sim.raises(ValueError, "cuda:0", "cuda:1", "to_device"):
        add(x, y)
    add(x, y.to_device(x.device))
    assert x.numpy().tolist() == [1, 1, 1]
    assert x.to_device(y.device).device == y.device


@on_simulator(devices=2)
def test_a_pointer_of_another_device_is_a_value_error_with_both_names():
    x = tack.zeros(3, device="cuda:1")
    with sim.raises(ValueError, "cuda:1", "not of cuda:0"):
        tack.array_from_ptr(x.ptr, "float32", 3, device="cuda:0")


@on_simulator(devices=2)
def test_an_import_goes_to_its_own_device_unless_told_otherwise():
    x = tack.zeros(3, device="cuda:1")
    assert tack.from_dlpack(x).device == x.device
    with sim.raises(RuntimeError, "cuda:1"):
        tack.from_dlpack(x, device="cuda:0")


# what is not there


def status(**modes):
    done, report = sim.run(["-m", "tack", "--json"], **modes)
    assert (done.returncode, done.stderr, report) == (0, "", "")
    row = next(row for row in json.loads(done.stdout)["backends"] if row["name"] == "cuda")
    return row["state"], row["detail"]


def refusal(**modes):
    """What tack.device("cuda") and a kernel there raise."""
    code = (
        "import test_cuda_devices\n"
        "try: print(test_cuda_devices.doubled())\n"
        "except RuntimeError as error: print(error)"
    )
    done, report = sim.run(["-c", code], **modes)
    sim.expect_clean(done, report)
    return done.stdout


ABSENT = "/nonexistent/libcuda.so.1"

NO_DEVICE = {
    "no device": ({"devices": 0}, ["cuInit gave CUDA_ERROR_NO_DEVICE", "No NVIDIA GPU is visible"]),
    "chosen driver absent": (
        {"TACK_CUDA_DRIVER": ABSENT},
        ["TACK_CUDA_DRIVER names a driver that cannot be opened", ABSENT],
    ),
    "no driver": (
        {"TACK_CUDA_DRIVER": None},
        ["libcuda.so.1 is not installed", "library path and TACK_CUDA_DRIVER"],
    ),
    "a required entry point is missing": (
        {"missing": "cuLaunchKernel"},
        ["cuLaunchKernel is not in", "libcuda.so.1", "CUDA 13.0", "newer driver"],
    ),
    "driver of CUDA 3": (
        {"driver_version": 3000},
        ["is not in", "libcuda.so.1", "CUDA 3.0", "newer driver"],
    ),
    "initialisation fails": ({"fail": "cuInit:1:802,cuInit:2:802"}, ["cuInit gave", "802"]),
}


@pytest.mark.parametrize("lack", NO_DEVICE)
def test_each_reason_for_no_device_is_a_sentence_of_its_own(lack):
    modes, words = NO_DEVICE[lack]
    text = refusal(**modes)
    state, detail = status(**modes)
    for word in words:
        assert word in text
        assert word in detail
    assert state == ("not found" if lack == "no driver" else "not usable")


@pytest.mark.parametrize("version", [11000, 11020, 11040, 12000, 12080, 13000])
def test_kernels_run_on_drivers_of_cuda_11_and_newer(version):
    assert refusal(driver_version=version) == "[0.0, 2.0, 4.0]\n"


OPTIONAL = [
    "cuMemPoolCreate",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemPoolTrimTo",
    "cuMemCreate",
    "cuMemMap",
    "cuDeviceGetUuid",
    "cuStreamGetCtx",
    "cuCtxGetId",
]


@pytest.mark.parametrize("entry", OPTIONAL)
def test_a_missing_optional_entry_point_leaves_the_rest_working(entry):
    assert refusal(missing=entry) == "[0.0, 2.0, 4.0]\n"


@pytest.mark.parametrize("entry", ["cuMemCreate", "cuMemMap", "cuMemExportToShareableHandle"])
def test_without_virtual_memory_exports_say_what_is_missing(entry):
    code = (
        "import tack\n"
        "try: tack.zeros(3, device='cuda').export_memory()\n"
        "except RuntimeError as error: print(error)"
    )
    done, report = sim.run(["-c", code], missing=entry)
    sim.expect_clean(done, report)
    assert "export_memory: copy of 12 bytes of cuda:0: " in done.stdout
    assert "no virtual memory management" in done.stdout


@on_simulator(missing="cuStreamGetCtx", no_pools=1)
def test_a_device_on_the_callers_stream_needs_no_check_of_its_context():
    sim.primary_context()
    stream = sim.made("cuStreamCreate", 0)
    device = tack.device("cuda", stream=stream)
    assert tack.zeros(3, device=device).numpy().tolist() == [0] * 3
    del device
    sim.cu("cuStreamDestroy_v2", stream)


@on_driver
def test_a_stream_of_another_context_is_refused():
    tack.device("cuda")
    mine = sim.made("cuCtxCreate_v2", 0, 0)
    stream = sim.made("cuStreamCreate", 0)
    sim.cu("cuCtxSetCurrent", 0)
    with sim.raises(ValueError, f"'stream' {stream}", "another context"):
        tack.device("cuda", stream=stream)
    sim.cu("cuCtxDestroy_v2", mine)


# NVRTC


def test_an_absent_nvrtc_leaves_arrays_and_says_where_it_was_looked_for():
    lacking = {"TACK_NVRTC": "/nonexistent/libnvrtc.so.13"}
    text = refusal(**lacking)
    assert "NVRTC" in text and "/nonexistent/libnvrtc.so.13" in text
    state, detail = status(**lacking)
    assert state == "ready"
    assert "/nonexistent/libnvrtc.so.13" in detail


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_nvrtc_is_found_in_the_toolkits_folder(tmp_path, variable):
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libnvrtc.so.13").symlink_to(sim.NVRTC)
    toolkit = {"CUDA_HOME": None, "CUDA_PATH": None, variable: tmp_path}
    assert refusal(TACK_NVRTC=None, **toolkit) == "[0.0, 2.0, 4.0]\n"


@pytest.mark.parametrize("package", ["cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12"])
def test_nvrtc_is_found_in_its_package_beside_tack(tmp_path, package):
    shutil.copytree(Path(tack.__file__).parent, tmp_path / "tack")
    library = tmp_path / "nvidia" / package
    library.parent.mkdir(parents=True)
    library.symlink_to(sim.NVRTC)
    nowhere = {"TACK_NVRTC": None, "CUDA_HOME": None, "CUDA_PATH": None}
    places = f"{tmp_path}:{Path(__file__).parent}"
    assert refusal(PYTHONPATH=places, **nowhere) == "[0.0, 2.0, 4.0]\n"


def test_a_library_that_is_no_nvrtc_is_named():
    text = refusal(TACK_NVRTC=sim.DRIVER)
    assert "nvrtcVersion is not in" in text and str(sim.DRIVER) in text


def test_an_nvrtc_without_its_builtins_is_named_with_the_folder(tmp_path):
    # WisconsinAIVision/yolact_edge#186
    text = refusal(fail="nvrtcCompileProgram:1:7", TACK_CACHE_DIR=tmp_path)
    assert "libnvrtc-builtins.so." in text
    assert str(sim.NVRTC) in text and f"looked for in {sim.SIMULATOR} " in text


@pytest.mark.partner("nvidia")
def test_a_real_nvrtc_without_its_builtins_is_named_with_the_folder(tmp_path):
    # WisconsinAIVision/yolact_edge#186
    real = real_nvrtc.library_path()
    alone = tmp_path / real.name
    alone.symlink_to(real)  # looks for the builtins beside itself
    text = refusal(TACK_NVRTC=alone, TACK_CACHE_DIR=tmp_path / "cache")
    assert f"NVRTC at {alone} did not find its builtins, libnvrtc-builtins.so." in text
    assert f"looked for in {tmp_path} " in text


# The device runs finished code of its own major version alone.
def test_a_device_newer_than_nvrtc_gets_ptx_of_the_newest_architecture(tmp_path):
    newer = {"arch": 130, "TACK_CACHE_DIR": tmp_path / "cache", "TACK_SIM_SOURCES": tmp_path}
    assert refusal(**newer) == "[0.0, 2.0, 4.0]\n"
    (options,) = tmp_path.glob("*.options")
    assert "--gpu-architecture=compute_121" in options.read_text().splitlines()
    (kept,) = (file for file in (tmp_path / "cache").rglob("*") if file.is_file())
    assert b".target sm_121\n" in kept.read_bytes()


def test_a_driver_that_does_not_take_nvrtcs_ptx_says_which_nvrtc_it_needs(tmp_path):
    text = refusal(arch=130, fail="cuModuleLoadDataEx:1:222", TACK_CACHE_DIR=tmp_path)
    assert "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" in text
    assert "The driver is for CUDA 13.0" in text and "NVRTC 13.5" in text


def test_a_device_older_than_nvrtc_knows_is_a_sentence(tmp_path):
    text = refusal(arch=30, TACK_CACHE_DIR=tmp_path)
    assert "compute capability is 3.0" in text and str(sim.NVRTC) in text
    assert "older NVRTC" in text


# import


def test_the_import_starts_no_driver():
    # pytorch/pytorch#117043
    code = "import tack, cuda_support as sim; tack.zeros(3); print(sim.calls('cuInit'))"
    done, report = sim.run(["-c", code])
    sim.expect_clean(done, report)
    assert done.stdout == "0\n"


def test_the_driver_is_not_even_opened_by_the_import():
    code = "import tack; tack.zeros(3); print('libcuda' in open('/proc/self/maps').read())"
    done, _ = sim.run(["-c", code])
    assert done.stdout == "False\n"
