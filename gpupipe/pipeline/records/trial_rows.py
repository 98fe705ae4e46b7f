"""Rows for the parity record: a sample of the run, and each input column at its limits, one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpupipe.arrow_numpy import value_array
from gpupipe.backends.base import Backend
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.inference.parity.record import TrialRows
from gpupipe.metrics import METRICS
from gpupipe.table.blocks import EncodedTable
from gpupipe.table.schema import FIRST_LEVEL, NAT, NULL, Column
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.training.job import Job

RUN_ROWS = 128
MADE_ROWS = 192  # generated with usual values, and again with extreme ones; with more values, rows have several
LEVELS = 24  # tried per categorical column
LEVEL_ROWS = 65_536  # rows of the run in which levels are counted
UNSEEN = "\N{SNOWMAN} never seen"

SINGLE, DOUBLE = np.finfo(np.float32), np.finfo(np.float64)
NUMBERS = {"null": None, "0.0": 0.0, "-0.0": -0.0}
FAR_NUMBERS = {
    "inf": np.inf, "-inf": -np.inf, "float32 maximum": float(SINGLE.max), "float32 minimum": float(SINGLE.min),
    "float32 smallest subnormal": float(SINGLE.smallest_subnormal), "float64 maximum": float(DOUBLE.max),
    "float64 smallest subnormal": float(DOUBLE.smallest_subnormal), "2^24 + 1": 2.0**24 + 1,
}  # fmt: skip
TIMES = {"null": None, "1970-01-01": 0, "end of 2000-02-29": 951_868_799_999_999}
FAR_TIMES = {
    "1 us before 1970": -1, "year 1": -62_135_596_800_000_000, "year 1900": -2_203_891_200_000_001,
    "year 9999": 253_402_300_799_999_999,
}  # fmt: skip


def recorded_rows(job: Job) -> Array:
    """Return the rows of the run that the model records, evenly spaced: int64, ascending."""
    n = job.table.n_rows
    rows: Array = np.unique(np.linspace(0, n - 1, min(RUN_ROWS, n)).astype(np.int64))
    return rows


def make_trial_rows(job: Job, features: FittedFeatures) -> TrialRows:
    """Return the rows for the parity record of a model trained by `job`."""
    sources = dict.fromkeys(column.source for column in features.schema)
    columns = [job.table.schema[name] for name in sources]
    picked = recorded_rows(job)
    values = {c.name: decoded_values(job, c.name, picked) for c in columns}
    near, far = [], []
    for column in columns:
        usual, limits = _limits(column, job.table, job.backend)
        near += [(column.name, name, value) for name, value in usual.items()]
        far += [(column.name, name, value) for name, value in limits.items()]
    cases = [""] * len(picked)
    for packed in (_pack(near), _pack(far), [[(c.name, "null", None) for c in columns]]):
        for i, changes in enumerate(packed):
            _append(values, i % len(picked), {name: value for name, _, value in changes})
            everything = len(changes) == len(columns) > 1
            cases.append("all null" if everything else "; ".join(f"{name}: {what}" for name, what, _ in changes))
    made = len(cases) - len(picked)
    y = np.full(len(picked), np.nan) if job.y is None else job.y[picked]
    origin = picked if job.row_ids is None else job.row_ids[picked]
    return TrialRows(
        pa.table({c.name: value_array(values[c.name], _arrow_type(c)) for c in columns}),
        cases,
        np.concatenate([origin, np.full(made, -1)]),
        np.concatenate([y.astype(np.float64), np.full((made, *y.shape[1:]), np.nan)]),
        # The costs are not stored in the model, which must not need the packages of metrics.
        tuple(name for name in job.metrics if name not in {"cost", *job.failed_metrics} and not METRICS.plugin(name)),
    )


def _append(values: dict[str, list[Any]], base: int, changes: dict[str, Any]) -> None:
    for name, column in values.items():
        column.append(changes[name] if name in changes else column[base])


def _pack(limits: Sequence[tuple[str, str, Any]]) -> list[list[tuple[str, str, Any]]]:
    """Return the changes of each generated row: one change per row, or several if there are more than `MADE_ROWS`."""
    n = min(len(limits), MADE_ROWS)
    return [list(limits[row::n]) for row in range(n)]


def decoded_values(job: Job, name: str, rows: Array) -> list[Any]:
    """Return the values of an encoded column of a job's table in the given rows: float, str, bool, or None if null.

    Times are microseconds since 1970-01-01 UTC. An unseen level is `UNSEEN`.
    """
    column = job.table.schema[name]
    found = job.table.values_at(name, rows, job.backend).tolist()
    if column.levels is not None:
        return [_level(column.levels, code, column) for code in found]
    if column.kind == "datetime":
        return [None if v == NAT else v for v in found]
    return [None if v != v else float(v) for v in found]


def _level(levels: Sequence[str], code: int, column: Column) -> str | bool | None:
    if code == NULL:
        return None
    level = levels[code - FIRST_LEVEL] if code >= FIRST_LEVEL else UNSEEN
    return level == "true" if _is_flag(column) else level


def _limits(column: Column, table: EncodedTable, backend: Backend) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the usual and the extreme values to try a column with, by description."""
    if column.levels is None:
        return (TIMES, FAR_TIMES) if column.kind == "datetime" else (NUMBERS, FAR_NUMBERS)
    if _is_flag(column):
        return {"null": None, "true": True, "false": False}, {}
    usual: dict[str, Any] = {"null": None, "empty": "", "blank": "  "}
    if column.kind == "categorical":
        usual["unseen"] = UNSEEN
        if column.levels:
            usual["trailing blank"] = f"{column.levels[0]} "
    return usual | {f"{level!r}": level for level in _some_levels(column, table, backend)}, {}


def _some_levels(column: Column, table: EncodedTable, backend: Backend) -> Iterable[str]:
    """Return up to `LEVELS` levels of a column: the rarest, then others at even distances."""
    assert column.levels is not None
    counts = backend.to_host(backend.xp.bincount(table.column(column.name)[:LEVEL_ROWS], minlength=column.n_codes))
    rarest = np.argsort(counts[FIRST_LEVEL:], kind="stable")[:1].tolist()
    n = len(column.levels)
    chosen = [*rarest, *np.linspace(0, n - 1, min(n, LEVELS - 1)).astype(int).tolist()]
    return [column.levels[i] for i in dict.fromkeys(chosen)]


def _is_flag(column: Column) -> bool:
    return column.kind == "boolean" and column.dtype == "bool"


def _arrow_type(column: Column) -> pa.DataType:
    if column.levels is not None:
        return pa.bool_() if _is_flag(column) else pa.string()
    return pa.timestamp("us") if column.kind == "datetime" else pa.float64()
