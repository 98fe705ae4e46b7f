from __future__ import annotations

import subprocess
import sys

import pytest

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.gpus import COMPAT, START, cuda_findings

NAMES = [
    ("0", "CUDA_SUCCESS", "ok", ""),
    ("802", "CUDA_ERROR_SYSTEM_NOT_READY", "error", "sudo systemctl start nvidia-fabricmanager"),
    ("803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "error", COMPAT),
    ("100", "CUDA_ERROR_NO_DEVICE", "error", "docker run --gpus all"),
    ("719", "CUDA_ERROR_LAUNCH_FAILED", "error", "restart the machine"),
]


@pytest.mark.parametrize(("code", "name", "level", "fix"), NAMES)
def test_the_driver_says_whether_cuda_starts(
    gpu: GpuProbe, driver: str, monkeypatch: pytest.MonkeyPatch, code: str, name: str, level: str, fix: str
) -> None:
    for variable, value in {"LD_LIBRARY_PATH": driver, "FAKE_CUINIT": code, "FAKE_CUINIT_NAME": name}.items():
        monkeypatch.setenv(variable, value)
    (finding,) = cuda_findings(gpu, 60)
    assert (finding.level, finding.check) == (level, "CUDA")
    assert finding.found == ("initialized" if level == "ok" else f"initialization failed: error {code}, {name}")
    assert fix in finding.fix


def test_without_a_gpu_nothing_is_started() -> None:
    assert cuda_findings(GpuProbe(False, "no NVIDIA driver", obstacle="no_driver"), 60) == []


def test_a_missing_driver_library_is_a_finding(gpu: GpuProbe) -> None:
    if subprocess.run([sys.executable, "-c", START], capture_output=True, check=False).returncode == 0:
        pytest.skip("this machine has the library")
    (finding,) = cuda_findings(gpu, 60)
    assert finding.level == "error"
    assert "libcuda.so.1" in finding.found
