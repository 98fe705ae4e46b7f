"""Memory, time, energy, cost and break-even of a configuration on known GPUs, from the peaks of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile
from typing import Any

import numpy as np

from gpupipe.backends import machine
from gpupipe.backends.probe import MIN_CAPABILITY
from gpupipe.backends.threads import limit_threads
from gpupipe.config import Config
from gpupipe.errors import LimitError
from gpupipe.plan.gpu_choice.gpu_specs import GpuSpec
from gpupipe.plan.gpu_choice.prices import HourPrices
from gpupipe.plan.gpu_choice.roofline import Peaks
from gpupipe.plan.gpu_choice.stage_times import RunTime, TimeRange, cpu_time, gpu_time
from gpupipe.plan.gpu_choice.work_steps import StageWork, WorkSteps
from gpupipe.plan.preview import Preview, preview
from gpupipe.plan.run_plan import RunPlan, plan_sample
from gpupipe.units import MIB

COPIED = 64 * MIB  # larger than the caches of a core
SIDE = 768  # of the matrices that are multiplied
REPEATS = 5  # the fastest counts: others may use the machine

# Sizes at which two times are compared: 1, 2 and 5 times the powers of ten.
SIZES = tuple(digit * 10**power for power, digit in product(range(3, 10), (1, 2, 5)))
WATT_HOUR = 3600.0  # joules


@dataclass(frozen=True)
class RowRange:
    """Numbers of rows from which one of two ranges is the smaller one; None if it is not up to 5e9 rows.

    - `possible`: if the ranges touch.
    - `certain`: whatever the values within the ranges.
    """

    possible: int | None
    certain: int | None


@dataclass(frozen=True)
class GpuEstimate:
    """Estimates of a configuration on one GPU.

    - `obstacle`: the reason that the run is impossible on it; "" if it is possible.
    - `time`: none if a figure of the GPU is missing, or the run is impossible.
    - `watt_hours`: at most: the board's power during the longest time.
    - `cost`: none without a price.
    - `faster`, `cheaper`: numbers of rows from which the GPU is faster, or cheaper, than this CPU.
    """

    gpu: GpuSpec
    obstacle: str
    plan: RunPlan
    time: RunTime | None
    watt_hours: float | None
    cost: TimeRange | None
    faster: RowRange | None
    cheaper: RowRange | None

    @property
    def parts(self) -> int:
        """The largest number of parts in which the rows are read or features computed; predictions are in batches."""
        return max(stage.parts for stage in self.plan.stages if "predict" not in stage.name)

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as JSON values."""
        return {
            "gpu": self.gpu.to_json(),
            "fits": not self.obstacle,
            "obstacle": self.obstacle,
            "needed_bytes": self.plan.device_bytes,
            "usable_bytes": self.gpu.usable_bytes,
            "parts": self.parts,
            **time_json(self.time),
            "watt_hours_at_most": self.watt_hours,
            "cost": self.cost and vars(self.cost),
            "faster_from_rows": self.faster and vars(self.faster),
            "cheaper_from_rows": self.cheaper and vars(self.cheaper),
        }


