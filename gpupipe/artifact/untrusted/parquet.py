"""Parquet that we wrote, or that says so: read in parts, and only if its pages unfold into no bomb.

The sizes in the footer may lie, and Arrow allocates what the header of a page says; so each page's is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.untrusted import most_bytes
from gpupipe.artifact.untrusted.thrift import ThriftReader

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"PAR1"
CODECS = (0, 6)  # uncompressed, zstd: those that we write
PAGE_KINDS = (0, 2, 3)  # data, dictionary, data of version 2
HEADER_BYTES = 1 << 16  # more than the header of a page takes: its statistics are of short texts
# Numbers of the fields in parquet.thrift.
ROWS, ROW_GROUPS, COLUMNS, DETAILS, ENCRYPTED = 3, 4, 1, 3, (8, 9)  # of the file, a row group, a column in it
CODEC, COMPRESSED, DATA_PAGE, DICTIONARY_PAGE = 4, 7, 9, 11  # of the details of a column
PAGE_KIND, PAGE_UNFOLDED, PAGE_BYTES = 1, 2, 3  # of the header of a page

FEW_ROWS = 16  # at a time, of nested columns: a text of a dictionary is repeated for each


def read_parquet(raw: bytes) -> pa.Table:
    """Return the table in the bytes of a file.

    Raises
    ------
    ValueError
        If it is no Parquet, is compressed as we never do, or unfolds into more than `most_bytes` of its size.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        n_rows = check_pages(raw)
        most = len(raw) + 1  # neither a text nor a list of the footer is longer than the file
        limits = {"thrift_string_size_limit": most, "thrift_container_size_limit": most}
        with pq.ParquetFile(pa.BufferReader(raw), **limits) as file:
            schema = file.schema_arrow
        if n_rows == 0:
            return schema.empty_table()
        flat = [field.name for field in schema if pa.types.is_string(_values(field.type))]
        nested = any(pa.types.is_nested(field.type) for field in schema)
        with pq.ParquetFile(pa.BufferReader(raw), read_dictionary=flat, **limits) as file:
            batches = file.iter_batches(FEW_ROWS if nested else 65_536, use_threads=False)
            table = pa.Table.from_batches(_bounded(batches, most_bytes(len(raw))), file.schema_arrow)
        return table.cast(schema)
    except (pa.ArrowException, OSError, MemoryError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(str(error) or type(error).__name__) from error


def check_pages(raw: bytes) -> int:
    """Return the number of rows; verify codecs, that number, and what the pages unfold into.

    pyarrow is not asked: it ends the process where it cannot say what the footer declares of a column.
    """
    length = int.from_bytes(raw[-8:-4], "little")
    if raw[:4] != MAGIC or raw[-4:] != MAGIC or not 0 < length <= len(raw) - 12:
        raise ValueError("it is no Parquet, or was cut")
    footer = ThriftReader(raw[len(raw) - 8 - length : len(raw) - 8]).struct()
    n_rows: int = footer[ROWS]
    if n_rows == 0:  # Arrow writes dictionaries of no values, at no place; none of its pages will be read
        return 0
    limit, unfolded = most_bytes(len(raw)), 0
    for group in [*footer[ROW_GROUPS], {ROWS: n_rows, COLUMNS: []}]:
        if not 0 <= group[ROWS] * max(1, len(group[COLUMNS])) <= limit:
            raise ValueError(f"{len(raw):,} bytes declare {group[ROWS]:,} rows: a decompression bomb")
        for column in group[COLUMNS]:
            if any(field in column for field in ENCRYPTED):
                raise ValueError("it is encrypted, as no table of a model is")
            unfolded += sum(_pages(raw, column[DETAILS]))
            if unfolded > limit:
                raise ValueError(f"{len(raw):,} bytes unfold into {unfolded:,}: a decompression bomb")
    return n_rows


def _pages(raw: bytes, details: Mapping[int, Any]) -> Iterator[int]:
    """Yield the uncompressed bytes of each page of a column chunk."""
    if details[CODEC] not in CODECS:
        raise ValueError(f"it is compressed by codec {details[CODEC]}, as no table of a model is")
    start = min(details[DATA_PAGE], details.get(DICTIONARY_PAGE) or details[DATA_PAGE])
    at, end = start, start + details[COMPRESSED]
    if not 0 < start <= end <= len(raw):
        raise ValueError("a column lies outside of the file")
    while at < end:
        header = ThriftReader(raw[at : at + HEADER_BYTES])
        page = header.struct()
        if page[PAGE_KIND] not in PAGE_KINDS or min(page[PAGE_UNFOLDED], page[PAGE_BYTES]) < 0:
            raise ValueError("a page has no header")
        yield page[PAGE_UNFOLDED]
        at += header.at + page[PAGE_BYTES]


def _bounded(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yield batches as long as their values, each text of a dictionary as often as it stands there, stay within it."""
    unfolded = 0
    for batch in batches:
        unfolded += sum(map(_unfolded, batch.columns))
        if unfolded > limit:
            raise ValueError(f"its values unfold into more than {limit:,} bytes: a decompression bomb")
        yield batch


def _unfolded(column: pa.Array) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    if not pa.types.is_string(column.type.value_type):
        return len(column) * 8
    lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
    return len(column) * 4 + int(pc.sum(pc.cast(lengths, "int64")).as_py() or 0)


def _values(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind
