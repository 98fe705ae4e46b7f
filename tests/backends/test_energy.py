"""Energy meters, on counters in files and on a driver that reports values from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupipe.backends.energy import ConstantPower, EnergyUnavailable, RaplMeter

READ_TWICE = """
import json
from gpupipe.backends.energy import NvmlMeter, EnergyUnavailable
try:
    meter = NvmlMeter({n})
    found = [meter.how, meter.is_polled, meter.joules(), meter.joules()]
    meter.close()
except EnergyUnavailable as error:
    found = str(error)
print(json.dumps(found))
"""


def _zone(folder: Path, number: str, name: str, used: int, largest: int = 1_000_000_000) -> Path:
    zone = folder / f"intel-rapl:{number}"
    zone.mkdir()
    (zone / "name").write_text(f"{name}\n")
    (zone / "max_energy_range_uj").write_text(f"{largest}\n")
    (zone / "energy_uj").write_text(f"{used}\n")
    return zone / "energy_uj"


def test_packages_and_memory_are_added_up_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    counted = [("0", "package-0"), ("1", "package-1"), ("0:2", "dram")]
    other = [("0:0", "core"), ("0:1", "uncore"), ("2", "psys")]
    files = {name: _zone(tmp_path, number, name, 7_000_000) for number, name in counted + other}
    (tmp_path / "intel-rapl").mkdir()
    (tmp_path / "intel-rapl-mmio:0").mkdir()  # package 0 once more
    meter = RaplMeter(tmp_path)
    assert meter.joules() == 0
    for file in files.values():
        file.write_text("9000000\n")
    assert meter.joules() == 6
    files["dram"].write_text("9500000\n")
    assert meter.joules() == 6.5


def test_an_overflowing_counter_continues(tmp_path: Path) -> None:
    file = _zone(tmp_path, "0", "package-0", used=262_000_000, largest=262_143_000)
    meter = RaplMeter(tmp_path)
    file.write_text("1857000\n")
    assert meter.joules() == 2
    file.write_text("3857000\n")
    assert meter.joules() == 4


def test_missing_and_unreadable_counters_are_reported(tmp_path: Path) -> None:
    with pytest.raises(EnergyUnavailable, match="no energy counters of its processors"):
        RaplMeter(tmp_path)
    file = _zone(tmp_path, "0", "package-0", 1)
    meter = RaplMeter(tmp_path)
    file.unlink()
    file.mkdir()  # what even root cannot read
    with pytest.raises(EnergyUnavailable, match="energy_uj cannot be read: Is a directory"):
        meter.joules()


def test_given_watts_grow_with_time() -> None:
    meter = ConstantPower(1e9)
    assert 0 < meter.joules() < meter.joules()
    assert meter.how == "1e+09 W given"


@pytest.mark.parametrize(("n", "joules"), [(1, [5.0, 10.0]), (2, [10.0, 20.0])])
def test_the_counters_of_the_gpus_are_added_up(drivers: Any, run_python: Any, n: int, joules: list[float]) -> None:
    found = run_python(READ_TWICE.format(n=n), LD_LIBRARY_PATH=drivers["complete"], FAKE_COUNT="2")
    assert found[:2] == ["NVML counter", False]
    assert [after - before for before, after in zip([0.0, found[2]], found[2:], strict=True)] == joules[:1] * 2


def test_without_counters_power_is_added_up_over_time(drivers: Any, run_python: Any) -> None:
    how, is_polled, first, second = run_python(
        READ_TWICE.format(n=1), LD_LIBRARY_PATH=drivers["complete"], FAKE_ENERGY="3"
    )
    assert (how, is_polled) == ("NVML power × time", True)
    assert 0 < first < second < 300 * 60  # 300 W


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"FAKE_ENERGY": "3", "FAKE_POWER": "3"}, "nvmlDeviceGetPowerUsage with error 3: this driver does not support"),
        ({"GPUPIPE_FORCE_CPU": "1"}, "GPUPIPE_FORCE_CPU is set"),
    ],
)
def test_a_driver_without_measurements_is_reported(
    drivers: Any, run_python: Any, environment: dict[str, str], words: str
) -> None:
    assert words in run_python(READ_TWICE.format(n=1), LD_LIBRARY_PATH=drivers["complete"], **environment)
