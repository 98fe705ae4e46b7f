"""Integers outside int64 in text formats, whose parsers infer float64 for them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import DataError
from gpupipe.table.exact_values import LARGE_INTEGERS


def with_large_integers(table: pa.Table, parse: Callable[[str, pa.DataType], pa.Table]) -> pa.Table:
    """Return a parsed table with the exact types of columns that contain integers only, some of them outside int64.

    `table` has the types that the parser inferred. `parse` returns a column, by name, parsed with a type, and raises
    DataError if a value does not have it.
    """
    for position, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if not (pa.types.is_float64(column.type) and _may_be_large_integers(column)):
            continue
        for kind in LARGE_INTEGERS:
            try:
                exact = parse(name, kind).column(0)
            except DataError:
                continue
            table = table.set_column(position, name, exact)
            break
    return table


def _may_be_large_integers(column: pa.ChunkedArray) -> bool:
    bounds = pc.min_max(column).as_py()
    if bounds["min"] is None or not 2.0**63 <= max(-bounds["min"], bounds["max"]) < math.inf:
        return False
    return bool(pc.all(pc.equal(pc.floor(column), column)).as_py())
