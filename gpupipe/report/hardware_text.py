"""Titles and values of hardware counters for readers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpupipe.units import format_size

TITLES = {
    "process_cpu_percent": "CPU",
    "process_memory_bytes": "memory",
    "machine_cpu_percent": "CPU of the machine",
    "machine_memory_bytes": "memory of the machine",
    "process_read_bytes_per_second": "disk reads",
    "process_write_bytes_per_second": "disk writes",
    "utilization_percent": "GPU",
    "memory_bytes": "GPU memory",
    "power_watts": "power",
    "temperature_celsius": "temperature",
    "sm_clock_mhz": "clock",
    "memory_clock_mhz": "memory clock",
    "memory_activity_percent": "memory activity",
    "pcie_to_device_bytes_per_second": "PCIe to the device",
    "pcie_to_host_bytes_per_second": "PCIe to the host",
    "slowdown_percent": "slowdown",
}
MAIN_QUANTITIES = (
    "utilization_percent", "memory_bytes", "process_cpu_percent", "process_memory_bytes", "power_watts",
    "temperature_celsius", "machine_cpu_percent", "machine_memory_bytes",
)  # fmt: skip
_GPU = re.compile(r"gpu(\d+)_(.+)")


def gpu_counter(name: str) -> tuple[str, str] | None:
    """Return the number of the GPU and the quantity of a counter; None for a counter of the host.

    Examples
    --------
    >>> gpu_counter("gpu0_power_watts")
    ('0', 'power_watts')
    """
    found = _GPU.fullmatch(name)
    return None if found is None else (found[1], found[2])


def count_gpus(names: Iterable[str]) -> int:
    """Return the number of GPUs that have a counter."""
    return len({found[0] for name in names if (found := gpu_counter(name))})


def counter_title(name: str, n_gpus: int) -> str:
    """Return the title of a counter: ``"CPU"``, ``"GPU 1 power"``; a single GPU has no number."""
    number, quantity = gpu_counter(name) or ("", name)
    title = TITLES.get(quantity, quantity)
    if not number or n_gpus == 1:
        return title
    return f"GPU {number} {title.removeprefix('GPU').strip()}".rstrip()


def main_counters(names: Iterable[str]) -> list[str]:
    """Return the counters that displays show, the most important first."""
    quantities = {name: (gpu_counter(name) or ("", name))[1] for name in names}
    shown = [name for name, quantity in quantities.items() if quantity in MAIN_QUANTITIES]
    return sorted(shown, key=lambda name: MAIN_QUANTITIES.index(quantities[name]))


def format_counter(value: float, unit: str) -> str:
    """Return a value with its unit: ``"87 %"``, ``"12.4 GiB"``, ``"412 W"``."""
    if unit in ("B", "B/s"):
        return format_size(value) + unit[1:]
    return f"{value:,.0f} {unit}"
