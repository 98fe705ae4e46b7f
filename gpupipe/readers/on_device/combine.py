"""The columns of several CSV files on a device, one below the other, by the rules of `gpupipe.readers.combine`.

These see one row for each file, which has the types of the file: that is all they ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.readers.combine import clashes, combine, mixed_note
from gpupipe.readers.files import SourceFile
from gpupipe.readers.notes import Notes
from gpupipe.readers.strings import TEXT
from gpupipe.table.device_columns import Numbers, distinct_texts, strings
from gpupipe.table.encode_frame import SAMPLE, TextRules


@dataclass(frozen=True)
class Part:
    """The rows of one file.

    Attributes
    ----------
    file : SourceFile
    texts : DataFrame
        The wanted columns, as they are written; not empty.
    columns : mapping of str to (Series or Numbers)
        The same, numbers where that is known already.
    rules : TextRules
        What the texts mean in this file.
    """

    file: SourceFile
    texts: Any
    columns: Mapping[str, Any]
    rules: TextRules


def combine_parts(parts: Sequence[Part], notes: Notes, backend: Backend) -> tuple[dict[str, Any], list[str]]:
    """Return the columns of all the rows, each a Series of texts or Numbers, and the names of those that are texts.

    Raises
    ------
    SchemaError
        If a column has types in two files that nothing holds both of.
    """
    found = [{n: _numbers(n, column, part.rules, backend) for n, column in part.columns.items()} for part in parts]
    kinds = [pa.table({name: _one_row(column) for name, column in columns.items()}) for columns in found]
    mixed = clashes(kinds)
    if mixed:
        notes.say(mixed_note(mixed))
        found = [{name: None if name in mixed else column for name, column in columns.items()} for columns in found]
        kinds = [pa.table({name: _one_row(column) for name, column in columns.items()}) for columns in found]
    schema = combine(kinds, [part.file for part in parts], notes).schema
    texts = [field.name for field in schema if field.type == TEXT]
    return {
        field.name: _all_texts(field.name, parts, backend)
        if field.type == TEXT
        else _all_numbers(field, parts, found, backend)
        for field in schema
    }, texts


def _numbers(name: str, column: Any, rules: TextRules, backend: Backend) -> Numbers | None:
    """Return a column of numbers, booleans or times; None if it is text."""
    if isinstance(column, Numbers):
        return column
    codes, found = distinct_texts(column, backend)
    if rules.is_text(name, strings(backend.to_arrow(found.iloc[:SAMPLE]))):
        return None
    values = rules.read(name, strings(backend.to_arrow(found)))
    if pa.types.is_string(values.type):
        return None
    kind = _storage(values.type)
    table = np.append(np.asarray(values.cast(pa.from_numpy_dtype(kind)).fill_null(0)), np.zeros(1, kind))
    known = np.append(np.asarray(values.is_valid()), False)  # position -1, a null, is the last one
    rows, valid = (backend.xp.take(backend.to_device(part), codes) for part in (table, known))
    return Numbers(rows, valid, values.type)


def _storage(kind: pa.DataType) -> str:
    """Return the NumPy dtype in which Numbers hold an Arrow type."""
    if pa.types.is_boolean(kind):
        return "int8"
    return "int64" if pa.types.is_timestamp(kind) else str(kind.to_pandas_dtype().__name__)


def _one_row(column: Numbers | None) -> pa.Array:
    """Return a row that has the type of a column; it is null where all of them are."""
    if column is None:
        return pa.array(["text"]).dictionary_encode()
    if bool(column.valid.any()):
        return pa.array([0]).cast(column.type)
    # Arrow makes no floats of nulls alone: such a column has no type.
    return pa.nulls(1, pa.null() if column.type == pa.float64() else column.type)


def _all_texts(name: str, parts: Sequence[Part], backend: Backend) -> Any:
    frame = backend.frame
    lacking = (frame.Series("", index=frame.RangeIndex(len(part.texts))) for part in parts)
    series = [part.texts[name] if name in part.columns else none for part, none in zip(parts, lacking, strict=True)]
    return frame.concat(series, ignore_index=True)


def _all_numbers(
    field: pa.Field, parts: Sequence[Part], found: Sequence[Mapping[str, Any]], backend: Backend
) -> Numbers:
    xp = backend.xp
    kind = pa.float64() if pa.types.is_null(field.type) else field.type
    storage = _storage(kind)
    values, valid = [], []
    for part, columns in zip(parts, found, strict=True):
        column = columns.get(field.name)
        if column is None:
            column = Numbers(xp.zeros(len(part.texts), storage), xp.zeros(len(part.texts), "bool"), kind)
        values.append(column.values.astype(storage))
        valid.append(column.valid)
    return Numbers(xp.concatenate(values), xp.concatenate(valid), kind)
