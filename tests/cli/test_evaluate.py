"""Tests of ``gpupipe evaluate``: metrics as scikit-learn computes them, estimates for late labels, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, roc_auc_score

import gpupipe as gp
from gpupipe.datasets.churn import write

CONFIG = """\
source: {generate: churn, rows: 4000, target: Churn, positive: "Yes", drop: [customerID, signup_ts]}
models: [logistic_regression]
report: {enabled: false}
evaluate: {importance: {repeats: 1}, cost: {false_positive: 1, false_negative: 2}}
"""
MONTHS, ROWS = 6, 700


@pytest.fixture(scope="module")
def folder(gpupipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, six months of rows with labels, and the same rows without those of the last two."""
    path = tmp_path_factory.mktemp("evaluate")
    (path / "config.yaml").write_text(CONFIG)
    write(path / "rows.parquet", MONTHS * ROWS, 8)
    frame = pd.read_parquet(path / "rows.parquet")
    frame["seen"] = np.repeat(pd.date_range("2024-01-15", periods=MONTHS, freq="30D"), ROWS)
    frame.to_parquet(path / "rows.parquet", row_group_size=500)
    frame.loc[frame["seen"] > "2024-05-01", "Churn"] = None
    frame.to_csv(path / "late.csv", index=False)
    frame.drop(columns="Churn").to_csv(path / "unlabelled.csv", index=False)
    done = gpupipe("run", "config.yaml", "--output", "run", "--quiet", "--device", "cpu", cwd=path)
    assert done.returncode == 0, done.stderr
    return path


