"""Row samples of a source and estimates of its row count, from footers and file sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather, orc

from gpupipe.errors import DataError
from gpupipe.io.file_formats import PACKED, compression_of
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import HIVE_NULL, SourceFile, mask
from gpupipe.io.formats.arrow import batches, is_feather_1, reader_of
from gpupipe.io.input_files import data_files, input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.plain_tables import require_distinct_names
from gpupipe.io.settings import TableSource

SAMPLE_ROWS = 20_000
PLACES = 16  # positions sampled in a file, or files sampled: adjacent rows are often similar
ROW_BYTES = 400  # bytes to read per sampled row of a text file


@dataclass(frozen=True)
class SourceSample:
    """A sample of a source's rows, as a separate source.

    - `n_rows`: number of rows of the whole source, before any filter
    - `n_sample_rows`: number of rows of the sample, before any filter
    - `n_bytes`: size of all files in bytes; 0 for a generated or in-memory table
    - `is_exact`: True if `n_rows` is from footers or settings; otherwise it is estimated from file sizes
    """

    source: Any
    n_rows: int
    n_sample_rows: int
    n_bytes: int
    is_exact: bool


def take_sample(
    source: TableSource, folder: Path, most: int = SAMPLE_ROWS, files: Sequence[SourceFile] | None = None
) -> SourceSample:
    """Write about `most` rows of `source` into the empty `folder`, and return them as a source with the same settings.

    `files` are the files of the source, if already listed. Raise DataError if a file is missing or cannot be read, or
    there are no rows.
    """
    if source.generate:
        part = source.model_copy(update={"rows": min(source.rows, most)})
        return SourceSample(_uncached(part), source.rows, part.rows, 0, True)
    if source.frame is not None:
        table, sample = source.frame.table, source.frame.sample(most, PLACES)
        part = source.model_copy(update={"frame": sample})
        return SourceSample(_uncached(part), table.num_rows, sample.table.num_rows, 0, True)
    files = data_files(input_files(source) if files is None else files)
    try_files(source, files)
    files = [file for file in files if file.size]
    if not files:
        raise DataError("there are no rows", where=mask(source.label), fix="check that this is the right file")
    has_footer = files[0].format in FOOTERS
    n_rows, n_sample = (_copy_rows if has_footer else _copy_lines)(files, folder, most)
    if not n_sample:
        raise DataError("there are no rows", where=mask(source.label), fix="check that this is the right file")
    part = source.moved_to(str(folder), "parquet" if has_footer else files[0].format)
    if has_footer:  # the sample files were written by this process
        part = part.model_copy(update={"isolate": False})
    return SourceSample(_uncached(part), n_rows, n_sample, sum(file.size for file in files), has_footer)


def _uncached(source: TableSource) -> TableSource:
    return source.model_copy(update={"cache": False}) if hasattr(source, "cache") else source


def _place(file: SourceFile, number: int, folder: Path) -> Path:
    """Create and return the path for the sample of a file, in the same hive partition folders."""
    for name, value in file.partitions.items():
        folder = folder / f"{name}={HIVE_NULL if value is None else quote(value, safe='')}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"sample-{number:03}.{file.format}"


def _spread(items: Sequence[Any], most: int) -> Sequence[Any]:
    """Return at most `most` evenly spaced `items`, including the first."""
    return items[:: -(-len(items) // most)]


def _copy_rows(files: Sequence[SourceFile], folder: Path, most: int) -> tuple[int, int]:
    """Copy evenly spaced rows; return the number of rows of all files, from their footers, and of copied rows."""
    count = FOOTERS[files[0].format]
    chosen = {file.path for file in _spread(files, PLACES)}
    n_rows = n_sample = 0
    for number, file in enumerate(files):
        with open_file(file) as stream:
            if file.format == "parquet":  # pyarrow takes quadratic time for duplicate column names
                require_distinct_names(pq.read_schema(stream).names, file)
            found, parts = count(stream, most // len(chosen) if file.path in chosen else 0)
            if parts:
                part = pa.concat_tables(parts)
                part.validate(full=True)  # offsets and codes of a corrupt file could be out of bounds
                pq.write_table(part, _place(replace(file, format="parquet"), number, folder))
                n_sample += part.num_rows
        n_rows += found
    return n_rows, n_sample


def _parquet(stream: Any, most: int) -> tuple[int, list[pa.Table]]:
    file = pq.ParquetFile(stream)
    groups = _spread(range(file.num_row_groups), PLACES) if most and file.metadata.num_rows else []
    parts = []
    for group in groups:
        batch = next(file.iter_batches(max(1, most // len(groups)), row_groups=[group]), None)
        parts += [] if batch is None else [pa.Table.from_batches([batch])]
    return int(file.metadata.num_rows), parts


def _orc(stream: Any, most: int) -> tuple[int, list[pa.Table]]:
    file = orc.ORCFile(stream)
    stripes = _spread(range(file.nstripes), PLACES) if most and file.nrows else []
    parts = [pa.Table.from_batches([file.read_stripe(i)]).slice(0, max(1, most // len(stripes))) for i in stripes]
    return int(file.nrows), parts


def _arrow(stream: Any, most: int) -> tuple[int, list[pa.Table]]:
    """Return the number of rows, reading one column only, and the first rows up to `most`."""
    if is_feather_1(stream):
        table = feather.read_table(stream)
        return int(table.num_rows), [table.slice(0, most)] if most else []
    parts = []
    missing = most
    first = [0] if reader_of(stream).schema.names else []
    for batch in batches(reader_of(stream)) if most else ():
        parts.append(pa.Table.from_batches([batch.slice(0, missing)]))
        missing -= batch.num_rows
        if missing <= 0:
            break
    return sum(batch.num_rows for batch in batches(reader_of(stream, first))), parts


# Format to function that returns the number of rows of an open file, and about `most` of its rows.
FOOTERS: dict[str, Callable[[Any, int], tuple[int, list[pa.Table]]]] = {
    "parquet": _parquet,
    "orc": _orc,
    "arrow": _arrow,
}


def _copy_lines(files: Sequence[SourceFile], folder: Path, most: int) -> tuple[int, int]:
    """Copy lines from several positions; return the estimated number of rows of all files, and of copied rows."""
    chosen = _spread(files, PLACES)
    n_bytes = n_sample = n_seen = 0
    for number, file in enumerate(chosen):
        lines = _lines(file, most // len(chosen))
        _place(file, number, folder).write_bytes(b"".join(lines))
        n_bytes += sum(map(len, lines))
        n_sample += max(0, len(lines) - 1)  # most files start with a header
        n_seen += file.size * (PACKED if compression_of(file.path) else 1)
    unpacked = n_seen * sum(file.size for file in files) / sum(file.size for file in chosen)
    return max(n_sample, round(unpacked * n_sample / max(1, n_bytes))), n_sample


def _lines(file: SourceFile, most: int) -> list[bytes]:
    """Return the first line and about `most` others, from several positions if each line is certainly a row."""
    n_bytes = max(1 << 16, ROW_BYTES * most)
    with open_file(file, unpack=True) as stream:
        head = bytes(stream.read(n_bytes))
        whole = len(head) < n_bytes
        if b"\0" in head:  # UTF-16 or similar: only the reader can split lines
            return (head + bytes(stream.read())).splitlines(keepends=True)
        lines = head.splitlines(keepends=True)
        if whole and len(lines) <= most:
            return lines
        lines = lines if whole else lines[:-1]
        is_row = file.format == "jsonl" or b'"' not in head  # a quoted field may contain newlines
        if compression_of(file.path) or file.remote is not None or not is_row:
            return lines[: most + 1]
        found = lines[: most // PLACES + 1]
        for start in range(file.size // PLACES, file.size, file.size // PLACES):
            stream.seek(start)
            found += bytes(stream.read(n_bytes // PLACES)).splitlines(keepends=True)[1:-1][: most // PLACES]
        return found
