"""Numbers and metric names formatted for readers. Missing values (None, NaN) are a dash."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from gpupipe.units import DAY_US, MISSING

if TYPE_CHECKING:
    from gpupipe.report.contributions import Direction

TAIL_LINES = 12
YEARS = range(1800, 2101)  # numbers that are more often years than amounts
LEVEL_CHARACTERS = 40
TASK_TITLES = {
    "binary": "Binary classification",
    "multiclass": "Multi-class classification",
    "regression": "Regression",
    "quantile": "Quantile regression",
    "ranking": "Ranking",
    "multioutput": "Prediction",
    "clustering": "Clustering",
    "embedding": "Embedding",
}
THRESHOLD_RULE_TITLES = {
    "best_f1": "best F1 score",
    "best_accuracy": "best accuracy",
    "best_balanced_accuracy": "best balanced accuracy",
    "youden": "best Youden index",
    "min_cost": "lowest cost",
}
METRIC_TITLES = {
    "roc_auc": "ROC AUC",
    "average_precision": "Average precision",
    "log_loss": "Log loss",
    "brier": "Brier score",
    "f1": "F1 score",
    "precision": "Precision",
    "recall": "Recall",
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "matthews": "Matthews correlation",
    "cost": "Cost per row",
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "MAE",
    "median_ae": "Median absolute error",
    "mape": "MAPE",
    "pinball_loss": "Pinball loss",
    "d2_pinball": "D² pinball score",
    "coverage_error": "Coverage error",
    "ndcg": "NDCG",
    "ndcg_10": "NDCG of 10 rows",
    "map": "Mean average precision",
    "silhouette": "Silhouette score",
    "davies_bouldin": "Davies-Bouldin index",
    "calinski_harabasz": "Calinski-Harabasz index",
    "reconstruction_r2": "Reconstruction R²",
}


def printable(text: str, keep: str = "") -> str:
    """Return `text` with non-printable characters, except those in `keep`, as escapes: ``\\x1b``, ``\\n``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def last_lines(text: str) -> str:
    """Return the last `TAIL_LINES` lines of the output of a failed process."""
    return "\n".join(text.strip().splitlines()[-TAIL_LINES:])


def number(value: Any) -> str:
    """Return about four significant digits: ``0.8423``, ``12.35``, ``9,096``, ``3.10e-06``; integers in full.

    A number that may be a year has no separator: ``2015``.
    """
    if value is None or isinstance(value, str):
        return value or MISSING
    if isinstance(value, int):
        return f"{value:,}"
    value = float(value)
    size = abs(value)
    if math.isnan(value):
        return MISSING
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    if size < 0.0001 or size >= 1e12:
        return f"{value:.2e}"
    if size < 1:
        return f"{value:.4f}"
    return f"{value:.3f}" if size < 10 else f"{value:.2f}" if size < 1000 else whole_number(value)


def whole_number(value: float) -> str:
    """Return a number without decimals: ``9,096``, and without a separator if it may be a year: ``2015``."""
    rounded = round(value)
    return str(rounded) if rounded in YEARS else f"{rounded:,}"


def column_value(value: float | None, kind: str, n_digits: int = 4) -> str:
    """Return a value of a column as text: a number, or a time in microseconds since 1970-01-01 UTC; "" for None.

    A time has seconds only if numbers have more than four digits.

    Examples
    --------
    >>> column_value(40.0, "numeric"), column_value(2015.0, "numeric"), column_value(86_400_000_000, "datetime")
    ('40', '2015', '1970-01-02')
    """
    if value is None:
        return ""
    if kind != "datetime":
        if float(value).is_integer() and abs(value) < 1e12:
            return whole_number(value)
        return number(float(value)) if n_digits == 4 else f"{value:,.{n_digits}g}"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(value))
    except OverflowError:  # after the year 9999
        return f"{value:.0f} microseconds"
    return f"{moment:%Y-%m-%d}{f' {moment:%H:%M:%S}'[: 6 if n_digits == 4 else 9] if int(value) % DAY_US else ''}"


