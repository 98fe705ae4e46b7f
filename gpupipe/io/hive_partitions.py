"""Columns that the folders of a hive-partitioned table say, as in ``year=2024/month=1``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.concatenation import FileColumn
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.missing_values import TEXT


class HivePartitions:
    """The partition columns of a list of files: integers if every file has one, else text."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        names = dict.fromkeys(name for file in files for name in file.partitions)
        self.kinds = {name: _kind([file.partitions.get(name) for file in files]) for name in names}

    def describe(
        self, columns: Mapping[str, FileColumn], file: SourceFile, wanted: ColumnFilter
    ) -> dict[str, FileColumn]:
        """Return the columns of a file with those that `add_columns` would append."""
        found = dict(columns)
        for name in wanted.pick(list(file.partitions)):
            found.setdefault(name, FileColumn(self.kinds[name], file.partitions[name] is None))
        return found

    def add_columns(self, table: pa.Table, file: SourceFile, wanted: ColumnFilter) -> pa.Table:
        """Return `table` with the partition columns of its file, but for those that the file itself has."""
        for name in wanted.pick(list(file.partitions)):
            if name not in table.column_names:
                table = table.append_column(name, _constant(file.partitions[name], self.kinds[name], table.num_rows))
        return table


def require_agreement(table: pa.Table, file: SourceFile) -> None:
    """Refuse a plain table of a file that has a column of its folders, and other values in it than they say.

    Raises
    ------
    SchemaError
        With the first such value.
    """
    for name, said in file.partitions.items():
        if name not in table.column_names:
            continue
        for value in pc.unique(table.column(name)).to_pylist():
            if not _is_said(value, said):
                raise SchemaError(
                    f"column {name!r} has the value {value!r}, where the folder of the file says {said!r}",
                    where=mask(file.path),
                    fix=f"write the files without the column, move the file, or leave it out: drop: [{name}]",
                    names=[name],
                )


def _is_said(value: Any, said: str | None) -> bool:
    """Whether a value of a file is what its folder says: ``2024``, ``2024.0``, ``true`` and dates in several ways."""
    if value is None or said is None:
        return value is None and said is None
    if isinstance(value, bool):
        return said.lower() == str(value).lower()
    if isinstance(value, int | float):
        return _number(said) == value
    if isinstance(value, dt.datetime):
        return said[: len("2024-01-31")] == value.isoformat()[: len("2024-01-31")]
    return said == str(value)


def _number(text: str) -> float:
    try:
        return float(text) if not text.lstrip("-").isdecimal() else int(text)
    except ValueError:
        return float("nan")


def _kind(values: Sequence[str | None]) -> pa.DataType:
    numbers = [value.removeprefix("-").isdecimal() and len(value) < 19 for value in values if value is not None]
    return pa.int64() if numbers and all(numbers) else TEXT


def _constant(value: str | None, kind: pa.DataType, n_rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(n_rows, kind)
    if kind == TEXT:
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n_rows), pa.array([value]))
    return pa.repeat(pa.scalar(int(value), kind), n_rows)
