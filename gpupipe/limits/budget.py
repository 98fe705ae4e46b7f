"""Budget of a run: usage and cost of its limited resources, checked at every safe point."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from gpupipe.backends.energy import READ_EVERY, EnergyMeter, EnergyUnavailable
from gpupipe.backends.polling_thread import PollingThread
from gpupipe.config import Config
from gpupipe.config.limits import Limits, Prices
from gpupipe.errors import DeviceError, LimitError
from gpupipe.limits.energy import GIVE_WATTS, RunHardware, meters_of
from gpupipe.timeline.timeline import Stage, Timeline
from gpupipe.units import format_duration

HOUR = 3600.0
KWH = 3.6e6  # joules
MOST_NAMED = 6  # models named in the message
UNITS = {"time": "s", "gpu_hours": "h", "energy": "kWh", "cost": ""}  # cost: the currency of the prices


@dataclass(frozen=True)
class LimitUsage:
    """Usage of one limited resource.

    `name` is that in the configuration: "time", "gpu_hours", "energy", "cost". `allowed` is the limit; None if the
    resource has a price but no limit. `how` describes how `used` was measured.
    """

    name: str
    used: float
    allowed: float | None
    how: str

    @property
    def is_reached(self) -> bool:
        """True if the limit is reached."""
        return self.allowed is not None and self.used >= self.allowed

    def __str__(self) -> str:
        of = "" if self.allowed is None else f" of {format_amount(self.name, self.allowed)}"
        return f"{self.name} {format_amount(self.name, self.used)}{of}"

    def to_json(self) -> dict[str, Any]:
        """Return the record for timeline.json."""
        return asdict(self) | {"unit": UNITS[self.name], "used": round(self.used, 9)}


def format_amount(name: str, value: float) -> str:
    """Format an amount of the resource `name`."""
    return format_duration(value) if name == "time" else f"{value:.4g} {UNITS[name]}".rstrip()


@contextmanager
def enforce_limits(
    config: Config, timeline: Timeline, hardware: RunHardware, polling: PollingThread
) -> Iterator[Budget]:
    """Stop the run in the ``with`` block at a safe point once it reaches a configured limit.

    The usage is recorded in the timeline and noted at its end. Raise ConfigError if energy has a limit or a price but
    cannot be measured, and ``limits.power`` is not set.
    """
    meters = meters_of(config.limits, hardware)
    with Budget(config.limits, timeline, hardware.n_gpus, meters, polling) as budget:
        timeline.limits = budget.to_json
        if config.limits.of_a_run:
            timeline.stop_signal.watch(budget.check)
        yield budget
        found, uses = budget.to_json(), budget.uses()
        timeline.limits = lambda: found
        if uses:
            is_over = any(use.is_reached for use in uses)
            timeline.note(f"used: {', '.join(map(str, uses))}", "warning" if is_over else "info")


class Budget:
    """Limits of one run, and a context manager of its energy meters.

    `timeline` is the source of the elapsed time and of the finished stages. `n_gpus` returns the number of GPUs that
    the run holds now. `meters` are pairs of what is measured, "cpu" or "gpu", and the meter. `polling` reads meters
    that must be polled.
    """

    def __init__(
        self,
        limits: Limits,
        timeline: Timeline,
        n_gpus: Callable[[], int] = lambda: 0,
        meters: Sequence[tuple[str, EnergyMeter]] = (),
        polling: PollingThread | None = None,
    ) -> None:
        self.limits = limits
        self.timeline = timeline
        self.n_gpus = n_gpus
        self.meters = tuple(meters)
        self._polling, self._lock = polling, threading.Lock()
        self._gpu_seconds = self._counted_until = 0.0
        self._stack = ExitStack()

    def __enter__(self) -> Budget:
        for _, meter in self.meters:
            self._stack.callback(meter.close)
        if self._polling is not None and any(meter.is_polled for _, meter in self.meters):
            self._stack.callback(self._polling.call_every(READ_EVERY, self._read))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def check(self, where: str) -> None:
        """Raise a LimitError if a limit is reached; `where` names the safe point."""
        for use in self.uses():
            if use.is_reached:
                raise _reached(use, where, self.timeline)

    def uses(self) -> list[LimitUsage]:
        """Return the usage of the resources that have a limit or a price.

        Raise DeviceError if a meter cannot be read any more.
        """
        limits = self.limits
        price = self.limits.price
        wall = self.timeline.seconds
        gpu_hours, kwh = self._gpu_hours(wall), self._joules() / KWH
        cost = price.hour * wall / HOUR + price.gpu_hour * gpu_hours + price.kwh * kwh
        meters = ", ".join(f"{whose}: {meter.how}" for whose, meter in self.meters)
        found = [
            LimitUsage("time", wall, limits.time, "wall clock"),
            LimitUsage("gpu_hours", gpu_hours, limits.gpu_hours, "GPUs that the run holds × wall clock"),
            LimitUsage("energy", kwh, limits.energy, meters),
            LimitUsage("cost", cost, limits.cost, _priced(price)),
        ]
        known = {"energy": bool(self.meters), "cost": bool(_priced(price))}
        return [use for use in found if use.allowed is not None or known.get(use.name)]

    def to_json(self) -> list[dict[str, Any]]:
        """Return `uses` as records for timeline.json."""
        return [use.to_json() for use in self.uses()]

    def _gpu_hours(self, wall: float) -> float:
        """Return the GPU hours, counted since the last call with the current number of GPUs, which may change."""
        self._gpu_seconds += self.n_gpus() * (wall - self._counted_until)
        self._counted_until = wall
        return self._gpu_seconds / HOUR

    def _joules(self) -> float:
        try:
            with self._lock:
                return sum(meter.joules() for _, meter in self.meters)
        except EnergyUnavailable as error:
            what = f"the energy meter stopped working: {error}"
            raise DeviceError(what, where="limits.energy", fix=GIVE_WATTS) from error

    def _read(self) -> None:
        with self._lock, suppress(EnergyUnavailable):  # raised again at the next safe point
            for _, meter in self.meters:
                meter.joules()


def _priced(price: Prices) -> str:
    units = {"hour": price.hour, "GPU hour": price.gpu_hour, "kWh": price.kwh}
    return ", ".join(f"{value:g} per {unit}" for unit, value in units.items() if value)


def _trains(stage: Stage) -> bool:
    return "train " in stage.name


def _reached(use: LimitUsage, where: str, timeline: Timeline) -> LimitError:
    running = [stage.name for stage in timeline.stages if stage.status == "running"]
    done = [stage.name.replace("train ", "") for stage in timeline.stages if stage.status == "done" and _trains(stage)]
    models = ", ".join(done[:MOST_NAMED]) + (f" and {len(done) - MOST_NAMED} more" * (len(done) > MOST_NAMED))
    allowed = "" if use.allowed is None else format_amount(use.name, use.allowed)
    return LimitError(
        f"limits.{use.name} is reached: used {format_amount(use.name, use.used)} of {allowed}; "
        f"{f'models trained so far: {models}' if models else 'no model is trained yet'}",
        where=", ".join([*running, where]),
        fix=f"resume the run with --resume, which counts from 0 again; if a single step needs more than {allowed}, "
        f"raise limits.{use.name}",
    )
