"""Reader of JSON lines files, also compressed: one object per line; keys missing from a line are null."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as arrow_json

from gpupipe.errors import DataError, RowSizeError, SchemaError
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_streams import AdaptedStream, ByteRange, open_file
from gpupipe.io.files import SourceFile, mask, reason_of
from gpupipe.io.formats.csv.reader import is_time_column
from gpupipe.io.formats.jsonl.faults import ONE_A_LINE, find_fault
from gpupipe.io.formats.large_integers import with_large_integers
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.settings import TableSource, declared_texts, names_of_ticks
from gpupipe.typing import Array
from gpupipe.units import GIB, MIB

MOST_DEEP = 100
# Braces; square brackets differ from them in bit 0x20
QUOTE = 34
BACKSLASH = 92
NEWLINE = 10
OPEN = 0x7B
CLOSE = 0x7D
IS_MARK = np.zeros(256, bool)
IS_MARK[[QUOTE, NEWLINE, OPEN, CLOSE, OPEN & ~0x20, CLOSE & ~0x20]] = True

BLOCK_BYTES = 4 * MIB
MAX_BLOCK_BYTES = GIB
# Messages of pyarrow 26.0: it raises ArrowInvalid for all malformed files.
EMPTY = "Empty JSON file"
MIXED = re.compile(r"Column\(/?(?P<column>[^)]*)\) changed from (?P<first>\w+) to (?P<second>\w+)")
UNLIKE = re.compile(r"Failed to convert JSON to (?P<first>[\w ]+), couldn't parse:? ?(?P<second>.*)")


def read(
    file: SourceFile,
    wanted: ColumnFilter,
    source: TableSource,
    notes: Notes,
    span: ByteRange | None = None,
    kinds: Mapping[str, pa.DataType] | None = None,
) -> pa.Table | None:
    """Return the selected columns of a JSON lines file, or None if it has no rows or only empty objects.

    `span` and `kinds` are as for `read_lines`. Raise DataError if a line is not a JSON object, the text is not UTF-8,
    or all rows of a span are empty objects, which a table without columns cannot count; SchemaError if a column has
    values of several types, or a column requested by name is nested.
    """
    table = read_lines(file, span, kinds)
    if times := [name for name in declared_texts(source) | names_of_ticks(source) if is_time_column(table, name)]:
        table = read_lines(file, span, kinds, texts=times).select(table.column_names)
    if span is not None and not table.num_columns and table.num_rows:
        raise DataError("the rows are empty objects", where=mask(file.path))
    return table.select(usable_names(table.schema, file, wanted, notes)) if table.num_columns else None


def read_lines(
    file: SourceFile,
    span: ByteRange | None = None,
    kinds: Mapping[str, pa.DataType] | None = None,
    texts: Sequence[str] = (),
) -> pa.Table:
    """Return the lines with the types of Arrow's parser; a table without columns if there are no lines.

    `span` is a byte range that contains whole lines. With `kinds`, only these columns are read, with these types.
    `texts` are columns of strings that are read as such, even if all of them are ISO 8601 times; each is in some line.

    Raise DataError or SchemaError as `read`; also if a value does not have the type in `kinds`.
    """
    explicit = pa.schema(list(({**(kinds or {}), **dict.fromkeys(texts, pa.string())}).items()))
    parse = arrow_json.ParseOptions(explicit, unexpected_field_behavior="infer" if kinds is None else "ignore")
    block = BLOCK_BYTES
    while True:
        try:
            table = _parsed(file, span, parse, block)
            return table if kinds is not None else with_large_integers(table, partial(_column, file, span, block))
        except DataError as error:
            if EMPTY in str(error.__cause__):  # a message of pyarrow 26.0
                return pa.table({})
            if not isinstance(error, RowSizeError) or block >= MAX_BLOCK_BYTES:
                raise _explained(error, file) from None
            block *= 16


def _parsed(file: SourceFile, span: ByteRange | None, parse: arrow_json.ParseOptions, block: int) -> pa.Table:
    with open_file(file, unpack=True, span=span) as stream:
        guarded = GuardedStream(stream, file).opened()
        table = arrow_json.read_json(guarded, arrow_json.ReadOptions(block_size=block), parse)
        table.schema.names  # noqa: B018  (raises an error if a name is not valid text)
        return table


def _column(file: SourceFile, span: ByteRange | None, block: int, name: str, kind: pa.DataType) -> pa.Table:
    parse = arrow_json.ParseOptions(pa.schema([(name, kind)]), unexpected_field_behavior="ignore")
    return _parsed(file, span, parse, block)


def _explained(error: DataError, file: SourceFile) -> DataError:
    """Return the error with its line; if no line is at fault, the parser's error in plain words."""
    if (fault := find_fault(file)) is not None:
        return fault
    reason = reason_of(error.__cause__)
    if mixed := MIXED.search(reason):
        if not mixed["column"]:
            return DataError(
                f"expected JSON objects, found {'an' if mixed['second'] == 'array' else 'a'} {mixed['second']}",
                where=mask(file.path),
                fix=ONE_A_LINE,
            )
        return _mixed(f"column {mixed['column']!r} has both {mixed['first']} and {mixed['second']} values", file)
    if unlike := UNLIKE.search(reason):
        return _mixed(f"a column has {unlike['first']} values in some lines and {unlike['second']!r} in others", file)
    return error


