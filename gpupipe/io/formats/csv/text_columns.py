"""Post-processing of CSV text columns: strip, replace missing values by null, and convert to numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.io.csv_settings import CsvSettings
from gpupipe.io.missing_values import TEXT, clean_texts
from gpupipe.table.numeric_columns import parse_numbers
from gpupipe.table.schema import NULL_VALUES
from gpupipe.table.string_columns import format_values, normal_texts

NUMBERS = (pa.int64(), pa.float64())
TIMES = (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
KINDS = (*NUMBERS, *TIMES)  # of keys, in the order in which they are tried
NO_NUMBER = "?"


def clean_text_columns(
    table: pa.Table, settings: CsvSettings, keys: Container[str] = ()
) -> tuple[pa.Table, dict[str, tuple[pa.DataType, ...]]]:
    """Return a table with cleaned text columns, and for each of them the types of `KINDS` that fit all its values.

    Cleaning strips text and replaces strings that mean missing by null. Numbers fit `keys` only if they have the same
    texts: ``01`` is then no number, whatever the other keys are. Only keys may be times, as Arrow's parser, which types
    the other columns, reads keys as text.
    """
    found: dict[str, tuple[pa.DataType, ...]] = {}
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in columns.items():
        if column.type == TEXT:
            columns[name], _ = clean_texts(column, [*NULL_VALUES, *settings.null_values], settings.strip)
            levels = [_plainly(chunk.dictionary, settings) for chunk in columns[name].chunks]
            fits = _holds_same if name in keys else _holds
            found[name] = tuple(
                kind for kind in (KINDS if name in keys else NUMBERS) if all(fits(kind, t) for t in levels)
            )
    return pa.table(columns) if found else table, found


def choose_numbers(held: Mapping[str, Collection[pa.DataType]], stay_texts: Container[str]) -> dict[str, pa.DataType]:
    """Return the columns to convert, each with the first of `KINDS` that fits all its values.

    `held` has the types by column, as returned by `clean_text_columns`; columns of `stay_texts` are always text.
    """
    chosen = {}
    for name, kinds in held.items():
        first = next((kind for kind in KINDS if kind in kinds), None)
        if first is not None and name not in stay_texts:
            chosen[name] = first
    return chosen


def convert_numbers(table: pa.Table, kinds: Mapping[str, pa.DataType], settings: CsvSettings) -> pa.Table:
    """Return the table with text columns converted to types that fit all their values."""
    if not kinds:
        return table
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, kind in kinds.items():
        chunks = [_plainly(chunk.dictionary, settings).cast(kind).take(chunk.indices) for chunk in columns[name].chunks]
        columns[name] = pa.chunked_array(chunks, kind)
    return pa.table(columns)


def parse_marked_numbers(texts: pa.Array, settings: CsvSettings) -> pa.Array:
    """Parse strings as float64 with the decimal and thousands separators of a file; null if not a number."""
    return parse_numbers(_plainly(texts, settings))


def _plainly(texts: pa.Array, settings: CsvSettings) -> pa.Array:
    """Return strings with numbers in Arrow's notation: a decimal point and no thousands separators."""
    point = settings.decimal
    if settings.thousands is not None:
        mark, end = re.escape(settings.thousands), rf"(?:{re.escape(point)}[0-9]*)?"
        grouped = pc.match_substring_regex(texts, rf"^\s*[+-]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+{end}\s*$")
        texts = pc.if_else(grouped, pc.replace_substring(texts, settings.thousands, ""), texts)
    if point != ".":  # a "." is then not a decimal separator
        texts = pc.replace_substring(pc.replace_substring(texts, ".", NO_NUMBER), point, ".")
    return texts


def _holds(kind: pa.DataType, texts: pa.Array) -> bool:
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _holds_same(kind: pa.DataType, texts: pa.Array) -> bool:
    """Return whether a type fits keys, and numbers of it are the same keys as their texts."""
    return _holds(kind, texts) and bool(format_values(texts.cast(kind)).equals(normal_texts(texts)))
