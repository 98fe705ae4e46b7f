"""Columns of the query: predictions, probabilities and quantiles, named as by ``gpupipe predict``."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from sqlglot import exp

from gpupipe.inference.sql.dialect import Expr, case, integer, number, text, total
from gpupipe.inference.sql.estimators import softmax
from gpupipe.inference.targets.outputs import TargetOutput
from gpupipe.metrics.calibration import EPSILON, Calibration
from gpupipe.model_parts.goal import Goal, output_of_target
from gpupipe.models.fitted.prediction import column_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpupipe.inference.sql.dialect import SqlDialect
    from gpupipe.inference.sql.query import SqlQuery
    from gpupipe.model_parts.decision import Decision


class SqlOutput(TargetOutput):
    """An output of the query: one column, or one for each class or level."""

    @property
    def names(self) -> list[str]:
        """Names of its columns."""
        return [str(each) for each in self.columns] if self.kind in ("probabilities", "quantiles") else [self.name]


def write_outputs(
    query: SqlQuery, found: Sequence[Expr], goal: Goal, decision: Decision
) -> list[tuple[SqlOutput, dict[str, Expr]]]:
    """Return the outputs of predictions, which have the columns of `Prediction.output`, with their expressions."""
    if not goal.targets:
        return _target_outputs(query, found, goal, decision, goal)
    outputs = []
    bounds = pairwise(column_bounds(goal.specs))
    for own, own_decision, (start, end) in zip(goal.targets, decision.targets, bounds, strict=True):
        outputs += _target_outputs(query, found[start:end], own, own_decision, goal)
    return outputs


def _target_outputs(
    query: SqlQuery, found: Sequence[Expr], goal: Goal, decision: Decision, whole: Goal
) -> list[tuple[SqlOutput, dict[str, Expr]]]:
    def named(name: str) -> str:
        return output_of_target(name, goal) if whole.targets else name

    if goal.quantiles:
        names = [named(name) for name in goal.quantile_names]
        output = SqlOutput("quantiles", "quantiles", goal.target or "", np.array(names))
        return [(output, dict(zip(names, found, strict=True)))]
    if not goal.n_classes:
        name = named("prediction")
        return [(SqlOutput(name, "prediction", goal.target or "", np.empty(0)), {name: found[0]})]
    p: list[Expr] = [query.define(each) for each in found]
    if decision.calibration is not None:
        p = [query.define(each) for each in _calibrated(query, p, decision.calibration)]
    labels = [_label(query.dialect, goal, i) for i in range(goal.n_classes)]
    if goal.task == "binary":
        label = case([(p[0] >= number(float(decision.threshold)), labels[1])], labels[0])
        p = [number(1.0) - p[0], p[0]]
    else:
        top = query.define(query.dialect.extreme("MAX", [each.copy() for each in p]))
        branches = [(each.copy().eq(top.copy()), own) for each, own in zip(p, labels, strict=True)]
        label = case(branches[:-1], labels[-1])
    target, name = goal.target or "", named("prediction")
    names = [named(f"probability_{each}") for each in goal.label_texts]
    probabilities = SqlOutput(named("probabilities"), "probabilities", target, np.array(names, object))
    return [
        (SqlOutput(name, "label", target, np.array(goal.label_texts, object)), {name: label}),
        (probabilities, dict(zip(names, p, strict=True))),
    ]


def _label(dialect: SqlDialect, goal: Goal, i: int) -> Expr:
    label = goal.labels[i]
    if all(type(each) is bool for each in goal.labels):
        return exp.Boolean(this=label)
    if all(type(each) is int and abs(each) < 2**63 for each in goal.labels):
        return integer(label)
    return text(goal.label_texts[i])


def _calibrated(query: SqlQuery, p: Sequence[Expr], calibration: Calibration) -> list[Expr]:
    """Return calibrated probabilities, as `Calibration.apply`; of two classes, `p` has one column."""
    dialect = query.dialect
    if calibration.classes:
        each = zip(p, calibration.classes, strict=True)
        found = [query.define(_interpolated(dialect, x, own)) for x, own in each]
        whole = query.define(total([x.copy() for x in found]))
        even = dialect.double(1.0 / len(found))
        return [case([(whole > number(0.0), dialect.divide(x, whole.copy()))], even.copy()) for x in found]
    if calibration.method == "isotonic":
        return [_interpolated(dialect, p[0], calibration)]
    least = dialect.double(EPSILON)
    clipped: list[Expr] = [query.define(dialect.extreme("MAX", [x, least.copy()])) for x in p]
    if calibration.method == "temperature":
        return softmax(query, [query.define(exp.Ln(this=x) * number(calibration.slope)) for x in clipped])
    inside = query.define(dialect.extreme("MIN", [clipped[0], dialect.double(1.0 - EPSILON)]))
    logit = exp.Ln(this=dialect.divide(inside, number(1.0) - inside))
    return [dialect.sigmoid(query.define(logit * number(calibration.slope) + number(calibration.intercept)))]


def _interpolated(dialect: SqlDialect, p: Expr, calibration: Calibration) -> Expr:
    """Return an isotonic map of a named column: linear between its points, constant outside."""
    x, y = calibration.x, calibration.y
    branches: list[tuple[Expr, Expr]] = [(p <= number(x[0]), dialect.double(y[0]))]
    for (start, end), (low, high) in zip(pairwise(x), pairwise(y), strict=True):
        rise = (high - low) / (end - start)
        found = exp.Paren(this=p - number(start)) * number(rise) + number(low) if rise else dialect.double(low)
        branches.append((p < number(end), found))
    return case(branches, dialect.double(y[-1]))
