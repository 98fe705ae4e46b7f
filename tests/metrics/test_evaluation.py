from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn import metrics as sk
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.errors import ConfigError, DataError
from gpupipe.metrics import METRICS, Evaluate, evaluate, metric_names, undefined_notes
from gpupipe.metrics.clustering import ROWS
from gpupipe.random_streams import make_generator
from gpupipe.tasks import Task

HOST = CpuBackend()


def _names(task: str) -> list[str]:
    return [name for name, metric in METRICS.items() if task in metric.tasks and name != "cost"]


@pytest.mark.parametrize("name", METRICS.names())
def test_a_metric_is_defined_in_one_line(name: str) -> None:
    definition = METRICS.get(name).definition
    assert definition.endswith(".") and "\n" not in definition


def rows_of(X: Any, rows: Any) -> Any:
    return X if rows is None else X[rows]


def test_binary_metrics_match_scikit_learn(binary: Any) -> None:
    y, guess = binary
    p, label = guess, guess >= 0.3
    assert evaluate("binary", y, guess, _names("binary"), threshold=0.3, backend=HOST) == pytest.approx(
        {
            "roc_auc": sk.roc_auc_score(y, p),
            "average_precision": sk.average_precision_score(y, p),
            "log_loss": sk.log_loss(y, p),
            "brier": sk.brier_score_loss(y, p),
            "f1": sk.f1_score(y, label),
            "precision": sk.precision_score(y, label),
            "recall": sk.recall_score(y, label),
            "accuracy": sk.accuracy_score(y, label),
            "balanced_accuracy": sk.balanced_accuracy_score(y, label),
            "matthews": sk.matthews_corrcoef(y, label),
        }
    )


def test_multiclass_metrics_match_scikit_learn(multiclass: Any) -> None:
    y, guess = multiclass
    p, label = guess, guess.argmax(axis=1)
    expected = {
        "roc_auc": sk.roc_auc_score(y, p, multi_class="ovr", average="macro"),
        "average_precision": sk.average_precision_score(np.eye(3)[y.astype(int)], p, average="macro"),
        "log_loss": sk.log_loss(y, p),
        "brier": sk.brier_score_loss(y, p, scale_by_half=False),
        "f1": sk.f1_score(y, label, average="macro"),
        "precision": sk.precision_score(y, label, average="macro"),
        "recall": sk.recall_score(y, label, average="macro"),
        "accuracy": sk.accuracy_score(y, label),
        "balanced_accuracy": sk.balanced_accuracy_score(y, label),
        "matthews": sk.matthews_corrcoef(y, label),
    }
    assert evaluate("multiclass", y, guess, _names("multiclass"), n_classes=3, backend=HOST) == pytest.approx(expected)


def test_regression_metrics_match_scikit_learn(regression: Any) -> None:
    y, guess = regression
    assert evaluate("regression", y, guess, _names("regression"), backend=HOST) == pytest.approx(
        {
            "r2": sk.r2_score(y, guess),
            "rmse": sk.root_mean_squared_error(y, guess),
            "mae": sk.mean_absolute_error(y, guess),
            "median_ae": sk.median_absolute_error(y, guess),
            "mape": sk.mean_absolute_percentage_error(y, guess),
        }
    )


def test_cluster_metrics_match_scikit_learn() -> None:
    X = load_wine().data
    label = KMeans(3, random_state=0).fit_predict(X)
    guess = label
    assert evaluate(
        "clustering", None, guess, _names("clustering"), X=partial(rows_of, X), backend=HOST
    ) == pytest.approx(
        {
            "silhouette": sk.silhouette_score(X, label),
            "davies_bouldin": sk.davies_bouldin_score(X, label),
            "calinski_harabasz": sk.calinski_harabasz_score(X, label),
        }
    )


def test_an_embedding_of_principal_components_restores_the_variance_that_they_explain() -> None:
    X = load_wine().data
    pca = PCA(2, whiten=True).fit(X)
    guess = pca.transform(X)
    values = evaluate("embedding", None, guess, ["reconstruction_r2"], X=partial(rows_of, X), backend=HOST)
    assert values["reconstruction_r2"] == pytest.approx(pca.explained_variance_ratio_.sum())


def test_a_test_part_of_one_class_gives_nan_with_a_note_and_no_warning(binary: Any) -> None:
    y, guess = binary
    values = evaluate("binary", np.ones(len(y)), guess, _names("binary"), backend=HOST)
    assert [name for name, value in values.items() if math.isnan(value)] == ["roc_auc", "average_precision"]
    assert undefined_notes("binary", values)[0] == "roc_auc is undefined: the rows have only one class"


def test_a_split_without_one_of_three_classes_is_scored_on_the_others(multiclass: Any) -> None:
    y, guess = multiclass
    kept = y != 2
    part = guess[kept]
    values = evaluate("multiclass", y[kept], part, _names("multiclass"), n_classes=3, backend=HOST)
    assert not any(math.isnan(value) for value in values.values())
    expected = [sk.roc_auc_score(y[kept] == code, part[:, code]) for code in (0, 1)]
    assert values["roc_auc"] == pytest.approx(np.mean(expected))


def test_a_single_row_and_no_rows_give_nan_and_no_warning(regression: Any) -> None:
    y, guess = regression
    one = guess[:1]
    assert math.isnan(evaluate("regression", y[:1], one, ["r2"], backend=HOST)["r2"])
    none = guess[:0]
    assert all(math.isnan(v) for v in evaluate("regression", y[:0], none, _names("regression"), backend=HOST).values())


