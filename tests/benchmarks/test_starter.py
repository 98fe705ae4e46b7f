"""``python -m benchmarks.starter``: the references receive the columns to drop, `init` finds them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from benchmarks.starter import main


@pytest.mark.nightly
def test_both_sides_are_scored_on_the_same_folds(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 2))
    y = (x[:, 0] + generator.normal(size=200) > 0).astype(int)
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "answer": np.where(y, "good", "bad"), "y": y})
    table.to_csv(tmp_path / "table.csv", index=False)
    listed = {"name": "small", "path": tmp_path / "table.csv", "target": "y", "drop": "answer", "task": ""}
    pd.DataFrame([listed]).to_csv(tmp_path / "tables.csv", index=False)
    done = CliRunner().invoke(main, [str(tmp_path / "tables.csv"), "--output", str(tmp_path / "results.csv")])
    assert done.exit_code == 0, done.output
    with (tmp_path / "results.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    linear = np.mean([_linear(x, y, *fold) for fold in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y)])
    assert float(row["linear"]) == pytest.approx(linear, abs=1e-4)
    assert 0.6 < float(row["init"]) < 0.95  # it has dropped the answer by itself
    best = max(float(row[name]) for name in ("linear", "hgb_onehot", "hgb_native"))
    assert float(row["gain"]) == pytest.approx(float(row["init"]) - best, abs=2e-5)
    assert "1 tables: mean gain" in done.output


def _linear(x: np.ndarray, y: np.ndarray, learn: np.ndarray, test: np.ndarray) -> float:
    scaler = StandardScaler().fit(x[learn])
    model = LogisticRegression(max_iter=2000).fit(scaler.transform(x[learn]), y[learn])
    return float(roc_auc_score(y[test], model.decision_function(scaler.transform(x[test]))))
