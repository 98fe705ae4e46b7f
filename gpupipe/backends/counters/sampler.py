"""Sampler of hardware counters that limits its own cost."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain

from gpupipe.backends.counters.counter import CounterReader, CounterUnavailable, HardwareSample
from gpupipe.backends.counters.history import HardwareSamples

CORE_SHARE = 0.004  # of one core, for all readers together


class HardwareSampler:
    """Sampler that reads each counter by itself, so that one that fails does not affect the others.

    All readers together use at most `CORE_SHARE` of a core: if they cost more, each has an equal share, and one that
    exceeds its own is not read in every period. A reader whose counters are unavailable is dropped for the rest of the
    run. One that fails in another way leaves a gap; until it succeeds, its last error is recorded as the reason.

    - `clock`: returns the seconds since the start of the run's timeline
    - `cpu_clock`: returns the processor seconds of the calling thread
    """

    def __init__(
        self,
        readers: Sequence[CounterReader],
        period_seconds: float,
        clock: Callable[[], float] = time.perf_counter,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock
        counters = chain.from_iterable(reader.counters for reader in readers)
        self._counters = {counter.name: counter for counter in counters}
        self._readers = [_ScheduledReader(reader, cpu_clock) for reader in readers]
        self._period_seconds, self._cpu_seconds = period_seconds, CORE_SHARE * period_seconds  # of one sample
        self.samples = HardwareSamples(self._counters.values(), period_seconds, clock())
        self.sample()  # rates need a first reading

    def sample(self) -> HardwareSample:
        """Read the counters, add their values to the samples and return them; never raises for a counter."""
        now = self._clock()
        values: dict[str, float] = {}
        is_costly = sum(scheduled.cost for scheduled in self._readers) > self._cpu_seconds
        for scheduled in list(self._readers):
            if is_costly and now < scheduled.last + scheduled.cost * len(self._readers) / CORE_SHARE:
                continue
            try:
                values |= scheduled.read(now)
            except CounterUnavailable as reason:
                self._readers.remove(scheduled)
                self._record_failure(scheduled, str(reason))
            except Exception as error:
                if not scheduled.has_succeeded:
                    self._record_failure(scheduled, f"{type(error).__name__}: {error}")
        for name in values:
            self.samples.unavailable.pop(name, None)
        elapsed = now - self.samples.start_seconds
        if elapsed >= self._period_seconds / 2:  # not the first reading
            self.samples.add(elapsed, values)
        return HardwareSample(now, values, self._counters)

    def _record_failure(self, scheduled: _ScheduledReader, reason: str) -> None:
        for name in scheduled.reader.names:
            self.samples.drop(name, reason)


class _ScheduledReader:
    """Reader with its cost, and the time of its `last` reading."""

    def __init__(self, reader: CounterReader, cpu_clock: Callable[[], float]) -> None:
        self.reader, self._cpu_clock = reader, cpu_clock
        self.last, self.has_succeeded = 0.0, False
        self._costs: deque[float] = deque(maxlen=2)

    @property
    def cost(self) -> float:
        """Processor seconds of a reading; 0 until there are two, since the first is cold and therefore slow."""
        return min(self._costs) if len(self._costs) > 1 else 0.0

    def read(self, now: float) -> dict[str, float]:
        """Return the values that are known, by counter name."""
        began, self.last = self._cpu_clock(), now
        try:
            found = self.reader.read()
        finally:
            self._costs.append(self._cpu_clock() - began)
        self.has_succeeded = True
        pairs = zip(self.reader.counters, found, strict=True)
        return {counter.name: value for counter, value in pairs if value is not None}
