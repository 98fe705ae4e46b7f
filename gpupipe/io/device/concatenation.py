"""Concatenation of several text files on a device, by the rules of `gpupipe.io.concatenation`.

The host's functions determine the common types of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.backends.base import DeviceBackend
from gpupipe.errors import DataError
from gpupipe.io.concatenation import FileColumn, clashes, common_schema, mixed_note
from gpupipe.io.device.number_texts import storage
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.missing_values import TEXT
from gpupipe.io.notes import Notes
from gpupipe.table.device.encode import SAMPLE, TextRules
from gpupipe.table.device.frame_columns import DeviceNumbers, TextCodes, strings


@dataclass(frozen=True)
class DeviceFileColumns:
    """Columns of one file on the device.

    Attributes
    ----------
    n_rows : int
        At least one.
    columns : mapping of str to (Series, TextCodes or DeviceNumbers)
        The selected columns, as numbers if their type is already known.
    written : callable
        Maps names of DeviceNumbers columns to their unparsed strings (a Series or TextCodes each).
    rules : TextRules
        Rules for the strings of this file.
    """

    file: SourceFile
    n_rows: int
    columns: Mapping[str, Any]
    written: Callable[[list[str]], Mapping[str, Any]]
    rules: TextRules


def columns_of(
    label: str,
    files: Sequence[SourceFile],
    read: Callable[[SourceFile], DeviceFileColumns | None],
    rules_of_all: Callable[[list[str]], TextRules],
    notes: Notes,
    backend: DeviceBackend,
) -> tuple[dict[str, Any], TextRules]:
    """Return the columns of files, as strings (Series or TextCodes) or DeviceNumbers, and the rules for strings.

    Parameters
    ----------
    label : str
        Name of the source in messages.
    read : callable
        Reads a file; returns None if it has no rows.
    rules_of_all : callable
        Maps the names of the columns that are text in the combined files to the rules for their strings.

    Raises
    ------
    DataError
        If there are no rows.
    SchemaError
        If the types of a column in two files have no common type.
    """
    parts = []
    for file in files:
        part = read(file)
        if part is None:
            notes.add(f"no rows in {mask(file.path)}")
        else:
            parts.append(part)
    if not parts:
        raise DataError("there are no rows", where=mask(label), fix="check that this is the right file")
    if len(parts) == 1:
        return dict(parts[0].columns), parts[0].rules
    columns, texts = _combine(parts, notes, backend)
    return columns, rules_of_all(texts)


class _Found(NamedTuple):
    """The numbers of a column of a file, None if it is text, and its type."""

    numbers: DeviceNumbers | None
    column: FileColumn


A_TEXT = _Found(None, FileColumn(TEXT, is_empty=False))


def _combine(
    parts: Sequence[DeviceFileColumns], notes: Notes, backend: DeviceBackend
) -> tuple[dict[str, Any], list[str]]:
    found = [{n: _found(n, column, part.rules, backend) for n, column in part.columns.items()} for part in parts]
    mixed = clashes(_types(found)) if all(part.file.format == "csv" for part in parts) else []
    if mixed:
        notes.warn(mixed_note(mixed))
        found = [{name: A_TEXT if name in mixed else column for name, column in columns.items()} for columns in found]
    schema = common_schema(_types(found), [part.file for part in parts], notes)
    texts = [field.name for field in schema if field.type == TEXT]
    written = [_written(texts, part) for part in parts]
    return {
        field.name: _all_texts(field.name, parts, written, backend)
        if field.type == TEXT
        else _all_numbers(field, parts, found, backend)
        for field in schema
    }, texts


def _written(texts: Sequence[str], part: DeviceFileColumns) -> dict[str, Any]:
    """Return the columns in `texts` that the file has, as strings."""
    numbers = [name for name in texts if isinstance(part.columns.get(name), DeviceNumbers)]
    found = {name: part.columns[name] for name in texts if name in part.columns and name not in numbers}
    return {**found, **(part.written(numbers) if numbers else {})}


def _types(found: Sequence[Mapping[str, _Found]]) -> list[dict[str, FileColumn]]:
    return [{name: each.column for name, each in columns.items()} for columns in found]


def _found(name: str, column: Any, rules: TextRules, backend: DeviceBackend) -> _Found:
    numbers = column if isinstance(column, DeviceNumbers) else None
    if numbers is None:
        coded = TextCodes.of(column, backend)
        some = strings(backend.to_arrow(coded.texts.iloc[:SAMPLE]))
        if rules.is_text(name, some) and not are_missing(some, rules):
            return A_TEXT
        values = rules.read(name, strings(backend.to_arrow(coded.texts)))
        if pa.types.is_string(values.type):
            return _Found(None, FileColumn(TEXT, values.null_count == len(values)))
        numbers = _looked_up(values, coded.codes, backend)
    return _Found(numbers, _type_of(numbers))


def are_missing(texts: pa.StringArray, rules: TextRules) -> bool:
    """Return True if all of these strings mean missing."""
    missing = pc.is_in(pc.utf8_trim_whitespace(texts), value_set=pa.array(rules.missing, pa.string()))
    return bool(pc.all(missing).as_py())


def _looked_up(values: pa.Array, codes: Any, backend: DeviceBackend) -> DeviceNumbers:
    kind = storage(values.type)
    table = np.append(np.asarray(values.cast(pa.from_numpy_dtype(kind)).fill_null(0)), np.zeros(1, kind))
    known = np.append(np.asarray(values.is_valid()), False)  # code -1 (null) selects the last entry
    rows, valid = (backend.xp.take(backend.to_device(part), codes) for part in (table, known))
    return DeviceNumbers(rows, valid, values.type)


def _type_of(column: DeviceNumbers) -> FileColumn:
    if bool(column.valid.any()):
        return FileColumn(column.type, is_empty=False)
    # For Arrow, a column of only nulls has the null type, not float64.
    return FileColumn(pa.null() if column.type == pa.float64() else column.type, is_empty=True)


def _all_texts(
    name: str, parts: Sequence[DeviceFileColumns], written: Sequence[Mapping[str, Any]], backend: DeviceBackend
) -> TextCodes:
    def texts_of(part: DeviceFileColumns, texts: Mapping[str, Any]) -> TextCodes:
        if name in texts:
            return TextCodes.of(texts[name], backend)
        # The file lacks the column: an empty string is missing under all rules.
        return TextCodes(backend.xp.zeros(part.n_rows, "int32"), backend.frame.Series([""]))

    return TextCodes.concatenate([texts_of(*pair) for pair in zip(parts, written, strict=True)], backend)


def _all_numbers(
    field: pa.Field, parts: Sequence[DeviceFileColumns], found: Sequence[Mapping[str, Any]], backend: DeviceBackend
) -> DeviceNumbers:
    xp = backend.xp
    kind = pa.float64() if pa.types.is_null(field.type) else field.type
    name = storage(kind)
    values, valid = [], []
    for part, columns in zip(parts, found, strict=True):
        column = columns[field.name].numbers if field.name in columns else None
        if column is None:
            column = DeviceNumbers(xp.zeros(part.n_rows, name), xp.zeros(part.n_rows, "bool"), kind)
        values.append(column.values.astype(name))
        valid.append(column.valid)
    return DeviceNumbers(xp.concatenate(values), xp.concatenate(valid), kind)
