"""Reader of CSV files on a device in chunks, with types inferred as on the host.

A chunk has up to 256 MiB of whole rows (`gpupipe.io.device.csv.chunks`). For each column, the device keeps float64
values of plain numbers (`gpupipe.io.device.number_texts`) and codes of the other distinct strings; the strings of the
rows are released with the chunk. After the last chunk, the distinct strings that are not plain numbers are copied to
the host, where Arrow's own CSV reader determines the type of the column. The type depends on the set of values only,
so the chunk size does not change it. A column that turns out to be text after chunks of numbers is read again. The
types of several files are combined as on the host.

Memory per row: 8 to 13 bytes for a numeric column and 4 bytes for any other; in addition, one chunk and the distinct
strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import DeviceBackend
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.device.concatenation import DeviceFileColumns, are_missing, columns_of
from gpupipe.io.device.csv.chunks import CsvChunk, regular_chunks
from gpupipe.io.device.number_texts import WORDS, is_plain_number, merge_numbers, plain_numbers
from gpupipe.io.device.obstacles import UnsupportedOnDevice, guard_device_read
from gpupipe.io.device.text_values import CsvTexts
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.csv.header import CsvHeader, read_header
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import pick_names
from gpupipe.io.settings import TableSource
from gpupipe.table.device.encode import SAMPLE, TextRules
from gpupipe.table.device.frame_columns import DeviceNumbers, TextCodes, strings
from gpupipe.typing import Array

PLAIN_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
BLANKS = " \t"  # characters that Arrow strips from numbers
FEW_OTHERS = 10_000  # maximum number of distinct strings, other than plain numbers, to type on the host


def csv_columns(
    files: Sequence[SourceFile], wanted: ColumnFilter, source: TableSource, backend: DeviceBackend, notes: Notes
) -> tuple[dict[str, Any], TextRules]:
    """Return the selected columns of CSV files, as numbers or strings, and the rules for strings.

    Raises
    ------
    UnsupportedOnDevice
        If rows of a file are malformed and may not be skipped; the host reader reports them.
    DataError
        If there are no rows, or the encoding of a file is wrong.
    SchemaError
        If a file has none of the selected columns, or the types of a column in two files have no common type.
    """
    whole = SourceFile(source.label, 0, 0, "csv")
    n_chunks: list[int] = []

    def read(file: SourceFile) -> DeviceFileColumns | None:
        reader = _CsvReader.of(file, wanted, source, backend, notes)
        if reader is None:
            return None
        found = reader.read()
        n_chunks.append(len(reader.chunks))
        return found

    columns = columns_of(
        source.label,
        files,
        read,
        lambda texts: CsvTexts(whole, wanted, source, notes, as_text=texts).rules,
        notes,
        backend,
    )
    if sum(n_chunks) > len(n_chunks):
        backend.note(chunks_note(sum(n_chunks)))
    return columns


def chunks_note(n_chunks: int) -> str:
    """Return the note that CSV is read in this many chunks."""
    return f"CSV read in {n_chunks} chunks"


@dataclass(frozen=True)
class _ChunkColumn:
    """A column of a chunk.

    Attributes
    ----------
    plain : array of float64, shape (rows,), optional
        Plain numbers; None if there are none, or the column is text.
    has_point : bool
        True if a plain number has a decimal point.
    others : TextCodes, optional
        Strings that are not plain numbers, with code -1 for plain numbers; None if there are none.
    """

    plain: Array | None
    has_point: bool
    others: TextCodes | None


class _CsvReader:
    """Reader of one file.

    Attributes
    ----------
    chunks : list of CsvChunk
        The chunks read so far.
    stay_texts : set of str
        Columns to keep as strings: declared as text, keys, or text because of a chunk already read.
    """

    def __init__(
        self,
        file: SourceFile,
        header: CsvHeader,
        names: list[str],
        texts: CsvTexts,
        backend: DeviceBackend,
        notes: Notes,
    ) -> None:
        self.file, self.header, self.names, self.texts, self.backend = file, header, names, texts, backend
        self.notes, self.csv = notes, texts.source.csv
        self.chunks: list[CsvChunk] = []
        self.stay_texts = {*texts.stay_texts, *texts.source.keys}

    @classmethod
    def of(
        cls, file: SourceFile, wanted: ColumnFilter, source: TableSource, backend: DeviceBackend, notes: Notes
    ) -> _CsvReader | None:
        """Return the reader of a file, or None if no rows follow its header."""
        with open_file(file) as stream:
            header = read_header(stream, file, source.csv, notes, wanted.is_mentioned)
        if header is None:
            return None
        names = pick_names(header.names, file, wanted, notes)
        return cls(file, header, names, CsvTexts(file, wanted, source, notes), backend, notes)

    def read(self) -> DeviceFileColumns | None:
        """Return the columns of the file, or None if it has no rows."""
        parts: dict[str, list[_ChunkColumn]] = {name: [] for name in self.names}
        may_skip = self.csv.bad_rows == "skip"
        for chunk in regular_chunks(self.file, self.header, self.csv.quote, self.backend, may_skip):
            self.chunks.append(chunk)
            if chunk.n_rows:
                fields = self._fields(chunk, self.names)
                for name in self.names:
                    parts[name].append(self._chunk_column(name, fields.pop(name)))
        if n_skipped := sum(len(chunk.skipped) for chunk in self.chunks):
            self.notes.add_skipped(self.file.path, n_skipped)
        n_rows = sum(self._n_rows)
        if not n_rows:
            return None
        found = {name: self._column(name, parts.pop(name)) for name in self.names}
        again = self._written([name for name, column in found.items() if column is None])
        columns = {name: again.get(name, column) for name, column in found.items()}
        return DeviceFileColumns(self.file, n_rows, columns, self._written, self.texts.rules)

    def _fields(self, chunk: CsvChunk, names: list[str]) -> dict[str, Any]:
        """Return the fields of columns of a chunk, each as a Series of strings."""
        header, quote = self.header, self.csv.quote
        with guard_device_read(self.file):
            content = chunk.content(self.file)
            frame = self.backend.read_texts(content, header.names, names, header.delimiter, quote)
        if len(frame) != chunk.n_rows:
            raise UnsupportedOnDevice(
                f"expected {chunk.n_rows:,} rows from the device reader, found {len(frame):,}", "source.path",
                "write the file as Parquet",
            )  # fmt: skip
        frame = frame.fillna("")
        return {name: frame[name] for name in names}

    def _written(self, names: list[str]) -> dict[str, TextCodes]:
        """Read columns again and return their unparsed strings."""
        texts: dict[str, list[TextCodes]] = {name: [] for name in names}
        for chunk in self.chunks if names else []:
            if chunk.n_rows:
                fields = self._fields(chunk, names)
                for name in names:
                    texts[name].append(TextCodes.of(fields.pop(name), self.backend))
        return {name: TextCodes.concatenate(parts, self.backend) for name, parts in texts.items()}

    def _chunk_column(self, name: str, series: Any) -> _ChunkColumn:
        if name in self.stay_texts:
            return _ChunkColumn(None, False, TextCodes.of(series, self.backend))
        trimmed = series.str.strip(BLANKS)
        missing = series.isin(list(self.texts.rules.missing))  # Arrow checks for these before it strips
        is_plain = self.backend.values(is_plain_number(trimmed, PLAIN_NUMBER) & ~missing, "bool")
        others = None
        if not bool(is_plain.any()):
            others = TextCodes.of(series, self.backend)
            if self._is_text(name, others.texts):
                self.stay_texts.add(name)
            return _ChunkColumn(None, False, others)
        if not bool(is_plain.all()):
            others = TextCodes.of(series.where(self.backend.frame.Series(~is_plain)), self.backend)
            if len(others.texts) > FEW_OTHERS or self._is_text(name, others.texts):
                self.stay_texts.add(name)
                return self._chunk_column(name, series)
        plain, has_point = plain_numbers(trimmed.where(self.backend.frame.Series(is_plain), "0"), self.backend)
        return _ChunkColumn(plain, has_point, others)

    def _is_text(self, name: str, others: Any) -> bool:
        """Return True if a column with these strings is text, regardless of other chunks."""
        some = strings(self.backend.to_arrow(others.iloc[:SAMPLE]))
        return not are_missing(some, self.texts.rules) and self.texts.is_text(name, some)

    def _column(self, name: str, parts: list[_ChunkColumn]) -> DeviceNumbers | TextCodes | None:
        """Return a column as numbers, or as strings without plain numbers; None if it must be read again as text."""
        xp, backend = self.backend.xp, self.backend
        has_plain = any(part.plain is not None for part in parts)
        if has_plain and name in self.stay_texts:
            return None
        sized = list(zip(parts, self._n_rows, strict=True))
        others = TextCodes.concatenate([self._others(part, n_rows) for part, n_rows in sized], backend)
        if not has_plain:
            return others
        if len(others.texts) > FEW_OTHERS:
            return None
        listed = strings(backend.to_arrow(others.texts)) if len(others.texts) else pa.array([], pa.string())
        word = WORDS[any(part.has_point for part in parts)]
        found = self.texts.read(name, pa.concat_arrays([listed, pa.array([word])]))
        if found.type not in (pa.int64(), pa.float64()):
            return None
        plain = [xp.zeros(n_rows) if part.plain is None else part.plain for part, n_rows in sized]
        return merge_numbers(plain[0] if len(plain) == 1 else xp.concatenate(plain), others.codes, found, backend)

    def _others(self, part: _ChunkColumn, n_rows: int) -> TextCodes:
        if part.others is not None:
            return part.others
        return TextCodes(self.backend.xp.full(n_rows, -1, "int32"), self.backend.frame.Series([], dtype="str"))

    @property
    def _n_rows(self) -> list[int]:
        return [chunk.n_rows for chunk in self.chunks if chunk.n_rows]
