"""Seconds of the stages of a run on this CPU and on a GPU, as ranges."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpupipe.plan.gpu_choice import cpu_rates, gpu_rates
from gpupipe.plan.gpu_choice.gpu_specs import GpuSpec
from gpupipe.plan.gpu_choice.roofline import Peaks, roofline_seconds
from gpupipe.plan.gpu_choice.work_steps import StageWork

FOLD = re.compile(r"^fold \d+ of \d+: ")
LONG = ("read", "derive", "features", "train", "predict")


@dataclass(frozen=True)
class TimeRange:
    """Seconds, at least and at most."""

    low: float
    high: float

    def __add__(self, other: TimeRange) -> TimeRange:
        return TimeRange(self.low + other.low, self.high + other.high)


@dataclass(frozen=True)
class StageTime:
    """Predicted time of one stage.

    `device` is "cpu" or "gpu". `core_seconds` is the CPU time of all threads; None on a GPU. `basis` is what the rate
    is based on. If `is_limit`, the stage may end earlier.
    """

    name: str
    device: str
    seconds: TimeRange
    core_seconds: float | None
    basis: str
    is_limit: bool

    def to_json(self) -> dict[str, Any]:
        """Return the stage as JSON values."""
        return vars(self) | {"seconds": vars(self.seconds)}


@dataclass(frozen=True)
class RunTime:
    """Predicted time of a run.

    `start` is the time until the libraries are imported and the device is ready. `unknown` has the stages whose time is
    not predicted.
    """

    start: TimeRange
    stages: tuple[StageTime, ...]
    unknown: tuple[str, ...]

    @property
    def total(self) -> TimeRange | None:
        """Sum of the start and the stages; None if a long stage has no prediction."""
        return None if self.missing else sum((stage.seconds for stage in self.stages), self.start)

    @property
    def steps(self) -> tuple[StageTime, ...]:
        """The stages, those of all folds added up under one name."""
        found: dict[str, StageTime] = {}
        for stage in self.stages:
            name = FOLD.sub("all folds: ", stage.name)
            if (former := found.get(name)) is not None:
                stage = replace(stage, seconds=former.seconds + stage.seconds)
            found[name] = replace(stage, name=name)
        return tuple(found.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """The stages without a prediction that may take most of the time, so that a total would mislead."""
        return tuple(name for name in self.unknown if name.split()[0] in LONG)


def cpu_time(stages: Sequence[StageWork], core: Peaks, n_threads: int) -> RunTime:
    """Return the time of a run on this CPU."""
    return _run_time(TimeRange(*cpu_rates.START), stages, lambda stage: on_cpu(stage, core, n_threads))


def gpu_time(stages: Sequence[StageWork], gpu: GpuSpec, core: Peaks, n_threads: int) -> RunTime:
    """Return the time of a run on a GPU with this CPU, which runs what the GPU cannot.

    A stage without a prediction on the CPU has none on the GPU: both times cover the same stages.
    """
    start = TimeRange(*gpu_rates.START)
    return _run_time(start, stages, lambda stage: _with_transfer(stage, gpu, core, n_threads))


def _run_time(
    start: TimeRange, stages: Sequence[StageWork], time_of: Callable[[StageWork], StageTime | None]
) -> RunTime:
    times = {stage.name: time_of(stage) for stage in stages}
    unknown = dict.fromkeys(name.split(": ")[-1] for name, time in times.items() if time is None)
    return RunTime(start, tuple(time for time in times.values() if time is not None), tuple(unknown))


def on_cpu(stage: StageWork, core: Peaks, n_threads: int) -> StageTime | None:
    """Return the time of a stage on this CPU: between perfect use of all threads and the use of one."""
    rate = cpu_rates.RATES.get(stage.kind)
    if rate is None:
        return None
    used = roofline_seconds(stage.work, core, rate)
    shared = used / n_threads if stage.kind in cpu_rates.PARALLEL else used
    return StageTime(stage.name, "cpu", TimeRange(shared, used), used, "measured", stage.is_limit)


def _with_transfer(stage: StageWork, gpu: GpuSpec, core: Peaks, n_threads: int) -> StageTime | None:
    found = _on_gpu(stage, gpu) if stage.is_on_device else on_cpu(stage, core, n_threads)
    if found is None or not stage.moved_bytes:
        return found
    lanes = gpu_rates.PCIE_LANES_GBS[gpu.pcie or gpu_rates.PCIE_UNKNOWN] * 1e9
    slow, fast = (stage.moved_bytes / (lanes * share) for share in gpu_rates.PCIE_SHARE)
    seconds = found.seconds + TimeRange(fast, slow)
    return StageTime(found.name, found.device, seconds, found.core_seconds, found.basis, found.is_limit)


def _on_gpu(stage: StageWork, gpu: GpuSpec) -> StageTime | None:
    rates = gpu_rates.RATES.get(stage.kind)
    if rates is None or stage.kind not in cpu_rates.RATES or gpu.lacking:
        return None
    peaks = peaks_of(gpu)
    low, high = (roofline_seconds(stage.work, peaks, rate) for rate in (rates.fast, rates.slow))
    return StageTime(stage.name, "gpu", TimeRange(low, high), None, rates.basis, stage.is_limit)


def peaks_of(gpu: GpuSpec) -> Peaks:
    """Return the peaks of a GPU; where the data sheet has no figure, the one that every generation reaches at least.

    Consumer GPUs since Turing have 1/64 of float32 in float64. Tensor cores are at least as fast as float32.
    """
    assert gpu.bandwidth_gbs is not None and gpu.fp32 is not None
    double = gpu.fp64 or gpu.fp32 / 64
    tensor = gpu.fp16 or gpu.tf32 or gpu.fp32
    return Peaks(gpu.bandwidth_gbs * 1e9, gpu.fp32 * 1e12, double * 1e12, tensor * 1e12)
