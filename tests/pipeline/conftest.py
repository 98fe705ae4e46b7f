"""A small churn configuration and its finished run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe.config import load_config
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline

CHURN = """\
name: small
seed: 3
source: {generate: churn, rows: 3000, target: Churn, positive: "Yes", drop: [customerID]}
split: {test_size: 0.25}
features:
  - impute: {columns: [MonthlyCharges, TotalCharges], indicator: true}
  - log1p: [TotalCharges]
  - standardize: "@numeric"
  - encode: ["@categorical", "!City"]
  - target_encode: {columns: City, smoothing: 20}
models:
  - logistic_regression
  - hist_gradient_boosting: {max_iter: 20}
evaluate: {metrics: [roc_auc, f1, log_loss], threshold: best_f1}
report: {plots: false}
"""


@pytest.fixture
def write(tmp_path: Path):
    """Return a function that writes a configuration and returns its path."""

    def write_config(text: str, name: str = "config.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_config


@pytest.fixture(scope="session")
def churn_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a finished run of the small churn configuration."""
    folder = tmp_path_factory.mktemp("churn")
    path = folder / "small.yaml"
    path.write_text(CHURN)
    return run_pipeline(load_config(path), folder / "run")
