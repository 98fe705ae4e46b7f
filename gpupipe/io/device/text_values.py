"""Values of strings that a device reads, with the typing rules of the host's readers."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as arrow_csv

from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.device.obstacles import UnsupportedOnDevice
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.csv.encoding import encoding_error
from gpupipe.io.formats.csv.reader import read as read_csv
from gpupipe.io.formats.csv.text_columns import choose_numbers, clean_text_columns, convert_numbers
from gpupipe.io.missing_values import clean_texts
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import plain_table
from gpupipe.io.settings import TableSource, declared_texts
from gpupipe.table.device.encode import TextRules
from gpupipe.table.exact_values import LARGE_INTEGERS
from gpupipe.table.schema import NULL_VALUES

MANY_TEXTS = 10_000  # more distinct strings than this, converted on the host, get a note


def text_rules(notes: Notes, strip: bool) -> TextRules:
    """Return the rules for strings that are certainly text; adds notes about missing values."""

    def read(name: str, texts: pa.StringArray) -> pa.Array:
        cleaned, gone = clean_texts(pa.chunked_array([texts.dictionary_encode()]), strip=strip)
        notes.add_missing(name, gone)
        return cleaned.cast(pa.string()).combine_chunks()

    return TextRules(read, NULL_VALUES)


class CsvTexts:
    """Typing of strings as Arrow's CSV reader would type a file that contains them.

    `as_text` are columns that are always text, in addition to those declared categorical or text.
    """

    def __init__(
        self, file: SourceFile, wanted: ColumnFilter, source: TableSource, notes: Notes, as_text: Sequence[str] = ()
    ) -> None:
        self.file, self.wanted, self.source, self.notes = file, wanted, source, notes
        self.stay_texts = declared_texts(source).union(as_text)

    @property
    def rules(self) -> TextRules:
        """Rules for the table encoder."""
        return TextRules(self.read, (*NULL_VALUES, *self.source.csv.null_values), self.is_text)

    def read(self, name: str, texts: pa.StringArray) -> pa.Array:
        """Return the values that a file with these strings would have, in order.

        Raise DataError if the strings are not UTF-8.
        """
        return self._read(name, texts, self.notes)

    def is_text(self, name: str, texts: pa.StringArray) -> bool:
        """Return True if Arrow reads these strings as text, so that further strings cannot change the type."""
        if name in self.stay_texts:
            return True
        return bool(pa.types.is_string(self._read(name, texts, Notes()).type))  # no notes about a subset of the strings

    def _read(self, name: str, texts: pa.StringArray, notes: Notes) -> pa.Array:
        self._require_utf8(texts)
        if not len(texts):
            return pa.nulls(0, pa.float64())
        column = require_device_type(name, self._as_column(name, texts, notes))
        if pa.types.is_dictionary(column.type):
            return column.cast(pa.string()).combine_chunks()
        _note_many(name, texts, notes)
        return column.cast(pa.float64() if pa.types.is_null(column.type) else column.type).combine_chunks()

    def _as_column(self, name: str, texts: pa.StringArray, notes: Notes) -> pa.ChunkedArray:
        made = io.BytesIO()
        arrow_csv.write_csv(pa.table({name: texts.fill_null("")}), made, arrow_csv.WriteOptions(include_header=False))
        settings = self.source.csv.model_copy(update={"names": (name,), "delimiter": ",", "quote": '"'})
        source = self.source.model_copy(update={"csv": settings})
        file = _in_memory(self.file, made.getvalue())
        parsed = read_csv(file, ColumnFilter(source, [name]), source, notes, as_text=tuple(self.stay_texts))
        table, numbers = clean_text_columns(parsed, settings, self.source.keys)
        table = convert_numbers(table, choose_numbers(numbers, self.stay_texts), settings)
        return plain_table(table, file, self.wanted, notes).column(name)

    def _require_utf8(self, texts: pa.StringArray) -> None:
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raise encoding_error(self.file, self.source.csv.encoding) from None


def require_device_type(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column; raise UnsupportedOnDevice for integers outside int64, whose digits only the host keeps."""
    if column.type in LARGE_INTEGERS:
        what = f"column {name!r} has integers outside the int64 range, which are not supported on the GPU"
        raise UnsupportedOnDevice(what, "source.path", "write them as text")
    return column


def _note_many(name: str, texts: pa.StringArray, notes: Notes) -> None:
    if len(texts) > MANY_TEXTS:
        notes.add(f"column {name!r}: {texts.nbytes:,} bytes of text were copied to the host to parse values")


def _in_memory(file: SourceFile, content: bytes) -> SourceFile:
    """Return an in-memory file with this content and the name of `file`."""
    return SourceFile(file.path, len(content), 0, file.format, remote=_InMemory(content))


class _InMemory:
    """File system with one in-memory file."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def open(self, path: str, mode: str) -> io.BytesIO:
        return io.BytesIO(self.content)
