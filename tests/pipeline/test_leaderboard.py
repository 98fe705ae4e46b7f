"""Model selection: choices made on data are scored on rows that took no part in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, f1_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gpupipe.config import parse_config
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.random_streams import derive_seed

LEARNED = {"calibrate": "isotonic", "threshold": "best_f1"}


@pytest.fixture(scope="module", autouse=True)
def use_every_calibration() -> Iterator[None]:
    """Use calibrations even if they make the log loss worse, which test_calibration.py tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpupipe.model_parts.decision.LARGEST_LOSS", np.inf)
        yield


@pytest.fixture(scope="module")
def german(data_dir: Path) -> Path:
    return data_dir / "german-credit" / "german.csv"


def train(source: dict[str, Any], folder: Path, **sections: Any) -> tuple[Run, pd.DataFrame]:
    """Return a run and its predictions, in the order of the rows."""
    settings = {
        "source": source, "split": {"cv": 5, "seed": 0}, "models": ["logistic_regression"], "report": {"enabled": False}
    }  # fmt: skip
    run = run_pipeline(parse_config(settings | sections), folder)
    return run, pd.read_parquet(folder / "predictions.parquet").sort_values("row", ignore_index=True)


def cut(y: Any, p: Any) -> float:
    """Return the threshold of the best F1 by trying each, half-way to the next probability."""
    cuts = np.unique(p)[::-1]
    best = int(np.argmax([f1_score(y, p >= at) for at in cuts]))
    return float((cuts[best] + [*cuts, 0.0][best + 1]) / 2)


def check_folds(plain: pd.DataFrame, learned: pd.DataFrame, label: str, judges: Any) -> None:
    """Compare each fold with scikit-learn's calibration on the other folds, and with their best threshold."""
    y, p, fold = plain["target"].astype(str) == label, plain[f"probability_{label}"], plain["fold"]
    for k in range(1, fold.max() + 1):
        others = judges(fold, k)
        got = learned[fold == k]
        if not others.any():
            np.testing.assert_array_equal(got[f"probability_{label}"], p[fold == k])
            continue
        isotonic = IsotonicRegression(out_of_bounds="clip").fit(p[others], y[others])
        expected = isotonic.predict(p[fold == k])
        np.testing.assert_allclose(got[f"probability_{label}"], expected, atol=1e-12)
        threshold = cut(y[others], isotonic.predict(p[others]))
        np.testing.assert_array_equal(got["prediction"].astype(str) == label, expected >= threshold)


@pytest.fixture(scope="module")
def runs(german: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the run and predictions of german credit as the model gives them, and calibrated with a threshold rule."""
    folder, source = tmp_path_factory.mktemp("german"), {"path": str(german), "target": "credit", "positive": 2}
    return train(source, folder / "plain"), train(source, folder / "learned", evaluate=LEARNED)


def test_each_fold_is_calibrated_and_cut_by_the_others(runs: Any) -> None:
    check_folds(runs[0][1], runs[1][1], "2", lambda fold, k: fold != k)


def test_pooled_metrics_match_nested_calibration(runs: Any, german: Path) -> None:
    frame = pd.read_csv(german)
    X, y = frame.drop(columns="credit"), frame["credit"] == 2
    columns = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    nested = CalibratedClassifierCV(
        make_pipeline(columns, LogisticRegression(max_iter=2000)), method="isotonic", ensemble=False
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=derive_seed(0, "folds"))
    expected = cross_val_predict(nested, X, y, cv=folds, method="predict_proba")[:, 1]
    got = runs[1][1]["probability_2"]
    # One calibration map learned on all rows, these included, has a 0.017 larger area and a 0.007 lower Brier score.
    assert roc_auc_score(y, got) == pytest.approx(roc_auc_score(y, expected), abs=0.006)
    assert brier_score_loss(y, got) == pytest.approx(brier_score_loss(y, expected), abs=0.002)


def test_metrics_are_the_means_of_the_folds_in_the_file(runs: Any) -> None:
    run, rows = runs[1]
    by_fold = [f1_score(part["target"] == 2, part["prediction"] == 2) for _, part in rows.groupby("fold")]
    assert run.metrics["f1"] == pytest.approx(np.mean(by_fold))


def test_in_time_order_only_earlier_folds_are_used(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=600), "at": pd.date_range("2026-01-01", periods=600)})
    drift = np.linspace(-1, 1, 600)
    frame["y"] = np.where(rng.random(600) < 1 / (1 + np.exp(-frame["x"] - drift)), "p", "n")
    frame.to_parquet(tmp_path / "t.parquet")
    source, split = {"path": str(tmp_path / "t.parquet"), "target": "y", "positive": "p"}, {"cv": 4, "time": "at"}
    plain = train(source, tmp_path / "plain", split=split)[1]
    learned = train(source, tmp_path / "learned", split=split, evaluate=LEARNED)[1]
    check_folds(plain, learned, "p", lambda fold, k: fold < k)


def test_the_selection_is_scored_on_folds_not_used_to_select(german: Path, tmp_path: Path) -> None:
    """With many alike candidates the best mean is too good by chance; the procedure is what other folds choose."""
    source = {"path": str(german), "target": "credit", "positive": 2}
    models = [
        {"name": "logistic_regression", "as": f"C{i}", "params": {"C": C}}
        for i, C in enumerate((0.01, 0.03, 0.1, 0.3, 1.0))
    ]
    run, _ = train(source, tmp_path / "all", models=models, evaluate={"metrics": ["roc_auc"]})
    areas = []
    for i, model in enumerate(models):
        rows = train(source, tmp_path / str(i), models=[model])[1]
        areas.append([roc_auc_score(part["target"] == 2, part["probability_2"]) for _, part in rows.groupby("fold")])
    by_model = np.array(areas)
    chosen = [by_model[np.delete(by_model, k, axis=1).mean(axis=1).argmax(), k] for k in range(5)]
    assert run.document["selection"]["roc_auc"] == pytest.approx(np.mean(chosen))
    assert run.metrics["roc_auc"] == pytest.approx(by_model.mean(axis=1).max())


@pytest.mark.parametrize("split", [{"cv": 5, "seed": 0}, {"test_size": 0.3, "seed": 0}], ids=["folds", "holdout"])
def test_costs_choose_a_threshold_that_saves(german: Path, tmp_path: Path, split: dict[str, Any]) -> None:
    """The costs are those of the data set's own documentation: a bad risk taken for a good one costs five times."""
    source = {"path": str(german), "target": "credit", "positive": 2}
    evaluate = {"cost": {"false_positive": 1, "false_negative": 5}}
    run, rows = train(source, tmp_path / "cost", split=split, evaluate=evaluate)
    half, _ = train(source, tmp_path / "half", split=split, evaluate=evaluate | {"threshold": 0.5})
    bad, called = rows["target"] == 2, rows["prediction"] == 2
    assert run.metrics["cost"] == pytest.approx((5 * (bad & ~called) + (~bad & called)).mean(), rel=1e-9)
    assert run.metrics["cost"] < half.metrics["cost"]
