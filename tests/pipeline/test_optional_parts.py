"""Failures after the last training: the results are complete, and every failure is named."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.errors import DataError, DeviceError, GpupipeError, LimitError, StoppedError
from gpupipe.metrics import METRICS
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal, Truth
from gpupipe.models import Prediction
from gpupipe.pipeline import run as run_module
from gpupipe.pipeline.records import held_out_table as table_module
from gpupipe.pipeline.records import run_report as report_module
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.checkpoints.run_checkpoints import RESUMED
from gpupipe.training.job import Job
from gpupipe.training.selection.optional_parts import OUR_BUG, optional_part

PARTS = {
    "the coverage of intervals was not measured": (run_module, "measure_coverage"),
    "the importances of columns were not measured": (run_module, "measure_importances"),
    "the report has no plots of predictions": (run_module, "draw"),
    "predictions.parquet has no columns of source.id": (table_module, "read_identifiers"),
    "the model has no reference for `gpupipe drift`": (run_module, "collect_reference"),
    "the model card was not written": (run_module, "write_card"),
    "the report was not written": (report_module, "write_report"),
}
N = 90


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("float division by zero")


@pytest.fixture
def rows() -> pd.DataFrame:
    x = np.random.default_rng(5).normal(size=N)
    return pd.DataFrame({"x": x, "card": np.arange(N) + 500, "grade": np.where(x > 0.3, "high", "low")})


@pytest.fixture
def train(rows: pd.DataFrame, tmp_path: Path) -> Callable[..., Any]:
    source = {"path": rows, "id": "card"}

    def run(resume: bool = False, **settings: Any) -> Any:
        pipeline = gp.Pipeline(source, target="grade", models=["logistic_regression"], device="cpu", **settings)
        return pipeline.run(tmp_path / "run", resume=resume)

    return run


def test_each_part_that_fails_is_named_and_the_results_are_complete(
    rows: pd.DataFrame, train: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in PARTS.values():
        monkeypatch.setattr(module, name, broken)
    known, brier = METRICS.get, METRICS.get("brier")
    failing = type(brier)(broken, False, brier.tasks)
    monkeypatch.setattr(METRICS, "get", lambda name: failing if name == "brier" else known(name))
    run = train(evaluate={"metrics": ["roc_auc", "brier"], "intervals": 0.8}, report={"plots": False})
    text = f"ZeroDivisionError: float division by zero; {OUR_BUG}"
    expected = [f"{part}: {text}" for part in ("brier could not be computed", *PARTS)]
    document = json.loads((tmp_path / "run/metrics.json").read_text())
    assert sorted(document["failures"]) == sorted(expected) == sorted(run.document["failures"])
    assert document["models"]["logistic_regression"]["roc_auc"] > 0.9
    assert document["models"]["logistic_regression"]["brier"] is None
    lines = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    logged = {line["message"]: line["traceback"] for line in lines if "traceback" in line}
    assert logged.keys() == set(expected)
    assert all("in broken" in traceback for traceback in logged.values())
    notes = [
        note for each in json.loads((tmp_path / "run/timeline.json").read_text())["stages"] for note in each["notes"]
    ]
    assert set(expected) <= set(notes)
    assert not (tmp_path / "run/report.html").exists()
    assert not any("brier is undefined" in note.text for note in run.timeline.all_notes())
    assert list(run.predictions)[:3] == ["row", "target", "prediction"]  # and no card
    assert (run.model.predict(rows) == rows["grade"]).mean() > 0.9
    assert not (tmp_path / ".checkpoints").exists()


@pytest.mark.parametrize(
    ("error", "says"),
    [(RuntimeError("no such part"), "RuntimeError: no such part"), (GpupipeError("no such part"), "no such part")],
)
def test_a_failed_export_keeps_the_results_and_resumes_without_training(
    train: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    def fail(folder: Path, *_: Any) -> None:
        folder.mkdir()
        (folder / "schema.json").write_text("{}")
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "export_model", fail)
        with pytest.raises(GpupipeError) as caught:
            train(report={"enabled": False})
    assert (caught.value.exit_code, caught.value.what) == (1, says)
    assert caught.value.__cause__ is not caught.value  # such a chain has no end
    assert str(tmp_path / "run") in caught.value.fix
    assert "resume=True repeats the export" in caught.value.fix
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"config.yaml", "metrics.json", "predictions.parquet", "timeline.json", "log.jsonl", "run.json"}
    assert gp.load_run(tmp_path / "run").metrics["roc_auc"] > 0.9
    run = train(resume=True, report={"enabled": False})
    (stage,) = [stage for stage in run.timeline.stages if stage.name == "train logistic_regression"]
    assert [note.text for note in stage.notes] == [RESUMED]
    assert (tmp_path / "run/model/manifest.json").exists()


def failure_of(error: BaseException) -> str:
    timeline = Timeline()
    with optional_part(timeline, "the page was not drawn"):
        raise error
    ((text, traceback),) = [(note.text, note.traceback) for note in timeline.all_notes("warning")]
    assert type(error).__name__ in traceback
    return text.removeprefix("the page was not drawn: ")


def test_the_reason_says_what_to_do_or_that_it_is_a_bug() -> None:
    assert failure_of(DataError("column 'q' is gone", where="t.csv", fix="restore it")) == (
        "column 'q' is gone; t.csv; restore it"
    )
    assert failure_of(KeyError("q")) == f"KeyError: 'q'; {OUR_BUG}"
    assert failure_of(PermissionError(errno.EACCES, "Permission denied", "t.html")) == (
        "cannot use this path: Permission denied; t.html; check the path and its permissions, or choose another path"
    )


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(), StoppedError("stopped", 15), LimitError("too long"), DeviceError("no GPU"), MemoryError(),
        OSError(errno.ENOSPC, "No space left on device"), RuntimeError("CUDA_ERROR_OUT_OF_MEMORY"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_stops_and_exhausted_resources_end_the_run(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, optional_part(Timeline(), "the page was not drawn"):
        raise error
    assert caught.value is error


def test_predictions_that_are_not_finite_have_no_metrics_and_one_warning() -> None:
    config, y = SimpleNamespace(evaluate=SimpleNamespace(cost=None)), np.array([1.0, 2.0])
    job = Job(config, choose("cpu"), Timeline(), None, y, Goal("regression", "y"), ("r2", "mae"))  # type: ignore[arg-type]
    for _ in range(2):
        values = job.score(Truth(y), Prediction("regression", value=np.array([1.0, np.inf])), Decision())
        assert list(values) == ["r2", "mae"] and np.isnan(list(values.values())).all()
    (note,) = job.timeline.all_notes()
    assert note.text.startswith("r2, mae could not be computed: the model predicts values that are not finite")
    assert job.failed_metrics == {"r2", "mae"}
