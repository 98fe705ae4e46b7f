"""An ensemble that its own folds evaluate: trained on all rows, and never measured on rows that a model has seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.config import parse_config
from gpupipe.errors import ConfigError
from gpupipe.pipeline.run import run_pipeline
from gpupipe.training.ensemble import fold_training

N, FOLDS = 240, 4
CV = {"cv": FOLDS}


@pytest.fixture(scope="module")
def noise() -> pd.DataFrame:
    """A target without any pattern: only a model that has seen a row can predict it."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b", "c"])
    return frame.assign(kind=rng.integers(0, 40, N).astype(str), shop=np.arange(N) // 3, y=rng.choice(["no", "yes"], N))


def config(frame: pd.DataFrame, split: dict[str, Any], models: Any = None, **best: Any) -> Any:
    own = {"best": {"out_of_fold": True, "models": ["random_forest", "logistic_regression"], **best}}
    sections = {"split": split, "models": models or [own], "report": {"enabled": False}}
    return parse_config({"source": {"frame": frame, "target": "y"}, "evaluate": {"metrics": ["roc_auc"]}, **sections})


@pytest.mark.parametrize("split", [CV, {**CV, "group": "shop"}])
def test_all_rows_train_the_exported_model_and_none_measures_a_model_that_has_seen_it(
    split: dict[str, Any], noise: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folds: dict[int, Any] = {}
    fit_fold = fold_training.EnsembleRows.fit_fold

    def fit(self: Any, settings: Any, fold: Any, *arguments: Any) -> Any:
        found = fit_fold(self, settings, fold, *arguments)
        folds[id(found.model)] = found.model, fold  # with the model, whose id would be used again
        return found

    monkeypatch.setattr(fold_training.EnsembleRows, "fit_fold", fit)
    run = run_pipeline(config(noise, split), tmp_path / "run")
    assert 0.35 < run.metrics["roc_auc"] < 0.65
    masks = [fold.train for _, fold in folds.values()]
    assert np.logical_or.reduce(masks).all()
    assert np.sum([~mask for mask in masks], axis=0).tolist() == [len(masks) // FOLDS] * N
    model = gp.load_model(tmp_path / "run" / "model")
    assert sum(len(member.models) for member in model.estimator.estimator) % FOLDS == 0
    assert (model.predict(noise) == noise["y"]).mean() > run.metrics["roc_auc"] + 0.1  # it has seen the rows
    predictions = run.predictions
    assert len(predictions) == N
    assert sorted(predictions["fold"].unique()) == list(range(1, FOLDS + 1))
    if "group" in split:
        assert not any(set(noise["shop"][fold.train]) & set(noise["shop"][fold.test]) for _, fold in folds.values())


def test_the_metrics_are_named_out_of_fold(noise: pd.DataFrame, tmp_path: Path) -> None:
    run_pipeline(config(noise, CV), tmp_path / "run")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["search"]["best"]["rows"] == "nested"
    assert len(metrics["folds"]["best"]) == FOLDS
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "Measured out of fold" in card
    assert "trained on all rows, and no row is left to measure it" in card
    assert "slightly optimistic" in card
    assert "no row is left to measure it" not in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("split", "models", "best", "what"),
    [
        ({"test_size": 0.2}, None, {}, "needs split.cv"),
        ({**CV, "time": "a"}, None, {}, "remove split.time"),
        ({**CV, "repeats": 2}, None, {}, "remove split.repeats"),
        (CV, None, {"folds": 3}, "remove folds"),
        (CV, [{"best": {"out_of_fold": True}}, "logistic_regression"], {}, "remove the others"),
    ],
)
def test_folds_that_do_not_evaluate_all_rows_once_are_refused(
    split: dict[str, Any], models: Any, best: dict[str, Any], what: str, noise: pd.DataFrame
) -> None:
    with pytest.raises(ConfigError, match=what):
        config(noise, split, models, **best)
