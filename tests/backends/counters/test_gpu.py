"""Hardware counters of GPUs, on a stand-in for the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

SETUP = """
import json, os
from gpupipe.backends.counters.gpu import GpuCounters
from gpupipe.backends.counters.sampler import HardwareSampler
def sampled(n_gpus, times=1, between=lambda i: None):
    gpus, now = GpuCounters(n_gpus), [0.0]
    sampler = HardwareSampler(gpus.readers, 1.0, lambda: now[0], lambda: 0.0)
    for i in range(times):
        between(i)
        now[0] += 1.0
        sampler.sample()
    gpus.close()
    return sampler.samples.to_json() | {"devices": gpus.devices}
"""
OF_ONE_GPU = {
    "utilization_percent": ("%", 100.0, 87),
    "memory_activity_percent": ("%", 100.0, 40),
    "memory_bytes": ("B", 16 * 2**30, 8 * 2**30),
    "power_watts": ("W", 700.0, 300),
    "temperature_celsius": ("°C", None, 64),
    "sm_clock_mhz": ("MHz", None, 1980),
    "memory_clock_mhz": ("MHz", None, 2619),
    "pcie_to_device_bytes_per_second": ("B/s", None, 12e9),
    "pcie_to_host_bytes_per_second": ("B/s", None, 3e9),
    "slowdown_percent": ("%", 100.0, 0),
}
FUNCTIONS = {
    "nvmlDeviceGetUtilizationRates": {"utilization_percent", "memory_activity_percent"},
    "nvmlDeviceGetMemoryInfo": {"memory_bytes"},
    "nvmlDeviceGetPowerUsage": {"power_watts"},
    "nvmlDeviceGetTemperature": {"temperature_celsius"},
    "nvmlDeviceGetClockInfo": {"sm_clock_mhz", "memory_clock_mhz"},
    "nvmlDeviceGetPcieThroughput": {"pcie_to_device_bytes_per_second", "pcie_to_host_bytes_per_second"},
    "nvmlDeviceGetCurrentClocksThrottleReasons": {"slowdown_percent"},
    "nvmlDeviceGetEnforcedPowerLimit": set(),
}


@pytest.fixture
def on_driver(drivers: dict[str, str], run_python: Any) -> Any:
    def run(code: str, **environment: str) -> Any:
        return run_python(SETUP + code, LD_LIBRARY_PATH=drivers["complete"], **environment)

    return run


def test_every_counter_of_a_gpu_has_its_unit_limit_and_value(on_driver: Any) -> None:
    record = on_driver("print(json.dumps(sampled(1)))")
    found = {name: (each["unit"], each["limit"], each["values"][0]) for name, each in record["counters"].items()}
    assert found == {f"gpu0_{name}": expected for name, expected in OF_ONE_GPU.items()}
    assert record["unavailable"] == {} and record["devices"] == {"gpu0": "NVIDIA Fake 0"}


def test_a_call_that_is_not_supported_takes_no_other_counter_along(on_driver: Any) -> None:
    code = f"""
found = {{}}
for function in {list(FUNCTIONS)!r}:
    os.environ["FAKE_NVML"] = f"{{function}}=3"
    found[function] = sampled(1)
print(json.dumps(found))
"""
    for function, record in on_driver(code).items():
        missing = {f"gpu0_{name}" for name in FUNCTIONS[function]}
        assert set(record["unavailable"]) == missing
        assert set(record["counters"]) == {f"gpu0_{name}" for name in OF_ONE_GPU} - missing
        for reason in record["unavailable"].values():
            assert f"{function} with error 3: this driver does not support the call" in reason


def test_only_the_gpus_of_the_run_are_sampled_in_the_order_of_cuda(on_driver: Any) -> None:
    record = on_driver("print(json.dumps(sampled(2)))", FAKE_COUNT="4", CUDA_VISIBLE_DEVICES="2,GPU-0,3")
    assert record["devices"] == {"gpu0": "NVIDIA Fake 2", "gpu1": "NVIDIA Fake 0"}
    busy = {name: each["values"] for name, each in record["counters"].items() if "utilization" in name}
    assert busy == {"gpu0_utilization_percent": [85.0], "gpu1_utilization_percent": [87.0]}


def test_a_gpu_that_is_lost_for_a_moment_leaves_a_gap(on_driver: Any, tmp_path: Path) -> None:
    code = """
def between(i):
    (open(os.environ["FAKE_LOST"], "w").close if i == 1 else (lambda: os.remove(os.environ["FAKE_LOST"])) if i == 2
     else lambda: None)()
print(json.dumps(sampled(1, 3, between)))
"""
    record = on_driver(code, FAKE_LOST=str(tmp_path / "lost"))
    assert record["counters"]["gpu0_temperature_celsius"]["values"] == [64.0, None, 64.0]
    assert record["counters"]["gpu0_power_watts"]["values"] == [300.0, 300.0, 300.0]
    assert record["unavailable"] == {}


def test_a_slice_has_its_own_memory_and_the_power_of_its_gpu_and_no_utilization(on_driver: Any) -> None:
    record = on_driver("print(json.dumps(sampled(1)))", FAKE_COUNT="2", CUDA_VISIBLE_DEVICES="MIG-1")
    assert record["devices"] == {"gpu0": "NVIDIA Fake 1 MIG 1g.5gb"}
    assert record["counters"]["gpu0_memory_bytes"] == {"unit": "B", "limit": 4 * 2**30, "values": [2 * 2**30]}
    assert record["counters"]["gpu0_power_watts"]["values"] == [300.0]
    assert set(record["unavailable"]) == {"gpu0_utilization_percent", "gpu0_memory_activity_percent"}


@pytest.mark.parametrize(("reasons", "percent"), [("4", 0.0), ("1", 0.0), ("64", 100.0), ("12", 100.0)])
def test_reaching_the_power_limit_is_not_a_slowdown_and_heat_is(on_driver: Any, reasons: str, percent: float) -> None:
    record = on_driver("print(json.dumps(sampled(1)))", FAKE_REASONS=reasons)
    assert record["counters"]["gpu0_slowdown_percent"]["values"] == [percent]
