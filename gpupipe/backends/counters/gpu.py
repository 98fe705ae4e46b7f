"""Hardware counters of the run's GPUs, read through NVML."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress

from gpupipe.backends.counters.counter import CounterReader, CounterUnavailable, HardwareCounter
from gpupipe.backends.nvml import Nvml, NvmlError, visible_gpus

PERMANENT = {"nvml_3", "nvml_4", "nvml_13", "no_function"}  # not supported, not permitted, or not in this driver
# Arguments of NVML
TEMPERATURE_OF_THE_CHIP = 0
SM_CLOCK = 1
MEMORY_CLOCK = 2
TO_HOST = 0
TO_DEVICE = 1
# Bits of slowdown by the hardware, by its temperature, and by the power supply; reaching the power limit is not one.
SLOWDOWN = 0x08 | 0x20 | 0x40 | 0x80


class GpuCounters:
    """Counters of the first GPUs, or slices of GPUs (MIG), that this process may use.

    The counters of the GPU at position 0 of ``CUDA_VISIBLE_DEVICES`` begin with ``gpu0_``. Memory is that of the slice,
    also in use by other processes; power, temperature, clocks and PCIe are those of the whole GPU. Raise
    CounterUnavailable if the driver cannot be used.

    `devices`: prefix of the counters to the name of the GPU.
    """

    def __init__(self, n_gpus: int) -> None:
        self.readers: list[CounterReader] = []
        self.devices: dict[str, str] = {}
        try:
            self._nvml = Nvml()
        except NvmlError as refusal:
            raise CounterUnavailable(str(refusal)) from None
        try:
            for position, handle in enumerate(visible_gpus(self._nvml)[:n_gpus]):
                self._add(f"gpu{position}", handle)
        except NvmlError as refusal:
            self.close()
            raise CounterUnavailable(str(refusal)) from None

    def close(self) -> None:
        """Release the driver."""
        self._nvml.close()

    def _add(self, prefix: str, handle: ctypes.c_void_p) -> None:
        nvml, whole = self._nvml, self._nvml.whole_gpu(handle)
        self.devices[prefix] = prefix
        with suppress(NvmlError):
            self.devices[prefix] = nvml.text("nvmlDeviceGetName", handle)
        total = power_limit = None
        with suppress(NvmlError):
            total = float(nvml.memory(handle)[0])
        with suppress(NvmlError):
            power_limit = nvml.number("nvmlDeviceGetEnforcedPowerLimit", whole) / 1e3

        def used_bytes() -> Sequence[float]:
            all_bytes, free_bytes = nvml.memory(handle)
            return (float(all_bytes - free_bytes),)

        def one(function: str, *arguments: object, scale: float = 1.0) -> Callable[[], Sequence[float]]:
            return lambda: (nvml.number(function, whole, *arguments) * scale,)

        def counter(name: str, unit: str, limit: float | None = None, *, is_peak: bool = False) -> HardwareCounter:
            return HardwareCounter(f"{prefix}_{name}", unit, limit, is_peak)

        def add(counters: tuple[HardwareCounter, ...], read: Callable[[], Sequence[float]]) -> None:
            self.readers.append(CounterReader(counters, _translating(read)))

        add(
            (counter("utilization_percent", "%", 100.0), counter("memory_activity_percent", "%", 100.0)),
            lambda: tuple(map(float, nvml.utilization(handle))),
        )
        add((counter("memory_bytes", "B", total, is_peak=True),), used_bytes)
        add((counter("power_watts", "W", power_limit),), one("nvmlDeviceGetPowerUsage", scale=1e-3))
        add(
            (counter("temperature_celsius", "°C", is_peak=True),),
            one("nvmlDeviceGetTemperature", ctypes.c_int(TEMPERATURE_OF_THE_CHIP)),
        )
        for name, kind in (("sm_clock_mhz", SM_CLOCK), ("memory_clock_mhz", MEMORY_CLOCK)):
            add((counter(name, "MHz"),), one("nvmlDeviceGetClockInfo", ctypes.c_int(kind)))
        # The driver measures the traffic of 20 ms during the call, and answers in KB/s.
        for name, direction in (("to_device", TO_DEVICE), ("to_host", TO_HOST)):
            read = one("nvmlDeviceGetPcieThroughput", ctypes.c_int(direction), scale=1e3)
            add((counter(f"pcie_{name}_bytes_per_second", "B/s"),), read)
        add(
            (counter("slowdown_percent", "%", 100.0),),
            lambda: (100.0 if nvml.clock_limits(whole) & SLOWDOWN else 0.0,),
        )


def _translating(read: Callable[[], Sequence[float]]) -> Callable[[], Sequence[float]]:
    """Return `read` with failures that will not change as `CounterUnavailable`."""

    def translated() -> Sequence[float]:
        try:
            return read()
        except NvmlError as failure:
            if failure.obstacle in PERMANENT:
                raise CounterUnavailable(str(failure)) from None
            raise

    return translated
