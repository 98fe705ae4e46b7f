"""Two realistic synthetic runs: one classifies customers, one predicts prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, precision_recall_curve, roc_auc_score, roc_curve

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.metrics import ColumnImportance, Residuals, curves
from gpupipe.report.contributions import ExplainedColumn, TargetContributions
from gpupipe.report.data import (
    Classification,
    ColumnQuality,
    Confusion,
    Curve,
    LeaderboardRow,
    Lineage,
    ReportData,
)
from gpupipe.report.example_rows import ExampleRow
from gpupipe.report.generated_features import GeneratedFeature, GeneratedFeatures
from gpupipe.report.search_record import SearchRecord, TrialState, TriedModel, count_tried

CONFIG = """name: churn
seed: 7
device: auto
source:
  path: data/telco.csv
  target: Churn
  positive: 'Yes'
  drop: [customerID]
split: {test_size: 0.2, stratify: true}
features:
  - impute: {columns: '@numeric', strategy: median, indicator: true}
  - encode: {columns: '@categorical'}
models: [logistic_regression, random_forest, xgboost]
"""


def stage(name: str, start: float, seconds: float, rows: int | None, depth: int = 0, **more: Any) -> dict[str, Any]:
    record = {
        "name": name, "device": "cpu", "reason": "no NVIDIA driver found", "depth": depth, "status": "done",
        "interpreter": None, "rows": rows, "start_seconds": start, "seconds": seconds, "cpu_seconds": seconds * 1.7,
        "rows_per_second": rows / seconds if rows else None, "peak_host_bytes": int(2e8 + start * 4e7),
        "peak_device_bytes": None, "bytes_to_device": 0, "bytes_to_host": 0, "notes": [],
    }  # fmt: skip
    return record | more


def churn_rows() -> tuple[Any, Any]:
    """Return truth and probability of the rows that `churn_run` reports."""
    rng = np.random.default_rng(7)
    logit = rng.normal(-1.3, 1.6, 7043)
    y = rng.random(7043) < 1 / (1 + np.exp(-logit))
    return y, 1 / (1 + np.exp(-(0.8 * logit + rng.normal(0, 0.7, 7043))))


def contributions(
    names: Sequence[str], label: str = "Yes", level: str = "low", n_rows: int = 400, n_classes: int = 1
) -> TargetContributions:
    """Return random contributions of columns of three kinds in turn: numbers, levels, times."""
    rng = np.random.default_rng(0)
    columns = []
    for i, name in enumerate(names):
        known = rng.random(n_rows) < 0.9
        if i % 3 == 1:
            levels = [level if own else None for own in known]
            columns.append(ExplainedColumn(name=name, kind="categorical", values=levels))
        else:
            numbers = 1.4e15 + rng.uniform(0, 1e14, n_rows) if i % 3 else rng.normal(size=n_rows)
            kind: Literal["datetime", "numeric"] = "datetime" if i % 3 else "numeric"
            columns.append(ExplainedColumn(name=name, kind=kind, values=np.where(known, numbers, np.nan).tolist()))
    values = rng.normal(size=(n_rows, len(names), n_classes)) / (1 + np.arange(len(names)))[:, None]
    example = ExampleRow(
        title="Highest prediction", row=7, position=3, predicted=0.9, mean=0.3, label=label, actual=label
    )
    return TargetContributions(
        target="Churn", scale="log-odds", method="exact trees", columns=columns, values=values,
        base=np.linspace(-1.2, 0.3, n_classes), labels=[f"{label}{i or ''}" for i in range(n_classes)],
        order=range(n_classes), has_classes=True, examples=[example], n_candidates=1409,
    )  # fmt: skip


def churn_run() -> ReportData:
    y, score = churn_rows()
    lines = curves("binary", y, score, backend=CpuBackend())
    false_positive, true_positive, _ = roc_curve(y, score)
    precision, recall, _ = precision_recall_curve(y, score)
    observed, predicted = calibration_curve(y, score, n_bins=10, strategy="quantile")
    auc = float(roc_auc_score(y, score))
    board = [("xgboost", 0.0, 0.412), ("logistic_regression", -0.0031, 0.093), ("random_forest", -0.0164, 1.31)]
    rows = [
        LeaderboardRow(
            model=name,
            metrics={"roc_auc": auc + d, "average_precision": 0.656 + d, "f1": 0.6312 + d, "log_loss": 0.4171 - d},
            validation={"roc_auc": auc + d + 0.004, "average_precision": 0.66 + d, "f1": 0.64 + d, "log_loss": 0.41},
            best=name == "xgboost",
            seconds=seconds,
        )
        for name, d, seconds in board
    ]
    return ReportData(
        name="churn",
        created="2026-03-14 09:26 UTC",
        seconds=2.93,
        device="cpu",
        device_reason="no NVIDIA driver found",
        task="binary",
        target="Churn",
        metric="roc_auc",
        leaderboard=rows,
        rows_train=5634,
        rows_test=1409,
        n_features=46,
        n_inputs=41,
        classification=Classification(
            roc=[Curve(x=false_positive, y=true_positive)],
            precision_recall=[Curve(x=recall, y=precision)],
            calibration=[Curve(x=predicted, y=observed)],
            gains=[Curve(x=lines.gains[0].x, y=lines.gains[0].y)],
            headline=lines.top[0],
            top=lines.top[1:],
            prevalence=float(y.mean()),
            positive="Yes",
            threshold=0.3127,
            threshold_rule="best_f1",
            confusion=Confusion(labels=["No", "Yes"], counts=confusion_matrix(y, score > 0.3127)),
        ),
        importances=[
            ColumnImportance(name=name, mean=mean, std=abs(mean) / 9)
            for name, mean in [
                ("Contract", 0.0923), ("tenure", 0.0711), ("InternetService", 0.0384), ("MonthlyCharges", 0.0251),
                ("TotalCharges", 0.0199), ("OnlineSecurity", 0.0121), ("PaymentMethod", 0.0097),
                ("TechSupport", 0.0091),
                ("PaperlessBilling", 0.0034), ("SeniorCitizen", 0.0012), ("gender", -0.0001),
                ("flat", 0.0),
            ]
        ],
        importance_note="Permutation importance: the mean decrease of ROC AUC.",
        columns=[
            ColumnQuality(name="customerID", kind="dropped", dtype="string", null_fraction=0.0, distinct=7043,
                          notes=["one value per row"]),
            ColumnQuality(name="tenure", kind="numeric", dtype="int64", null_fraction=0.0, distinct=73, minimum=0.0,
                          mean=32.37, maximum=72.0),
            ColumnQuality(name="TotalCharges", kind="numeric", dtype="double", null_fraction=11 / 7043, distinct=6530,
                          minimum=18.8, mean=2283.3, maximum=8684.8, notes=["11 nulls imputed with the median"]),
            ColumnQuality(name="Contract", kind="categorical", dtype="string", null_fraction=0.0, distinct=3,
                          top="Month-to-month", top_fraction=0.55),
            ColumnQuality(name="referrer", kind="categorical", dtype="string", null_fraction=0.412, distinct=1870,
                          top="newsletter", top_fraction=0.08, notes=["high cardinality", "312 levels are rare"]),
            ColumnQuality(name="signup", kind="datetime", dtype="timestamp[us]", null_fraction=0.0, distinct=2100,
                          minimum="2014-02-01", maximum="2020-01-31"),
            ColumnQuality(name="Churn", kind="target", dtype="string", null_fraction=0.0, distinct=2, top="No",
                          top_fraction=0.7346),
        ],
        lineage=[
            Lineage(output="tenure", inputs=["tenure"], op="standardize"),
            Lineage(output="TotalCharges_missing", inputs=["TotalCharges"], op="impute"),
            Lineage(output="Contract=Two year", inputs=["Contract"], op="one_hot"),
            Lineage(output="Contract×PaymentMethod", inputs=["Contract", "PaymentMethod"], op="target_encode"),
        ],
        stages=[
            stage("read", 0.0, 0.061, 7043, notes=["TotalCharges: 11 nulls"]),
            stage("split", 0.062, 0.004, 7043),
            stage("features: fit", 0.067, 0.048, 5634),
            stage("features: transform", 0.116, 0.031, 7043, interpreter="blocked NumPy"),
            stage("train", 0.15, 1.86, 5634),
            stage("xgboost", 0.151, 0.412, 5634, depth=1),
            stage("logistic_regression", 0.565, 0.093, 5634, depth=1),
            stage("random_forest", 0.66, 1.31, 5634, depth=1),
            stage("evaluate", 2.02, 0.31, 1409),
            stage("export", 2.34, 0.12, None),
            stage("report", 2.46, 0.47, None),
        ],
        imports={"sklearn": 0.8, "matplotlib": 0.4},
        notes=["task binary: the target Churn has two levels", "TotalCharges: 11 nulls imputed with the median"],
        warnings=["referrer: 41.2 % of the values are missing", "random_forest: 31 of 46 columns are never split on"],
        config=CONFIG,
        versions={"gpupipe": "0.1.0", "numpy": "2.4.0", "scikit-learn": "1.9.1", "xgboost": "3.2.0"},
    )  # fmt: skip


def price_run() -> ReportData:
    rng = np.random.default_rng(3)
    actual = np.exp(rng.normal(7.8, 0.9, 4000))
    predicted = actual * np.exp(rng.normal(0, 0.12, 4000))
    counts, edges = np.histogram(actual - predicted, bins=40, range=(-3000, 3000))
    metrics = {"rmse": 547.312, "rmse_std": 12.9, "mae": 282.01, "mae_std": 3.1, "r2": 0.9812, "r2_std": 0.0011}
    return ReportData(
        name="diamonds",
        created="2026-03-14 09:26 UTC",
        seconds=61.7,
        device="gpu",
        device_reason="NVIDIA H200, 139 GiB",
        task="regression",
        target="price",
        metric="rmse",
        higher_is_better=False,
        evaluated_on="mean over 5 folds",
        leaderboard=[LeaderboardRow(model="xgboost", metrics=metrics, best=True, seconds=3.2)],
        rows_train=53940,
        rows_test=0,
        n_features=9,
        regression=Residuals(
            y_true=actual.tolist(),
            y_pred=predicted.tolist(),
            edges=edges.tolist(),
            counts=counts.tolist(),
            mean=float(np.mean(actual - predicted)),
            std=float(np.std(actual - predicted)),
            quantiles={},
            errors={str(q): float(np.quantile(np.abs(actual - predicted), q)) for q in (0.5, 0.9)},
            constant_error=float(np.median(np.abs(actual - np.median(actual)))),
        ),
        stages=[
            stage("read", 0.0, 4.0, 53940),
            stage("train", 4.0, 57.0, 53940, device="gpu", peak_device_bytes=3 * 2**30, bytes_to_device=2**28),
        ],
    )


def ensemble_search() -> SearchRecord:
    tried = [
        TriedModel("xgboost", "xgboost", {}, 0.8453, 12.1, weight=0.4, n_models=8),
        TriedModel("xgboost_2", "xgboost", {"max_depth": 3, "learning_rate": 0.0312345}, 0.8461, 9.4, n_models=8),
        TriedModel("logistic_regression", "logistic_regression", {"C": 0.1}, 0.8449, 0.8, weight=0.6, n_models=8),
        TriedModel("knn", "knn", {}, None, 0.2, "failed"),
        TriedModel("ft_transformer", "ft_transformer", {}, None, 0.0, "skipped"),
    ]
    return SearchRecord("ensemble", "roc_auc", tuple(tried), 0.8502, "time limit of 60 s")


def tuning_search(n_trials: int = 40) -> SearchRecord:
    rng = np.random.default_rng(1)
    tried = []
    for i in range(n_trials):
        params = {"max_depth": int(rng.integers(2, 9)), "learning_rate": float(10 ** rng.uniform(-2.5, -0.5))}
        score = 0.84 + 0.01 * (1 - abs(np.log10(params["learning_rate"]) + 1.5)) + rng.normal(0, 0.002)
        state: TrialState = "pruned" if i % 6 == 5 else "failed" if i == 3 else "complete"
        found = None if state == "failed" else 0.5 if i == 7 else float(score)
        tried.append(TriedModel(f"trial {i}", "xgboost", params, found, 1.3, state))
    best = max((each for each in tried if each.state == "complete"), key=lambda each: each.score or 0)
    return SearchRecord(
        "tuning", "roc_auc", tuple(tried), best.score, "40 trials", best.params,
        {"learning_rate": 0.83, "max_depth": 0.17},
    )  # fmt: skip


def generated_features() -> GeneratedFeatures:
    features = (
        GeneratedFeature("TotalCharges / tenure", "arithmetic", ("TotalCharges", "tenure"), 0.0213),
        GeneratedFeature("Contract x PaymentMethod (target)", "crosses", ("Contract", "PaymentMethod"), 0.0104),
    )
    tried, yardsticks = {"arithmetic": 2000, "crosses": 312}, {"arithmetic": 0.0031, "crosses": 0.0042}
    return GeneratedFeatures(features, tried, yardsticks, 7, 0.4213, 0.4178, 5634)


def searched_run() -> ReportData:
    """Return a run of an ensemble, a tuned model and a plain one, with generated features."""
    data = churn_run()
    searches = [ensemble_search(), tuning_search(), None]
    rows = [
        replace(row, model=name, best=name == "best", search=search)
        for row, name, search in zip(data.leaderboard, ("best", "tuned", "knn"), searches, strict=True)
    ]
    rows[1] = replace(rows[1], tuned_yaml="models:\n- xgboost: {max_depth: 2}\n  as: tuned\n")
    tried = count_tried(searches, generated_features().n_tried)
    return replace(data, leaderboard=rows, tried=tried, generated=generated_features(), n_validation_rows=1127)


@pytest.fixture(scope="session")
def churn() -> ReportData:
    return churn_run()


@pytest.fixture(scope="session")
def prices() -> ReportData:
    return price_run()


@pytest.fixture(scope="session")
def searched() -> ReportData:
    return searched_run()
