"""Description of a model for clients: ``/schema``."""

from __future__ import annotations

from itertools import chain
from typing import Any

from gpupipe.rules.settings import ColumnRules
from gpupipe.serve.drift_document import has_drift
from gpupipe.serve.explanations import explained_outputs, is_explainable
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import ServeSettings
from gpupipe.table.schema import Column

MICROSECOND = 1_000_000


def describe_model(model: ServedModel, settings: ServeSettings) -> dict[str, Any]:
    """Return name, task, columns with levels, ranges and rules, outputs, explanations and drift, as JSON values."""
    scorer = model.scorer
    goal = scorer.goal
    return {
        "name": model.name,
        "version": model.version,
        "created": scorer.manifest.get("created"),
        "task": goal.task,
        "target": goal.target,
        "labels": list(goal.labels),
        "quantiles": list(goal.quantiles),
        "threshold": scorer.decision.threshold if goal.task == "binary" else None,
        "targets": [
            {
                "target": own.target,
                "task": own.task,
                "labels": list(own.labels),
                "threshold": decided.threshold if own.task == "binary" else None,
            }
            for own, decided in zip(goal.targets, scorer.decision.targets, strict=True)
        ],
        "columns": describe_columns(model),
        "outputs": [
            {"name": output.name, "type": output.type, **({"target": output.target} if output.target else {})}
            for output in model.outputs
        ],
        "explanations": {
            "names": [output.name for output in explained_outputs(model)],
            "most_columns": len(scorer.inputs),
            "most_rows": settings.max_explained_rows,
        }
        if is_explainable(model, settings)
        else None,
        "drift": has_drift(model, settings),
    }


def describe_columns(model: ServedModel) -> list[dict[str, Any]]:
    """Return the input columns as JSON values."""
    by_name: dict[str, Column] = {}
    for column in model.scorer.columns:
        if column.source not in by_name or column.source == column.name:
            by_name[column.source] = column
    return [_describe(model, name, by_name[name]) for name in model.scorer.inputs]


def _describe(model: ServedModel, name: str, column: Column) -> dict[str, Any]:
    training = model.training.get(name, {})
    low, high = training.get("low"), training.get("high")
    if column.kind == "datetime":
        low, high = (None if bound is None else iso_time(bound) for bound in (low, high))
    rules = [rule.rules for rule in model.scorer.rules if rule.column == name]
    return {
        "name": name,
        "kind": column.kind,
        "dtype": column.dtype,
        "nullable": all(each.nulls or each.otherwise == "warn" for each in rules),
        "levels": list(column.levels) if column.levels is not None and column.kind == "categorical" else None,
        "time_format": column.time_format,
        "number_format": column.number_format,
        "training": {"low": low, "high": high, "nulls": training.get("nulls")} if training else None,
        "rules": list(chain.from_iterable(map(_describe_rules, rules))),
    }


def _describe_rules(rules: ColumnRules) -> list[dict[str, Any]]:
    return [{"rule": name, "text": rules.text(name), "otherwise": rules.otherwise} for name in rules.names]


def iso_time(micros: int) -> str | None:
    """Return microseconds since 1970-01-01 UTC in ISO 8601, without a zone; None outside the years 1 to 9999.

    >>> iso_time(86_400_000_000)
    '1970-01-02T00:00:00'
    """
    from datetime import datetime, timedelta

    try:
        return (datetime(1970, 1, 1) + timedelta(microseconds=int(micros))).isoformat()
    except OverflowError:
        return None
