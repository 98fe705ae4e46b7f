"""Runs with ``models: best``: leaderboard, export, resume and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.config import Config, parse_config
from gpupipe.errors import ConfigError
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.safe_points import StopSignal
from gpupipe.training.checkpoints import fold_models
from gpupipe.training.ensemble import fold_training, require_one_process

MODELS = ["logistic_regression"]  # two configurations


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "kind": rng.choice(["x", "y", "z"], n)})
    signal = frame["a"] * frame["b"] + (frame["kind"] == "x") + 0.5 * frame["a"] + 0.3 * rng.normal(size=n)
    path = tmp_path_factory.mktemp("table") / "t.csv"
    frame.assign(group=np.arange(n) // 3, y=np.where(signal > 0.3, "yes", "no")).to_csv(path, index=False)
    return path


def config(table: Path, **sections: Any) -> Config:
    source = {"path": str(table), "target": "y"}
    models = [{"best": {"folds": 3, "models": MODELS}}, "logistic_regression"]
    return parse_config({"source": source, "models": models, "report": {"enabled": False}, **sections})


@pytest.mark.parametrize("split", [{"test_size": 0.3}, {"cv": 2, "group": "group"}])
def test_an_ensemble_is_a_candidate_like_any_other(split: dict[str, Any], table: Path, tmp_path: Path) -> None:
    run = run_pipeline(config(table, split=split), tmp_path / "run")
    assert {entry.label for entry in run.candidates} == {"best", "logistic_regression"}
    best = next(entry for entry in run.candidates if entry.label == "best")
    assert best.search is not None
    assert [tried.state for tried in best.search.tried] == ["complete"] * 2
    frame = pd.read_csv(table)
    model = gp.load_model(tmp_path / "run" / "model")
    assert (model.predict(frame) == frame["y"]).mean() > 0.7


def test_a_stopped_run_resumes_with_the_same_ensemble(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_models, "WORTH_SECONDS", 0.0)
    sections: dict[str, Any] = {"models": [{"best": {"folds": 3, "models": MODELS}}]}
    whole = run_pipeline(config(table, **sections), tmp_path / "whole")
    trained: list[str] = []
    fit_fold = fold_training.EnsembleRows.fit_fold

    def counted(self: Any, settings: Any, *arguments: Any) -> Any:
        trained.append(type(settings).__name__)
        return fit_fold(self, settings, *arguments)

    monkeypatch.setattr(fold_training.EnsembleRows, "fit_fold", counted)
    monkeypatch.setattr(fold_training.EnsembleRows, "n_at_once", lambda self, settings: 1)
    signal = StopSignal()

    def stop(where: str) -> None:
        if where == "after 2 folds of logistic_regression_2":
            raise KeyboardInterrupt

    signal.watch(stop)
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(config(table, **sections), tmp_path / "run", stop_signal=signal)
    n_before = len(trained)
    assert 3 < n_before < 6
    resumed = run_pipeline(config(table, **sections), tmp_path / "run", resume=True)
    assert len(trained) == 6  # each fold once, in one run or the other
    (one,), (other,) = whole.candidates, resumed.candidates
    assert one.search is not None and other.search is not None
    assert [t.weight for t in one.search.tried] == [t.weight for t in other.search.tried]
    assert one.metrics == other.metrics
    pd.testing.assert_frame_equal(whole.predictions, resumed.predictions)


def test_a_resumed_run_with_another_metric_chooses_the_members_again(table: Path, tmp_path: Path) -> None:
    signal = StopSignal()

    def stop(where: str) -> None:
        if where == "before evaluate":
            raise KeyboardInterrupt

    signal.watch(stop)
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(config(table), tmp_path / "run", stop_signal=signal)
    evaluate = {"metrics": ["log_loss"]}
    resumed = run_pipeline(config(table, evaluate=evaluate), tmp_path / "run", resume=True)
    best = next(entry for entry in resumed.candidates if entry.label == "best")
    assert best.search is not None
    assert best.search.metric == "log_loss"


def test_an_ensemble_of_partitioned_rows_is_refused(table: Path) -> None:
    entries = config(table).models
    require_one_process(entries, None)
    with pytest.raises(ConfigError, match="in the memory of one process"):
        require_one_process(entries, object())  # type: ignore[arg-type]
