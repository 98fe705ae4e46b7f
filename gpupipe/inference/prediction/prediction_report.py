"""Prediction report: nulls, unseen levels and values outside the training range, per input column."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.features.statistics.training_summary import TrainedColumn, TrainingSummary
from gpupipe.names import count_noun
from gpupipe.report.text import column_value
from gpupipe.table.blocks import Table
from gpupipe.table.encode import plain_values
from gpupipe.table.schema import NAT, NULL, RAW_KINDS, UNSEEN, Column
from gpupipe.table.string_columns import as_dictionary, used_texts

N_EXAMPLES = 3  # unseen levels shown per column
N_LINES = 10  # columns named on the console
UNLIKELY = 1e-3  # a property of every row raises an alarm below this probability under the training distribution
FEWEST_ROWS = 10  # fewer rows can all be outside the training range by chance


@dataclass(frozen=True)
class ColumnReport:
    """One input column in the rows of a prediction."""

    name: str
    kind: str  # a raw column is read unencoded by ops over keys and texts
    n_null: int  # rows without a value, or with a number too large for float32
    # Rows with a level that is absent from the training rows; None for columns without levels.
    n_unseen: int | None = None
    # n_below, n_above: rows outside the training range; None without a range.
    n_below: int | None = None
    n_above: int | None = None
    # low, high: the training range: numbers, or microseconds since 1970-01-01 UTC.
    low: float | None = None
    high: float | None = None
    # null_share, unseen_share: share of nulls in the training rows, and the share of unseen levels expected in new
    # rows; None if not recorded.
    null_share: float | None = None
    unseen_share: float | None = None
    unseen_levels: tuple[str, ...] = ()  # up to 3 of the unseen levels

    @property
    def n_outside(self) -> int:
        """Number of rows outside the training range."""
        return (self.n_below or 0) + (self.n_above or 0)

    def merge(self, other: ColumnReport) -> ColumnReport:
        """Return the report on the rows of both reports."""
        levels = tuple(dict.fromkeys((*self.unseen_levels, *other.unseen_levels)))[:N_EXAMPLES]
        return replace(
            self,
            n_null=self.n_null + other.n_null,
            n_unseen=_sum(self.n_unseen, other.n_unseen),
            n_below=_sum(self.n_below, other.n_below),
            n_above=_sum(self.n_above, other.n_above),
            unseen_levels=levels,
        )

    def alarm(self, n_rows: int) -> str:
        """Return why no value of this column is like the training rows, or ``""``."""
        n_values = n_rows - self.n_null
        if self.n_unseen and self.n_unseen == n_values and self._is_unlikely(self.unseen_share, n_values, n_values):
            return f"column {self.name!r}: every level is unseen in training{self._examples}"
        if n_rows and not n_values and self.null_share != 1 and self._is_unlikely(self.null_share, n_rows, n_rows):
            then = "" if self.null_share is None else f" ({self.null_share:.1%} in training)"
            return f"column {self.name!r}: every row is null{then}"
        if self.kind == "numeric" and n_values >= FEWEST_ROWS and self.n_outside == n_values:
            return f"column {self.name!r}: every value is outside the training range {self._range}"
        return ""

    def has_surprising_levels(self, n_rows: int) -> bool:
        """Return whether more rows have unseen levels than the training rows, in which some occur once, lead to expect.

        False for a model that did not record them.
        """
        n_values, share = n_rows - self.n_null, self.unseen_share
        return bool(self.n_unseen) and share is not None and self._is_unlikely(share, self.n_unseen or 0, n_values)

    @staticmethod
    def _is_unlikely(share: float | None, n_odd: int, n_rows: int) -> bool:
        """Return whether it is improbable that `n_odd` of `n_rows` rows have a property with this share of all rows.

        By Chernoff's bound of the binomial distribution: Hoeffding, Probability Inequalities for Sums of Bounded Random
        Variables, J. Am. Stat. Assoc. 58 (1963), theorem 1. It is exact if all rows have the property.
        """
        if share is None:
            return n_rows >= FEWEST_ROWS
        found = n_odd / n_rows
        if found <= share:
            return False
        terms = ((found, share), (1 - found, 1 - share))
        exponent = n_rows * sum(a * (math.log(a / b) if b else math.inf) for a, b in terms if a)
        return math.exp(-exponent) < UNLIKELY

    def novelty(self, n_rows: int) -> str:
        """Return the counts of unseen levels and of values outside the range as text, or ``""`` if all are 0."""
        of = f"of {count_noun(n_rows, 'row')}"
        if self.n_unseen:
            verb = "has" if self.n_unseen == 1 else "have"
            return f"{self.name}: {self.n_unseen:,} {of} {verb} a level unseen in training{self._examples}"
        if self.n_outside:
            sides = f"{self.n_below or 0:,} below, {self.n_above or 0:,} above"
            return f"{self.name}: {self.n_outside:,} {of} are outside the training range {self._range}: {sides}"
        return ""

    def nulls(self, n_rows: int) -> str:
        """Return the share of nulls as text, or ``""`` if there are none."""
        if not self.n_null:
            return ""
        then = "" if self.null_share is None else f" (training {self.null_share:.1%})"
        return f"{self.name} {self.n_null / n_rows:.1%}{then}"

    @property
    def _examples(self) -> str:
        more = ", …" if (self.n_unseen or 0) > N_EXAMPLES <= len(self.unseen_levels) else ""
        return f" (found {', '.join(map(repr, self.unseen_levels))}{more})" if self.unseen_levels else ""

    @property
    def _range(self) -> str:
        return f"[{column_value(self.low, self.kind, 6)}, {column_value(self.high, self.kind, 6)}]"


@dataclass(frozen=True, repr=False)
class PredictionReport:
    """Comparison of predicted rows with the training rows; see `gpupipe.Model.last_prediction_report`."""

    n_rows: int  # predicted rows
    columns: tuple[ColumnReport, ...] = ()  # one per input column

    @property
    def alarms(self) -> tuple[str, ...]:
        """Messages about columns in which no value is like the training rows."""
        return tuple(alarm for column in self.columns if (alarm := column.alarm(self.n_rows)))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The alarms, and one message about the other columns with more unseen levels than is to be expected."""
        rest = [each for each in self.columns if each.has_surprising_levels(self.n_rows)]
        rest = [each for each in rest if not each.alarm(self.n_rows)]
        shown = [column.novelty(self.n_rows) for column in rest[:N_LINES]]
        if len(rest) > len(shown):
            shown.append(f"and {len(rest) - len(shown)} more columns")
        return (*self.alarms, *(["; ".join(shown)] if shown else []))

    def lines(self, limit: int = N_LINES) -> list[str]:
        """Return lines of text: alarms, columns with new values, and shares of nulls.

        `limit`: maximum number of columns with new values, and of columns with nulls, to name.
        """
        new = [line for column in self.columns if (line := column.novelty(self.n_rows))]
        nulls = [text for column in self.columns if (text := column.nulls(self.n_rows))]
        lines = [*(f"warning: {alarm}" for alarm in self.alarms), *new[:limit]]
        if len(new) > limit:
            lines.append(f"and {count_noun(len(new) - limit, 'more column')} with values unseen in training")
        if nulls:
            more = f" and {count_noun(len(nulls) - limit, 'more column')}" if len(nulls) > limit else ""
            lines.append(f"nulls: {', '.join(nulls[:limit])}{more}")
        return lines

    def merge(self, other: PredictionReport) -> PredictionReport:
        """Return the report on the rows of both reports, which must come from the same model."""
        if not self.columns or not other.columns:
            return replace(self if self.columns else other, n_rows=self.n_rows + other.n_rows)
        columns = tuple(mine.merge(yours) for mine, yours in zip(self.columns, other.columns, strict=True))
        return PredictionReport(self.n_rows + other.n_rows, columns)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        columns = [{**asdict(column), "unseen_levels": list(column.unseen_levels)} for column in self.columns]
        return {"n_rows": self.n_rows, "alarms": list(self.alarms), "columns": columns}

    def __repr__(self) -> str:
        n_unseen = sum(bool(column.n_unseen) for column in self.columns)
        n_outside = sum(bool(column.n_outside) for column in self.columns)
        n_null = sum(bool(column.n_null) for column in self.columns)
        rows = count_noun(self.n_rows, "row")
        return (
            f"PredictionReport({rows}, {len(self.columns)} columns: {n_unseen} with unseen levels, "
            f"{n_outside} with values outside the training range, {n_null} with nulls; {len(self.alarms)} alarms)"
        )

    def _repr_html_(self) -> str:
        head = ("column", "kind", "null", "null in training", "unseen", "below", "above", "training range")
        rows = [
            (
                column.name,
                column.kind,
                f"{column.n_null:,}",
                "" if column.null_share is None else f"{column.null_share:.1%}",
                *("" if n is None else f"{n:,}" for n in (column.n_unseen, column.n_below, column.n_above)),
                "" if column.low is None else column._range,
            )
            for column in self.columns
        ]
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        alarms = "".join(f"<p><b>{html.escape(alarm)}</b></p>" for alarm in self.alarms)
        return (
            f"<p>{count_noun(self.n_rows, 'row')}</p>{alarms}"
            f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{body}</table>"
        )


