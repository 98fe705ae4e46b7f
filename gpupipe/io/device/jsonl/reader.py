"""Reader of JSON lines on a device, with types inferred as on the host.

The device splits the lines and keeps the quotes, which distinguish strings from numbers. It parses plain numbers
(`gpupipe.io.device.number_texts`). All other distinct values of a column are copied to the host, where Arrow's own JSON
reader types them as in the file: the type of a column depends on the set of its values only. All columns are typed,
also those that are not selected, because the host rejects a file for any of them.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import DeviceBackend
from gpupipe.errors import DataError
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.device.concatenation import DeviceFileColumns, columns_of
from gpupipe.io.device.jsonl.structure import FIX, JsonLines, plain_lines
from gpupipe.io.device.number_texts import WORDS, is_plain_number, merge_numbers, plain_numbers
from gpupipe.io.device.obstacles import UnsupportedOnDevice, guard_device_read
from gpupipe.io.device.text_values import JsonTexts, text_rules
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.csv.reader import declared_texts, names_of_ticks
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.settings import TableSource
from gpupipe.table.device.encode import TextRules
from gpupipe.table.device.frame_columns import DeviceNumbers, TextCodes, strings
from gpupipe.units import MIB

CHUNK_BYTES = 64 * MIB  # input read at once; it needs a multiple of that in device memory
PLAIN_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"
NULL = "null"


def json_columns(
    files: Sequence[SourceFile], wanted: ColumnFilter, source: TableSource, backend: DeviceBackend, notes: Notes
) -> tuple[dict[str, Any], TextRules]:
    """Return the selected columns of JSON lines files, as numbers or strings, and the rules for strings.

    Raises
    ------
    UnsupportedOnDevice
        If lines are not plain, or a column has values of several types.
    DataError
        If there are no rows.
    SchemaError
        If a file has none of the selected columns, or the types of a column in two files have no common type.
    """
    return columns_of(
        source.label,
        files,
        lambda file: _read(file, wanted, source, backend, notes),
        lambda texts: text_rules(notes),
        notes,
        backend,
    )


def _read(
    file: SourceFile, wanted: ColumnFilter, source: TableSource, backend: DeviceBackend, notes: Notes
) -> DeviceFileColumns | None:
    frame = _written(file, backend)
    if frame is None:
        return None
    column_notes = {str(name): Notes() for name in frame}
    stay = declared_texts(source) | names_of_ticks(source)
    typed = {n: _column(n, frame[n], JsonTexts(file, wanted, own, stay), backend) for n, own in column_notes.items()}
    names = usable_names(pa.schema([(name, pa.string()) for name in typed]), file, wanted, notes)
    for name in names:
        notes.include(column_notes[name])
    columns = {name: typed[name] for name in names}
    rules = JsonTexts(file, wanted, notes, stay).rules
    return DeviceFileColumns(file, len(frame), columns, lambda some: {name: frame[name] for name in some}, rules)


def _written(file: SourceFile, backend: DeviceBackend) -> Any:
    """Return all values unparsed, as a DataFrame of strings; None if there are no rows."""
    frames, names = [], dict[str, None]()
    for content in _contents(file):
        lines = plain_lines(content, backend)
        if lines.n_rows:
            frames.append(_frame(content, lines, file, backend))
            names.update(dict.fromkeys(lines.names))
    if not frames:
        return None
    return (frames[0] if len(frames) == 1 else backend.frame.concat(frames, ignore_index=True))[list(names)]


def _contents(file: SourceFile) -> Iterator[bytes]:
    """Yield the bytes of the file in blocks of whole lines."""
    with guard_device_read(file), open(file.path, "rb") as raw:
        rest = b""
        if raw.read(len(BOM_UTF8)) != BOM_UTF8:
            raw.seek(0)
        while len(found := raw.read(CHUNK_BYTES)) == CHUNK_BYTES:
            whole, end, remainder = found.rpartition(b"\n")
            if end:
                yield rest + whole + end
                rest = b""
            rest += remainder
        yield rest + found + b"\n"


def _frame(content: bytes, lines: JsonLines, file: SourceFile, backend: DeviceBackend) -> Any:
    if not lines.names:
        raise UnsupportedOnDevice("all objects are empty", "source.path", FIX)
    try:
        with guard_device_read(file):
            frame = backend.read_json_texts(BytesIO(content), lines.names)
    except DataError as error:  # the lines are plain, so the device reader is at fault
        raise UnsupportedOnDevice(
            f"the device reader failed: {error.what}", "source.path", "write the file as Parquet"
        ) from None
    found = len(frame), sum(int(frame[name].count()) for name in lines.names)
    if found != (lines.n_rows, lines.n_values):
        raise UnsupportedOnDevice(
            f"expected {lines.n_rows:,} rows with {lines.n_values:,} values from the device reader, found {found[0]:,} "
            f"with {found[1]:,}", "source.path", "write the file as Parquet",
        )  # fmt: skip
    return frame


def _column(name: str, written: Any, texts: JsonTexts, backend: DeviceBackend) -> Any:
    """Return a column as numbers or booleans if possible, else as strings."""
    filled = written.fillna(NULL)
    is_text = backend.values(filled.str.startswith('"'), "bool")
    if not bool(is_text.any()):
        return _numbers(name, filled, texts, backend)
    if not bool((is_text | backend.values(filled == NULL, "bool")).all()):
        raise UnsupportedOnDevice(
            f"column {name!r} has both strings and other values", "source.path", "write the column with one type"
        )
    return written.str.slice(1, -1)


def _numbers(name: str, written: Any, texts: JsonTexts, backend: DeviceBackend) -> DeviceNumbers:
    plain = backend.values(is_plain_number(written, PLAIN_NUMBER), "bool")
    others = TextCodes.of(written.where(backend.frame.Series(~plain)), backend)
    values, has_point = plain_numbers(written.where(backend.frame.Series(plain), "0"), backend)
    listed = strings(backend.to_arrow(others.texts)) if len(others.texts) else pa.array([], pa.string())
    stand_in = WORDS[has_point] if bool(plain.any()) else NULL
    found = texts.values(name, pa.concat_arrays([listed, pa.array([stand_in])]))
    return merge_numbers(values, others.codes, found, backend)
