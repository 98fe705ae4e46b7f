"""JSON lines read on a device: lines are split there, the types of their values inferred as on the host.

A text is told from a number by its quotation marks, which are kept until then. Plain numbers become numbers where they
are (`gpupipe.io.device.number_texts`); whatever else a column has comes to the host as distinct texts, which Arrow's
own JSON reader turns into what it would have made of them in the file: the type of a column follows from the set of its
values alone. All columns are typed, wanted or not: the host refuses a file for any of them.
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
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.settings import TableSource
from gpupipe.table.device.encode import TextRules
from gpupipe.table.device.frame_columns import DeviceNumbers, TextCodes, strings
from gpupipe.units import MIB

CHUNK_BYTES = 64 * MIB  # what is read at once: on a device it takes many times as much
PLAIN_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"
NULL = "null"


def json_columns(
    files: Sequence[SourceFile], wanted: ColumnFilter, source: TableSource, backend: DeviceBackend, notes: Notes
) -> tuple[dict[str, Any], TextRules]:
    """Return the wanted columns of JSON lines, numbers or texts, and what the texts mean.

    Raises
    ------
    UnsupportedOnDevice
        If lines are not plain, or a column holds values of several types: the host reader reads them, or says where.
    DataError
        If there are no rows.
    SchemaError
        If a file has no wanted column, or a column has types in two files that nothing holds both of.
    """
    return columns_of(
        source.label,
        files,
        lambda file: _read(file, wanted, backend, notes),
        lambda texts: text_rules(notes),
        notes,
        backend,
    )


def _read(file: SourceFile, wanted: ColumnFilter, backend: DeviceBackend, notes: Notes) -> DeviceFileColumns | None:
    frame = _written(file, backend)
    if frame is None:
        return None
    said = {str(name): Notes() for name in frame}
    typed = {name: _column(name, frame[name], JsonTexts(file, wanted, said[name]), backend) for name in said}
    names = usable_names(pa.schema([(name, pa.string()) for name in typed]), file, wanted, notes)
    for name in names:
        notes.include(said[name])
    columns = {name: typed[name] for name in names}
    rules = JsonTexts(file, wanted, notes).rules
    return DeviceFileColumns(file, len(frame), columns, lambda some: {name: frame[name] for name in some}, rules)


def _written(file: SourceFile, backend: DeviceBackend) -> Any:
    """Return all values as they are written, in a DataFrame of strings; None if there are no rows."""
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
    """Yield the file in parts of whole lines."""
    with guard_device_read(file), open(file.path, "rb") as raw:
        rest = b""
        if raw.read(len(BOM_UTF8)) != BOM_UTF8:
            raw.seek(0)
        while len(found := raw.read(CHUNK_BYTES)) == CHUNK_BYTES:
            whole, end, behind = found.rpartition(b"\n")
            if end:
                yield rest + whole + end
                rest = b""
            rest += behind
        yield rest + found + b"\n"


def _frame(content: bytes, lines: JsonLines, file: SourceFile, backend: DeviceBackend) -> Any:
    if not lines.names:
        raise UnsupportedOnDevice("objects have no values", "source.path", FIX)
    try:
        with guard_device_read(file):
            frame = backend.read_json_texts(BytesIO(content), lines.names)
    except DataError as error:  # though the lines are plain
        raise UnsupportedOnDevice(
            f"the device's reader fails: {error.what}", "source.path", "write the file as Parquet"
        ) from None
    found = len(frame), sum(int(frame[name].count()) for name in lines.names)
    if found != (lines.n_rows, lines.n_values):
        raise UnsupportedOnDevice(
            f"the device's reader finds {found[0]:,} rows with {found[1]:,} values, not {lines.n_rows:,} with "
            f"{lines.n_values:,}", "source.path", "write the file as Parquet",
        )  # fmt: skip
    return frame


def _column(name: str, written: Any, texts: JsonTexts, backend: DeviceBackend) -> Any:
    """Return a column as numbers or booleans if it is one of them, else as texts."""
    filled = written.fillna(NULL)
    is_text = backend.values(filled.str.startswith('"'), "bool")
    if not bool(is_text.any()):
        return _numbers(name, filled, texts, backend)
    if not bool((is_text | backend.values(filled == NULL, "bool")).all()):
        raise UnsupportedOnDevice(
            f"column {name!r} holds texts and other values", "source.path", "write them in one type"
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
