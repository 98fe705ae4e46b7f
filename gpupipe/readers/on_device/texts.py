"""What the texts of a CSV file mean: what Arrow's own CSV reader makes of them."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as arrow_csv

from gpupipe.readers.csv import TEXT_KINDS, read_typed
from gpupipe.readers.csv_encoding import wrong_encoding
from gpupipe.readers.files import SourceFile
from gpupipe.readers.notes import Notes
from gpupipe.readers.plain import plain_table
from gpupipe.readers.settings import TableSource
from gpupipe.readers.strings import NULL_VALUES
from gpupipe.readers.wanted import Wanted
from gpupipe.table.encode_frame import TextRules

MANY_TEXTS = 10_000  # so many distinct ones that are no texts are worth a note


class CsvTexts:
    """Reads texts as Arrow would in a file that has them, given the settings of a source.

    Parameters
    ----------
    file : SourceFile
        The file that they are of, for messages.
    wanted : Wanted
    source : TableSource
    notes : Notes
    as_text : sequence of str
        Columns that are text whatever they hold; so are those declared categorical or text.
    """

    def __init__(
        self, file: SourceFile, wanted: Wanted, source: TableSource, notes: Notes, as_text: Sequence[str] = ()
    ) -> None:
        self.file, self.wanted, self.source, self.notes = file, wanted, source, notes
        declared = source.declarations().items()
        self.stay_texts = {*as_text, *(name for name, column in declared if column.kind in TEXT_KINDS)}

    @property
    def rules(self) -> TextRules:
        """What encoding is to know of them."""
        return TextRules(self.read, (*NULL_VALUES, *self.source.csv.null_values), self.is_text)

    def read(self, name: str, texts: pa.StringArray) -> pa.Array:
        """Return the values that a file with these texts would have, in their order.

        Raises
        ------
        DataError
            If they are not UTF-8.
        """
        return self._read(name, texts, self.notes)

    def is_text(self, name: str, texts: pa.StringArray) -> bool:
        """Whether these are texts even to Arrow: more of them cannot make it numbers or times."""
        if name in self.stay_texts:
            return True
        return bool(pa.types.is_string(self._read(name, texts, Notes()).type))  # of some texts nothing is to be said

    def _read(self, name: str, texts: pa.StringArray, notes: Notes) -> pa.Array:
        self._require_utf8(texts)
        if not len(texts):
            return pa.nulls(0, pa.float64())
        column = self._as_column(name, texts, notes)
        if pa.types.is_dictionary(column.type):
            return column.cast(pa.string()).combine_chunks()
        if len(texts) > MANY_TEXTS:
            notes.say(f"column {name!r}: {texts.nbytes:,} bytes of texts came to the host to be read as numbers")
        return column.cast(pa.float64() if pa.types.is_null(column.type) else column.type).combine_chunks()

    def _as_column(self, name: str, texts: pa.StringArray, notes: Notes) -> pa.ChunkedArray:
        made = io.BytesIO()
        arrow_csv.write_csv(pa.table({name: texts.fill_null("")}), made, arrow_csv.WriteOptions(include_header=False))
        settings = self.source.csv.model_copy(update={"names": (name,), "delimiter": ",", "quote": '"'})
        source = self.source.model_copy(update={"csv": settings})
        file = SourceFile(self.file.path, made.tell(), 0, "csv", remote=_InMemory(made.getvalue()))
        table = read_typed(file, Wanted(source, [name]), source, notes, tuple(self.stay_texts))
        return plain_table(table, file, self.wanted, notes).column(name)

    def _require_utf8(self, texts: pa.StringArray) -> None:
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raise wrong_encoding(self.file, self.source.csv.encoding) from None


class _InMemory:
    """Bytes as a file system of one file."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def open(self, path: str, mode: str) -> io.BytesIO:
        return io.BytesIO(self.content)