def _mixed(what: str, file: SourceFile) -> SchemaError:
    return SchemaError(what, where=mask(file.path), fix="write each column with one type, for example text")


class GuardedStream(AdaptedStream):
    """Stream of JSON lines that is checked for what would crash Arrow's parser.

    The parser aborts the process at a ``null`` instead of an object, and at values nested deeper than its stack. So the
    bytes are checked before parsing: brackets outside strings, and the bytes between objects. Input for which this
    check would be ambiguous (a string over several lines, an unmatched closing bracket) is not JSON and is rejected.
    """

    def __init__(self, stream: Any, file: SourceFile) -> None:
        self._stream, self._file = stream, file
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._depth = 0
        self._in_text = False
        self._escapes = 0
        self._between = b""  # bytes since the last object

    def read(self, n_bytes: int) -> Any:
        """Return the next bytes, without a copy.

        Raise DataError if the bytes must not be parsed; UnicodeDecodeError if the bytes are not UTF-8, which the parser
        would accept.
        """
        found = self._stream.read_buffer(n_bytes)
        self._decoder.decode(found, not len(found))
        if len(found):
            self._check(np.frombuffer(found, np.uint8))
        return found

    def _check(self, block: Array) -> None:
        places = np.flatnonzero(IS_MARK[block])
        is_quote = block[places] == QUOTE
        is_quote[is_quote] = ~self._escaped(block, places[is_quote])
        kinds = block[places] | 0x20
        in_text = (np.cumsum(is_quote) - is_quote + self._in_text) % 2 == 1
        steps = np.where(in_text, 0, (kinds == OPEN).astype(np.int8) - (kinds == CLOSE))
        depths = self._depth + np.cumsum(steps)
        if (in_text & (block[places] == NEWLINE)).any() or depths.min(initial=0) < 0:
            raise self._refused("the lines are not valid JSON", "write one JSON object per line")
        if depths.max(initial=0) > MOST_DEEP:
            raise self._refused(f"values are nested deeper than {MOST_DEEP} levels", "remove the nested values")
        self._check_between(block, places, steps, depths)
        self._in_text = bool((is_quote.sum() + self._in_text) % 2)
        self._escapes = _run(block, len(block), self._escapes)
        self._depth = int(depths[-1]) if len(depths) else self._depth

    def _escaped(self, block: Array, quotes: Array) -> Array:
        """Return a mask of the quotes that follow an odd number of backslashes."""
        is_escaped = np.zeros(len(quotes), bool)
        candidates = np.flatnonzero((quotes == 0) | (block[quotes - 1] == BACKSLASH))
        for i in candidates.tolist():
            is_escaped[i] = _run(block, int(quotes[i]), self._escapes) % 2
        return is_escaped

    def _check_between(self, block: Array, places: Array, steps: Array, depths: Array) -> None:
        """Raise DataError for a null between objects, outside all brackets."""
        starts = places[(steps < 0) & (depths == 0)] + 1
        ends = places[(steps > 0) & (depths == 1)]
        if self._depth == 0:
            starts = np.concatenate([[0], starts])
        if (depths[-1] if len(depths) else self._depth) == 0:
            ends = np.concatenate([ends, [len(block)]])
        wide = np.flatnonzero(ends - starts >= len("null"))  # shorter gaps can contain it only across blocks
        for i in {0, len(starts) - 1, *wide.tolist()} if len(starts) else ():
            known = self._between if i == 0 else b""
            text = known + block[starts[i] : ends[i]].tobytes()
            if b"null" in text:
                raise self._refused("expected JSON objects, found null", "remove the line, or write {} instead")
            if i == len(starts) - 1:
                self._between = text[-3:] if ends[i] == len(block) else b""

    def _refused(self, what: str, fix: str) -> DataError:
        return DataError(what, where=mask(self._file.path), fix=fix)


def _run(block: Array, end: int, before: int) -> int:
    """Return the number of backslashes right before `end`; `before` is the number right before the block."""
    start = end
    while start and block[start - 1] == BACKSLASH:
        start -= 1
    return end - start + (before if start == 0 else 0)
