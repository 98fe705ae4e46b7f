"""Description of the machine and the device."""

from __future__ import annotations

from pathlib import Path

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.bench.measurement import cpu_model, describe_device, describe_machine


def test_the_machine_is_described() -> None:
    machine = describe_machine()
    assert machine["cpu"]
    assert machine["threads"] >= 1
    assert machine["memory_gib"] > 0
    assert len(machine["load_average"]) == 3


def test_the_processor_has_the_name_that_the_system_gives_it(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Abacus 3000\n\nprocessor\t: 1\nmodel name\t: Abacus 3000\n")
    assert cpu_model(cpuinfo) == "Abacus 3000"


def test_a_processor_without_a_name_shows_its_architecture(tmp_path: Path) -> None:
    assert cpu_model(tmp_path / "nothing")


def test_a_gpu_that_was_not_measured_is_reported_with_the_reason() -> None:
    device = describe_device(CpuBackend("asked for"))
    assert (device["name"], device["reason"]) == ("cpu", "asked for")
    assert device["gpu"].startswith("not measured: ")
    assert len(device["gpu"]) > len("not measured: ")
