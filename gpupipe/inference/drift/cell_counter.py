"""Counts of rows in the cells of a reference, column by column: integers, which are the same on every device.

Counts add up over chunks, partitions and workers in any order. Cells are converted as in a prediction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from gpupipe.arrow_numpy import to_numpy
from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.inference.drift.counted_column import CountedColumn
from gpupipe.inference.drift.reference import DriftColumn
from gpupipe.table.encode import encode_served, enforce, numbers_of, plain_values
from gpupipe.table.schema import Column, Schema
from gpupipe.typing import Array

BIN_WORK = 16  # a compiled search for a bin saves as much as compiled sums of this many values do


class CellCounter:
    """Counter of the rows of tables in the cells of columns.

    `n_rows` is the expected number of rows, which decides whether compiled loops pay.
    """

    def __init__(self, columns: Sequence[CountedColumn], backend: Backend, n_rows: int) -> None:
        self.columns, self.backend = tuple(columns), backend
        self.engine = backend.reductions(BIN_WORK * n_rows * max(1, len(columns)))
        ends = np.cumsum([0, *(len(each.reference.counts) for each in columns)]).tolist()
        self.spans = {each.reference.name: slice(*ends[i : i + 2]) for i, each in enumerate(columns)}
        self.n_cells = int(ends[-1])

    @property
    def schema(self) -> Schema:
        """The columns that are encoded."""
        return Schema(tuple(each.column for each in self.columns if each.column is not None))

    def count(self, table: pa.Table) -> Array:
        """Return the counts of all cells, int64, shape (n_cells,).

        Raise SchemaError if a column is missing or has values of another kind; as in a prediction, the message lists
        them.
        """
        cells = np.zeros(self.n_cells, np.int64)

        def add(each: CountedColumn) -> None:
            values = plain_values(table, each.reference.name, each.reference.kind)
            cells[self.spans[each.reference.name]] += self._count(each, values)

        try:
            self.backend.map(add, self.columns)
        except SchemaError:
            encode_served(table, self.backend.host, self.schema)  # raises the error that lists all columns
            raise
        return cells

    def by_column(self, cells: Array) -> dict[str, Array]:
        """Return the counts of each column, by name."""
        return {name: cells[span] for name, span in self.spans.items()}

    def _count(self, each: CountedColumn, values: pa.ChunkedArray) -> Array:
        column, form = each.column, each.reference.form
        if column is None or form == "presence":
            text = values if column is None else enforce(column, values).text
            return np.array([text.null_count, len(text) - text.null_count])
        if form == "ordered":
            return self._bin(each.reference, _arrays(column, values), column.storage)
        write = enforce(each.counted, values).write
        assert write is not None
        codes = np.empty(len(values), each.counted.storage)
        write(codes)
        counts = self.backend.xp.zeros(len(each.cell_of_code), np.int64)
        self.engine.count(self.backend.to_device(codes), counts)
        found = np.zeros(len(each.reference.counts), np.int64)
        np.add.at(found, each.cell_of_code, self.backend.to_host(counts))
        return found

    def _bin(self, reference: DriftColumn, arrays: Iterator[Array], storage: str) -> Array:
        assert reference.edges is not None
        edges = self.backend.to_device(reference.edges.astype(storage))
        counts = self.backend.xp.zeros(len(reference.edges) + 2, np.int64)
        for x in arrays:
            self.engine.bin(self.backend.to_device(x), edges, counts)
        return self.backend.to_host(counts)


def _arrays(column: Column, values: pa.ChunkedArray) -> Iterator[Array]:
    """Yield the values of a numeric or datetime column in the dtype of an encoded table."""
    if column.kind == "datetime":
        write = enforce(column, values).write
        assert write is not None
        times = np.empty(len(values), column.storage)
        write(times)
        yield times
        return
    for chunk in numbers_of(column, values).chunks:
        with np.errstate(over="ignore", invalid="ignore"):
            yield to_numpy(chunk).astype(column.storage, copy=False)
