"""Metrics of other packages equal their functions, with weights and for several classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, top_k_accuracy_score

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.metrics import evaluate

Install = Callable[..., Path]
SOURCE = """
from sklearn.metrics import cohen_kappa_score, max_error, top_k_accuracy_score
from gpupipe.plugins import PluginMetric

CLASSES = ("binary", "multiclass")
KAPPA = PluginMetric(cohen_kappa_score, CLASSES)
TOP_2 = PluginMetric(lambda y, p, sample_weight=None: top_k_accuracy_score(y, p, k=2, sample_weight=sample_weight),
                     ["multiclass"], response_method="predict_proba")
WORST = PluginMetric(max_error, ["regression"], greater_is_better=False)
BROKEN = PluginMetric(lambda y, p: 1 / 0, CLASSES)
MIXED = PluginMetric(max_error, ["regression", "binary"])
"""
PLUGINS = {
    "gpupipe.metrics": {name.lower(): f"pkg_s:{name}" for name in ("KAPPA", "TOP_2", "WORST", "BROKEN", "MIXED")}
}


@pytest.fixture(autouse=True)
def package(install: Install) -> None:
    install("pkg-s", "1.0", PLUGINS, SOURCE)


def test_classes_and_probabilities_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    y, weight = rng.integers(0, 4, 300), rng.uniform(0, 2, 300)
    p = rng.dirichlet(np.ones(4), 300)
    found = evaluate("multiclass", y, p, ["kappa", "top_2"], n_classes=4, sample_weight=weight, backend=choose("cpu"))
    p = p / p.sum(axis=1, keepdims=True)
    assert found["kappa"] == pytest.approx(cohen_kappa_score(y, p.argmax(axis=1), sample_weight=weight))
    assert found["top_2"] == pytest.approx(top_k_accuracy_score(y, p, k=2, sample_weight=weight))


def test_values_and_thresholds() -> None:
    y = np.array([1.0, 2.0, 5.0])
    found = evaluate("regression", y, np.array([1.0, -1.0, 6.0]), ["worst"], backend=choose("cpu"))
    assert found == {"worst": 3.0}
    p = np.array([0.1, 0.4, 0.6, 0.9])
    kappa = evaluate("binary", np.array([0, 1, 0, 1]), p, ["kappa"], threshold=0.3, backend=choose("cpu"))["kappa"]
    assert kappa == pytest.approx(cohen_kappa_score([0, 1, 0, 1], [0, 1, 1, 1]))


def test_a_metric_that_fails_or_takes_no_weights_is_named() -> None:
    y, p = np.array([0, 1]), np.array([0.2, 0.8])
    for weight in (None, np.ones(2)):
        with pytest.raises(gp.ConfigError) as error:
            evaluate("binary", y, p, ["broken"], sample_weight=weight, backend=choose("cpu"))
        assert "'broken' of pkg-s 1.0" in error.value.what
    with pytest.raises(gp.ConfigError):
        evaluate("regression", y, p, ["mixed"], backend=choose("cpu"))


def test_it_orders_the_leaderboard_and_the_model_does_not_need_it(
    uninstall: Callable[[str], None], tmp_path: Path
) -> None:
    import pandas as pd

    rng = np.random.default_rng(2)
    x = rng.normal(size=400)
    frame = pd.DataFrame({"x": x, "y": np.where(np.abs(x) < 1, "in", "out")})
    pipeline = gp.Pipeline(
        frame, target="y", models=["logistic_regression", "gaussian_nb"],
        evaluate={"select_by": "kappa", "importance": False},
        report={"enabled": False},
    )  # fmt: skip
    run = pipeline.run(tmp_path / "run", quiet=True)
    assert (
        run.document["best"] == "gaussian_nb" and run.metrics["kappa"] > 0.5 and math.isfinite(run.metrics["roc_auc"])
    )
    uninstall("pkg-s")
    assert gp.load_model(run.path).verify().passed