def report_rows(
    table: Table,
    column_of: Callable[[str], pa.ChunkedArray],
    training: TrainingSummary | None,
    backend: Backend,
    order: Iterable[str] = (),
) -> PredictionReport:
    """Return the report on the given rows.

    - `table`: the rows on the device of `backend`, encoded to the training schema; derived columns are skipped
    - `column_of`: returns a column of the rows before they were encoded; raises KeyError if they do not have it
    - `training`: source of ranges and shares; the report has none without it
    - `order`: names of the columns that come first in the report, in this order
    """
    columns = {column.source: column for column in table.schema if not column.derived and column.hash_of is not None}
    columns |= {column.name: column for column in table.schema if not column.derived and column.hash_of is None}
    of_training = {} if training is None else training.columns
    counted = _count(table, columns, of_training, backend)
    reports = []
    for name in dict.fromkeys([*order, *columns]):
        if name not in columns:
            with suppress(KeyError):
                reports.append(ColumnReport(name, "raw", column_of(name).null_count))
            continue
        column = columns[name]
        report = ColumnReport(name, column.kind, **counted[name], **_training_fields(training, name))
        if report.n_unseen:
            report = replace(report, unseen_levels=_find_unseen(column, column_of(column.source)))
        reports.append(report)
    return PredictionReport(table.n_rows, tuple(reports))


