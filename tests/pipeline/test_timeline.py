from __future__ import annotations

import json
import resource
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.backends.machine import peak_bytes
from gpupipe.backends.stage import Place, StageUse
from gpupipe.config import parse_config
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.log import JsonLog
from gpupipe.timeline.timeline import Timeline


def work(n: int = 200_000) -> float:
    return float(np.sort(np.arange(n, dtype=float)[::-1]).sum())


def a_run(timeline: Timeline) -> None:
    with timeline.stage("read", Place("cpu", "no driver")) as stage:
        work()
        stage.rows = 1000
        stage.note("charges: 11 nulls", "warning")
    with timeline.stage("train", Place("cpu")):
        for model in ("forest", "linear"):
            with timeline.stage(model, Place("cpu")):
                work()


def test_the_stages_add_up_to_no_more_than_the_run_and_inner_ones_to_no_more_than_the_outer() -> None:
    timeline = Timeline()
    a_run(timeline)
    record = timeline.to_json()
    stages = {stage["name"]: stage for stage in record["stages"]}
    assert [(stage["name"], stage["depth"]) for stage in record["stages"]] == [
        ("read", 0), ("train", 0), ("forest", 1), ("linear", 1),
    ]  # fmt: skip
    slack = 1e-5  # the figures are rounded to microseconds
    assert 0 < stages["read"]["seconds"] + stages["train"]["seconds"] <= record["seconds"] + slack
    assert 0 < stages["forest"]["seconds"] + stages["linear"]["seconds"] <= stages["train"]["seconds"] + slack
    for before, after in (("read", "train"), ("forest", "linear")):
        ended = stages[before]["start_seconds"] + stages[before]["seconds"]
        assert ended <= stages[after]["start_seconds"] + slack


def test_a_stage_records_its_device_reason_and_speed() -> None:
    timeline = Timeline()
    a_run(timeline)
    read = timeline.to_json()["stages"][0]
    assert (read["device"], read["reason"], read["rows"], read["status"]) == ("cpu", "no driver", 1000, "done")
    assert read["rows_per_second"] == pytest.approx(1000 / read["seconds"], rel=0.05)
    assert read["notes"] == ["charges: 11 nulls"]
    assert read["peak_device_bytes"] is None
    assert (read["bytes_to_device"], read["bytes_to_host"]) == (0, 0)


def test_a_training_records_epochs_and_receipts_and_other_stages_do_not(tmp_path: Path) -> None:
    config = {
        "source": {"generate": "churn", "rows": 1000, "target": "Churn", "positive": "Yes", "drop": ["customerID"]},
        "models": ["logistic_regression", {"mlp": {"epochs": 2, "width": 8}}],
        "report": {"enabled": False},
        "device": "cpu",
    }
    run = run_pipeline(parse_config(config), tmp_path / "run")
    stages = {stage["name"]: stage for stage in json.loads((run.path / "timeline.json").read_text())["stages"]}
    trained = stages["train mlp"]
    assert [set(epoch) for epoch in trained["epochs"]] == [{"training", "validation"}] * 2
    (receipt,) = trained["receipts"]
    n_rows, n_columns = receipt["shape"]
    assert (receipt["library"], receipt["device"], receipt["copied"]) == ("torch", "cpu", False)
    assert n_rows == trained["rows"] and receipt["strides"] == [4, 4 * n_rows]
    assert receipt["bytes"] == 4 * n_rows * n_columns and receipt["pointer"] > 0
    assert any("no copy" in note for note in trained["notes"])
    others = [stage for name, stage in stages.items() if "train mlp" not in name]
    assert all(stage["epochs"] == [] and stage["receipts"] == [] for stage in others)


def test_a_stage_that_raises_is_recorded_as_failed_and_closes_the_stages_around_it() -> None:
    timeline = Timeline()
    with (
        pytest.raises(ZeroDivisionError),
        timeline.stage("train", Place("cpu")),
        timeline.stage("forest", Place("cpu")),
    ):
        1 / 0  # noqa: B018
    with timeline.stage("after", Place("cpu")):
        pass
    assert [(stage.status, stage.depth) for stage in timeline.stages] == [("failed", 0), ("failed", 1), ("done", 0)]


