"""Boosters on the residuals of a linear model: trained if rows have times, exported as members of a mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.config import parse_config
from gpupipe.pipeline.run import run_pipeline
from gpupipe.training.checkpoints import fold_models
from gpupipe.training.ensemble import fold_training, portfolio

MODELS = ["ridge", "hist_gradient_boosting"]
N = 500
PERIOD = 100


@pytest.fixture(autouse=True)
def _short_portfolio(monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"max_iter": 60, "early_stopping": False}
    boosters = [("hist_gradient_boosting", {**short, "max_leaf_nodes": n}, 1.0) for n in (8, 4)]
    monkeypatch.setattr(portfolio, "_ENTRIES", (("ridge", {}, 0.1), *boosters))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """A target that grows with the time, with an interaction that a linear model lacks."""
    rng = np.random.default_rng(0)
    t, a, b = np.arange(N, dtype=float), rng.normal(size=N), rng.normal(size=N)
    return pd.DataFrame({"t": t, "a": a, "b": b, "y": 0.1 * t + 2 * np.sign(a * b) + 0.2 * rng.normal(size=N)})


def config(frame: pd.DataFrame, **split: Any) -> Any:
    return parse_config(
        {
            "source": {"frame": frame, "target": "y"},
            "split": split or {"time": "t", "cutoff": N - PERIOD},
            "models": [{"best": {"models": MODELS, "folds": 3}}],
            "evaluate": {"metrics": ["rmse"]},
            "report": {"enabled": False},
        }
    )


def test_an_ensemble_follows_a_trend_and_adds_up_as_trained(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: dict[str, list[Any]] = {}
    rows: list[Any] = []
    fit_entry = fold_training.EnsembleRows.fit_entry

    def fit(self: Any, entry: Any, fold: Any, *arguments: Any) -> Any:
        found = fit_entry(self, entry, fold, *arguments)
        trained.setdefault(entry.label, []).append((fold, found))
        rows.append(self)
        return found

    monkeypatch.setattr(fold_training.EnsembleRows, "fit_entry", fit)
    run = run_pipeline(config(frame), tmp_path / "run")
    (entry,) = run.candidates
    assert entry.search is not None
    weights = {tried.label: tried.weight for tried in entry.search.tried}
    assert weights["ridge+hist_gradient_boosting"] > 0.5
    assert sum(weights.values()) == pytest.approx(1.0)
    assert run.metrics["rmse"] < 1.0  # trees alone: the test rows are 10 above the training rows
    for label, own in trained.items():
        for fold, found in own:
            mask = fold.later if hasattr(fold, "later") else fold.test
            assert found.predicted.shape == (mask.sum(),)
            if "+" in label:
                X = rows[0].X[np.flatnonzero(mask)]
                np.testing.assert_allclose(found.model.predict(X).output, found.predicted, rtol=1e-6, atol=1e-5)
    X = rows[0].X
    expected = np.zeros(len(X))
    for label, weight in weights.items():
        kept = [found.model for fold, found in trained[label] if not hasattr(fold, "later")]
        columns = slice(None) if "+" in label else list(rows[0].columns("dense" if "ridge" in label else "codes"))
        if weight:
            expected += weight * np.mean([model.predict(X[:, columns]).output for model in kept], axis=0)
    model = gp.load_model(tmp_path / "run" / "model")
    np.testing.assert_allclose(model.predict(frame[: N - PERIOD]), expected, rtol=1e-6, atol=1e-5)
    explained = model.explain(frame[:20])
    total = np.asarray(explained.values).sum(axis=1) + explained.base
    np.testing.assert_allclose(total, model.predict(frame[:20]), rtol=1e-5)


def test_residuals_are_learned_with_times_and_their_base_only(frame: pd.DataFrame, tmp_path: Path) -> None:
    run = run_pipeline(config(frame, test_size=0.2), tmp_path / "run")
    (entry,) = run.candidates
    assert entry.search is not None
    assert not any("+" in tried.label for tried in entry.search.tried)
    assert entry.search.rows == "out-of-fold"


def test_a_resumed_run_reads_the_sums_of_models(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_models, "WORTH_SECONDS", 0.0)
    whole = run_pipeline(config(frame), tmp_path / "whole")
    fit_entry = fold_training.EnsembleRows.fit_entry

    def stop(self: Any, entry: Any, *arguments: Any) -> Any:
        if entry.label == "hist_gradient_boosting_2":
            raise KeyboardInterrupt
        return fit_entry(self, entry, *arguments)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(fold_training.EnsembleRows, "fit_entry", stop)
        run_pipeline(config(frame), tmp_path / "run")
    trained: list[str] = []

    def record(self: Any, entry: Any, *arguments: Any) -> Any:
        trained.append(entry.label)
        return fit_entry(self, entry, *arguments)

    monkeypatch.setattr(fold_training.EnsembleRows, "fit_entry", record)
    resumed = run_pipeline(config(frame), tmp_path / "run", resume=True)
    pd.testing.assert_frame_equal(whole.predictions, resumed.predictions)
    assert set(trained) == {"hist_gradient_boosting_2"}
