"""Rows that a model cannot score as they are: refused, rejected into a file, or scored with their bad cells null."""

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
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpupipe.errors import ConfigError, DataError, SchemaError, did_you_mean
from gpupipe.features.history.derivation import FurtherTableError
from gpupipe.io.files import mask
from gpupipe.io.formats.csv.reader import MalformedRow, find_malformed, header_of
from gpupipe.io.formats.csv.text_columns import parse_marked_numbers
from gpupipe.io.notes import Notes
from gpupipe.io.raw_columns import count_rows, read_stored, require_rows
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import LoadedTable
from gpupipe.pipeline.model.interface import LoadedModel
from gpupipe.pipeline.rules import by_column, enforce_served
from gpupipe.rules.check import find_violating_cells
from gpupipe.table.cell_checks import check_cells, describe_bad_cells, describe_expected
from gpupipe.table.encode import encode, encode_served
from gpupipe.table.schema import Column

OnError = Literal["error", "reject", "null"]
REJECTED = ("row", "column", "value", "reason", "raw")  # the columns of the file of rejected rows
COLUMNS_SHOWN, NAMES_SHOWN = 8, 30
FIX = "correct the rows; or `--on-error reject` writes them to a file, `--on-error null` scores bad cells as missing"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class BadCells:
    """Cells of a column that are bad for one reason."""

    column: str
    reason: str
    rows: Mask


@dataclass(frozen=True, eq=False)
class ScreenedRows:
    """The rows of an input that can be scored, and the others.

    Attributes
    ----------
    table : pyarrow.Table
        The inputs of the model for the rows to score.
    passed : array of bool, shape (rows read,), optional
        Which of the rows that were read these are; None: all.
    numbers : array of int64, shape (rows to score,), optional
        Their places in the input, from 0; None where bad rows are errors.
    rejected : pyarrow.Table, optional
        ``row``, ``column``, ``value``, ``reason``, ``raw``: a row for each reason to reject one of the input.
    n_rejected : int
    reasons : mapping of str to int
        Reason to rows rejected for it.
    nulled : mapping of str to int
        Column to cells that became null.
    notes : list of str
        Rules that only warn.
    """

    table: pa.Table
    passed: Mask | None = None
    numbers: npt.NDArray[np.int64] | None = None
    rejected: pa.Table | None = None
    n_rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    nulled: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def require_own_file(path: Path) -> None:
    """Raise ConfigError if the file of the rejected rows, which nobody has named, would replace one of another kind."""
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
            "rejected rows would be written to a file that is there, and holds something else",
            where=str(path),
            fix="move it to another place, or name another output",
        )


def screen(model: LoadedModel, loaded: LoadedTable, source: TableSource, on_error: OnError) -> ScreenedRows:
    """Find the rows that a model cannot score.

    Parameters
    ----------
    model : LoadedModel
    loaded : LoadedTable
        The input, read by `source`.
    source : TableSource
    on_error : {"error", "reject", "null"}
        error: raise. reject: set the rows aside. null: make bad cells null; rows with another number of fields than
        the header, and rows in which a rule forbids the null, are set aside all the same.

    Raises
    ------
    SchemaError
        If a column is absent or of a type that no cell of it fits; with ``"error"``, if a cell is bad.
    """
    label = mask(source.label)
    if loaded.n_skipped and on_error == "error":
        label += ", skipped rows not counted"
    _require_inputs(model, loaded, label)
    ruled = [each for each in model.rules if each.column in loaded.table.column_names]
    names = dict.fromkeys([*model.inputs, *(each.column for each in ruled)])
    table = loaded.table.select(list(names))
    table, cells = _check_columns(table, _columns(model), source)
    with errors_in(label):  # the types are right or wrong without any row
        encode_served(table.slice(0, 0), model.backend.host, model.features.input_schema)
    if on_error == "error":
        _refuse(cells, label, loaded.table)
        return ScreenedRows(table, notes=enforce_served(table, ruled, model.backend, label, FIX))
    declared = {each.column: each.declared for each in ruled}
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
    found = _set_aside(table, cells, malformed, loaded, source, label)
    # Rules that only warn are about the rows that are scored.
    return replace(found, nulled=nulled, notes=enforce_served(found.table, ruled, model.backend, label))


