"""Columns to count, with their cells: those of a reference, and their places in the schema of the model.

Without Arrow, which a server of single rows does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpupipe.inference.drift.reference import FIRST_LEVEL_CELL, NULL_CELL, OTHER_CELL, UNSEEN_CELL, DriftColumn
from gpupipe.table.schema import FIRST_LEVEL, NULL, Column, Schema
from gpupipe.typing import Array


@dataclass(frozen=True)
class CountedColumn:
    """Input column with its cells, and its place in the schema of the model.

    `column` is None for a raw column, whose nulls are counted.
    """

    reference: DriftColumn
    column: Column | None

    @cached_property
    def cell_of_code(self) -> Array:
        """Cell of each code of a column with levels, int64, shape (n_codes,)."""
        named, column = self.reference.levels or (), self.counted
        levels = ("false", "true") if column.kind == "boolean" else column.levels or ()
        known = {level: FIRST_LEVEL_CELL + i for i, level in enumerate(named)}
        other = UNSEEN_CELL if column.kind == "boolean" else OTHER_CELL
        cells = np.full(FIRST_LEVEL + len(levels), OTHER_CELL if self.reference.is_hashed else UNSEEN_CELL, np.int64)
        cells[NULL] = NULL_CELL
        cells[FIRST_LEVEL:] = [known.get(level, other) for level in levels]
        return cells

    @cached_property
    def counted(self) -> Column:
        """The column to encode: with the named levels instead of buckets."""
        assert self.column is not None
        if not self.reference.is_hashed:
            return self.column
        named = self.reference.levels
        return replace(self.column, name=self.column.source, hash_of=None, n_buckets=0, levels=named, storage="int8")


def counted_columns(references: Sequence[DriftColumn], schema: Schema) -> list[CountedColumn]:
    """Return the columns of a reference with their places in the schema of the model.

    Raise ValueError if a column has no such place, or cells of another form.
    """
    known = {column.source: column for column in schema if not column.derived and column.hash_of is not None}
    known |= {column.name: column for column in schema if not column.derived and column.hash_of is None}
    found = []
    for reference in references:
        column = known.get(reference.name)
        kind = "raw" if column is None else column.kind
        if kind != reference.kind:
            raise ValueError(f"column {reference.name!r:.40} is {kind} in the schema and {reference.kind} in the bins")
        if column is not None and (column.hash_of is not None) != reference.is_hashed:
            raise ValueError(f"column {reference.name!r:.40} is hashed in only one of the schema and the bins")
        found.append(CountedColumn(reference, column))
    return found