@dataclass(frozen=True)
class ConfigEstimates:
    """Estimates of a configuration on this CPU and on GPUs.

    `is_exact` is false if the number of rows is estimated. `core` has the measured rates of one core.
    """

    n_rows: int
    is_exact: bool
    core: Peaks
    n_threads: int
    cpu_plan: RunPlan
    cpu: RunTime
    cpu_cost: TimeRange | None
    gpus: tuple[GpuEstimate, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the estimates as JSON values."""
        return {
            "rows": self.n_rows,
            "rows_are_exact": self.is_exact,
            "cpu": {
                "threads": self.n_threads,
                "core_peaks": vars(self.core),
                "fits": self.cpu_plan.error is None,
                "on_disk": self.cpu_plan.on_disk,
                "needed_bytes": self.cpu_plan.host_bytes,
                "usable_bytes": self.cpu_plan.host_limit,
                **time_json(self.cpu),
                "cost": self.cpu_cost and vars(self.cpu_cost),
            },
            "gpus": [gpu.to_json() for gpu in self.gpus],
        }


def time_json(time: RunTime | None) -> dict[str, Any]:
    """Return a time as JSON values; nulls if there is none."""
    if time is None:
        return {"seconds": None, "start_seconds": None, "stages": [], "not_predicted": []}
    return {
        "seconds": time.total and vars(time.total),
        "start_seconds": vars(time.start),
        "stages": [stage.to_json() for stage in time.stages],
        "not_predicted": list(time.unknown),
    }


def estimate_gpus(config: Config, gpus: Sequence[GpuSpec], prices: HourPrices) -> ConfigEstimates:
    """Return the estimates for `gpus`, each compared with this CPU.

    One sample of the tables serves all of them. One core of this machine is measured for about half a second. Raise the
    GpupipeErrors of the run that occur on the sample.
    """
    config = config.model_copy(update={"device": "auto"})
    return _Estimator(config, preview(config, "gpu"), measure_core(), machine.n_threads(), prices).estimate(gpus)


@dataclass(frozen=True)
class _Estimator:
    config: Config
    seen: Preview
    core: Peaks
    n_threads: int
    prices: HourPrices

    def estimate(self, gpus: Sequence[GpuSpec]) -> ConfigEstimates:
        n_rows = self.seen.n_rows
        cpu = cpu_time(self._work(n_rows, False), self.core, self.n_threads)
        cpu_times = {n: cpu_time(self._work(n, False), self.core, self.n_threads) for n in SIZES}
        works = {n: self._work(n, True) for n in SIZES}
        found = tuple(self._estimate(gpu, cpu_times, works) for gpu in gpus)
        plan = plan_sample(self.config, self.seen, None, "")
        return ConfigEstimates(
            n_rows, self.seen.is_exact, self.core, self.n_threads, plan, cpu, self._cpu_cost(cpu.total), found
        )

    def _work(self, n_rows: int, on_device: bool) -> list[StageWork]:
        """Return the work of a run on `n_rows` rows like those of the sample."""
        seen, factor = self.seen, n_rows / self.seen.n_rows
        scaled = replace(
            seen, n_rows=n_rows, n_read=round(seen.n_read * factor), file_bytes=round(seen.file_bytes * factor)
        )
        steps = WorkSteps(self.config, scaled, on_device)
        steps.walk()
        return steps.stages

    def _estimate(self, gpu: GpuSpec, cpu_times: dict[int, RunTime], works: dict[int, list[StageWork]]) -> GpuEstimate:
        plan = plan_sample(self.config, self.seen, gpu.usable_bytes, f"{gpu.name}, as planned")
        obstacle = _obstacle(gpu, plan)
        if obstacle or gpu.lacking:
            return GpuEstimate(gpu, obstacle, plan, None, None, None, None, None)
        time = self._gpu_time(gpu, self._work(self.seen.n_rows, True))
        times = {n: self._gpu_time(gpu, work) for n, work in works.items()}
        ours = {n: each.total for n, each in times.items()}
        theirs = {n: each.total for n, each in cpu_times.items()}
        total = time.total
        watts = None if gpu.watts is None or total is None else gpu.watts * total.high / WATT_HOUR
        costs = {n: self._gpu_cost(gpu, each) for n, each in ours.items()}
        cpu_costs = {n: self._cpu_cost(each) for n, each in theirs.items()}
        return GpuEstimate(
            gpu,
            "",
            plan,
            time,
            watts,
            self._gpu_cost(gpu, total),
            smaller_from(ours, theirs),
            smaller_from(costs, cpu_costs),
        )

    def _gpu_time(self, gpu: GpuSpec, work: list[StageWork]) -> RunTime:
        return gpu_time(work, gpu, self.core, self.n_threads)

    def _gpu_cost(self, gpu: GpuSpec, time: TimeRange | None) -> TimeRange | None:
        return self._cost(self.prices.gpus.get(gpu.key), time, gpu.watts)

    def _cpu_cost(self, time: TimeRange | None) -> TimeRange | None:
        return self._cost(self.prices.cpu, time, self.config.limits.power.cpu)

    def _cost(self, hour: float | None, time: TimeRange | None, watts: float | None) -> TimeRange | None:
        if time is None:
            return None
        low, high = (self.prices.cost(hour, seconds, watts) for seconds in (time.low, time.high))
        return None if low is None or high is None else TimeRange(low, high)


def _obstacle(gpu: GpuSpec, plan: RunPlan) -> str:
    """Return the reason that a run is impossible on a GPU, or ""."""
    if gpu.capability < MIN_CAPABILITY:
        least = ".".join(map(str, MIN_CAPABILITY))
        return f"compute capability below {least}"
    if isinstance(plan.error, LimitError):
        return "does not fit"
    return "" if plan.error is None else plan.error.what


def smaller_from(ours: Mapping[int, TimeRange | None], theirs: Mapping[int, TimeRange | None]) -> RowRange | None:
    """Return the sizes from which `ours` is smaller than `theirs` at every larger size; None if a value is unknown.

    Examples
    --------
    >>> ours = {1: TimeRange(3, 9), 10: TimeRange(3, 9), 100: TimeRange(4, 12)}
    >>> theirs = {1: TimeRange(1, 2), 10: TimeRange(4, 6), 100: TimeRange(20, 30)}
    >>> smaller_from(ours, theirs)
    RowRange(possible=10, certain=100)
    """
    pairs = [(n, ours[n], theirs[n]) for n in sorted(ours)]
    known = [(n, mine, other) for n, mine, other in pairs if mine is not None and other is not None]
    if len(known) < len(pairs):
        return None
    possible = takewhile(lambda pair: pair[1].low < pair[2].high, reversed(known))
    certain = takewhile(lambda pair: pair[1].high < pair[2].low, reversed(known))
    return RowRange(*(min((n for n, _, _ in found), default=None) for found in (possible, certain)))


def measure_core() -> Peaks:
    """Return the bytes copied per second by one thread, and the operations per second of its matrix products.

    CPU time is measured, not time: other processes may use the machine.
    """
    source = np.ones(COPIED // 8)
    target = np.empty_like(source)
    with limit_threads(blas=1):
        copied = _seconds(lambda: np.copyto(target, source))
        single = _seconds(_product("float32"))
        double = _seconds(_product("float64"))
    n_flops = 2.0 * SIDE**3
    return Peaks(2 * COPIED / copied, n_flops / single, n_flops / double, n_flops / single)


def _product(dtype: str) -> Callable[[], None]:
    factor = np.full((SIDE, SIDE), 0.5, dtype)
    out = np.empty_like(factor)

    def multiply() -> None:
        np.matmul(factor, factor, out=out)

    return multiply


def _seconds(run: Callable[[], None]) -> float:
    run()
    found = []
    for _ in range(REPEATS):
        began = time.thread_time()
        run()
        found.append(time.thread_time() - began)
    return max(min(found), 1e-9)
