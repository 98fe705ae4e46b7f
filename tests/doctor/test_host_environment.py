from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpupipe.doctor.driver import HostEnvironment, read_host_environment

Machine = Callable[[dict[str, str]], Path]


def test_a_plain_machine_shows_nothing(machine: Machine) -> None:
    assert read_host_environment(machine({"proc/version": "Linux version 6.8 (gcc)"})) == HostEnvironment()


@pytest.mark.parametrize(
    "files",
    [
        {".dockerenv": ""},
        {"run/.containerenv": ""},
        {"proc/1/cgroup": "0::/kubepods/burstable/pod1"},
        {"proc/1/cgroup": "12:devices:/docker/0123"},
    ],
)
def test_a_container_is_known_by_its_files(machine: Machine, files: dict[str, str]) -> None:
    assert read_host_environment(machine(files)) == HostEnvironment(in_container=True)


def test_wsl_is_detected_with_the_driver_from_windows(machine: Machine) -> None:
    kernel = {"proc/version": "Linux version 5.15.153.1-microsoft-standard-WSL2"}
    assert read_host_environment(machine(kernel)) == HostEnvironment(in_wsl=True)
    assert read_host_environment(machine({"dev/dxg": ""})) == HostEnvironment(in_wsl=True, has_wsl_gpu=True)
    around = read_host_environment(machine({"usr/lib/wsl/lib/libcuda.so.1": ""}))
    assert around == HostEnvironment(in_wsl=True, has_wsl_gpu=True, has_wsl_driver=True)


@pytest.mark.parametrize(
    ("vendor", "kind", "sign"),
    [
        ("0x10de", "0x030200", "it is PCI device 0000:01:00.0"),
        ("0x10de", "0x030000", "it is PCI device 0000:01:00.0"),
        ("0x10de", "0x040300", ""),  # the sound device of a graphics card
        ("0x1002", "0x030000", ""),  # another maker's
    ],
)
def test_an_nvidia_gpu_is_seen_without_a_driver(machine: Machine, vendor: str, kind: str, sign: str) -> None:
    device = "sys/bus/pci/devices/0000:01:00.0"
    assert (
        read_host_environment(machine({f"{device}/vendor": f"{vendor}\n", f"{device}/class": f"{kind}\n"})).nvidia_sign
        == sign
    )


def test_a_loaded_kernel_driver_shows_through_a_container(machine: Machine) -> None:
    around = read_host_environment(machine({".dockerenv": "", "proc/driver/nvidia/version": "NVRM version: 580"}))
    assert around.in_container
    assert around.nvidia_sign == "its kernel driver is loaded (/proc/driver/nvidia)"