def _training_fields(training: TrainingSummary | None, name: str) -> dict[str, Any]:
    if training is None or name not in training.columns:
        return {}
    known, n_rows = training.columns[name], max(1, training.n_rows)
    return {
        "low": known.low, "high": known.high, "null_share": known.n_null / n_rows,
        "unseen_share": None if known.n_singletons is None else known.n_singletons / n_rows,
    }  # fmt: skip


def _count(
    table: Table, columns: Mapping[str, Column], training: Mapping[str, TrainedColumn], backend: Backend
) -> dict[str, dict[str, Any]]:
    """Return the counts of each column, copied from the device in one transfer."""
    xp, pending = backend.xp, dict[tuple[str, str], Any]()
    found: dict[str, dict[str, Any]] = {name: {} for name in columns}
    for name, column in columns.items():
        if column.kind in RAW_KINDS:
            found[name]["n_null"] = table.texts[column.name].null_count
            continue
        values, known = table.column(column.name), training.get(name)
        if column.n_codes or column.levels is not None:
            pending[name, "n_null"] = xp.count_nonzero(values == NULL)
            if column.levels is not None and column.kind == "categorical":
                pending[name, "n_unseen"] = xp.count_nonzero(values == UNSEEN)
            continue
        is_time = column.kind == "datetime"
        pending[name, "n_null"] = n_null = xp.count_nonzero(values == NAT if is_time else xp.isnan(values))
        if known is not None and known.low is not None:
            below = xp.count_nonzero(values < known.low)
            pending[name, "n_below"] = below - n_null if is_time else below  # NAT is the least integer
            pending[name, "n_above"] = xp.count_nonzero(values > known.high)
    counts = backend.to_host(xp.stack([xp.asarray(n) for n in pending.values()])).tolist() if pending else []
    for (name, what), n in zip(pending, counts, strict=True):
        found[name][what] = n
    return found


def _find_unseen(column: Column, values: pa.ChunkedArray) -> tuple[str, ...]:
    known = set(column.levels or ())
    levels = used_texts(as_dictionary(plain_values(pa.table({column.source: values}), column.source)))
    return tuple(level for level in levels if level not in known)[:N_EXAMPLES]


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def merge_reports(reports: Sequence[PredictionReport]) -> PredictionReport:
    """Return one report on the rows of all `reports`."""
    return reduce(PredictionReport.merge, reports, PredictionReport(0))
