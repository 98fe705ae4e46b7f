from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from gpupipe.backends.probe import GPU_PACKAGES, missing_packages, missing_packages_reason, probe_gpu

PROBE = """
import dataclasses, json
from gpupipe.backends.probe import probe_gpu
print(json.dumps(dataclasses.asdict(probe_gpu())))
"""
HEAVY = {"numpy", "pandas", "pyarrow", "sklearn", "scipy", "matplotlib", "numba", "cudf", "cupy", "cuml", "torch"}


@pytest.fixture
def probed(drivers: dict[str, str], run_python: Any) -> Any:
    def run(driver: str = "complete", **environment: str) -> Any:
        return run_python(PROBE, LD_LIBRARY_PATH=drivers[driver], **environment)

    return run


def test_a_good_gpu_is_usable_and_described(probed: Any) -> None:
    assert probed() == {
        "usable": True,
        "reason": "NVIDIA Fake 0, driver 580.95.05",
        "count": 1,
        "name": "NVIDIA Fake 0",
        "driver": "580.95.05",
        "cuda": [13, 0],
        "capability": [9, 0],
        "memory_bytes": 16 * 2**30,
        "free_bytes": 8 * 2**30,
        "obstacle": "",
    }


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"GPUPIPE_FORCE_CPU": "1"}, "GPUPIPE_FORCE_CPU is set"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES='' hides every GPU"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "CUDA_VISIBLE_DEVICES='-1' hides every GPU"),
        ({"CUDA_VISIBLE_DEVICES": "3"}, "CUDA_VISIBLE_DEVICES='3' names none of this machine's 1 GPU"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-ffff"}, "names none of this machine's 1 GPU"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-8d7e"}, "names no slice of a GPU (MIG) of this machine"),
        ({"CUDA_VISIBLE_DEVICES": "first"}, "is invalid: expected numbers (0,1) or identifiers"),
        ({"FAKE_COUNT": "0"}, "the NVIDIA driver 580.95.05 finds no GPU"),
        ({"FAKE_CUDA": "11080"}, "the driver 580.95.05 supports CUDA 11.8; 12.0 is needed"),
        ({"FAKE_CAPABILITY": "6.1"}, "NVIDIA Fake 0 has compute capability 6.1; 7.5 is needed"),
        ({"FAKE_INIT": "9"}, "error 9: the NVIDIA kernel driver is not loaded"),
        ({"FAKE_INIT": "18"}, "error 18: kernel driver and driver library have different versions"),
        ({"FAKE_INIT": "77"}, "the driver answers nvmlInit_v2 with error 77: see nvidia-smi"),
        ({"FAKE_HANDLE": "15"}, "error 15: the GPU has fallen off the bus"),
    ],
)
def test_each_failure_has_its_own_message(probed: Any, environment: dict[str, str], words: str) -> None:
    gpu = probed(**environment)
    assert not gpu["usable"]
    assert words in gpu["reason"]


def test_a_gpu_that_is_too_old_is_still_described(probed: Any) -> None:
    gpu = probed(FAKE_CAPABILITY="6.1")
    assert (gpu["usable"], gpu["capability"], gpu["memory_bytes"]) == (False, [6, 1], 16 * 2**30)


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "hidden"),
        ({"CUDA_VISIBLE_DEVICES": "3"}, "not_visible"),
        ({"driver": "without cuda"}, "no_cuda"),
        ({"driver": "old"}, "no_function"),
        ({"FAKE_COUNT": "0"}, "no_gpu"),
        ({"FAKE_CUDA": "11080"}, "old_driver"),
        ({"FAKE_CAPABILITY": "6.1"}, "old_gpu"),
        ({"FAKE_INIT": "18"}, "nvml_18"),
    ],
)
def test_each_failure_has_a_machine_readable_code(probed: Any, environment: dict[str, str], word: str) -> None:
    assert probed(**environment)["obstacle"] == word


def test_a_driver_without_cuda_points_at_the_container_option(probed: Any) -> None:
    gpu = probed("without cuda")
    assert not gpu["usable"]
    assert "libcuda.so.1 cannot be loaded" in gpu["reason"]
    assert "--gpus all" in gpu["reason"]


def test_a_driver_that_lacks_a_function_is_named_not_crashed_on(probed: Any) -> None:
    assert probed("old")["reason"] == (
        "the driver's management library has no function nvmlDeviceGetCudaComputeCapability"
    )


@pytest.mark.parametrize(
    ("visible", "count", "first"),
    [
        ("2,0", 2, "NVIDIA Fake 2"),
        ("GPU-1aaaaaaa-0000-0000-0000-000000000000", 1, "NVIDIA Fake 1"),
        ("GPU-1aaa", 1, "NVIDIA Fake 1"),
        ("1,9,0", 1, "NVIDIA Fake 1"),  # CUDA stops at the first entry that it cannot resolve
        (" 1 , 0 ", 2, "NVIDIA Fake 1"),
        ("MIG-1", 1, "NVIDIA Fake 1 MIG 1g.5gb"),
    ],
)
def test_the_first_visible_gpu_is_the_one_described(probed: Any, visible: str, count: int, first: str) -> None:
    gpu = probed(FAKE_COUNT="3", CUDA_VISIBLE_DEVICES=visible)
    assert (gpu["usable"], gpu["count"], gpu["name"]) == (True, count, first)


def test_several_gpus_are_counted_in_the_reason(probed: Any) -> None:
    assert probed(FAKE_COUNT="3")["reason"] == "3 GPUs (NVIDIA Fake 0), driver 580.95.05"


def test_force_cpu_set_to_zero_hides_nothing(probed: Any) -> None:
    assert probed(GPUPIPE_FORCE_CPU="0")["usable"]


def test_the_probe_gives_a_verdict_on_this_machine() -> None:
    gpu = probe_gpu()
    assert gpu.reason
    assert gpu.usable == (gpu.count > 0 and gpu.memory_bytes > 0 and not gpu.reason.endswith("needed"))


def test_the_probe_imports_nothing_heavy() -> None:
    code = f"import sys; sys.path[:] = {sys.path!r}; from gpupipe.backends import device_report; device_report()"
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "gpupipe" in imported
    assert not imported & HEAVY


def test_missing_packages_are_named_in_one_sentence() -> None:
    assert set(missing_packages()) <= set(GPU_PACKAGES)
    assert missing_packages_reason(()) == ""
    assert missing_packages_reason(("rmm",)) == "the GPU packages are incomplete: rmm is not installed"
    assert missing_packages_reason(("cudf", "rmm")).endswith("cudf, rmm are not installed")
