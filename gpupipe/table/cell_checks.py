"""Detection of cells in text columns that do not match the kind of their column in a frozen schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError
from gpupipe.names import shorten
from gpupipe.table.level_text import normal_text
from gpupipe.table.numeric_columns import parse_numbers
from gpupipe.table.row_numbers import ROWS_SHOWN, CellsError, RowNumbers
from gpupipe.table.schema import BOOLEAN_WORDS, Column
from gpupipe.table.string_columns import as_dictionary, used_texts
from gpupipe.table.time_columns import is_text
from gpupipe.table.time_formats import guess_format, micros
from gpupipe.units import epoch_us

VALUES_SHOWN, COLUMNS_SHOWN = 5, 8

ParseNumbers = Callable[[pa.Array], pa.Array]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CheckedColumn:
    """A text column whose invalid cells are null.

    Attributes
    ----------
    values : pyarrow.ChunkedArray
        The column as input of `gpupipe.table.encode.encode`.
    bad : array of bool, shape (n_rows,)
        Flags of the cells that did not match the kind of the column.
    """

    values: pa.ChunkedArray
    bad: Mask


def check_cells(column: Column, values: pa.ChunkedArray, numbers: ParseNumbers = parse_numbers) -> CheckedColumn | None:
    """Return a column with its invalid cells set to null, or None if all cells are valid.

    Parameters
    ----------
    column : Column
        The expected column.
    values : pyarrow.ChunkedArray
        Only text, and numbers as booleans, can have invalid cells; other types are uniform.
    numbers : callable
        Returns texts as float64, null for a text that is not a number.
    """
    is_flags = column.kind == "boolean" and not pa.types.is_boolean(values.type)
    if column.kind not in PARSERS or not (is_text(values.type) or is_flags):
        return None
    coded = as_dictionary(values)
    parse = PARSERS[column.kind](column, coded, numbers)
    chunks, masks, any_bad = [], [], False
    for chunk in coded.chunks:
        trimmed = pc.utf8_trim_whitespace(chunk.dictionary.cast(pa.string()))
        texts = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
        parsed = parse(texts)
        wrong = pc.and_(pc.is_valid(texts), pc.is_null(parsed))
        mask = pc.fill_null(wrong.take(chunk.indices), False).to_numpy(zero_copy_only=False)
        any_bad = any_bad or bool(mask.any())
        chunks.append(parsed.take(chunk.indices))
        masks.append(mask)
    return CheckedColumn(pa.chunked_array(chunks), np.concatenate(masks)) if any_bad else None


def describe_bad_cells(reason: str, name: str, values: pa.ChunkedArray, bad: Mask) -> tuple[str, RowNumbers]:
    """Return a description of the invalid cells of a column with their values, and their rows."""
    rows = np.flatnonzero(bad)
    texts = dict.fromkeys(str(values[row].as_py()) for row in rows[: 20 * ROWS_SHOWN].tolist())
    shown = ", ".join(repr(shorten(text)) for text in list(texts)[:VALUES_SHOWN])
    shown += ", ..." if len(texts) > VALUES_SHOWN else ""
    return f"{reason} in column {name!r}; found {shown}", RowNumbers.of(bad)


def refuse_served(wrong: Sequence[tuple[Column, pa.ChunkedArray]], error: SchemaError) -> SchemaError:
    """Return the error for columns that do not match a fitted model, worded for the user of the model.

    Parameters
    ----------
    wrong : sequence of (Column, pyarrow.ChunkedArray)
        Columns of the model, with the values passed for them.
    error : SchemaError
        The error of encoding; returned itself if it does not concern cells or types.
    """
    lines: list[tuple[str, RowNumbers | None]] = []
    fix = "correct the values, or make them null"
    for column, values in wrong[:COLUMNS_SHOWN]:
        checked = check_cells(column, values)
        if checked is not None:
            lines.append(describe_bad_cells(f"expected {column.expected}", column.source, values, checked.bad))
        elif pa.types.is_nested(values.type):
            return error
        else:
            found = f"{_type_name(values.type)} (type in training: {column.dtype})"
            lines.append((f"expected {column.expected} in column {column.source!r}; found {found}", None))
            fix = "convert the columns to their types in training"
    if not lines:
        return error
    lines += [(f"and {len(wrong) - COLUMNS_SHOWN} more columns", None)] if len(wrong) > COLUMNS_SHOWN else []
    return CellsError(lines, fix=fix)


def _type_name(kind: pa.DataType) -> str:
    if is_text(kind):
        return "text"
    return "times" if pa.types.is_timestamp(kind) or pa.types.is_date(kind) else f"{kind} values"


def _number_parser(column: Column, coded: pa.ChunkedArray, numbers: ParseNumbers) -> ParseNumbers:
    return numbers


def _boolean_parser(column: Column, coded: pa.ChunkedArray, numbers: ParseNumbers) -> ParseNumbers:
    def parse(texts: pa.Array) -> pa.Array:
        flags = [None if text is None else BOOLEAN_WORDS.get(normal_text(text).lower()) for text in texts.to_pylist()]
        return pa.array([None if flag is None else bool(flag) for flag in flags], pa.bool_())

    return parse


def _time_parser(column: Column, coded: pa.ChunkedArray, numbers: ParseNumbers) -> ParseNumbers:
    """Return a parser of times, for the frozen format, else for a common format of all texts, else for ISO 8601."""
    form = column.time_format or guess_format({text for text in used_texts(coded) if text.strip()})
    read = (lambda text: micros(text, form)) if form else _iso_micros

    def parse(texts: pa.Array) -> pa.Array:
        found = [None if text is None else read(text) for text in texts.to_pylist()]
        return pa.array(found, pa.int64()).cast(pa.timestamp("us"))

    return parse


def _iso_micros(text: str) -> int | None:
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        return None
    return epoch_us(stamp)


PARSERS: dict[str, Callable[[Column, pa.ChunkedArray, ParseNumbers], Any]] = {
    "numeric": _number_parser,
    "boolean": _boolean_parser,
    "datetime": _time_parser,
}
