"""Encoding of single values without a plain form, such as very large integers, as a table of one row."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np

from gpupipe.errors import GpupipeError
from gpupipe.table.cell_encoders import UnfitCell, refuse_type
from gpupipe.table.schema import LARGEST, Column, Schema


def encode_by_table(column: Column, value: Any) -> Any:
    """Return the cell of a value, encoded as `gpupipe.Model.predict` does.

    Raise UnfitCell if the value does not match the column, or pyarrow is not installed.
    """
    try:
        import pyarrow as pa

        from gpupipe.backends import choose
        from gpupipe.io.arrow_types import plain_column
        from gpupipe.io.source_reader import plain_arrow
        from gpupipe.table.encode import encode_served
        from gpupipe.table.exact_values import exact_array, integer_array
        from gpupipe.table.frames import rows_to_arrow
        from gpupipe.table.numeric_columns import as_numbers, write_numbers
        from gpupipe.table.string_columns import as_dictionary
        from gpupipe.table.time_columns import as_times, write_times
    except ImportError:
        return refuse_type(column, value)
    name = column.source
    try:
        if type(value) in (int, Decimal) and column.kind in ("numeric", "datetime"):
            # The same functions without the table, in 1 % of the time: clients of a server can send many.
            array = integer_array([value]) if type(value) is int else exact_array([value])
            if column.kind == "numeric" and pa.types.is_decimal(array.type):
                with np.errstate(over="ignore"):
                    number = np.dtype(column.storage).type(array.cast(pa.float64())[0].as_py()).item()
                return number if abs(number) <= LARGEST else math.nan
            plain, _ = plain_column(pa.chunked_array([array]), is_named=True)
            cell = np.empty(1, column.storage)
            if column.kind == "numeric":
                write_numbers(as_numbers(name, plain), cell)
            else:
                write_times(as_times(name, plain, column.time_format), cell)
            return cell[0].item()
        arrow = plain_arrow(rows_to_arrow([{name: value}], [name]), strip=column.has_normal_form)
        table = encode_served(arrow, choose("cpu"), Schema((column,)))
    except (GpupipeError, pa.ArrowException, ArithmeticError, ValueError, TypeError):
        raise UnfitCell from None
    if column.kind == "text":
        return as_dictionary(table.texts[column.name])[0].as_py()
    return table.column(column.name)[0].item()
