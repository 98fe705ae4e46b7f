"""Partition columns from the folder names of a hive-partitioned table, as in ``year=2024/month=1``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.concatenation import FileColumn
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.missing_values import TEXT
from gpupipe.io.settings import TableSource, declared_texts
from gpupipe.table.schema import NULL_VALUES


class HivePartitions:
    """Partition columns of a list of files: int64 if all values are integers, else text.

    `texts`: columns that are text, such as those that ``schema:`` declares categorical: a folder ``region=01`` has the
    value ``01``, whatever the other folders are. A model declares its columns, so a folder can be scored alone. `keys`:
    columns that are integers only if no integer has a leading zero.
    """

    def __init__(self, files: Sequence[SourceFile], texts: Collection[str] = (), keys: Collection[str] = ()) -> None:
        names = dict.fromkeys(chain.from_iterable(file.partitions for file in files))
        values = {name: [_value(file, name) for file in files] for name in names}
        self.kinds = {name: TEXT if name in texts else _kind(values[name], name in keys) for name in names}

    @classmethod
    def of(cls, files: Sequence[SourceFile], source: TableSource) -> HivePartitions:
        """Return the partition columns of the files of a source."""
        return cls(files, declared_texts(source), source.keys)

    def describe(
        self, columns: Mapping[str, FileColumn], file: SourceFile, wanted: ColumnFilter
    ) -> dict[str, FileColumn]:
        """Return the columns of a file together with those that `add_columns` appends."""
        found = dict(columns)
        for name in wanted.pick(list(file.partitions)):
            found.setdefault(name, FileColumn(self.kinds[name], _value(file, name) is None))
        return found

    def add_columns(self, table: pa.Table, file: SourceFile, wanted: ColumnFilter) -> pa.Table:
        """Return `table` with the partition columns of its file, except those that the file itself contains."""
        for name in wanted.pick(list(file.partitions)):
            if name not in table.column_names:
                table = table.append_column(name, _constant(_value(file, name), self.kinds[name], table.num_rows))
        return table


def require_agreement(table: pa.Table, file: SourceFile) -> None:
    """Raise SchemaError if a partition column that the file also contains has values other than its folder's.

    The message has the first such value.
    """
    for name, expected in file.partitions.items():
        if name not in table.column_names:
            continue
        for value in pc.unique(table.column(name)).to_pylist():
            if not _is_expected(value, expected):
                raise SchemaError(
                    f"column {name!r}: expected {expected!r} from the folder of the file, found {value!r}",
                    where=mask(file.path),
                    fix=f"write the files without the column, move the file, or drop the column: drop: [{name}]",
                    names=[name],
                )


def _is_expected(value: Any, expected: str | None) -> bool:
    """Return True if a value equals that of the folder; numbers, booleans and dates may be formatted differently."""
    if value is None or expected is None:
        return value is None and expected is None
    if isinstance(value, bool):
        return expected.lower() == str(value).lower()
    if isinstance(value, int | float | Decimal):
        return _number(expected) == value
    if isinstance(value, dt.datetime):
        return expected[: len("2024-01-31")] == value.isoformat()[: len("2024-01-31")]
    return expected == str(value)


def _number(text: str) -> float:
    try:
        return float(text) if not text.lstrip("-").isdecimal() else int(text)
    except ValueError:
        return float("nan")


def _value(file: SourceFile, name: str) -> str | None:
    """Return the text of a folder as a file would have it: without surrounding blanks, null if it means missing."""
    text = (file.partitions.get(name) or "").strip()
    return None if text in NULL_VALUES else text


def _kind(values: Sequence[str | None], is_key: bool) -> pa.DataType:
    numbers = [_is_integer(value) and (not is_key or str(int(value)) == value) for value in values if value is not None]
    return pa.int64() if numbers and all(numbers) else TEXT


def _is_integer(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 19


def _constant(value: str | None, kind: pa.DataType, n_rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(n_rows, kind)
    if kind == TEXT:
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n_rows), pa.array([value]))
    return pa.repeat(pa.scalar(int(value), kind), n_rows)
