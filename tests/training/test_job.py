"""Training of candidates: matrices are held no longer than they are read."""

from __future__ import annotations

from typing import Any

import pytest

from gpupipe import Pipeline
from gpupipe.training.job import CandidateTraining


def test_the_training_matrix_is_released_after_the_last_candidate_of_its_view(monkeypatch: pytest.MonkeyPatch) -> None:
    held: dict[str, list[str]] = {}
    predict = CandidateTraining.predict

    def recorded(training: CandidateTraining, entry: Any) -> None:
        held.setdefault(entry.label, sorted(training._rows.matrices))
        predict(training, entry)

    monkeypatch.setattr(CandidateTraining, "predict", recorded)
    source = {"generate": "churn", "rows": 600, "target": "Churn", "positive": "Yes", "drop": ["customerID"]}
    few = {"xgboost": {"n_estimators": 2}}
    Pipeline(source=source, models=[few, "logistic_regression", {"random_forest": {"n_estimators": 2}}]).run(
        output=None
    )
    assert held == {"xgboost": ["codes", "dense"], "logistic_regression": ["codes"], "random_forest": []}
