"""Columns that the folders of a hive-partitioned table say, as in ``year=2024/month=1``."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gpupipe.readers.files import SourceFile
from gpupipe.readers.strings import TEXT
from gpupipe.readers.wanted import Wanted


class Partitions:
    """The partition columns of a list of files: integers if every file has one, else text."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        names = dict.fromkeys(name for file in files for name in file.partitions)
        self.kinds = {name: _kind([file.partitions.get(name) for file in files]) for name in names}

    def added_to(self, table: pa.Table, file: SourceFile, wanted: Wanted) -> pa.Table:
        """Return `table` with the partition columns of its file, but for those that the file itself has."""
        for name in wanted.pick(list(file.partitions)):
            if name not in table.column_names:
                table = table.append_column(name, _constant(file.partitions[name], self.kinds[name], table.num_rows))
        return table


def _kind(values: Sequence[str | None]) -> pa.DataType:
    numbers = [value.removeprefix("-").isdecimal() and len(value) < 19 for value in values if value is not None]
    return pa.int64() if numbers and all(numbers) else TEXT


def _constant(value: str | None, kind: pa.DataType, n_rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(n_rows, kind)
    if kind == TEXT:
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n_rows), pa.array([value]))
    return pa.repeat(pa.scalar(int(value), kind), n_rows)
