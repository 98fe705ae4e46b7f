"""Progress of a stage: the estimate of the remaining time, and the log of a run without a terminal."""

from __future__ import annotations

import io
import re
import threading
from dataclasses import dataclass

import numpy as np
import pytest

from gpupipe.backends.stage import Place
from gpupipe.models.progress import ProgressReport
from gpupipe.timeline.display.lines import LineDisplay
from gpupipe.timeline.display.progress import ProgressMeter, describe
from gpupipe.timeline.timeline import Timeline

LONG = 60.0  # seconds after which something that never comes fails a test


@dataclass
class Training:
    """A training in rounds, with a simulated clock."""

    done: int = 0
    now: float = 100.0
    may_end_early: bool = False

    def read(self) -> ProgressReport:
        return ProgressReport(self.done, 300, "round", self.may_end_early, "validation logloss", 0.41234)

    def meter(self) -> ProgressMeter:
        found = ProgressMeter(self.read, lambda: self.now)
        found.update()
        return found

    def go_on(self, meter: ProgressMeter, rounds: int, each: float) -> None:
        for _ in range(rounds):
            self.done, self.now = self.done + 1, self.now + each
            meter.update()


def test_at_a_steady_pace_the_remaining_time_is_known_after_two_seconds() -> None:
    training = Training()
    meter = training.meter()
    training.go_on(meter, 19, 0.1)
    assert meter.seconds_left() is None
    assert describe(meter) == "round 19 of 300, validation logloss 0.4123"
    training.go_on(meter, 101, 0.1)
    assert meter.seconds_left() == pytest.approx(18.0)
    assert describe(meter) == "round 120 of 300, validation logloss 0.4123, 18 s left"
    training.now += 0.05  # inside the next round
    assert meter.seconds_left() == pytest.approx(17.95)
    training.now += 1000.0
    assert meter.seconds_left() == 0.0


def test_the_estimate_follows_a_training_that_becomes_slower() -> None:
    training = Training()
    meter = training.meter()
    training.go_on(meter, 100, 0.05)
    training.go_on(meter, 100, 0.5)
    assert meter.seconds_left() == pytest.approx(100 * 0.5, rel=0.02)  # and not 100 × 0.275, the mean


def test_resumed_rounds_do_not_count_as_fast_ones() -> None:
    training = Training(done=200)
    meter = training.meter()
    training.go_on(meter, 50, 1.0)
    assert meter.seconds_left() == pytest.approx(50.0)


def test_a_long_epoch_is_measured_by_its_part() -> None:
    training = Training()
    reports = iter([ProgressReport(k // 20, 10, "epoch", fraction=k % 20 / 20) for k in range(30)])
    meter = ProgressMeter(lambda: next(reports), lambda: training.now)
    for _ in range(30):
        meter.update()
        training.now += 1.0
    training.now -= 1.0
    assert describe(meter) == "epoch 1 of 10, 2 min 51 s left"  # 29 s for 29 of 200 steps


def test_a_restarted_training_is_measured_from_its_start() -> None:
    training = Training()
    meter = training.meter()
    training.go_on(meter, 100, 1.0)
    training.done = 0
    meter.update()
    assert meter.seconds_left() is None
    training.go_on(meter, 10, 2.0)
    assert meter.seconds_left() == pytest.approx(580.0)
    assert describe(meter).endswith("9 min 40 s left")


def test_of_a_training_that_may_end_early_the_estimate_is_a_limit() -> None:
    training = Training(may_end_early=True)
    meter = training.meter()
    training.go_on(meter, 100, 0.1)
    assert describe(meter) == "round 100 of up to 300, validation logloss 0.4123, up to 20 s left"


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (ProgressReport(1, None, "pass"), "1 pass"),
        (ProgressReport(2, None, "pass"), "2 passes"),
        (ProgressReport(1200, None, "round"), "1,200 rounds"),
        (ProgressReport(0, 8, "epoch", True, "validation loss"), "epoch 0 of up to 8"),
        (None, ""),
    ],
)
def test_available_figures_are_shown(report: ProgressReport | None, words: str) -> None:
    meter = ProgressMeter(lambda: report)
    meter.update()
    assert describe(meter) == words


def test_one_pass_of_many_gives_no_estimate_of_the_remaining_time() -> None:
    reports = iter([ProgressReport(k, 90, "features of partition", is_one_pass=True) for k in range(1, 80)])
    now = iter(np.arange(0.0, 1000.0))
    meter = ProgressMeter(lambda: next(reports), lambda: float(next(now)))
    for _ in range(50):
        meter.update()
    assert describe(meter) == "features of partition 50 of 90"


def test_a_training_that_cannot_be_read_ends_no_display() -> None:
    reports = iter([ProgressReport(1, 2, "tree")])
    meter = ProgressMeter(lambda: next(reports))
    assert meter.update() == meter.update() == ProgressReport(1, 2, "tree")


def test_the_progress_belongs_to_the_innermost_stage_and_its_source_is_released() -> None:
    timeline, training = Timeline(), Training(done=3)
    with timeline.show_progress(training.read), timeline.stage("train", Place("cpu")) as outer:  # outside of all stages
        with timeline.stage("boost", Place("cpu")) as inner, timeline.show_progress(training.read):
            training.done = 7
        assert outer.progress is None
        assert inner.progress is not None and inner.progress.report == training.read()
        training.done = 8
        assert inner.progress.update().done == 7  # type: ignore[union-attr]
    assert repr(inner).startswith("Stage('boost': done, ") and repr(timeline).startswith("Timeline(2 stages, ")


class Log(io.StringIO):
    """A stream that sets an event once a text was written to it."""

    def __init__(self, awaited: str) -> None:
        super().__init__()
        self.awaited, self.is_there = awaited, threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.awaited in self.getvalue():
            self.is_there.set()
        return written


def test_without_a_terminal_a_long_stage_shows_that_it_is_alive() -> None:
    training, log = Training(done=120), Log("round 120 of 300")
    display = LineDisplay(log, report_seconds=0.0, sample_seconds=0.001)
    timeline = Timeline([display])
    with timeline.stage("train boost", Place("cpu")) as stage, timeline.show_progress(training.read):
        assert log.is_there.wait(LONG)
    lines = log.getvalue().splitlines()
    alive = [line for line in lines if "so far" in line]
    assert re.fullmatch(r"  train boost, \d+ s so far: round 120 of 300, validation logloss 0\.4123", alive[-1])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", log.getvalue())
    assert lines[-1].startswith("✓ train boost") and stage.status == "done"
    display.stop()
    assert log.getvalue().splitlines() == lines


def test_without_a_terminal_a_short_stage_is_one_line() -> None:
    log = io.StringIO()
    display = LineDisplay(log)
    with Timeline([display]).stage("train boost", Place("cpu")):
        pass
    assert [line[:13] for line in log.getvalue().splitlines()] == ["cpu", "✓ train boost"]