def test_probabilities_in_float32_give_the_same_log_loss_without_a_warning(multiclass: Any) -> None:
    y, guess = multiclass
    rough = guess.astype(np.float32)
    values = [evaluate("multiclass", y, g, ["log_loss"], n_classes=3, backend=HOST)["log_loss"] for g in (guess, rough)]
    assert values[1] == pytest.approx(values[0], rel=1e-4)


@pytest.mark.parametrize(
    ("task", "settings", "first"),
    [
        ("binary", {}, "roc_auc"),
        ("multiclass", {}, "log_loss"),
        ("regression", {}, "r2"),
        ("clustering", {}, "silhouette"),
        ("embedding", {}, "reconstruction_r2"),
        ("binary", {"metrics": ["f1", "accuracy"]}, "f1"),
        ("binary", {"metrics": ["f1", "accuracy"], "select_by": "brier"}, "brier"),
    ],
)
def test_the_leaderboard_is_ordered_by_the_metric_that_is_listed_first(
    task: Task, settings: dict[str, Any], first: str
) -> None:
    names = metric_names({task}, Evaluate(**settings))
    assert names[0] == first
    assert set(settings.get("metrics", ())) <= set(names)
    assert len(set(names)) == len(names)


def test_a_metric_of_another_task_is_refused_with_those_that_fit() -> None:
    with pytest.raises(ConfigError, match=r"not available for the task binary: rmse[\s\S]*roc_auc"):
        metric_names({"binary"}, Evaluate(metrics=["roc_auc", "rmse"]))


def test_an_unknown_metric_is_found_when_the_configuration_is_read() -> None:
    with pytest.raises(ValidationError, match="did you mean 'roc_auc'"):
        Evaluate(metrics=["rocauc"])


@pytest.mark.parametrize("n_classes", [2, 3, 12])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_metrics_of_many_rows_are_scikit_learns_to_the_last_digits(n_classes: int, dtype: Any) -> None:
    rng = np.random.default_rng(n_classes)
    y = rng.integers(0, n_classes, 3_000).astype(np.float64)
    odds = rng.random((3_000, n_classes)) + 0.5 * (y[:, None] == np.arange(n_classes))
    p = (odds / odds.sum(axis=1, keepdims=True)).astype(dtype)
    task, given = ("binary", p[:, 1]) if n_classes == 2 else ("multiclass", p)
    guess = given
    p = p.astype(np.float64) if n_classes > 2 else np.column_stack([1.0 - given.astype(np.float64), given])
    p, label = p / p.sum(axis=1, keepdims=True), (p[:, 1] >= 0.5 if n_classes == 2 else p.argmax(axis=1))
    one = np.eye(n_classes)[y.astype(int)]
    average = "binary" if n_classes == 2 else "macro"
    areas = (y, p[:, 1]) if n_classes == 2 else (one, p)
    assert evaluate(task, y, guess, _names(task), n_classes=n_classes, backend=HOST) == pytest.approx(
        {
            "roc_auc": sk.roc_auc_score(*areas),
            "average_precision": sk.average_precision_score(*areas),
            "log_loss": sk.log_loss(y, p),
            "brier": sk.brier_score_loss(y, p, scale_by_half=n_classes == 2),
            "f1": sk.f1_score(y, label, average=average),
            "precision": sk.precision_score(y, label, average=average),
            "recall": sk.recall_score(y, label, average=average),
            "accuracy": sk.accuracy_score(y, label),
            "balanced_accuracy": sk.balanced_accuracy_score(y, label),
            "matthews": sk.matthews_corrcoef(y, label),
        },
        rel=1e-12,
    )


def test_more_rows_than_are_measured_are_sampled_and_matrix_and_clusters_stay_together() -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 2 * ROWS)
    X = (label[:, None] * 10 + rng.normal(size=(2 * ROWS, 2))).astype(np.float32)
    guess = label
    value = evaluate("clustering", None, guess, ["davies_bouldin"], X=partial(rows_of, X), backend=HOST)
    chosen = make_generator(0, "clustered rows").choice(len(X), ROWS, replace=False)
    assert value["davies_bouldin"] == sk.davies_bouldin_score(X[chosen], label[chosen])


def test_a_target_that_does_not_vary_is_explained_or_not() -> None:
    y = np.full(5, 2.0)
    for value in (y, y + 1):
        found = evaluate("regression", y, value, ["r2"], backend=HOST)
        assert found["r2"] == sk.r2_score(y, value)


@pytest.mark.parametrize("wrong", [np.nan, -0.1, 1.1, np.inf])
def test_a_value_outside_0_to_1_is_refused(wrong: float) -> None:
    guess = np.array([0.5, wrong])
    with pytest.raises(DataError, match="predicts probabilities from"):
        evaluate("binary", np.array([0.0, 1.0]), guess, ["accuracy"], backend=HOST)


def test_a_probability_that_float32_rounded_above_1_is_1() -> None:
    guess = np.array([0.25, np.nextafter(np.float32(1), np.float32(2))])
    assert evaluate("binary", np.array([0.0, 1.0]), guess, ["brier"], backend=HOST)["brier"] == 0.03125


def test_a_value_that_is_not_finite_is_refused() -> None:
    guess = np.array([0.5, np.nan])
    with pytest.raises(DataError, match="not finite"):
        evaluate("regression", np.array([0.0, 1.0]), guess, ["rmse"], backend=HOST)
