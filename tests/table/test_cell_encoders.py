"""Cells of single rows, compared with the same row as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpupipe.backends import choose
from gpupipe.errors import DataError, RowError
from gpupipe.inference.scorer.rare_values import encode_by_table
from gpupipe.io.source_reader import plain_arrow
from gpupipe.table.cell_encoders import UnfitCell, cell_encoder
from gpupipe.table.encode import encode_served
from gpupipe.table.frames import rows_to_arrow
from gpupipe.table.row_encoder import RowEncoder
from gpupipe.table.schema import Column, Schema
from gpupipe.table.string_columns import as_dictionary
from tests.raw_values import VALUES

BACKEND = choose("cpu")
LEVELS = ("a", "NA", "0.1", "1", "3", "é", "true", "2020-01-01", "inf", "10000000000000000")
FORMATS = [None, "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%d/%m/%Y", "s", "ms", "us", "ns"]
DTYPES = ["string", "int64", "float", "double", "bool", "timestamp[us]"]
COLUMNS = [
    Column("x", "numeric", "double", storage="float64"),
    Column("x", "numeric", "int64", storage="float32"),
    Column("x", "numeric", "timestamp[us]", storage="float64"),
    Column("x", "boolean", "bool", storage="int8", levels=("false", "true")),
    Column("x", "categorical", "string", storage="int8", levels=LEVELS),
    Column("x", "categorical", "string", storage="int8", hash_of="x", n_buckets=101),
    Column("x", "text", "string"),
    *(Column("x", "categorical", dtype, storage="int8", levels=LEVELS, has_normal_form=True) for dtype in DTYPES),
    Column("x", "categorical", "string", storage="int8", hash_of="x", n_buckets=101, has_normal_form=True),
    Column("x", "text", "string", has_normal_form=True),
    *(Column("x", "datetime", "string", storage="int64", time_format=form) for form in FORMATS),
]


@pytest.mark.parametrize(
    "column", COLUMNS, ids=lambda c: f"{c.kind}-{c.dtype}-{c.storage}-{c.hash_of or c.time_format}-{c.has_normal_form}"
)
def test_each_value_has_the_cell_of_a_table(column: Column) -> None:
    differ = []
    for value in VALUES:
        found, expected = cell_of_row(column, value), cell_of_table(column, value)
        if found != expected:
            differ.append((value, found, expected))
    assert not differ


def cell_of_row(column: Column, value: Any) -> Any:
    """Return the cell as bytes or text, or "refused"."""
    try:
        if column.kind == "text":
            return [cell_encoder(column, encode_by_table)(value)]
        cells = RowEncoder(Schema((column,)), by_table=encode_by_table).encode([{"x": value}]).cells
    except (RowError, UnfitCell):
        return "refused"
    return next(block[0].tobytes() for block in (cells.single, cells.double, cells.times, cells.codes) if block.size)


def cell_of_table(column: Column, value: Any) -> Any:
    """Return the cell of a value, or of a frame with one row."""
    try:
        rows = rows_to_arrow(value if isinstance(value, pd.DataFrame) else [{"x": value}], ["x"])
        table = encode_served(plain_arrow(rows, strip=column.has_normal_form), BACKEND, Schema((column,)))
    except (DataError, pa.ArrowException):
        return "refused"
    if column.kind == "text":
        return as_dictionary(table.texts["x"]).to_pylist()
    cells = table.column("x")
    return (cells.astype(np.int32) if column.storage == "int8" else cells).tobytes()
