"""CSV on a device: fields are split there and stay texts; what they mean is decided as on the host.

Numbers that are written plainly (``-12.50``, up to 15 digits) become numbers where they are, exactly: their digits as
an integer, divided by a power of ten that a float64 holds. Whatever else a column has comes to the host as distinct
texts, which Arrow's own CSV reader turns into what it would have made of them in the file: the type of a column follows
from the set of its values alone.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from gpupipe.backends.base import Array, Backend
from gpupipe.errors import DataError, SchemaError
from gpupipe.readers.csv import TEXT_KINDS
from gpupipe.readers.csv import read as read_csv
from gpupipe.readers.csv_header import Header, read_header, wrong_encoding
from gpupipe.readers.csv_rows import require_regular_rows
from gpupipe.readers.files import SourceFile, mask
from gpupipe.readers.notes import Notes
from gpupipe.readers.obstacles import reading_on_device
from gpupipe.readers.plain import plain_table
from gpupipe.readers.settings import TableSource
from gpupipe.readers.streams import opened
from gpupipe.readers.strings import NULL_VALUES
from gpupipe.readers.wanted import Wanted
from gpupipe.table.device_columns import Numbers, distinct_texts, strings
from gpupipe.table.encode_frame import TextRules

PLAIN_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
MOST_DIGITS = 15  # a float64 holds each of them exactly
POWERS = 10.0 ** np.arange(MOST_DIGITS + 1)
FEW_OTHERS = 10_000  # so many distinct texts that are no plain numbers are looked at one by one
WORDS = {False: "2", True: "2.5"}  # stand for the plain numbers: with a point or without


def csv_columns(
    file: SourceFile, wanted: Wanted, source: TableSource, backend: Backend, notes: Notes
) -> tuple[dict[str, Any], TextRules]:
    """Return the wanted columns of a CSV file, numbers or texts, and what the texts mean.

    Raises
    ------
    Obstacle
        If its rows are not regular: the host reader says which are not, or skips them.
    DataError
        If it has no rows, or is in another encoding.
    """
    header = _header(file, source, notes)
    names = wanted.pick(header.names)
    if not names:
        raise SchemaError("none of the columns asked for is in the file", where=mask(file.path))
    quote = source.csv.quote
    require_regular_rows(file, header, quote, backend)
    with reading_on_device(file.path):
        frame = backend.read_texts(file.path, header.names, names, header.delimiter, quote, header.n_lines)
    if not len(frame):
        raise _no_rows(source)
    texts = _CsvTexts(file, wanted, source, notes)
    rules = TextRules(texts.read, (*NULL_VALUES, *source.csv.null_values), texts.is_text)
    return {name: _column(name, frame[name].fillna(""), texts, backend) for name in names}, rules


def _header(file: SourceFile, source: TableSource, notes: Notes) -> Header:
    with opened(file) as stream:
        header = read_header(stream, file, source.csv, notes)
    if header is None:
        raise _no_rows(source)
    return header


def _no_rows(source: TableSource) -> DataError:
    return DataError("there are no rows", where=mask(source.label), fix="check that it is the right file")


def _column(name: str, series: Any, texts: _CsvTexts, backend: Backend) -> Any:
    """Return a column as numbers if it is one of numbers, else as the texts that it is."""
    if name in texts.stay_texts:
        return series
    plain = backend.values(_is_plain_number(series), "bool")
    if not bool(plain.any()):
        return series
    codes, others = distinct_texts(series.where(backend.frame.Series(~plain)), backend)
    if len(others) > FEW_OTHERS:
        return series
    values, has_point = _plain_numbers(series.where(backend.frame.Series(plain), "0"), backend)
    listed = strings(backend.to_arrow(others)) if len(others) else pa.array([], pa.string())
    found = texts.read(name, pa.concat_arrays([listed, pa.array([WORDS[has_point]])]))
    if found.type not in (pa.int64(), pa.float64()):
        return series
    return _merged(values, codes, found, backend)


def _is_plain_number(series: Any) -> Any:
    # A dollar sign matches before a newline at the end too.
    is_short = (series.str.len() <= MOST_DIGITS) & ~series.str.contains("\n", regex=False)
    return series.str.match(PLAIN_NUMBER) & is_short


def _plain_numbers(series: Any, backend: Backend) -> tuple[Array, bool]:
    """Return plain numbers as float64 (exact: one division of two exact numbers), and whether one has a point."""
    xp = backend.xp
    digits = backend.values(series.str.replace(".", "", regex=False).astype("int64"), "int64")
    point = backend.values(series.str.find("."), "int64")
    decimals = xp.where(point < 0, 0, backend.values(series.str.len(), "int64") - point - 1)
    size = xp.abs(digits).astype("float64") / xp.asarray(POWERS)[decimals]
    negative = backend.values(series.str.startswith("-"), "bool")
    return xp.where(negative, -size, size), bool((point >= 0).any())


def _merged(plain: Array, codes: Array, others: pa.Array, backend: Backend) -> Numbers:
    """Return the plain numbers, and at the rows of the others what these are; the last of `others` has no row."""
    xp = backend.xp
    name = "int64" if others.type == pa.int64() else "float64"
    known = np.asarray(others.is_valid())
    table = backend.to_device(np.asarray(others.fill_null(0)))
    is_other = codes >= 0
    values = xp.where(is_other, xp.take(table, codes), plain.astype(name))
    return Numbers(values, xp.take(backend.to_device(known), codes), others.type)


class _CsvTexts:
    """What Arrow's CSV reader makes of texts, given the settings of a source."""

    def __init__(self, file: SourceFile, wanted: Wanted, source: TableSource, notes: Notes) -> None:
        self.file, self.wanted, self.source, self.notes = file, wanted, source, notes
        declared = source.declarations().items()
        self.stay_texts = {name for name, column in declared if column.kind in TEXT_KINDS}

    def read(self, name: str, texts: pa.StringArray) -> pa.Array:
        """Return the values that a file with these texts would have, in their order."""
        self._require_utf8(texts)
        made = io.BytesIO()
        arrow_csv.write_csv(pa.table({name: texts.fill_null("")}), made, arrow_csv.WriteOptions(include_header=False))
        settings = self.source.csv.model_copy(update={"names": (name,), "delimiter": ",", "quote": '"'})
        source = self.source.model_copy(update={"csv": settings})
        file = SourceFile(self.file.path, made.tell(), 0, "csv", remote=_InMemory(made.getvalue()))
        table = read_csv(file, Wanted(source, [name]), source, self.notes) if len(texts) else None
        if table is None:
            return pa.nulls(len(texts), pa.float64())
        column = plain_table(table, file, self.wanted, self.notes).column(name)
        if pa.types.is_dictionary(column.type):
            return column.cast(pa.string()).combine_chunks()
        return column.cast(pa.float64() if pa.types.is_null(column.type) else column.type).combine_chunks()

    def _require_utf8(self, texts: pa.StringArray) -> None:
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raise wrong_encoding(self.file, self.source.csv.encoding) from None

    def is_text(self, name: str, texts: pa.StringArray) -> bool:
        """Whether these are texts even to Arrow: more of them cannot make it numbers or times."""
        return name in self.stay_texts or bool(pa.types.is_string(self.read(name, texts).type))


class _InMemory:
    """Bytes as a file system of one file."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def open(self, path: str, mode: str) -> io.BytesIO:
        return io.BytesIO(self.content)