def test_notes_are_found_by_level_whether_made_inside_or_outside_of_a_stage() -> None:
    timeline = Timeline()
    timeline.note("task binary")
    a_run(timeline)
    assert [note.text for note in timeline.all_notes()] == ["task binary", "charges: 11 nulls"]
    assert [(note.text, note.stage) for note in timeline.all_notes("warning")] == [("charges: 11 nulls", "read")]


def test_the_peak_of_host_memory_never_falls_and_includes_allocations_of_a_stage() -> None:
    timeline = Timeline()
    with timeline.stage("small", Place("cpu")):
        pass
    peak = peak_bytes()
    statm = Path("/proc/self/statm")
    resident = int(statm.read_text().split()[1]) * resource.getpagesize() if statm.exists() else 0
    with timeline.stage("large", Place("cpu")):
        np.ones(peak - resident + 64 * 2**20, dtype=np.uint8)
    with timeline.stage("after", Place("cpu")):
        pass
    small, large, after = (stage.peak_host_bytes for stage in timeline.stages)
    assert small < large <= after
    assert large >= peak + 32 * 2**20  # others may free memory meanwhile


def test_the_log_has_one_json_object_a_line_with_a_utc_time_and_a_level(tmp_path: Path) -> None:
    with JsonLog(tmp_path / "log.jsonl") as log:
        timeline = Timeline([log])
        a_run(timeline)
        with pytest.raises(ValueError, match="wrong"), timeline.stage("export", Place("cpu")):
            raise ValueError("wrong")
        timeline.note("línea\nnueva \x1b[31m")
    timeline.note("after the log was closed")
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["event"], line["level"], line.get("stage")) for line in lines] == [
        ("stage started", "info", "read"),
        ("note", "warning", "read"),
        ("stage done", "info", "read"),
        ("stage started", "info", "train"),
        ("stage started", "info", "forest"),
        ("stage done", "info", "forest"),
        ("stage started", "info", "linear"),
        ("stage done", "info", "linear"),
        ("stage done", "info", "train"),
        ("stage started", "info", "export"),
        ("stage failed", "error", "export"),
        ("note", "info", None),
    ]
    assert lines[-1]["message"] == "línea\nnueva \x1b[31m"
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert all(time.utcoffset() == timedelta(0) for time in times)
    assert times == sorted(times)
    assert lines[2]["rows"] == 1000


class Metered(CpuBackend):
    """A backend with the measurements of a device."""

    name = "gpu"

    def __init__(self, *uses: StageUse) -> None:
        super().__init__("NVIDIA H100")
        self.uses = list(uses)
        self.calls: list[str] = []

    def open_stage(self) -> None:
        self.calls.append("open")

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def close_stage(self) -> StageUse:
        self.calls.append("close")
        return self.uses.pop(0)

    def take_notes(self) -> list[str]:
        return []


def test_a_stage_on_a_device_records_moved_and_allocated_bytes() -> None:
    timeline, device = Timeline(), Metered(StageUse(1000, 24, 5000))
    with timeline.stage("features", device.place):
        pass
    (stage,) = timeline.to_json()["stages"]
    assert (stage["device"], stage["reason"]) == ("gpu", "NVIDIA H100")
    assert (stage["bytes_to_device"], stage["bytes_to_host"], stage["peak_device_bytes"]) == (1000, 24, 5000)
    assert device.calls == ["open", "synchronize", "close"]  # launched is not done


def test_fallbacks_are_not_recorded_as_run_on_the_device() -> None:
    timeline = Timeline()
    with timeline.stage("train", Metered(StageUse(0, 800, 10, ("no such model there",))).place):
        pass
    (stage,) = timeline.stages
    assert (stage.device, stage.reason) == ("cpu", "no such model there")
    assert [note.text for note in timeline.all_notes("warning")] == ["on the CPU: no such model there"]


def test_a_stage_that_fails_is_closed_on_the_device_too() -> None:
    timeline, device = Timeline(), Metered(StageUse(7, 0, 9))
    with pytest.raises(ZeroDivisionError), timeline.stage("train", device.place):
        1 / 0  # noqa: B018
    assert device.calls == ["open", "close"]
    assert timeline.stages[0].bytes_to_device == 7
