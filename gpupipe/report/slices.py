"""Metrics of slices: evaluated rows that share a value of a column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from gpupipe.names import count_noun
from gpupipe.report.text import number

if TYPE_CHECKING:
    import pandas as pd

MISSING_LEVEL = "missing"
ENDS = ("low", "high")  # of an interval, in names of columns
MOST_MISSED = 10  # limits in a message
MISSED_FIX = "compare the slices and models in report.html; improve the model or the data, or change evaluate.fail_on"


@dataclass(frozen=True)
class MetricSlice:
    """Metrics of the exported model on a slice of the evaluated rows."""

    column: str  # "" for all rows
    level: str | None  # a value or a bin; None if the value is missing
    n_rows: int
    metrics: Mapping[str, float]  # NaN if undefined
    # 95 % interval of each defined metric; empty for few rows
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # True if the metric that orders the leaderboard is worse than that of all rows by more than chance
    is_worse: bool = False
    notes: Sequence[str] = ()  # why a metric is undefined

    def __str__(self) -> str:
        return slice_text(self.column, self.level, self.n_rows)


def slice_axis(slices: Sequence[MetricSlice], metric: str) -> tuple[float, float]:
    """Return the ends of an axis for a metric of slices and its intervals."""
    values = [each.metrics[metric] for each in slices]
    values += chain.from_iterable(each.intervals.get(metric, ()) for each in slices)
    known = [value for value in values if math.isfinite(value)] or [0.0]
    margin = 0.05 * (max(known) - min(known)) or 0.5
    return min(known) - margin, max(known) + margin


def slice_text(column: str, level: str | None, n_rows: int) -> str:
    """Return a slice for readers.

    >>> slice_text("region", None, 12)
    'region: missing (12 rows)'
    """
    return f"{column}: {MISSING_LEVEL if level is None else level} ({count_noun(n_rows, 'row')})"


def missed_text(missed: Mapping[str, Any]) -> str:
    """Return a limit of ``evaluate.fail_on`` that is missed, as metrics.json has it, for readers.

    >>> missed_text({"rule": "min", "metric": "roc_auc", "limit": 0.8, "value": 0.7123, "column": None})
    'roc_auc is 0.7123; expected at least 0.8000'
    """
    value, side = missed["value"], "at least" if missed["rule"].startswith("min") else "at most"
    found = "undefined" if value is None or math.isnan(value) else number(value)
    of = "" if missed["column"] is None else f" for {slice_text(missed['column'], missed['level'], missed['n_rows'])}"
    return f"{missed['metric']} is {found}{of}; expected {side} {number(missed['limit'])}"


def missed_sentence(missed: Sequence[Mapping[str, Any]]) -> str:
    """Return missed limits as the text of an error."""
    lines = [missed_text(each) for each in missed[:MOST_MISSED]]
    lines += [f"and {count_noun(len(missed) - MOST_MISSED, 'more limit')}"] * (len(missed) > MOST_MISSED)
    return "\n".join(["the run is complete, but misses evaluate.fail_on:", *lines])


def slice_frame(document: Mapping[str, Any] | None) -> pd.DataFrame:
    """Return ``slices`` of metrics.json as a frame; see `gpupipe.Run.slices`."""
    import pandas as pd

    about, document = ["column", "level", "n_rows", "is_worse"], document or {"overall": {"metrics": {}}, "columns": {}}
    rows = []
    for each in chain.from_iterable(document["columns"].values()):
        row = {key: each[key] for key in about} | each["metrics"]
        for name, interval in each["intervals"].items():
            row |= {f"{name}_{end}": value for end, value in zip(ENDS, interval, strict=True)}
        rows.append(row)
    frame = pd.DataFrame(rows, columns=None if rows else about)
    frame.attrs["overall"] = document["overall"]["metrics"]
    return frame
