"""Formats that the host reads by design, and reasons to fall back to it for others; checked before reading."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from gpupipe.backends.probe import INSTALL_RAPIDS
from gpupipe.errors import DataError, LimitError
from gpupipe.io.arrow_types import is_nested, is_text, stated_categories
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_changes import require_unchanged
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile, convert_read_errors
from gpupipe.io.filter_expression import parse_where
from gpupipe.io.formats.parquet import int96_columns
from gpupipe.io.in_memory import FORMAT as MEMORY
from gpupipe.io.input_files import InputFiles, data_files
from gpupipe.io.settings import JoinedTable, Source, TableSource
from gpupipe.names import enumerate_names

FORMATS_ON_DEVICE = ("parquet", "orc")
FORMATS_ON_HOST = ("csv", "jsonl", MEMORY)
READ_ON_HOST = "CSV, JSON lines and tables in memory are read and encoded on the host, then moved to the GPU"


class UnsupportedOnDevice(Exception):
    """Raised if a source must be read on the host; the pipeline catches it and calls `Backend.fall_back`.

    `what`, `where` and `fix` are arguments of `Backend.fall_back`.
    """

    def __init__(self, what: str, where: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.where = f"read: {where}"
        self.fix = fix


def joined_tables(tables: Mapping[str, JoinedTable] | None) -> dict[str, JoinedTable]:
    """Return the tables that are joined to the main table, without event tables."""
    return {name: table for name, table in (tables or {}).items() if table.is_joined}


@contextmanager
def guard_device_read(file: SourceFile) -> Iterator[None]:
    """Convert errors of a device reader and detect file changes, as `open_file` does; MemoryError is passed on."""
    try:
        with convert_read_errors(file.path), require_unchanged(file):
            yield
    except (DataError, LimitError) as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from None
        raise


def is_read_on_host(files: InputFiles, tables: Mapping[str, JoinedTable]) -> bool:
    """Return True if the host reads the main table by design: it, or a table joined to it, is text or in memory."""
    joined = (files.tables[name] for name in joined_tables(tables))
    return any(file.format in FORMATS_ON_HOST for file in chain(files.source, *joined))


def require_plain(
    source: TableSource,
    tables: Mapping[str, JoinedTable] | None = None,
    files: InputFiles | None = None,
    has_reader: bool = True,
) -> None:
    """Raise UnsupportedOnDevice if a source, or a table joined to it, must be read on the host.

    Settings and file footers are checked; `is_read_on_host` is False. Files need a reader, the library cuDF; generated
    tables do not. Raise DataError if a file cannot be read.
    """
    for table in [source, *joined_tables(tables).values()]:
        _require_plain_settings(table)
    files = InputFiles.find(source, tables) if files is None else files
    ours = {name: (files.tables[name], table) for name, table in joined_tables(tables).items()}
    if not has_reader and any(data_files(found) for found in (files.source, *(found for found, _ in ours.values()))):
        raise UnsupportedOnDevice("cudf, which reads files on the GPU, is not installed", "source.path", INSTALL_RAPIDS)
    require_plain_files(files.source, source)
    for found, table in ours.values():
        require_plain_files(found, table)


def _require_plain_settings(source: TableSource) -> None:
    """Raise UnsupportedOnDevice if a setting of a table is supported on the host only."""
    if source.isolate and source.path:
        what = "isolated reads are not supported on the GPU"
        raise UnsupportedOnDevice(what, "source.isolate", "if you trust the files, set isolate: false")
    if source.prepare:
        raise UnsupportedOnDevice(
            "a prepare hook needs a pandas.DataFrame", "source.prepare", "save the result of the hook to a file first"
        )
    if lists := ColumnFilter(source).lists:
        what = f"lists are not read on the GPU: {enumerate_names(sorted(lists))}"
        raise UnsupportedOnDevice(what, "features", "derive the features of the lists before the run")
    if isinstance(source, Source) and source.entities is not None:
        fix = "write the rows and labels to a file first"
        what = "building rows and labels from events is not supported on the GPU"
        raise UnsupportedOnDevice(what, "source.entities", fix)
    if isinstance(source, JoinedTable) and source.has_steps:
        raise UnsupportedOnDevice(
            "compute and group_by are not supported on the GPU", "source", "write their result to a file first"
        )
    if source.where:
        _require_simple_filter(source.where)
    if source.generate == "churn":
        _require_few_identifiers(source)


def _require_few_identifiers(source: TableSource) -> None:
    from gpupipe.datasets.churn.customers import ID, MOST_IDS, SCHEMA

    if source.rows > MOST_IDS and ID in ColumnFilter(source).pick(SCHEMA.names):
        what = f"{ID} for more than {MOST_IDS:,} customers is not supported on the GPU"
        raise UnsupportedOnDevice(what, "source.rows", f"drop the column: drop: [{ID}]")


def names_in(node: ast.expr) -> list[str]:
    """Return the distinct names in a parsed filter."""
    return sorted({part.id for part in ast.walk(node) if isinstance(part, ast.Name)})


def _require_simple_filter(where: str) -> None:
    tree, _ = parse_where(where)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(names_in(node)) > 1:
            what = f"comparing two columns is not supported on the GPU: {ast.unparse(node)}"
            raise UnsupportedOnDevice(what, "source.where", "compare each column with a value")


def require_plain_files(files: Sequence[SourceFile], source: TableSource) -> None:
    """Raise UnsupportedOnDevice if the format or layout of a file is supported on the host only."""
    files = data_files(files)
    for file in files:
        _require_local(file)
    _require_same_columns(files, source)


def _require_local(file: SourceFile) -> None:
    if file.remote is not None:
        raise UnsupportedOnDevice("remote files are not supported on the GPU", "source.path", "copy the files here")
    if file.format not in FORMATS_ON_DEVICE:
        what = f"{file.format} files are not supported on the GPU"
        raise UnsupportedOnDevice(what, "source.format", f"use one of {', '.join(FORMATS_ON_DEVICE)}")
    if file.partitions:
        what = f"hive-partitioned paths ({', '.join(file.partitions)}) are not supported on the GPU"
        raise UnsupportedOnDevice(what, "source.path", "write the partition columns to the files")


def _require_same_columns(files: Sequence[SourceFile], source: TableSource) -> None:
    first: dict[str, pa.DataType] | None = None
    for file in files:
        kinds = _wanted_kinds(file, source)
        for name, kind in kinds.items():
            if not is_plain(kind):
                fix = f"drop the column, or write it with another type: drop: [{name}]"
                what = f"column {name!r}: type {kind} is not supported on the GPU"
                raise UnsupportedOnDevice(what, "source.path", fix)
        if all(map(pa.types.is_null, kinds.values())):
            raise UnsupportedOnDevice("all columns have the null type", "source.path", "write the columns with types")
        if first is not None and kinds != first:
            what = "files with different columns or types are not supported on the GPU"
            raise UnsupportedOnDevice(what, "source.path", "write all files with the same columns and types")
        first = kinds


def _wanted_kinds(file: SourceFile, source: TableSource) -> dict[str, pa.DataType]:
    with open_file(file) as stream:
        if file.format == "orc":
            schema, old = orc.ORCFile(stream).schema, frozenset[str]()
        else:
            parquet = pq.ParquetFile(stream)
            schema = parquet.schema_arrow
            old = frozenset(int96_columns(parquet, schema.names))
    names = [name for name in ColumnFilter(source).pick(schema.names) if not is_nested(schema.field(name).type)]
    found = {name: pa.month_day_nano_interval() if name in old else schema.field(name).type for name in names}
    for name in stated_categories(schema).intersection(found):
        found[name] = found[name] if pa.types.is_dictionary(found[name]) else pa.dictionary(pa.int32(), found[name])
    return found


def is_plain(kind: pa.DataType) -> bool:
    """Return True if a device reader returns the same values for an Arrow type as the host.

    Not for decimals, whose conversion to float64 differs in the last bit, nor for uint64, whose arithmetic overflows.
    """
    types = pa.types
    if types.is_dictionary(kind):
        return is_text(kind.value_type) and is_plain(kind.value_type)
    real = types.is_float32(kind) or types.is_float64(kind)
    text = types.is_string(kind) or types.is_large_string(kind)
    flag = types.is_boolean(kind) or types.is_null(kind)
    whole = types.is_integer(kind) and not types.is_uint64(kind)
    return bool(whole or real or text or flag or types.is_timestamp(kind) or types.is_date32(kind))
