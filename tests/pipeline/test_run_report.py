"""Numbers in report.html, recomputed from predictions.parquet with pandas and scikit-learn."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import mean_absolute_error, median_absolute_error, precision_score, recall_score, roc_auc_score

from gpupipe.config import parse_config
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline


def report_text(folder: Path) -> str:
    page = (folder / "report.html").read_text(encoding="utf-8")
    body = re.sub(r"(?s)<style>.*?</style>|<svg.*?</svg>", " ", page)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


def predictions(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "predictions.parquet")


def run(folder: Path, **settings: Any) -> Path:
    run_pipeline(parse_config({"name": "x", "report": {"plots": False}, **settings}), folder)
    return folder


def test_the_metrics_of_a_classification_match_its_predictions(churn_run: Run) -> None:
    text, rows = report_text(churn_run.path), predictions(churn_run.path)
    is_yes, called = rows.target == "Yes", rows.prediction == "Yes"
    score = rows.filter(like="probability").iloc[:, -1]
    assert len(rows) == 750
    top = is_yes[score.sort_values(ascending=False).index].head(50)
    assert (
        f"Of the 50 test rows with the highest predicted probability of Churn = Yes, {top.sum()} are Yes; of 50 chosen "
        f"at random, {50 * is_yes.mean():.0f} would be."
    ) in text
    precision, recall = 100 * precision_score(is_yes, called), 100 * recall_score(is_yes, called)
    assert f"Precision {precision:.1f} % , recall {recall:.1f} % ." in text
    assert f"it finds {recall:.1f} % of the {is_yes.sum()} rows that are Yes" in text
    assert f"ROC AUC {roc_auc_score(is_yes, score):.4f}" in text
    for fraction in (0.05, 0.1, 0.2, 0.5):
        n = round(fraction * len(rows))
        hits = is_yes[score.sort_values(ascending=False).index].head(n).sum()
        lift = hits / n / is_yes.mean()
        row = f"{100 * fraction:.0f} % {n} {hits} {100 * hits / n:.1f} % {100 * hits / is_yes.sum():.1f} % {lift:.2f}"
        assert row in text, row
    manifest = json.loads((churn_run.path / "model" / "manifest.json").read_text(encoding="utf-8"))
    inputs = {each["column"] for each in manifest["importances"]["columns"]}
    assert f"from {len(inputs)} input columns" in text


def test_a_regression_on_folds_is_measured_by_its_predictions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "z": rng.normal(size=400)})
    frame["price"] = 50 + 10 * frame.x + rng.normal(size=400)
    source = {"frame": frame, "target": "price"}
    folder = run(tmp_path / "run", source=source, split={"cv": 3}, models=["ridge"], evaluate={"metrics": ["mae"]})
    text, rows = report_text(folder), predictions(folder)
    off = (rows.target - rows.prediction).abs()
    assert f"Half of the predictions are within {off.median():.4f} of the true price" in text
    assert f"and 90 % within {off.quantile(0.9):.3f}." in text
    constant = median_absolute_error(rows.target, np.full(400, rows.target.median()))
    assert f"half would be within {constant:.3f}." in text
    assert "Measured out of fold" in text
    errors = [mean_absolute_error(fold.target, fold.prediction) for _, fold in rows.groupby("fold")]
    assert f"MAE {np.mean(errors):.4f}" in text and f"± {np.std(errors):.4f}" in text
    assert "▲ raised by high values" in text


def test_several_classes_and_clusters_are_counted_from_their_predictions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=600), "b": rng.normal(size=600)})
    frame["kind"] = np.select([frame.a > 0.8, frame.b > 0.5], ["up", "right"], "rest")
    folder = run(tmp_path / "kinds", source={"frame": frame, "target": "kind"}, models=["logistic_regression"])
    rows = predictions(folder)
    right, most = (rows.target == rows.prediction).mean(), rows.target.value_counts(normalize=True)
    assert (
        f"kind is predicted correctly for {100 * right:.1f} % of the {len(rows)} test rows; always predicting "
        f"{most.index[0]}, the most frequent class, would be correct for {100 * most.iloc[0]:.1f} %."
    ) in report_text(folder)

    source = {"frame": frame.drop(columns="kind")}
    folder = run(tmp_path / "clusters", source=source, models=[{"kmeans": {"n_clusters": 4}}])
    rows = predictions(folder)
    sizes = rows.iloc[:, 1].value_counts(normalize=True)
    assert (
        f"The {len(rows)} test rows fall into 4 clusters; the largest has {100 * sizes.max():.1f} % of them, the "
        f"smallest {100 * sizes.min():.1f} %."
    ) in report_text(folder)
