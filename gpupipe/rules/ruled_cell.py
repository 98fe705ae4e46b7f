"""Cells of raw rows, read as the columns of a table that only contains them. Importable without Arrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any, Literal, NamedTuple

import numpy as np

from gpupipe.table.cell_encoders import EncodeByTable, cell_encoder
from gpupipe.table.level_text import is_numpy_integer
from gpupipe.table.schema import FIRST_LEVEL, NAT, NULL, Column, DeclaredColumn

# How a table stores a column that only contains the cell: float64; float32; or float32, with the exact bounds of a
# range because it is an integer.
Precision = Literal["double", "single", "whole"]
EXACT_IN_FLOAT32 = 2**24
LEVELS = ("false", "true")


class RuledCell(NamedTuple):
    """A cell of a row.

    `row` is its position, from 0. `value` is the value given. `content` is a number; microseconds since 1970-01-01 UTC
    in a datetime column; a text or level; None if it is null. `precision` is that of a number.
    """

    row: int
    value: Any
    content: Any
    precision: Precision


class CellReader:
    """Reader of the values of a column with rules.

    `declared` is its kind and format in training. `by_table` is for values of rare types. `strip` is whether texts are
    stripped first.
    """

    def __init__(self, name: str, declared: DeclaredColumn, by_table: EncodeByTable, strip: bool) -> None:
        kind = "text" if declared.kind == "categorical" else declared.kind
        storage = {"numeric": "float64", "datetime": "int64", "boolean": "int8"}.get(kind, "")
        dtype = "timestamp[us]" if kind == "numeric" else ""  # rules read times as numbers, as a table does
        column = Column(name, kind, dtype, storage=storage, time_format=declared.time_format, has_normal_form=strip)
        column = replace(column, number_format=declared.number_format)
        self.expected = column.expected
        encode = cell_encoder(column, by_table)
        self.content = _READERS[kind](encode) if kind in _READERS else encode

    def read(self, row: int, value: Any) -> RuledCell:
        """Return a cell; raise UnfitCell if the value is not of the kind of the column."""
        content = self.content(value)
        return RuledCell(row, value, content, _precision(value, content))


def _numbers(encode: Callable[[Any], Any]) -> Callable[[Any], float | None]:
    def read(value: Any) -> float | None:
        number = encode(value)
        return None if number != number else float(number)

    return read


def _times(encode: Callable[[Any], Any]) -> Callable[[Any], int | None]:
    def read(value: Any) -> int | None:
        micros = encode(value)
        return None if micros == NAT else int(micros)

    return read


def _flags(encode: Callable[[Any], Any]) -> Callable[[Any], str | None]:
    def read(value: Any) -> str | None:
        code = encode(value)
        return None if code == NULL else LEVELS[code - FIRST_LEVEL]

    return read


_READERS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "numeric": _numbers,
    "datetime": _times,
    "boolean": _flags,
}


def _precision(value: Any, content: Any) -> Precision:
    if type(value) in (float, str) or content is None or isinstance(content, str):
        return "double"
    value = value.item() if isinstance(value, np.ndarray) else value
    if isinstance(value, bool | np.bool_ | np.float32 | np.float16):
        return "single"
    if abs(content) <= EXACT_IN_FLOAT32:
        if isinstance(value, int) or is_numpy_integer(value):
            return "whole"
        if isinstance(value, date | np.datetime64):
            return "single"
    return "double"
