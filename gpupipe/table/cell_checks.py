"""Detection of cells in text columns that do not match the kind of their column in a frozen schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError
from gpupipe.names import shorten
from gpupipe.table.exact_values import is_number
from gpupipe.table.level_text import normal_text
from gpupipe.table.numeric_columns import parse_numbers
from gpupipe.table.row_numbers import ROWS_SHOWN, CellsError, RowNumbers
from gpupipe.table.schema import BOOLEAN_WORDS, Column
from gpupipe.table.string_columns import as_dictionary
from gpupipe.table.time_columns import is_text, parsed_texts
from gpupipe.table.time_formats import describe_readings
from gpupipe.table.time_texts import is_pattern, reader_of

VALUES_SHOWN, COLUMNS_SHOWN = 5, 8
READABLE = 100  # characters of a text whose possible formats are shown

ParseNumbers = Callable[[pa.Array], pa.Array]
ParseTexts = Callable[[pa.Array], tuple[pa.Array, pa.Array]]  # to values, and whether each text could be read
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CheckedColumn:
    """A text column whose invalid cells are null.

    `values` are input of `gpupipe.table.encode.encode`. `bad` flags the cells that did not match the kind of the
    column: bool, shape (n_rows,).
    """

    values: pa.ChunkedArray
    bad: Mask


def check_cells(column: Column, values: pa.ChunkedArray, numbers: ParseNumbers = parse_numbers) -> CheckedColumn | None:
    """Return a column with its invalid cells set to null, or None if all cells are valid.

    `column` is the expected column. Only text, and numbers as booleans or times in digits, can have invalid cells;
    other types are uniform. `numbers` returns texts as float64, null for a text that is not a number.
    """
    has_codes = column.kind == "boolean" and not pa.types.is_boolean(values.type)
    has_codes |= column.kind == "datetime" and is_number(values.type) and is_pattern(column.time_format)
    if column.number_format is not None:
        return None  # a text in another format is null
    if column.kind not in PARSERS or not (is_text(values.type) or has_codes):
        return None
    coded = as_dictionary(values)
    parse = PARSERS[column.kind](column, numbers)
    chunks = []
    masks = []
    any_bad = False
    for chunk in coded.chunks:
        trimmed = pc.utf8_trim_whitespace(chunk.dictionary.cast(pa.string()))
        texts = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
        parsed, is_read = parse(texts)
        wrong = pc.and_(pc.is_valid(texts), pc.invert(is_read))
        mask = pc.fill_null(wrong.take(chunk.indices), False).to_numpy(zero_copy_only=False)
        any_bad = any_bad or bool(mask.any())
        chunks.append(parsed.take(chunk.indices))
        masks.append(mask)
    return CheckedColumn(pa.chunked_array(chunks), np.concatenate(masks)) if any_bad else None


def describe_bad_cells(reason: str, name: str, values: pa.ChunkedArray, bad: Mask) -> tuple[str, RowNumbers]:
    """Return a description of the invalid cells of a column with their values, and their rows."""
    rows = np.flatnonzero(bad)
    cells = values.take(pa.array(rows[: 20 * ROWS_SHOWN]))
    cells = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
    cells = cells.cast(pa.string()) if pa.types.is_timestamp(cells.type) else cells  # Python's do not reach as far
    texts = dict.fromkeys(map(str, cells.to_pylist()))
    shown = ", ".join(repr(shorten(text)) for text in list(texts)[:VALUES_SHOWN])
    shown += ", ..." if len(texts) > VALUES_SHOWN else ""
    return f"{reason} in column {name!r}; found {shown}", RowNumbers.of(bad)


def refuse_served(wrong: Sequence[tuple[Column, pa.ChunkedArray]], error: SchemaError) -> SchemaError:
    """Return the error for columns that do not match a fitted model, worded for the user of the model.

    `wrong` has columns of the model, with the values passed for them. `error`, that of encoding, is returned itself if
    it does not concern cells or types.
    """
    lines: list[tuple[str, RowNumbers | None]] = []
    fix = "correct the values, or make them null"
    for column, values in wrong[:COLUMNS_SHOWN]:
        checked = check_cells(column, values)
        if checked is not None:
            line, rows = describe_bad_cells(f"expected {column.expected}", column.source, values, checked.bad)
            if column.kind == "datetime" and not column.time_format:
                readings = describe_readings(str(values[int(np.flatnonzero(checked.bad)[0])].as_py())[:READABLE])
                line += f"; {readings}" if readings else ""
            lines.append((line, rows))
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


def _number_parser(column: Column, numbers: ParseNumbers) -> ParseTexts:
    def parse(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        found = numbers(texts)
        return found, pc.is_valid(found)

    return parse


def _boolean_parser(column: Column, numbers: ParseNumbers) -> ParseTexts:
    def parse(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        flags = [None if text is None else BOOLEAN_WORDS.get(normal_text(text).lower()) for text in texts.to_pylist()]
        found = pa.array([None if flag is None else bool(flag) for flag in flags], pa.bool_())
        return found, pc.is_valid(found)

    return parse


def _time_parser(column: Column, numbers: ParseNumbers) -> ParseTexts:
    read = reader_of(column.time_format)

    def parse(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        is_read = pa.array([text is not None and read(text) is not None for text in texts.to_pylist()], pa.bool_())
        return parsed_texts(texts, read), is_read

    return parse


PARSERS: dict[str, Callable[[Column, ParseNumbers], ParseTexts]] = {
    "numeric": _number_parser,
    "boolean": _boolean_parser,
    "datetime": _time_parser,
}
