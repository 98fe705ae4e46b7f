"""Hardware samples of a run: their record, the listeners, and the thread that takes them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import gpupipe as gp
from gpupipe.backends.counters.counter import HardwareSample
from gpupipe.backends.energy import EnergyMeter
from gpupipe.backends.polling_thread import PollingThread
from gpupipe.backends.stage import Place
from gpupipe.config import parse_config
from gpupipe.config.limits import Limits
from gpupipe.limits import budget as budgets
from gpupipe.limits.energy import RunHardware
from gpupipe.limits.hardware_samples import sample_hardware
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.timeline import Note, Stage, Timeline

SETTINGS = {
    "source": {"generate": "churn", "rows": 400, "target": "Churn", "positive": "Yes", "drop": ["customerID"]},
    "models": ["gaussian_nb"],
    "evaluate": {"importance": False},
    "report": {"enabled": False},
}
HERE = RunHardware(lambda: 0)


class Counting:
    """A listener of stages and samples, which sets an event at the nth sample that has the memory."""

    def __init__(self, n: int) -> None:
        self.samples: list[HardwareSample] = []
        self.is_enough = threading.Event()
        self._n = n

    def started(self, stage: Stage) -> None: ...

    def noted(self, note: Note) -> None: ...

    def ended(self, stage: Stage) -> None: ...

    def sampled(self, sample: HardwareSample) -> None:
        self.samples.append(sample)
        if sum("process_memory_bytes" in each.values for each in self.samples) >= self._n:
            self.is_enough.set()


class StageEnds(Counting):
    """A listener that keeps the first stage open until there are samples of it."""

    def ended(self, stage: Stage) -> None:
        if stage.name == "read":
            assert self.is_enough.wait(30)


def config(period: float | None = 0.1) -> Any:
    return parse_config(SETTINGS | {"monitor": {"period": period}})


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("gpupipe-")}


@pytest.mark.slow
def test_a_run_records_its_samples_and_a_loaded_one_has_them_as_a_table(tmp_path: Path) -> None:
    listener = StageEnds(3)
    run = run_pipeline(config(), tmp_path / "run", [listener])
    assert not threads()
    record = json.loads((run.path / "timeline.json").read_text())
    samples = record["samples"]
    assert samples["unavailable"] == {} and samples["devices"] == {}
    memory = samples["counters"]["process_memory_bytes"]
    assert memory["unit"] == "B" and memory["limit"] > max(filter(None, memory["values"])) > 1e7
    lines = (run.path / "timeline.json").read_text().splitlines()
    assert sum('"values": [' in line and line.endswith("]") for line in lines) == len(samples["counters"])
    table = gp.load_run(run.path).hardware_samples
    assert table["process_memory_bytes"].dropna().tolist() == [v for v in memory["values"] if v is not None]
    assert table.index.name == "seconds" and table.index[1] - table.index[0] == pytest.approx(samples["period_seconds"])
    assert list(run.hardware_samples) == list(table)


def test_a_failing_run_ends_its_thread(tmp_path: Path) -> None:
    class Failing(Counting):
        def ended(self, stage: Stage) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pipeline(config(), tmp_path / "run", [Failing(1)])
    assert not threads()


def test_without_a_period_there_is_no_thread_and_no_record(tmp_path: Path) -> None:
    timeline = Timeline()
    with PollingThread() as polling, sample_hardware(config(None), timeline, HERE, polling):
        assert not threads()
    assert timeline.to_json()["samples"] is None
    (tmp_path / "timeline.json").write_text(json.dumps(timeline.to_json()))
    assert gp.Run(tmp_path).hardware_samples.empty


def test_a_stage_has_the_figures_of_the_periods_inside_it_and_one_that_times_calls_is_left_alone() -> None:
    listener = Counting(4)
    timeline = Timeline([listener])
    with PollingThread() as polling, sample_hardware(config(), timeline, HERE, polling):
        with timeline.stage("train", Place("cpu")) as train:
            assert listener.is_enough.wait(30)
        during = len(listener.samples)
        with timeline.stage("latency", Place("cpu"), is_timing=True) as latency:
            done = threading.Event()
            polling.call_every(0.35, done.set)  # by then, three samples are due
            assert done.wait(30)
        assert len(listener.samples) - during <= 1  # one may have begun before
    inside = [s.values.get("process_memory_bytes") for s in listener.samples[1:during]]
    known = [value for value in inside if value is not None]
    assert train.to_json()["counters"]["process_memory_bytes"] == {
        "mean": round(sum(known) / len(known)), "max": round(max(known)),
    }  # fmt: skip
    assert latency.to_json()["counters"] == {}


def test_gpus_of_other_machines_and_a_missing_driver_are_recorded_with_the_reason(monkeypatch: Any) -> None:
    monkeypatch.setenv("GPUPIPE_FORCE_CPU", "1")
    for hardware, reason in [
        (RunHardware(lambda: 2), "GPUPIPE_FORCE_CPU is set"),
        (RunHardware(lambda: 2, n_machines=2, are_elsewhere=True), "the run computes on other machines"),
    ]:
        timeline = Timeline()
        with PollingThread() as polling, sample_hardware(config(), timeline, hardware, polling):
            pass
        assert timeline.to_json()["samples"]["unavailable"] == {"gpus": reason}


def test_energy_meters_are_polled_by_the_same_thread(monkeypatch: Any) -> None:
    read = threading.Event()

    class Polled(EnergyMeter):
        how, is_polled = "RAPL", True

        def joules(self) -> float:
            assert threads() == {"gpupipe-polling"}
            read.set()
            return 0.0

    monkeypatch.setattr(budgets, "READ_EVERY", 0.01)
    limits, timeline = Limits(energy=1.0), Timeline()
    with (
        PollingThread() as polling,
        sample_hardware(config(), timeline, HERE, polling),
        budgets.Budget(limits, timeline, meters=[("cpu", Polled())], polling=polling),
    ):
        assert read.wait(30)
