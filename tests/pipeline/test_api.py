"""The Python interface: the same results as the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import gpupipe as gp
from gpupipe.datasets.churn import customers
from gpupipe.errors import ConfigError


def test_a_pipeline_runs_to_the_figures_of_the_command_line(churn_run: gp.Run, tmp_path: Path) -> None:
    pipe = gp.Pipeline.from_yaml(churn_run.path / "config.yaml", device="auto")
    run = pipe.run(tmp_path / "run")
    assert run.metrics == churn_run.metrics
    assert run.report().is_file() and run.plan()[0]["name"] == "read"
    assert "roc_auc" in repr(run) and "<table>" in run._repr_html_()
    assert "small" in repr(pipe)


def test_features_are_one_column_major_matrix_and_learnable(churn_run: gp.Run) -> None:
    X, y = gp.Pipeline(churn_run.config).features()
    assert y is not None and X.dtype == np.float32 and X.flags.f_contiguous and len(X) == len(y) == 3000
    assert np.isfinite(X).all() and set(y) == {0.0, 1.0}
    fit = LogisticRegression(max_iter=500).fit(X[:2000], y[:2000])
    assert roc_auc_score(y[2000:], fit.predict_proba(X[2000:])[:, 1]) > 0.75


def test_features_of_a_frame_match_the_source(churn_run: gp.Run) -> None:
    pipe = gp.Pipeline(churn_run.config)
    X, y = pipe.features()
    frame = customers(3000, 7).to_pandas().drop(columns="customerID")
    X_frame, y_frame = pipe.features(frame)
    np.testing.assert_array_equal(X_frame, X)
    np.testing.assert_array_equal(y_frame, y)
    codes, _ = pipe.features(frame, view="codes")
    assert codes.shape[1] < X.shape[1]


def test_a_missing_configuration_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        gp.run("nowhere.yaml")