def _json(gpupipe: Any, folder: Path, *options: str) -> dict[str, Any]:
    done = gpupipe("evaluate", "run", *options, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_measured_metrics_are_those_of_scikit_learn(gpupipe, folder: Path) -> None:
    options = ["--by", "month:seen", "--slice", "Contract", "--cost", "false_positive=1", "--cost", "false_negative=4"]
    found = _json(gpupipe, folder, "rows.parquet", *options)
    frame = pd.read_parquet(folder / "rows.parquet")
    model = gp.load_model(folder / "run", "cpu")
    p, y = model.predict_proba(frame)[:, 1], (frame["Churn"] == "Yes").to_numpy()
    positive = p >= model.decision.threshold
    for (month, rows), period in zip(frame.groupby(frame["seen"].dt.strftime("%Y-%m")), found["periods"], strict=True):
        at = rows.index.to_numpy()
        own = {metric["name"]: metric for metric in period["metrics"]}
        assert (period["period"], period["n_rows"], period["status"]) == (month, len(rows), "measured")
        assert own["roc_auc"]["value"] == pytest.approx(roc_auc_score(y[at], p[at]))
        assert own["f1"]["value"] == pytest.approx(f1_score(y[at], positive[at]))
        cost = (positive[at] & ~y[at]).mean() + 4 * (~positive[at] & y[at]).mean()
        assert own["cost"]["value"] == pytest.approx(cost) and own["cost"]["recorded"] is None
        assert (period["observed"], period["predicted"]) == pytest.approx((y[at].mean(), p[at].mean()))
    monthly = next(each for each in found["slices"] if each["level"] == "Month-to-month")
    chosen = (frame["Contract"] == "Month-to-month").to_numpy()
    assert monthly["n_rows"] == chosen.sum()
    assert monthly["metrics"]["roc_auc"] == pytest.approx(roc_auc_score(y[chosen], p[chosen]))
    assert (
        model.evaluate(frame, "month:seen").to_json()["periods"][0]["metrics"][0] == found["periods"][0]["metrics"][0]
    )


def test_late_labels_are_estimated_and_shown_on_one_screen_and_one_page(gpupipe, folder: Path) -> None:
    truth = _json(gpupipe, folder, "rows.parquet", "--by", "month:seen")["periods"]
    done = gpupipe("evaluate", "run", "late.csv", "--by", "month:seen", "--html", "page.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) < 15 and max(map(len, lines)) <= 160 and "tested on 4 earlier periods" in lines[-1]
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert page.count('<svg class="metric"') >= 3 and 'class="estimated"' in page and "<script" not in page
    late = _json(gpupipe, folder, "late.csv", "--by", "month:seen")["periods"]
    assert [period["status"] for period in late] == 4 * ["measured"] + 2 * ["estimated"]
    for estimated, measured in zip(late[4:], truth[4:], strict=True):
        for one, real in zip(estimated["metrics"], measured["metrics"], strict=True):
            if one["value"] is not None and one["name"] == "roc_auc":
                assert one["low"] <= real["value"] <= one["high"] and one["recorded"] == real["recorded"]
    kept = gpupipe("evaluate", "run", "late.csv", "--html", "page.html", cwd=folder)
    assert kept.returncode == 2 and "--force" in kept.stderr


def test_the_evaluation_of_an_untrusted_model_is_the_same(gpupipe, folder: Path) -> None:
    options = ["evaluate", "run", "late.csv", "--by", "month:seen", "--json"]
    trusted = gpupipe(*options, cwd=folder)
    found = gpupipe(*options, "--untrusted", "--limit", "time=2min", cwd=folder)
    assert (found.returncode, found.stdout) == (0, trusted.stdout), found.stderr


def test_without_labels_an_estimate_is_untested_and_outside_of_the_training_rows_there_is_none(
    gpupipe, folder: Path
) -> None:
    found = _json(gpupipe, folder, "unlabelled.csv")
    (only,) = found["periods"]
    assert (only["period"], only["status"], only["n_labelled"]) == ("rows without a label", "untested", 0)
    assert "untested" not in found["verdict"] and "no labelled period" in found["verdict"]
    frame = pd.read_csv(folder / "late.csv")
    late = frame["seen"] > "2024-05-01"
    frame.loc[late, ["tenure", "MonthlyCharges", "TotalCharges"]] *= 50
    frame.to_csv(folder / "moved.csv", index=False)
    moved = _json(gpupipe, folder, "moved.csv", "--by", "month:seen")["periods"]
    assert [period["status"] for period in moved] == 4 * ["measured"] + 2 * ["cannot say"]
    assert "outside of the training rows" in moved[-1]["reason"] and not moved[-1]["metrics"]
    split = _json(gpupipe, folder, "late.csv")["periods"]
    assert [(period["n_rows"], period["n_labelled"]) for period in split] == [(4 * ROWS, 4 * ROWS), (2 * ROWS, 0)]


def test_concept_drift_in_labelled_months_fails(gpupipe, folder: Path) -> None:
    frame = pd.read_parquet(folder / "rows.parquet")
    random = np.random.default_rng(0)
    swapped = (frame["seen"] > "2024-03-20") & (random.random(len(frame)) < 0.7)
    frame.loc[swapped, "Churn"] = np.where(random.random(int(swapped.sum())) < 0.3, "Yes", "No")
    frame.to_parquet(folder / "drifted.parquet")
    options = ["--by", "month:seen", "--quiet", "--fail-on"]
    assert gpupipe("evaluate", "run", "drifted.parquet", *options, "worse", cwd=folder).returncode == 5
    frame.loc[frame["seen"] > "2024-05-01", "Churn"] = None
    frame.to_parquet(folder / "drifted.parquet")
    done = gpupipe("evaluate", "run", "drifted.parquet", *options, "unknown", cwd=folder)
    assert (done.returncode, done.stdout) == (5, "")
    assert gpupipe("evaluate", "run", "rows.parquet", *options, "unknown", cwd=folder).returncode == 0


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["absent.csv"], 5, "absent.csv"),
        (["late.csv", "--by", "year"], 2, "month"),
        (["late.csv", "--slice", "Contrat"], 2, "Contract"),
        (["late.csv", "--cost", "false_positive"], 2, "NAME=NUMBER"),
        (["late.csv", "--cost", "false_positive=1"], 2, "false_negative"),
        (["late.csv", "--html", "late.csv", "--force"], 2, "overwrite"),
    ],
)
def test_an_error_is_short(gpupipe, folder: Path, options: list[str], code: int, word: str) -> None:
    done = gpupipe("evaluate", "run", *options, cwd=folder)
    assert done.returncode == code and word in done.stderr and len(done.stderr.splitlines()) < 12
