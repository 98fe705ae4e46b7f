"""Encode a data frame in device memory, with the same result as `gpupipe.table.encode` on the host.

Rows stay on the device. Only the distinct texts are copied to the host, where the rules of `encode` convert them to
levels, numbers or times; one lookup table per column is copied back. For a numeric column, three values are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.backends.base import DeviceBackend
from gpupipe.errors import SchemaError
from gpupipe.table.blocks import Table, stack
from gpupipe.table.column_summary import FEW_LEVELS
from gpupipe.table.device.frame_columns import (
    DeviceDictionary,
    DeviceNumbers,
    DeviceText,
    has_texts,
    strings,
    text_codes,
)
from gpupipe.table.encode import EncodePlan, enforce, infer, require, require_distinct
from gpupipe.table.encode_chunks import TableChunks
from gpupipe.table.schema import FIRST_LEVEL, LARGEST, NAT, NULL, Column, DeclaredColumn, Schema
from gpupipe.typing import Array

# The characters that Arrow trims: Unicode white space.
BLANKS = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


@dataclass(frozen=True)
class TextRules:
    """Rules by which a reader interprets the texts of a column.

    `read` takes a column name and distinct texts, and returns cleaned texts of the same length, null for missing
    values. `missing` are the texts that represent missing values, without surrounding blanks.
    """

    read: Callable[[str, pa.StringArray], pa.StringArray] = lambda name, texts: texts
    missing: tuple[str, ...] = ()

    def decode(self, name: str, codes: Array, texts: Any, backend: DeviceBackend) -> DeviceDictionary:
        """Return a text column as interpreted by the reader, from its `text_codes`."""
        return DeviceDictionary(codes, self.read(name, strings(backend.to_arrow(texts))))


def encode_frame(
    frame: Any,
    backend: DeviceBackend,
    declared: Mapping[str, DeclaredColumn] | None = None,
    rules: TextRules = TextRules(),
) -> Table:
    """Encode a frame in place, column by column, releasing each source column once it is encoded.

    `frame`: columns of numbers, booleans, times (any unit) or strings; a DeviceDictionary has already been interpreted.
    Encoded columns are removed from it, which frees their memory unless the caller keeps a reference. `declared`:
    columns declared in the configuration; the others are inferred.

    Returns
    -------
    Table
        The table that `encode` returns for the same rows read by Arrow, in the backend's memory, with two differences:
        ``texts`` are `DeviceText`, and levels listed in a file that occur in no row may be missing.

    Raise SchemaError as `encode`.

    Notes
    -----
    In addition to the source columns not yet encoded, memory holds the encoded columns (1 to 8 bytes per row and
    column) and the codes of one text column: 12 bytes per row while cuDF's int64 codes are converted to int32. Blocks
    are allocated last, one at a time: the peak of that step is the encoded table and its largest block.
    """
    names, declared = [str(name) for name in frame], declared or {}
    require_distinct(names)
    require(names, declared, "schema: declares")
    n_rows = len(frame[names[0]]) if names else 0
    columns = []
    arrays = {}
    texts = {}
    for name in names:
        column, array, text = _encoded(ColumnEncoder(name, frame.pop(name), backend, rules), declared.get(name), n_rows)
        columns.append(column)
        if array is not None:
            arrays[name] = array
        elif text is not None:
            texts[name] = text
    schema = Schema(tuple(columns))
    blocks, places = stack(schema, arrays, n_rows, backend.xp)
    return Table(schema, n_rows, blocks, places, texts)


def _encoded(encoder: ColumnEncoder, declared: DeclaredColumn | None, n_rows: int) -> tuple[Column, Array | None, Any]:
    """Return a column's schema with its encoded rows or its `DeviceText`; the plan and its codes are released."""
    made = encoder.infer(declared)
    if made.write is None:
        return made.column, None, made.text
    out = encoder.backend.xp.empty(n_rows, made.column.storage)
    made.write(out)
    return made.column, out, None


