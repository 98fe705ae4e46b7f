"""Sampling of the hardware counters of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpupipe.backends.counters.counter import CounterReader, CounterUnavailable
from gpupipe.backends.counters.gpu import GpuCounters
from gpupipe.backends.counters.host import host_readers
from gpupipe.backends.counters.sampler import HardwareSampler
from gpupipe.backends.polling_thread import PollingThread
from gpupipe.config import Config
from gpupipe.limits.energy import RunHardware
from gpupipe.timeline.timeline import Timeline

ELSEWHERE = "the run computes on other machines"


@contextmanager
def sample_hardware(
    config: Config, timeline: Timeline, hardware: RunHardware, polling: PollingThread
) -> Iterator[None]:
    """Sample the counters of this machine and of the run's GPUs during the ``with`` block, into ``timeline.samples``.

    Nothing is sampled if ``monitor.period`` is null. Sampling pauses while a stage times single calls, and never fails
    the run: what cannot be read is recorded with its reason.
    """
    period = config.monitor.period
    if period is None:
        yield
        return
    readers: list[CounterReader] = []
    unavailable: dict[str, str] = {}
    gpus: GpuCounters | None = None
    try:
        readers += host_readers()
    except (CounterUnavailable, OSError) as error:
        unavailable["host"] = str(error)
    n_gpus = hardware.n_gpus()
    if n_gpus and hardware.are_elsewhere:
        unavailable["gpus"] = ELSEWHERE
    elif n_gpus:
        try:
            gpus = GpuCounters(n_gpus)
            readers += gpus.readers
        except CounterUnavailable as error:
            unavailable["gpus"] = str(error)
    sampler = HardwareSampler(readers, period, lambda: timeline.seconds)
    timeline.samples = sampler.samples
    timeline.samples.devices = {} if gpus is None else gpus.devices
    for name, reason in unavailable.items():
        timeline.samples.drop(name, reason)

    def sample() -> None:
        if not timeline.is_timing:
            timeline.record_sample(sampler.sample())

    cancel = polling.call_every(period, sample)
    try:
        yield
    finally:
        if cancel() and gpus is not None:  # otherwise the driver blocks a call, and is not closed under it
            gpus.close()
