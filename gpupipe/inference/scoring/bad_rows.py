"""Handling of rows that a model cannot score: raise, reject them to a file, or replace bad cells with nulls."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpupipe.errors import ROWS_COUNTED, ConfigError, DataError, SchemaError, did_you_mean
from gpupipe.features.history.derivation import FurtherTableError
from gpupipe.inference.interface import LoadedModel
from gpupipe.inference.scoring.scoring_settings import OnError
from gpupipe.io.files import mask
from gpupipe.io.formats.csv.reader import MalformedRow, find_malformed, header_of
from gpupipe.io.formats.csv.text_columns import parse_marked_numbers
from gpupipe.io.notes import Notes
from gpupipe.io.raw_columns import count_rows, read_stored, require_rows
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import LoadedTable
from gpupipe.names import count_noun
from gpupipe.rules.check import find_violating_cells
from gpupipe.rules.enforcement import by_column, enforce_served
from gpupipe.table.cell_checks import check_cells, describe_bad_cells
from gpupipe.table.encode import encode, encode_served
from gpupipe.table.row_numbers import CellsError, RowNumbers
from gpupipe.table.schema import Column

REJECTED = ("row", "column", "value", "reason", "raw")  # columns of the file of rejected rows
COLUMNS_SHOWN, NAMES_SHOWN = 8, 30
FIX = (
    "fix the rows; or use `--on-error reject` to write them to a file, or `--on-error null` to score bad cells as null"
)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class BadCells:
    """Cells of a column that are bad for the same reason."""

    column: str
    reason: str
    rows: Mask


@dataclass(frozen=True, eq=False)
class ScreenedRows:
    """The rows of an input to score, and the rejected ones."""

    table: pa.Table  # the model's input columns for the rows to score
    passed: Mask | None = None  # bool, shape (rows read,): mask of the rows to score among the rows read; None: all
    # int64, shape (rows to score,): row numbers in the input, from 0; None with ``on_error="error"``.
    numbers: npt.NDArray[np.int64] | None = None
    # Columns ``row``, ``column``, ``value``, ``reason``, ``raw``; one row per rejected row and reason.
    rejected: pa.Table | None = None
    n_rejected: int = 0  # number of rejected rows
    reasons: dict[str, int] = field(default_factory=dict)  # number of rejected rows by reason
    nulled: dict[str, int] = field(default_factory=dict)  # number of cells replaced with nulls by column
    notes: list[str] = field(default_factory=list)  # messages of violated rules that only warn


def require_own_file(path: Path) -> None:
    """Raise ConfigError if `path`, whose name is implied by the output, exists and is not a file of rejected rows."""
    if not os.path.lexists(path):
        return
    try:
        if path.suffix == ".csv":
            with path.open(encoding="utf8", newline="") as file:
                found = next(csv.reader([file.readline(1000)]), [])
        else:
            found = pq.read_schema(path).names
    except (OSError, ValueError, pa.ArrowException):
        found = []
    if path.is_symlink() or found != list(REJECTED):
        raise ConfigError(
            "cannot write the rejected rows: the file exists and has other content",
            where=str(path),
            fix="move the file, or name another output",
        )


def screen(model: LoadedModel, loaded: LoadedTable, source: TableSource, on_error: OnError) -> ScreenedRows:
    """Return the rows that the model can score, and the rejected ones.

    Raise SchemaError if a column is missing, or has a type that cannot be converted; with ``"error"``, also if a cell
    is bad.

    - `loaded`: the input, read from `source`
    - `on_error` ({"error", "reject", "null"}): ``"error"``: raise. ``"reject"``: reject rows with bad cells.
      ``"null"``: replace bad cells with nulls. Rows whose number of fields differs from the header, and rows in which a
      rule forbids nulls, are rejected with both.
    """
    label = mask(source.label)
    if loaded.n_skipped and on_error == "error":
        label += ", skipped rows not counted"
    _require_inputs(model, loaded, label)
    ruled = [each for each in model.rules if each.column in loaded.table.column_names]
    names = dict.fromkeys([*model.inputs, *(each.column for each in ruled)])
    table = loaded.table.select(list(names))
    table, cells = _check_columns(table, _columns(model), source)
    with errors_in(label):  # zero rows are enough to check the types
        encode_served(table.slice(0, 0), model.backend.host, model.features.input_schema)
    if on_error == "error":
        _refuse(cells, label, loaded.table)
        return ScreenedRows(table, notes=enforce_served(table, ruled, model.backend, label, FIX))
    declared = {each.column: each.recorded for each in ruled}
    encoded = encode(table.select(list(declared)), model.backend.host, declared) if ruled else None
    known = {bad.column: bad.rows for bad in cells}
    broken = find_violating_cells(encoded, by_column(ruled), model.backend.host) if encoded is not None else []
    nulls_forbidden = {each.column for each in ruled if not each.rules.nulls and each.rules.otherwise == "refuse"}
    for each in broken:
        rows = np.asarray(each.rows) & ~known.get(each.column, np.zeros(len(each.rows), bool))
        if rows.any():
            cells.append(BadCells(each.column, f"breaks the rule `{each.rule}`", rows))
    if on_error == "null":
        table, nulled, cells = _without_values(table, cells, nulls_forbidden)
    else:
        nulled = {}
    malformed = _malformed(loaded, source)
    found = _reject(table, cells, malformed, loaded, source, label)
    # Rules that only warn are checked on the scored rows.
    return replace(found, nulled=nulled, notes=enforce_served(found.table, ruled, model.backend, label))


@contextmanager
def errors_in(label: str) -> Iterator[None]:
    """Add the input to errors about its columns; errors about a further table already name that table."""
    try:
        yield
    except FurtherTableError:
        raise
    except SchemaError as error:
        error.where = "; ".join(filter(None, [label, error.where]))
        raise


def _require_inputs(model: LoadedModel, loaded: LoadedTable, label: str) -> None:
    """Raise SchemaError if the input lacks columns of the model."""
    found = loaded.table.column_names
    absent = [name for name in model.inputs if name not in found]
    if not absent:
        return
    if unusable := [name for name in absent if name in loaded.names]:
        raise SchemaError(
            f"expected one value per row in {', '.join(map(repr, unusable))}",
            where="; ".join([label, *loaded.notes.about(unusable)]),
            fix="flatten the columns first",
        )
    hints = [f"{name}: {hint}" for name in absent if (hint := did_you_mean(name, found))]
    if len(absent) == len(model.inputs) > 1:
        hints = ["check the file, and set its dialect with --source csv.delimiter=... or --source csv.names=[...]"]
    kind = "a column that is" if len(absent) == 1 else f"{len(absent)} columns that are"
    more = ", ..." if len(found) > NAMES_SHOWN else ""
    raise SchemaError(
        f"the model needs {kind} not in the data: {', '.join(absent)}",
        where=f"{label}; columns found: {', '.join(found[:NAMES_SHOWN])}{more}",
        fix="; ".join(hints) or "add the column to the input",
    )


def _columns(model: LoadedModel) -> dict[str, Column]:
    """Return the expected columns of the input, including those that only rules use."""
    ruled = {each.column: each.declared for each in model.rules}
    columns = {
        name: Column(name, it.kind, "", time_format=it.time_format, number_format=it.number_format)
        for name, it in ruled.items()
    }
    return columns | {column.source: column for column in model.features.input_schema}


def _check_columns(table: pa.Table, columns: dict[str, Column], source: TableSource) -> tuple[pa.Table, list[BadCells]]:
    """Return the table with cells of the wrong kind replaced by nulls, and these cells."""
    found, numbers = [], partial(parse_marked_numbers, settings=source.csv)
    for i, name in enumerate(table.column_names):
        checked = check_cells(columns[name], table.column(name), numbers) if name in columns else None
        if checked is not None:
            table = table.set_column(i, name, checked.values)
            found.append(BadCells(name, f"expected {columns[name].expected}", checked.bad))
    return table, found


def _refuse(cells: Sequence[BadCells], label: str, table: pa.Table) -> None:
    """Raise SchemaError if there are bad cells, with their values and rows by column."""
    if cells:
        shown: list[tuple[str, RowNumbers | None]] = [
            describe_bad_cells(bad.reason, bad.column, table.column(bad.column), bad.rows)
            for bad in cells[:COLUMNS_SHOWN]
        ]
        if (more := len(cells) - COLUMNS_SHOWN) > 0:
            shown.append((f"and {count_noun(more, 'more column')}", None))
        raise CellsError(shown, where=f"{label}; {ROWS_COUNTED}", fix=FIX)


def _without_values(
    table: pa.Table, cells: Sequence[BadCells], nulls_forbidden: set[str]
) -> tuple[pa.Table, dict[str, int], list[BadCells]]:
    """Return the table with bad cells replaced by nulls, their number by column, and cells that may not be null."""
    nulled: dict[str, int] = {}
    remaining = []
    for bad in cells:
        if bad.column in nulls_forbidden:
            remaining.append(bad)
            continue
        i, values = table.column_names.index(bad.column), table.column(bad.column)
        to_null = pc.and_(pa.array(bad.rows), pc.is_valid(values))  # cells of the wrong kind are null already
        table = table.set_column(i, bad.column, pc.if_else(to_null, pa.scalar(None, values.type), values))
        nulled[bad.column] = nulled.get(bad.column, 0) + int(bad.rows.sum())
    return table, nulled, remaining


def _malformed(loaded: LoadedTable, source: TableSource) -> list[tuple[int, MalformedRow]]:
    """Return the rows whose number of fields differs from the header, each with its row number in the whole input."""
    if not loaded.n_skipped:
        return []
    found: list[tuple[int, MalformedRow]] = []
    start = 0
    files = [file for file in loaded.files if file.format == "csv"]
    for file in files:
        rows = find_malformed(file, source)
        found += [(start + row.row, row) for row in rows]
        if len(files) > 1:
            start += count_rows(source, file) + len(rows)
    if len(found) != loaded.n_skipped:
        raise DataError(
            f"the input changed while it was read: first {loaded.n_skipped:,}, then {len(found):,} rows had a number "
            "of fields that differs from the header",
            where=mask(source.label),
            fix="run it again when no process writes to the input",
        )
    return found


def _reject(
    table: pa.Table,
    cells: Sequence[BadCells],
    malformed: Sequence[tuple[int, MalformedRow]],
    loaded: LoadedTable,
    source: TableSource,
    label: str,
) -> ScreenedRows:
    """Return the rows without bad cells, and a table of the rejected rows."""
    n_rows = table.num_rows
    numbers = np.setdiff1d(np.arange(n_rows + len(malformed)), [row for row, _ in malformed])
    is_bad = np.zeros(n_rows, bool)
    for bad in cells:
        is_bad |= bad.rows
    n_rejected = int(is_bad.sum()) + len(malformed)
    if not n_rejected:
        return ScreenedRows(table, None, numbers)
    records: list[tuple[int, str | None, str | None, str, str]] = [
        (
            row,
            None,
            None,
            f"{it.n_fields:,} {'field' if it.n_fields == 1 else 'fields'}; expected {it.n_columns:,}",
            it.text,
        )
        for row, it in malformed
    ]
    reasons = {"another number of fields": len(malformed)} if malformed else {}
    if is_bad.any():
        stored = require_rows(read_stored(source, loaded.names, loaded.files), n_rows, source)
        places = np.flatnonzero(is_bad)
        raw = dict(zip(places.tolist(), _raw_rows(stored.take(places), loaded, source), strict=True))
        for bad in cells:
            reasons[f"{bad.column}: {bad.reason}"] = int(bad.rows.sum())
            rows = np.flatnonzero(bad.rows)
            values = _texts(stored.column(bad.column).take(rows))
            records += [
                (int(numbers[row]), bad.column, value, bad.reason, raw[row])
                for row, value in zip(rows.tolist(), values, strict=True)
            ]
    records.sort(key=lambda record: record[0])
    kinds = [pa.int64(), *[pa.string()] * 4]
    rejected = pa.table(
        {
            name: pa.array([record[i] for record in records], kind)
            for i, (name, kind) in enumerate(zip(REJECTED, kinds, strict=True))
        }
    )
    return ScreenedRows(table.filter(pa.array(~is_bad)), ~is_bad, numbers[~is_bad], rejected, n_rejected, reasons)


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    return [None if value is None else str(value) for value in column.to_pylist()]


def _raw_rows(table: pa.Table, loaded: LoadedTable, source: TableSource) -> list[str]:
    """Return rows as lines in the CSV dialect of the input, or as JSON objects for typed formats."""
    files = [file for file in loaded.files if file.format == "csv"]
    if not files:
        return [json.dumps(row, default=str, ensure_ascii=False) for row in table.to_pylist()]
    header, lines = header_of(files[0], source, Notes()), io.StringIO(newline="")
    quoting: dict[str, Any] = {"quotechar": source.csv.quote} if source.csv.quote else {"quoting": csv.QUOTE_NONE}
    delimiter = header.delimiter if header is not None else ","
    found = []
    for row in table.to_pylist():
        lines.seek(0)
        lines.truncate()
        escape = None if source.csv.quote else "\\"
        csv.writer(lines, delimiter=delimiter, lineterminator="", escapechar=escape, **quoting).writerow(row.values())
        found.append(lines.getvalue())
    return found