class ColumnEncoder:
    """Encoder of one column: numbers, booleans and times by arithmetic, other types by their distinct values."""

    def __init__(self, name: str, column: Any, backend: DeviceBackend, rules: TextRules) -> None:
        self.name = name
        self.backend = backend
        self.rules = rules
        self.series: Any = None
        self.numbers = column if isinstance(column, DeviceNumbers) else None
        self.coded = column if isinstance(column, DeviceDictionary) else None
        if self.numbers is None and self.coded is None:
            if has_texts(column):
                self.series = column
            else:
                self.numbers = DeviceNumbers.of(column, backend)

    def infer(self, declared: DeclaredColumn | None) -> EncodePlan:
        """Return the plan of a column by its declaration, if any; see `gpupipe.table.encode.infer`."""
        if self.coded is not None:
            return self._inferred_codes(self.coded, declared)
        if self.numbers is None:
            return self._inferred_text(declared)
        if declared and declared.kind == "text":
            return self._text(infer(self.name, self.numbers.summary(), declared).column, ~self.numbers.valid)
        if declared and not self._is_arithmetic(self.numbers, declared.kind):
            return self._by_value(*self.numbers.distinct(self.backend), lambda rows: infer(self.name, rows, declared))
        found = infer(self.name, self.numbers.summary(), declared).column
        return EncodePlan(found, self._writer(self.numbers, found))

    def enforce(self, column: Column) -> EncodePlan:
        """Return the plan of a column in a frozen schema; see `gpupipe.table.encode.enforce`."""
        if self.numbers is not None:
            if column.kind == "text":
                return self._text(column, ~self.numbers.valid)
            if self._is_arithmetic(self.numbers, column.kind):
                return EncodePlan(column, self._writer(self.numbers, column))
            codes, values = self.numbers.distinct(self.backend)
            return self._by_value(codes, values, lambda rows: enforce(column, rows))
        if column.kind == "text":
            missing = self._missing() if self.coded is None else self.coded.missing(self.backend)
            return self._text(column, missing)
        coded = self.coded
        if coded is None:
            coded = self._read()
        return self._by_value(coded.codes, coded.values, lambda rows: enforce(column, rows))

    def summarize(self, kind: str | None) -> pa.ChunkedArray:
        """Return a short column with everything that the schema depends on: type, bounds, distinct values, nulls.

        `kind` is that of the column, if known.
        """
        if self.coded is None and self.numbers is not None:
            if kind in (None, "text") or self._is_arithmetic(self.numbers, kind):
                return self.numbers.summary()
            codes, values = self.numbers.distinct(self.backend)
            return _with_null(values, bool((codes < 0).any()))
        if kind == "text":
            missing = self._missing() if self.coded is None else self.coded.missing(self.backend)
            return _with_null(pa.array([], pa.string()), bool(missing.any()))
        coded = self.coded or self._read()
        used = coded.values.filter(pa.array(coded.used(self.backend)))
        return _with_null(used, bool((coded.codes < 0).any()))

    def _inferred_text(self, declared: DeclaredColumn | None) -> EncodePlan:
        if not declared or declared.kind != "text":
            codes, texts = text_codes(self.series, self.backend)
            if declared or not self._is_free_text(texts, max(FEW_LEVELS, len(codes) // 2)):
                return self._inferred_codes(self.rules.decode(self.name, codes, texts, self.backend), declared)
        missing = self._missing()
        return self._text(Column(self.name, "text", "string", bool(missing.any())), missing)

    def _inferred_codes(self, coded: DeviceDictionary, declared: DeclaredColumn | None) -> EncodePlan:
        values = coded.values
        if not declared and pa.types.is_string(values.type):
            few = pc.count_distinct(values.filter(pa.array(coded.used(self.backend)))).as_py()
            declared = DeclaredColumn("categorical" if few <= max(FEW_LEVELS, len(coded) // 2) else "text")
        made = self._by_value(coded.codes, values, lambda rows: infer(self.name, rows, declared))
        return made if made.write else self._text(made.column, coded.missing(self.backend))

    def _text(self, column: Column, missing: Array) -> EncodePlan:
        return EncodePlan(column, None, DeviceText(missing, self.backend))

    def _by_value(self, codes: Array, values: pa.Array, plan: Callable[[pa.ChunkedArray], EncodePlan]) -> EncodePlan:
        """Encode the distinct values on the host, and look up the codes of the rows."""
        nulls = pa.nulls(int(bool((codes < 0).any())), values.type)
        distinct = pa.chunked_array([pa.concat_arrays([values, nulls])])
        try:
            made, table = _written(plan, distinct)
        except SchemaError:
            rows = pa.array(self.backend.to_host(codes))
            _written(plan, distinct.take(pc.if_else(pc.less(rows, 0), len(values), rows)))  # raises with the rows
            raise
        if table is None:
            return EncodePlan(made.column, None)
        # Position -1, a null, is the last entry.
        return EncodePlan(made.column, lambda out: self._look_up(table, codes, out))

    def _look_up(self, table: Any, codes: Array, out: Array) -> None:
        if len(codes):
            out[:] = self.backend.xp.take(self.backend.to_device(table), codes)

    def _writer(self, numbers: DeviceNumbers, column: Column) -> Callable[[Array], None]:
        xp = self.backend.xp

        def write_numbers(out: Array) -> None:
            out[:] = numbers.floats(column.storage, xp)
            xp.copyto(out, np.nan, where=xp.abs(out) > LARGEST)

        def write_codes(out: Array) -> None:
            out[:] = xp.where(numbers.valid, numbers.values + FIRST_LEVEL, NULL)

        def write_times(out: Array) -> None:
            out[:] = xp.where(numbers.valid, numbers.values, NAT)

        return {"numeric": write_numbers, "boolean": write_codes, "datetime": write_times}[column.kind]

    @staticmethod
    def _is_arithmetic(numbers: DeviceNumbers, kind: str) -> bool:
        return (
            kind == "numeric"
            or (kind == "boolean" and pa.types.is_boolean(numbers.type))
            or (kind == "datetime" and pa.types.is_timestamp(numbers.type))
        )

    def _read(self) -> DeviceDictionary:
        return self.rules.decode(self.name, *text_codes(self.series, self.backend), self.backend)

    def _is_free_text(self, found: Any, most: int) -> bool:
        """Return whether there are too many distinct texts for a categorical column, with or without cleaning."""
        if len(found) <= most:
            return False
        changed = int((found.str.strip(BLANKS) != found).sum())
        return len(found) - changed - len(self.rules.missing) > most

    def _missing(self) -> Array:
        is_missing = self.series.str.strip(BLANKS).isin(list(self.rules.missing))
        return self.backend.values(self.series.isna() | is_missing, "bool")


def _with_null(values: pa.Array, has_null: bool) -> pa.ChunkedArray:
    return pa.chunked_array([values, pa.nulls(int(has_null), values.type)])


def _written(plan: Callable[[pa.ChunkedArray], EncodePlan], values: pa.ChunkedArray) -> tuple[EncodePlan, Any]:
    """Return the plan of a column, and the encoded values; None if it encodes nothing."""
    made = plan(values)
    if made.write is None:
        return made, None
    table = np.empty(len(values), made.column.storage)
    made.write(table)
    return made, table


Columns = Mapping[str, Any]


class FrameChunks(TableChunks):
    """Access to chunks that are frames accepted by `gpupipe.table.device.encode.encode_frame`.

    `rules` for texts are the reader's; they must be stateless and return texts.
    """

    def __init__(self, backend: DeviceBackend, rules: TextRules) -> None:
        self.backend = backend
        self.rules = rules
        self.xp = backend.xp

    def names(self, chunk: Columns) -> list[str]:
        """Return the names of the columns."""
        return list(chunk)

    def n_rows(self, chunk: Columns) -> int:
        """Return the number of rows."""
        return len(next(iter(chunk.values())))

    def summarize(self, chunk: Columns, name: str, kind: str | None) -> pa.ChunkedArray:
        """Return a short column with the same schema; the rows stay on the device."""
        return ColumnEncoder(name, chunk[name], self.backend, self.rules).summarize(kind)

    def plan(self, chunk: Columns, column: Column) -> EncodePlan:
        """Return the encoder of a column's rows."""
        return ColumnEncoder(column.name, chunk[column.name], self.backend, self.rules).enforce(column)

    def concatenate(self, texts: list[DeviceText]) -> DeviceText:
        """Return the rows of a text column from all chunks."""
        return DeviceText(self.xp.concatenate([text.missing for text in texts]), self.backend)
