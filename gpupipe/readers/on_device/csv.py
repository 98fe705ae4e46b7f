"""CSV on a device: fields are split there and stay texts; what they mean is decided as on the host.

Numbers that are written plainly become numbers where they are (`gpupipe.readers.on_device.numbers`). Whatever else a
column has comes to the host as distinct texts, which Arrow's own CSV reader turns into what it would have made of them
in the file: the type of a column follows from the set of its values alone. The types of several files are combined as
on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.readers.csv_header import Header, read_header
from gpupipe.readers.files import SourceFile, mask
from gpupipe.readers.notes import Notes
from gpupipe.readers.on_device.combine import Part, columns_of
from gpupipe.readers.on_device.csv_rows import require_regular_rows, without_rows
from gpupipe.readers.on_device.numbers import WORDS, is_plain_number, merged, plain_numbers
from gpupipe.readers.on_device.obstacles import reading_on_device
from gpupipe.readers.on_device.texts import CsvTexts
from gpupipe.readers.settings import TableSource
from gpupipe.readers.streams import opened
from gpupipe.readers.wanted import Wanted
from gpupipe.table.device_columns import distinct_texts, strings
from gpupipe.table.encode_frame import TextRules

PLAIN_NUMBER = r"^-?[0-9]+(\.[0-9]+)?$"
BLANKS = " \t"  # what Arrow trims of numbers
FEW_OTHERS = 10_000  # so many distinct texts that are no plain numbers are looked at one by one


def csv_columns(
    files: Sequence[SourceFile], wanted: Wanted, source: TableSource, backend: Backend, notes: Notes
) -> tuple[dict[str, Any], TextRules]:
    """Return the wanted columns of CSV files, numbers or texts, and what the texts mean.

    Raises
    ------
    Obstacle
        If the rows of a file are not regular, and not to be skipped: the host reader says which are not.
    DataError
        If there are no rows, or a file is in another encoding.
    SchemaError
        If a file has no wanted column, or a column has types in two files that nothing holds both of.
    """
    whole = SourceFile(source.label, 0, 0, "csv")
    return columns_of(
        source.label,
        files,
        lambda file: _read(file, wanted, source, backend, notes),
        lambda texts: CsvTexts(whole, wanted, source, notes, as_text=texts).rules,
        notes,
        backend,
    )


def _read(file: SourceFile, wanted: Wanted, source: TableSource, backend: Backend, notes: Notes) -> Part | None:
    with opened(file) as stream:
        header = read_header(stream, file, source.csv, notes)
    if header is None:
        return None
    names = wanted.pick(header.names)
    if not names:
        raise SchemaError("none of the columns asked for is in the file", where=mask(file.path))
    frame = _fields(file, header, names, source, backend, notes)
    if not len(frame):
        return None
    texts = CsvTexts(file, wanted, source, notes)
    return Part(file, frame, {name: _column(name, frame[name], texts, backend) for name in names}, texts.rules)


def _fields(
    file: SourceFile, header: Header, names: list[str], source: TableSource, backend: Backend, notes: Notes
) -> Any:
    """Return the fields of the named columns as a DataFrame of texts, without the rows that are to be skipped."""
    quote = source.csv.quote
    skipped = require_regular_rows(file, header, quote, backend, may_skip=source.csv.bad_rows == "skip")
    content: Any = file.path
    if skipped:
        notes.skipped_rows(file.path, len(skipped))
        content = without_rows(file, skipped)
    with reading_on_device(file):
        frame = backend.read_texts(content, header.names, names, header.delimiter, quote, header.n_lines)
    return frame.fillna("")


def _column(name: str, series: Any, texts: CsvTexts, backend: Backend) -> Any:
    """Return a column as numbers if it is one of numbers, else as the texts that it is."""
    if name in texts.stay_texts:
        return series
    trimmed = series.str.strip(BLANKS)
    missing = series.isin(list(texts.rules.missing))  # Arrow looks for these before it trims
    plain = backend.values(is_plain_number(trimmed, PLAIN_NUMBER) & ~missing, "bool")
    if not bool(plain.any()):
        return series
    codes, others = distinct_texts(series.where(backend.frame.Series(~plain)), backend)
    if len(others) > FEW_OTHERS:
        return series
    values, has_point = plain_numbers(trimmed.where(backend.frame.Series(plain), "0"), backend)
    listed = strings(backend.to_arrow(others)) if len(others) else pa.array([], pa.string())
    found = texts.read(name, pa.concat_arrays([listed, pa.array([WORDS[has_point]])]))
    if found.type not in (pa.int64(), pa.float64()):
        return series
    return merged(values, codes, found, backend)
