from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gpupipe.metrics import Evaluate, Importance, metric_names


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 1.5},
        {"threshold": "best"},
        {"calibrate": "platt"},
        {"validation": 0},
        {"validation": 1},
        {"metrics": []},
        {"importance": {"repeats": 0}},
        {"max_latency": 0},
        {"max_latency": "-2ms"},
        {"max_latency": "2 parsecs"},
        {"by": [{"column": "age", "bins": 1}]},
        {"by": [{"column": "age", "bins": [2, 1]}]},
        {"by": [{"bins": 3}]},
        {"fail_on": {}},
        {"fail_on": {"min": {"auc": 0.5}}},
        {"fail_on": {"min": {"rmse": 3}}},
        {"fail_on": {"max": {"roc_auc": 0.9}}},
        {"fail_on": {"min": {"roc_auc": float("nan")}}},
        {"fail_on": {"min_slice": {"roc_auc": 0.5}}},
        {"unknown": 1},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Evaluate(**wrong)


def test_importance_is_on_by_default_and_can_be_switched_off_or_set() -> None:
    assert Evaluate().importance_settings == Importance(repeats=3, rows=5_000)
    assert Evaluate(importance=False).importance_settings is None
    assert Evaluate(importance={"repeats": 5}).importance_settings == Importance(repeats=5)


@pytest.mark.parametrize(("given", "seconds"), [("2ms", 0.002), ("250us", 0.00025), (0.5, 0.5)])
def test_a_latency_limit_is_a_duration(given: Any, seconds: float) -> None:
    assert Evaluate(max_latency=given).max_latency == pytest.approx(seconds)
    assert Evaluate().max_latency is None


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        ("region", [("region", None)]),
        (["region", {"column": "age", "bins": 3}], [("region", None), ("age", 3)]),
        ({"column": "age", "bins": [18, 65.5]}, [("age", (18.0, 65.5))]),
        ([7], [("7", None)]),
    ],
)
def test_columns_of_slices_have_short_forms(given: Any, columns: list[tuple[str, Any]]) -> None:
    assert [(each.column, each.bins) for each in Evaluate(by=given).by] == columns


def test_limits_of_metrics_add_these_metrics() -> None:
    settings = Evaluate(metrics=["roc_auc"], fail_on={"min": {"recall": 0.2}, "max": {"log_loss": 1}})
    assert metric_names({"binary"}, settings) == ("roc_auc", "recall", "log_loss")
    with pytest.raises(ValidationError, match="rmse is better when lower: use max instead of min"):
        Evaluate(fail_on={"min": {"rmse": 3}})
