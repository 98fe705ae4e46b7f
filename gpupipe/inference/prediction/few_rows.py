"""Few rows from memory, encoded cell by cell: a table of one row takes Arrow a hundred calls for each step.

The cells are those of a table, bit for bit (`gpupipe.table.cell_encoders`). Whatever is not plain is left to tables:
types whose values have another meaning alone than in their column, values that the model refuses, and violated rules,
so that messages exist once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from gpupipe.errors import GpupipeError, RowError
from gpupipe.inference.scorer.rare_values import encode_by_table
from gpupipe.rules.row_rules import RowRules
from gpupipe.table.blocks import Table, allocate
from gpupipe.table.frames import is_pandas, row_of_series
from gpupipe.table.plain_values import form_of
from gpupipe.table.row_encoder import Row, RowEncoder
from gpupipe.table.schema import Schema
from gpupipe_kernels.program.program import block_id
from gpupipe_kernels.rows.records import KIND_OF_BLOCK

if TYPE_CHECKING:
    from gpupipe.rules.model_rules import ServedRules

DECODED = 8  # cells from which on a dictionary is decoded first
MOST_ROWS = 200  # of a model of 12 to 23 columns, from 100 to 450 rows on a table is faster
PLAIN = (type(None), float, int, str, bool, np.float32, Decimal, UUID)  # and types with a plain form
UNIFORM = (float, int, str, bool, date, datetime, np.float32, np.float64, np.int64, np.str_, np.bool_, np.datetime64)
# Types of polars whose values are plain, and read faster than through Arrow.
OF_POLARS = frozenset(
    {
        "Boolean", "Categorical", "Enum", "Float64", "String",
        "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64",
    }
)  # fmt: skip

Values = Sequence[Any]


class FewRowsEncoder:
    """Encoder of few rows for a fitted schema, with the rules of the model. Threads may share it.

    `strip` is whether texts are stripped first.
    """

    def __init__(self, schema: Schema, rules: Sequence[ServedRules], strip: bool) -> None:
        self._encoder = RowEncoder(schema, by_table=encode_by_table)
        self._rules = RowRules(rules, encode_by_table, strip) if rules else None
        self._optional = [rule.column for rule in rules if rule.column not in self._encoder.inputs]
        at = self._encoder.positions
        self._cells = [
            (block, row, KIND_OF_BLOCK[block_id(block)], at[block_id(block), row])
            for block, row in allocate(schema, 0, np)[1].values()
        ]

    def encode(self, data: Any) -> Table | None:
        """Return the encoded rows of a frame, dict, Series or list of dicts; None if a table is to read them."""
        try:
            rows = _rows_of(data, self._encoder.inputs, self._optional)
            if not rows:
                return None
            encoded = self._encoder.encode(rows)
            if self._rules is not None and self._rules.check(rows):
                return None
        except (GpupipeError, RowError, pa.ArrowException):
            return None
        cells, schema = encoded.cells, self._encoder.schema
        blocks, places = allocate(schema, len(rows), np)
        for block, row, kind, position in self._cells:
            blocks[block][row] = cells[kind][:, position]
        return Table(schema, len(rows), blocks, places)


def _rows_of(data: Any, required: Sequence[str], optional: Sequence[str]) -> list[Row] | None:
    """Return the rows of `data` with these columns; None if there are too many, or a column is absent or not plain."""
    if isinstance(data, Mapping) and not hasattr(data, "shape"):
        return _of_dicts([data], required, optional)
    if isinstance(data, list):
        return _of_dicts(data, required, optional) if len(data) <= MOST_ROWS else None
    library, _, kind = f"{type(data).__module__}.{type(data).__name__}".partition(".")
    if library == "pandas" and kind.endswith("Series"):
        return _of_dicts([row_of_series(data)], required, optional)
    read: Callable[[str], Values | None]
    if is_pandas(data) and len(data) <= MOST_ROWS and data.columns.is_unique and _has_texts(data.columns):
        names, read = frozenset(data.columns), _reader_of_frame(data)
    elif library == "polars" and kind.endswith("DataFrame") and len(data) <= MOST_ROWS:
        names, read = frozenset(data.columns), lambda name: _of_polars(data[name])
    elif isinstance(data, pa.Table | pa.RecordBatch) and data.num_rows <= MOST_ROWS:
        names, read = frozenset(data.column_names), lambda name: _of_arrow(data.column(name))
        if len(names) < data.num_columns:
            return None
    else:
        return None
    if not names.issuperset(required):
        return None
    wanted = (*required, *(name for name in optional if name in names))
    columns = [read(name) for name in wanted]
    if any(values is None for values in columns):
        return None
    return [dict(zip(wanted, values, strict=True)) for values in zip(*columns, strict=True)]


def _of_dicts(rows: Sequence[Any], required: Sequence[str], optional: Sequence[str]) -> list[Row] | None:
    """Return rows if each has the required columns, and the values of each column have one type."""
    if not all(isinstance(row, Mapping) and all(isinstance(name, str) for name in row) for row in rows):
        return None
    for name in (*required, *(name for name in optional if any(name in row for row in rows))):
        if not all(name in row for row in rows) or not _is_uniform([row[name] for row in rows]):
            return None
    return [*rows]


def _reader_of_frame(frame: Any) -> Callable[[str], Values | None]:
    """Return `_of_series` of the columns of a frame of pandas; a single row is read at once, in a third of the time."""
    # An ArrowDtype of times may hold a moment that pandas cannot show as a cell of a row.
    row = frame.iloc[0] if len(frame) == 1 and all(map(_is_plain, frame.dtypes)) else None
    if row is None or row.dtype != np.object_:  # columns of numbers have been converted to a common type
        return lambda name: _of_series(frame[name])
    cells = dict(zip(frame.columns, zip(frame.dtypes, row, strict=True), strict=True))

    def read(name: str) -> Values | None:
        dtype, value = cells[name]
        return [value] if dtype != np.object_ or _is_uniform([value]) else None

    return read


def _of_series(column: Any) -> Values | None:
    """Return the values of a column of pandas; None if its type is not plain."""
    dtype = column.dtype
    if not _is_plain(dtype):
        return None
    is_exact = isinstance(dtype, np.dtype) and dtype.kind in "fM" and dtype != np.float64
    found = list(column.to_numpy()) if is_exact else column.tolist()
    return found if dtype != np.object_ or _is_uniform(found) else None


def _is_plain(dtype: Any) -> bool:
    """Return whether all values of a type of pandas are plain, or may be: those of objects."""
    if isinstance(dtype, np.dtype):
        return dtype.kind in "fiubMO"
    if (kind := type(dtype).__name__) == "CategoricalDtype":
        return _has_texts(dtype.categories)
    return kind in ("StringDtype", "DatetimeTZDtype")


def _has_texts(index: Any) -> bool:
    """Return whether all labels of an index of pandas are texts."""
    return bool(index.inferred_type == "string")


def _of_polars(column: Any) -> Values | None:
    """Return the values of a column of polars; None if its type is not plain."""
    return column.to_list() if column.dtype.base_type().__name__ in OF_POLARS else _of_arrow(column.to_arrow())


def _of_arrow(column: Any) -> Values | None:
    """Return the values of an Arrow column; None if its type is not plain."""
    read = _reader_of(column.type)
    return None if read is None else read(column)


@lru_cache(maxsize=256)
def _reader_of(kind: pa.DataType) -> Callable[[Any], Values | None] | None:
    types = pa.types
    if types.is_timestamp(kind) or types.is_date(kind):
        return _times
    if types.is_float32(kind):
        return lambda column: list(column.to_numpy(zero_copy_only=False))
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    if types.is_dictionary(kind):
        kind = kind.value_type
        if types.is_string(kind) or types.is_large_string(kind):  # one by one, cells take 2 µs each
            return lambda column: (column if len(column) < DECODED else column.cast(kind)).to_pylist()
    plain = (types.is_integer, types.is_float64, types.is_boolean, *texts)
    return (lambda column: column.to_pylist()) if any(check(kind) for check in plain) else None


def _times(column: Any) -> Values | None:
    """Return the values of an Arrow column of times; None if it has the time that NumPy takes for a missing one."""
    values = column.to_numpy(zero_copy_only=False)
    return None if np.isnat(values).sum() > column.null_count else list(values)


def _is_uniform(values: Values) -> bool:
    """Return whether values have the same meaning alone and as a column."""
    if len(values) == 1:
        kind: Any = type(values[0])
        return kind in PLAIN or form_of(kind) is not None
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) > 1 or not kinds.issubset(UNIFORM):
        return False
    return int not in kinds or all(value is None or -(2**63) <= value < 2**63 for value in values)
