"""Progress of a running stage: units done, and an estimate of the remaining seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpupipe.report.text import number
from gpupipe.units import format_whole_seconds

if TYPE_CHECKING:
    from gpupipe.models.progress import ProgressReport, ReadProgress

SETTLE_SECONDS = 2.0  # no estimate earlier, since the first units are not representative
MEMORY_SECONDS = 10.0  # time constant of the smoothed pace


class ProgressMeter:
    """Progress of a stage with an estimate of its remaining time.

    The pace is the exponentially smoothed time per unit, which follows a training that slows down or shares its machine
    for a while. `read` returns the current progress, or None; `report` is the one of the latest `update`, or None.
    `clock` returns seconds.
    """

    def __init__(self, read: ReadProgress, clock: Callable[[], float] = time.perf_counter) -> None:
        self._read: ReadProgress | None = read
        self._clock = clock
        self.report: ProgressReport | None = None
        self._began = self._changed = 0.0  # time of the first report, and of the last one with a new position
        self._pace = math.nan  # seconds per unit

    def update(self) -> ProgressReport | None:
        """Read the progress and return it."""
        if self._read is None:
            return self.report
        try:
            report = self._read()
        except Exception:  # a display must never end the work, which runs in another thread
            return self.report
        if report is not None:
            self._count(report)
            self.report = report
        return self.report

    def close(self) -> None:
        """Read the progress a last time and release its source."""
        self.update()
        self._read = None

    def seconds_left(self) -> float | None:
        """Return the estimated seconds until all units are done, as of the latest `update`; None if unknown."""
        report, now = self.report, self._clock()
        if report is None or report.total is None or report.is_one_pass:
            return None
        if math.isnan(self._pace) or now - self._began < SETTLE_SECONDS:
            return None
        return max(0.0, self._pace * (report.total - report.position) - (now - self._changed))

    def _count(self, report: ProgressReport) -> None:
        now = self._clock()
        if self.report is None or report.position < self.report.position:  # the first report, or a restarted training
            self._began = self._changed = now
            self._pace = math.nan
            return
        n_new = report.position - self.report.position
        if not n_new:
            return
        passed = now - self._changed
        weight = 1.0 if math.isnan(self._pace) else -math.expm1(-passed / MEMORY_SECONDS)
        old = 0.0 if math.isnan(self._pace) else self._pace
        self._pace = weight * passed / n_new + (1.0 - weight) * old
        self._changed = now


def describe(meter: ProgressMeter) -> str:
    """Return the progress in words: ``round 120 of 300, validation logloss 0.4120, 12 s left``; "" if unknown."""
    report = meter.report
    if report is None:
        return ""
    if report.total is None:
        words = [f"{report.done:,} {report.unit}{_plural(report)}"]
    else:
        limit = "up to " if report.may_end_early else ""
        words = [f"{report.unit} {report.done:,} of {limit}{report.total:,}"]
    if report.metric is not None:
        words.append(f"{report.metric_name} {number(report.metric)}")
    left = meter.seconds_left()
    if left is not None and report.done < (report.total or 0):
        words.append(f"{'up to ' if report.may_end_early else ''}{format_whole_seconds(max(1.0, left))} left")
    return ", ".join(words)


def _plural(report: ProgressReport) -> str:
    return "" if report.done == 1 else "es" if report.unit.endswith("s") else "s"
