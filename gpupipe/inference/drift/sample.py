"""Evenly spaced rows of a stream of unknown length, which do not depend on its chunks."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

MOST_ROWS = 50_000
MOST_CELLS = 20_000_000  # 160 MiB
FEWEST_ROWS = 1_000


def sample_rows(n_columns: int) -> int:
    """Return the maximum number of rows to keep of a table with that many columns."""
    return max(FEWEST_ROWS, min(MOST_ROWS, MOST_CELLS // max(1, n_columns)))


def stride_of(n_rows: int, most: int) -> int:
    """Return the smallest power of 2 of which at most `most` of `n_rows` row numbers are multiples."""
    stride = 1
    while -(-n_rows // stride) > most:
        stride *= 2
    return stride


def every_row(table: pa.Table, first_row: int, stride: int) -> pa.Table:
    """Return the rows of a chunk whose number in the whole table is a multiple of `stride`, copied.

    Dictionaries are decoded: a chunk's dictionary can have many more values than a few of its rows.
    """
    if stride > 1:
        table = table.take(pa.array(range(-first_row % stride, table.num_rows, stride), pa.int64()))
    columns = [
        pc.dictionary_decode(column) if pa.types.is_dictionary(column.type) else column for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


class EvenSample:
    """The rows whose number is a multiple of a power of 2, chosen so that at most `most` rows are kept."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.stride = 1
        self.n_seen = 0
        self._parts: list[tuple[int, pa.Table]] = []  # with the number of the first row, in multiples of the stride

    def add(self, table: pa.Table) -> None:
        """Add the next rows."""
        first_row, self.n_seen = self.n_seen, self.n_seen + table.num_rows
        stride = stride_of(self.n_seen, self.most)
        if stride > self.stride:
            factor = stride // self.stride
            thinned = [(-(-first // factor), every_row(part, first, factor)) for first, part in self._parts]
            self._parts, self.stride = [(first, part) for first, part in thinned if part.num_rows], stride
        kept = every_row(table, first_row, stride)
        if kept.num_rows:
            self._parts.append((-(-first_row // stride), kept))

    def tables(self) -> list[pa.Table]:
        """Return the rows in order; consecutive rows with the same types are one table."""
        return join_alike(part for _, part in self._parts)


def join_alike(parts: Iterable[pa.Table]) -> list[pa.Table]:
    """Return consecutive tables with the same types as one table each."""
    runs: list[list[pa.Table]] = []
    for part in parts:
        if runs and runs[-1][0].schema.equals(part.schema):
            runs[-1].append(part)
        else:
            runs.append([part])
    return [pa.concat_tables(run) for run in runs]