@contextmanager
def errors_in(label: str) -> Iterator[None]:
    """Name the input in errors about its columns; those about a further table name that."""
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
            f"expected one value a row in {', '.join(map(repr, unusable))}",
            where="; ".join([label, *loaded.notes.about(unusable)]),
            fix="flatten the columns before",
        )
    hints = [f"{name}: {hint}" for name in absent if (hint := did_you_mean(name, found))]
    if len(absent) == len(model.inputs) > 1:
        hints = ["check the file; --source csv.delimiter=... and --source csv.names=[...] say how it is written"]
    kind = "a column that is" if len(absent) == 1 else f"{len(absent)} columns that are"
    more = ", ..." if len(found) > NAMES_SHOWN else ""
    raise SchemaError(
        f"the model needs {kind} not in the data: {', '.join(absent)}",
        where=f"{label}; columns found: {', '.join(found[:NAMES_SHOWN])}{more}",
        fix="; ".join(hints) or "add the column to the input",
    )


def _columns(model: LoadedModel) -> dict[str, Column]:
    """Return what each column of the input is expected to be, those included that only rules are about."""
    ruled = {each.column: each.declared for each in model.rules}
    columns = {name: Column(name, it.kind, "", time_format=it.time_format) for name, it in ruled.items()}
    return columns | {column.source: column for column in model.features.input_schema}


def _check_columns(table: pa.Table, columns: dict[str, Column], source: TableSource) -> tuple[pa.Table, list[BadCells]]:
    """Return the table with the cells null that are not of the kind of their column, and these cells."""
    found, numbers = [], partial(parse_marked_numbers, settings=source.csv)
    for i, name in enumerate(table.column_names):
        checked = check_cells(columns[name], table.column(name), numbers) if name in columns else None
        if checked is not None:
            table = table.set_column(i, name, checked.values)
            found.append(BadCells(name, f"expected {describe_expected(columns[name])}", checked.bad))
    return table, found


def _refuse(cells: Sequence[BadCells], label: str, table: pa.Table) -> None:
    """Raise SchemaError if there are bad cells: for each column the values and their rows."""
    if cells:
        shown = [describe_bad_cells(bad.reason, bad.column, table.column(bad.column), bad.rows) for bad in cells]
        shown = shown[:COLUMNS_SHOWN] + [f"and {len(shown) - COLUMNS_SHOWN} more columns"][: len(shown) > COLUMNS_SHOWN]
        raise SchemaError("\n".join(shown), where=f"{label}; data rows are counted from 1", fix=FIX)


def _without_values(
    table: pa.Table, cells: Sequence[BadCells], nulls_forbidden: set[str]
) -> tuple[pa.Table, dict[str, int], list[BadCells]]:
    """Return the table with bad cells null, their number by column, and the cells that no rule lets be null."""
    nulled: dict[str, int] = {}
    left = []
    for bad in cells:
        if bad.column in nulls_forbidden:
            left.append(bad)
            continue
        i, values = table.column_names.index(bad.column), table.column(bad.column)
        gone = pc.and_(pa.array(bad.rows), pc.is_valid(values))  # those of another kind are null already
        table = table.set_column(i, bad.column, pc.if_else(gone, pa.scalar(None, values.type), values))
        nulled[bad.column] = nulled.get(bad.column, 0) + int(bad.rows.sum())
    return table, nulled, left


def _malformed(loaded: LoadedTable, source: TableSource) -> list[tuple[int, MalformedRow]]:
    """Return the rows with another number of fields than the header, each with its place in the whole input."""
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
            f"the input changed while it was read: {loaded.n_skipped:,} rows with another number of fields than the "
            f"header, then {len(found):,}",
            where=mask(source.label),
            fix="run it again once nothing writes to it",
        )
    return found


def _set_aside(
    table: pa.Table,
    cells: Sequence[BadCells],
    malformed: Sequence[tuple[int, MalformedRow]],
    loaded: LoadedTable,
    source: TableSource,
    label: str,
) -> ScreenedRows:
    """Return the rows without bad cells, and a table of the others."""
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
    """Return rows as lines of CSV, written as the input is; of typed formats as JSON objects."""
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
