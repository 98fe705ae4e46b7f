"""Conversion of the columns of databases to types that a Parquet file stores and `gpupipe.io.arrow_types` knows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.io.arrow_types import is_nested, is_text, uuid_column

DECIMAL_DIGITS = 76  # of decimal256


def stored_type(field: pa.Field) -> pa.DataType | None:
    """Return the type that a column is stored with; None if it cannot be used: intervals, and types of one database."""
    kind = field.type
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return stored_type(field.with_type(kind.value_type))
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return pa.string()
        if kind.extension_name == "arrow.opaque":
            return _numeric_type(field) if kind.type_name == "numeric" else None
        return stored_type(field.with_type(kind.storage_type))
    if is_text(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    return None if pa.types.is_interval(kind) or pa.types.is_union(kind) else kind


def describe_type(kind: pa.DataType) -> str:
    """Return a description of the values of an unusable type."""
    if isinstance(kind, pa.BaseExtensionType):
        return f"{getattr(kind, 'type_name', kind.extension_name)} values"
    return "interval values" if pa.types.is_interval(kind) else f"{str(kind).split('<')[0]} values"


def is_stored(field: pa.Field, with_nested: bool) -> bool:
    """Return True if a column is copied; nested columns are needed only by a prepare hook."""
    kind = stored_type(field)
    return kind is not None and (with_nested or not is_nested(kind))


def stored_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values of a column as its `stored_type` `kind`."""
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if isinstance(column.type, pa.BaseExtensionType):
        if column.type.extension_name == "arrow.uuid":
            return uuid_column(pa.chunked_array([column.storage])).cast(pa.string()).combine_chunks()
        is_numeric = column.type.extension_name == "arrow.opaque"
        column = column.storage
        if is_numeric and pa.types.is_decimal(kind):  # NaN is missing, and no decimal
            is_nan = pc.is_in(column, value_set=pa.array(["NaN", "nan"], column.type))
            column = pc.if_else(is_nan, pa.scalar(None, column.type), column)
    return column if column.type == kind else column.cast(kind)


def _numeric_type(field: pa.Field) -> pa.DataType:
    """Return the type of a NUMERIC column of PostgreSQL, which the driver passes as text.

    A declared precision is kept, so that values are those of a Parquet file with the same declaration.
    """
    modifier = int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1")) - 4  # 4: size of a header
    digits, scale = modifier >> 16, modifier & 0x7FF
    if modifier < 0 or digits > DECIMAL_DIGITS or scale > digits:  # scales may also be negative or large
        return pa.float64()
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
