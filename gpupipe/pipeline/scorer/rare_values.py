"""Encoding of single values of rare types, such as decimals and pandas time stamps, as a table of one row."""

from __future__ import annotations

from typing import Any

from gpupipe.errors import GpupipeError
from gpupipe.table.cell_encoders import UnfitCell, refuse_type
from gpupipe.table.schema import Column, Schema


def encode_by_table(column: Column, value: Any) -> Any:
    """Return the cell of a value, encoded as `gpupipe.Model.predict` does.

    Raise UnfitCell if the value does not match the column, or pyarrow is not installed.
    """
    try:
        import pyarrow as pa

        from gpupipe.backends import choose
        from gpupipe.io.source_reader import plain_arrow
        from gpupipe.table.encode import encode_served
        from gpupipe.table.frames import rows_to_arrow
        from gpupipe.table.string_columns import as_dictionary
    except ImportError:
        return refuse_type(column, value)
    single = Schema((column,))
    try:
        arrow = plain_arrow(rows_to_arrow([{column.source: value}], [column.source]), strip=column.has_normal_form)
        table = encode_served(arrow, choose("cpu"), single)
    except (GpupipeError, pa.ArrowException, ArithmeticError, ValueError):
        raise UnfitCell from None
    if column.kind == "text":
        return as_dictionary(table.texts[column.name])[0].as_py()
    return table.column(column.name)[0].item()