def signed(value: float, largest: float) -> str:
    """Return `value` with a sign, a typographic minus and the decimals that give `largest` four digits.

    Examples
    --------
    >>> signed(0.0123, 0.84), signed(-0.0123, 0.84), signed(0.00003, 0.84)
    ('+0.0123', '−0.0123', '0.0000')
    """
    text = f"{abs(value):,.{_decimals(largest)}f}"
    return text if float(text.replace(",", "")) == 0 else ("−" if value < 0 else "+") + text


def at_scale(value: float, largest: float) -> str:
    """Return `value` with the decimals that give `largest` four digits, so that a list of values lines up.

    Examples
    --------
    >>> at_scale(0.00004, 0.1616), at_scale(0.0120, 0.1616), at_scale(3.2, 845.1)
    ('<0.0001', '0.0120', '3.2')
    """
    if value is None or math.isnan(value):
        return MISSING
    decimals = _decimals(largest)
    rounded = round(value, decimals)
    return f"<{10**-decimals:.{decimals}f}" if rounded == 0 < value else f"{rounded:,.{decimals}f}"


def _decimals(largest: float) -> int:
    """Return the number of decimals that give a value four digits."""
    exponent = math.floor(math.log10(abs(largest))) if largest and math.isfinite(largest) else 0
    return min(max(3 - exponent, 0), 12)


def share(value: float, whole: float) -> float:
    """Return `value` as a percentage of `whole`, limited to 0-100: the length of a bar."""
    return round(min(max(100 * value / whole, 0.0), 100.0), 3) if whole > 0 else 0.0


def metric(values: Any, name: str) -> str:
    """Return metric `name` of a mapping, with ``NAME_std`` where the mapping has it: ``0.842 ± 0.005``."""
    return f"{number(values.get(name))} {spread(values, name)}".rstrip()


def spread(values: Any, name: str) -> str:
    """Return ``NAME_std`` of a mapping of metrics as ``± 0.005``; "" if the mapping has none."""
    found = values.get(f"{name}_std")
    return "" if found is None else f"± {number(found)}"


def metric_names(values: Any) -> list[str]:
    """Return the names in a mapping of metrics, without the standard deviations and the metrics of each target."""
    return [
        name
        for name in values
        if not (name.endswith("_std") and name.removesuffix("_std") in values)
        and not (name.endswith("]") and name.partition("[")[0] in values)
    ]


def metric_title(name: str) -> str:
    """Return the name of a metric for readers: ``"ROC AUC"`` for ``"roc_auc"``; `name` itself if it is unknown."""
    return METRIC_TITLES.get(name, name)


def threshold_rule_title(rule: str) -> str:
    """Return what a threshold rule optimizes: ``"best F1 score"`` for ``"best_f1"``; `rule` itself if it is unknown."""
    return THRESHOLD_RULE_TITLES.get(rule, rule)


def task_title(task: str) -> str:
    """Return a task for readers: ``"Binary classification"``; `task` itself if it is unknown."""
    return TASK_TITLES.get(task, task)


def direction(found: Direction | None) -> str:
    """Return how the values of a column move the prediction, in a few words; "" if that is unknown."""
    if found is None:
        return ""
    if found.correlation is None:
        sides = [("raised by", found.highest), ("lowered by", found.lowest)]
        return ", ".join(f"{verb} {_shortened(level)}" for verb, level in sides if level)
    if found.correlation == 0:
        return "no single direction"
    return "▲ raised by high values" if found.correlation > 0 else "▼ lowered by high values"


def _shortened(level: str) -> str:
    return level if len(level) <= LEVEL_CHARACTERS else f"{level[: LEVEL_CHARACTERS - 1]}…"


def params_text(params: Mapping[str, Any]) -> str:
    """Return parameters in one line, numbers with four significant digits.

    Examples
    --------
    >>> params_text({"max_depth": 4, "learning_rate": 0.0312345, "booster": "gbtree"})
    'max_depth 4, learning_rate 0.03123, booster gbtree'
    """
    return ", ".join(
        f"{name} {f'{value:.4g}' if isinstance(value, float) else value}" for name, value in params.items()
    )


def percent(fraction: float | None) -> str:
    """Return a fraction as a percentage: ``0 %``, ``<0.1 %``, ``12.3 %``."""
    if fraction is None or math.isnan(fraction):
        return MISSING
    if fraction == 0:
        return "0 %"
    return "<0.1 %" if fraction < 0.001 else f"{100 * fraction:.1f} %"
