"""Seconds of work on a processor: the slower of moving bytes and computing.

After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (Communications of the ACM
52, 2009), with the share of each peak that an implementation reaches, and the time of steps that wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupipe.plan.gpu_choice.work import Work


@dataclass(frozen=True)
class Peaks:
    """Peak rates of a processor, or of one core of it.

    `bandwidth` is in bytes per second. `flops`, `double_flops` and `tensor_flops` are operations per second in float32,
    in float64, and of matrix products in half precision where there are tensor cores.
    """

    bandwidth: float
    flops: float
    double_flops: float
    tensor_flops: float


@dataclass(frozen=True)
class Rate:
    """Shares of the peaks that an implementation reaches.

    `bandwidth` and `compute` are shares of the peak bandwidth and of the peak of each kind of operation. `step` is in
    seconds per step, and `start` in seconds per stage.
    """

    bandwidth: float
    compute: float
    step: float = 0.0
    start: float = 0.0


def roofline_seconds(work: Work, peaks: Peaks, rate: Rate) -> float:
    """Return the seconds of `work`.

    Examples
    --------
    >>> from gpupipe.plan.gpu_choice.work import Work
    >>> card = Peaks(bandwidth=1e12, flops=20e12, double_flops=10e12, tensor_flops=100e12)
    >>> roofline_seconds(Work(n_bytes=1e12, flops=1e12), card, Rate(bandwidth=0.5, compute=0.5))
    2.0
    """
    moving = work.n_bytes / (peaks.bandwidth * rate.bandwidth)
    computing = work.flops / peaks.flops + work.double_flops / peaks.double_flops
    computing += work.tensor_flops / peaks.tensor_flops
    return rate.start + rate.step * work.n_steps + max(moving, computing / rate.compute)
