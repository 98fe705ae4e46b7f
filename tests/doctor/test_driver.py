from __future__ import annotations

from dataclasses import replace

import pytest

from gpupipe.backends.nvml import NVML_ERRORS
from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import Distributions
from gpupipe.doctor.driver import NVML_FIXES, WITH_GPUS, HostEnvironment, driver_findings
from gpupipe.doctor.finding import Finding

NOTHING = Distributions()
WHEELS = Distributions({"cudf-cu13": "26.10.0"})
NO_DRIVER = GpuProbe(False, "no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded", obstacle="no_driver")
PLAIN = HostEnvironment()
CONTAINER = HostEnvironment(in_container=True)
SIGN = "it is PCI device 0000:01:00.0"
WSL = HostEnvironment(in_wsl=True)


def said(gpu: GpuProbe, around: HostEnvironment = PLAIN, installed: Distributions = NOTHING) -> Finding:
    (finding,) = driver_findings(gpu, around, installed)
    assert gpu.obstacle == "" or gpu.reason in finding.found
    return finding


def test_a_good_driver_is_ok(gpu: GpuProbe) -> None:
    assert said(gpu, installed=WHEELS) == Finding("ok", "NVIDIA driver", "580.95.05, supports CUDA up to 13.0")


@pytest.mark.parametrize("around", [PLAIN, CONTAINER, WSL])
def test_a_machine_without_a_gpu_is_ok_and_needs_no_fix(around: HostEnvironment) -> None:
    finding = said(NO_DRIVER, around)
    assert (finding.level, finding.fix) == ("ok", "")


@pytest.mark.parametrize(
    ("around", "wheels", "level", "fix"),
    [
        (replace(PLAIN, nvidia_sign=SIGN), NOTHING, "error", "install NVIDIA driver 580 or newer"),
        (replace(CONTAINER, nvidia_sign=SIGN), NOTHING, "error", "docker run --gpus all"),
        (PLAIN, WHEELS, "warning", "run on a machine with an NVIDIA GPU"),
        (CONTAINER, WHEELS, "warning", "docker run --gpus all"),
        (replace(WSL, has_wsl_gpu=True), NOTHING, "warning", "install NVIDIA's driver on Windows, not inside WSL"),
        (WSL, WHEELS, "warning", "wsl --update"),
    ],
)
def test_a_missing_driver_has_a_fix_for_its_environment(
    around: HostEnvironment, wheels: Distributions, level: str, fix: str
) -> None:
    finding = said(NO_DRIVER, around, wheels)
    assert finding.level == level
    assert fix in finding.fix


def test_the_fix_for_wsl_adds_its_driver_to_the_library_path() -> None:
    finding = said(NO_DRIVER, replace(WSL, has_wsl_gpu=True, has_wsl_driver=True))
    assert finding.level == "error"
    assert finding.fix == "export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH"


def test_a_hidden_gpu_is_intended_and_not_an_error() -> None:
    hidden = GpuProbe(False, "GPUPIPE_FORCE_CPU is set", obstacle="hidden")
    assert said(hidden).fix == ""
    finding = said(hidden, replace(PLAIN, nvidia_sign=SIGN))
    assert (finding.level, finding.fix) == ("warning", "to use the GPU: unset GPUPIPE_FORCE_CPU")


@pytest.mark.parametrize(
    ("obstacle", "around", "fix"),
    [
        ("no_cuda", CONTAINER, "NVIDIA_DRIVER_CAPABILITIES=compute,utility"),
        ("no_cuda", WSL, "export LD_LIBRARY_PATH=/usr/lib/wsl/lib"),
        ("no_cuda", PLAIN, "reinstall the NVIDIA driver with its compute libraries"),
        ("no_gpu", CONTAINER, WITH_GPUS),
        ("no_gpu", PLAIN, "restart the machine"),
        ("not_visible", PLAIN, "unset CUDA_VISIBLE_DEVICES"),
        ("old_driver", PLAIN, "install NVIDIA driver 525 or newer"),
        ("nvml_18", PLAIN, "restart the machine"),
        ("nvml_9", PLAIN, "sudo modprobe nvidia"),
        ("nvml_77", PLAIN, "run nvidia-smi"),
    ],
)
def test_every_obstacle_of_an_installed_driver_is_an_error(obstacle: str, around: HostEnvironment, fix: str) -> None:
    finding = said(GpuProbe(False, "the reason", obstacle=obstacle), around)
    assert finding.level == "error"
    assert fix in finding.fix


def test_every_error_that_the_probe_explains_has_a_fix() -> None:
    assert set(NVML_FIXES) == {f"nvml_{code}" for code in NVML_ERRORS}


def test_a_driver_older_than_its_wheels_is_an_error_with_two_ways_out(gpu: GpuProbe) -> None:
    older = replace(gpu, driver="570.86.10", cuda=(12, 8))
    assert said(older).level == "ok"
    finding = said(older, installed=WHEELS)
    assert finding.level == "error"
    assert finding.found.endswith("too old for the installed CUDA 13 wheels (cudf-cu13)")
    assert finding.fix == (
        "install NVIDIA driver 580 or newer, or: pip uninstall -y cudf-cu13 && pip install 'gpupipe[cuda12]'"
    )
