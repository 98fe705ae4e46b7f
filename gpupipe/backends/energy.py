"""Energy meters of processors and GPUs, or the wattage given in the configuration."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from pathlib import Path

from gpupipe.backends.nvml import Nvml, NvmlError, visible_gpus

POWERCAP = Path("/sys/class/powercap")
READ_EVERY = 1.0  # seconds: RAPL counters overflow within minutes, and power is instantaneous


class EnergyUnavailable(Exception):
    """Energy cannot be measured; the message has the reason."""


class EnergyMeter(ABC):
    """Meter of the joules used since its creation."""

    how: str  # the method: "RAPL", "NVML counter", "NVML power × time", "120 W given"
    is_polled: bool = False  # whether it must be read every `READ_EVERY` seconds to be accurate

    @abstractmethod
    def joules(self) -> float:
        """Return the joules used since creation; raise `EnergyUnavailable` if the meter fails."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Release the resources of the meter."""


class ConstantPower(EnergyMeter):
    """Constant power instead of a meter: the wattage given in the configuration."""

    def __init__(self, watts: float) -> None:
        self.how = f"{watts:g} W given"
        self._watts = watts
        self._began = time.perf_counter()

    def joules(self) -> float:
        return self._watts * (time.perf_counter() - self._began)


class RaplMeter(EnergyMeter):
    """Meter of this machine's processors, and of their memory if it has a counter.

    `folder` is that of Linux's counters; on most systems only root can read them.
    """

    how = "RAPL"
    is_polled = True

    def __init__(self, folder: Path = POWERCAP) -> None:
        self._zones = [_Zone(path) for path in sorted(folder.glob("intel-rapl:*")) if _is_counted(path)]
        if not self._zones:
            raise EnergyUnavailable(f"this machine has no energy counters of its processors (RAPL) in {folder}")

    def joules(self) -> float:
        return sum(zone.microjoules() for zone in self._zones) / 1e6


class _Zone:
    """RAPL counter, which overflows to 0."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "energy_uj"
        self._range = _number(folder / "max_energy_range_uj")
        self._last, self._used = _number(self._file), 0

    def microjoules(self) -> int:
        """Return the joules used since creation."""
        now = _number(self._file)
        self._used += now - self._last if now >= self._last else self._range - self._last + now
        self._last = now
        return self._used


class NvmlMeter(EnergyMeter):
    """Meter of the first GPUs that this process may use, including other processes on them."""

    def __init__(self, n_gpus: int) -> None:
        try:
            self._nvml = Nvml()
            self._gpus = visible_gpus(self._nvml)[:n_gpus]
            self._began = self._counters()
            self.is_polled = self._began is None
            self._watts, self._read = self._power() if self.is_polled else 0.0, time.perf_counter()
        except NvmlError as refusal:
            raise EnergyUnavailable(str(refusal)) from None
        self.how = "NVML power × time" if self.is_polled else "NVML counter"
        self._joules = 0.0

    def joules(self) -> float:
        try:
            if self._began is not None:
                return sum(self._nvml.millijoules(g) - b for g, b in zip(self._gpus, self._began, strict=True)) / 1e3
            self._add_power()
        except NvmlError as refusal:
            raise EnergyUnavailable(str(refusal)) from None
        return self._joules

    def close(self) -> None:
        self._nvml.close()

    def _counters(self) -> list[int] | None:
        """Return the counter of each GPU; None if it has none."""
        try:
            return [self._nvml.millijoules(gpu) for gpu in self._gpus] or None
        except NvmlError:
            return None

    def _power(self) -> float:
        return sum(self._nvml.milliwatts(gpu) for gpu in self._gpus) / 1e3

    def _add_power(self) -> None:
        """Add the mean power since the last reading times the time since then."""
        watts, now = self._power(), time.perf_counter()
        self._joules += (watts + self._watts) / 2 * (now - self._read)
        self._watts, self._read = watts, now


def _is_counted(zone: Path) -> bool:
    """Return whether the energy of a zone is not included in others: packages, and memory.

    A package includes its subzones, and "psys" is the whole machine.
    """
    name = _text(zone / "name")
    return name.startswith("package") or name == "dram"


def _number(file: Path) -> int:
    return int(_text(file))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise EnergyUnavailable(f"{file} cannot be read: {error.strerror}") from None
