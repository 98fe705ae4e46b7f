"""Reasons to fall back to the host for reading a source, found before it is read."""

from __future__ import annotations

import ast
import codecs
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from gpupipe.datasets.churn.customer_columns import ID, SCHEMA
from gpupipe.datasets.churn.customers import MOST_IDS
from gpupipe.errors import DataError
from gpupipe.io.arrow_types import is_nested
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_changes import require_unchanged
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile, convert_read_errors
from gpupipe.io.filter_expression import parse_where
from gpupipe.io.formats.parquet import int96_columns
from gpupipe.io.formats.registry import compression_of
from gpupipe.io.input_files import InputFiles, data_files
from gpupipe.io.plain_tables import TEXT_FORMATS
from gpupipe.io.settings import WHITESPACE, CsvSettings, JoinedTable, Source, TableSource

FORMATS_ON_DEVICE = ("csv", "jsonl", "parquet", "orc")


class UnsupportedOnDevice(Exception):
    """Why the host must read a source. Never leaves the pipeline: it becomes `Backend.fall_back`.

    Attributes
    ----------
    what, where, fix : str
        As for `Backend.fall_back`.
    """

    def __init__(self, what: str, where: str, fix: str) -> None:
        super().__init__(what)
        self.what, self.where, self.fix = what, f"read: {where}", fix


def joined_tables(tables: Mapping[str, JoinedTable] | None) -> dict[str, JoinedTable]:
    """Return the tables that are joined to the main one; the rows of the others are events."""
    return {name: table for name, table in (tables or {}).items() if table.is_joined}


@contextmanager
def guard_device_read(file: SourceFile) -> Iterator[None]:
    """Guard a device's own read as `open_file` guards the host's; running out of memory is not the file's fault."""
    try:
        with convert_read_errors(file.path), require_unchanged(file):
            yield
    except DataError as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from None
        raise


def require_plain(
    source: TableSource,
    tables: Mapping[str, JoinedTable] | None = None,
    files: InputFiles | None = None,
) -> None:
    """Raise UnsupportedOnDevice if the host must read a source or a table that is joined to it.

    It is found in the settings and in the footers of the files. What only the rows of CSV or the lines of JSON tell is
    found when they are read.

    Raises
    ------
    DataError
        If a file cannot be read.
    """
    for table in [source, *joined_tables(tables).values()]:
        _require_plain_settings(table)
    files = InputFiles.find(source, tables) if files is None else files
    require_plain_files(files.source, source)
    for name, table in joined_tables(tables).items():
        require_plain_files(files.tables[name], table)


def _require_plain_settings(source: TableSource) -> None:
    """Raise UnsupportedOnDevice if a setting of a table works on the host alone."""
    if source.isolate and source.path:
        what = "isolated files are read by Arrow, whose readers were tried on them in a child process"
        raise UnsupportedOnDevice(what, "source.isolate", "leave it out for files that you trust")
    if source.prepare:
        raise UnsupportedOnDevice(
            "a prepare hook takes a pandas.DataFrame", "source.prepare", "prepare the file before"
        )
    if isinstance(source, Source) and source.entities is not None:
        fix = "write the rows and labels to a file before"
        raise UnsupportedOnDevice("Arrow makes the rows and labels of events", "source.entities", fix)
    if isinstance(source, JoinedTable) and source.has_steps:
        raise UnsupportedOnDevice(
            "Arrow computes and groups the rows of events", "source", "do so before, and read the result"
        )
    if source.where:
        _require_simple_filter(source.where)
    if source.generate == "churn" and source.rows > MOST_IDS and ID in ColumnFilter(source).pick(SCHEMA.names):
        what = f"{ID} of more than {MOST_IDS:,} customers is written in parts"
        raise UnsupportedOnDevice(what, "source.rows", f"leave it out: drop: [{ID}]")


def names_in(node: ast.expr) -> list[str]:
    """Return the names in a parsed filter, each once."""
    return sorted({part.id for part in ast.walk(node) if isinstance(part, ast.Name)})


def _require_simple_filter(where: str) -> None:
    tree, _ = parse_where(where)
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(names_in(node)) > 1:
            what = f"two columns are compared by Arrow: {ast.unparse(node)}"
            raise UnsupportedOnDevice(what, "source.where", "compare each with a value")


def require_plain_files(files: Sequence[SourceFile], source: TableSource) -> None:
    """Raise UnsupportedOnDevice if a file is of a kind, or in a form, that the host alone reads."""
    files = data_files(files)
    for file in files:
        _require_local(file)
        if file.format in TEXT_FORMATS and compression_of(file.path):
            raise UnsupportedOnDevice(
                f"compressed {file.format} is unpacked by Arrow", "source.path", "unpack it, or write Parquet"
            )
        if file.format == "csv":
            _require_plain_csv(source.csv)
    formats = sorted({file.format for file in files})
    if not set(formats) & set(TEXT_FORMATS):
        _require_same_columns(files, source)
    elif len(formats) > 1:
        raise UnsupportedOnDevice(
            f"the files are of several formats: {', '.join(formats)}", "source.path", "write them all in one"
        )


def _require_local(file: SourceFile) -> None:
    if file.remote is not None:
        raise UnsupportedOnDevice("remote files are read by fsspec", "source.path", "copy the files to this machine")
    if file.format not in FORMATS_ON_DEVICE:
        what = f"{file.format} files are read by Arrow"
        raise UnsupportedOnDevice(what, "source.format", f"write them as {', '.join(FORMATS_ON_DEVICE)}")
    if file.partitions:
        what = f"folders say columns ({', '.join(file.partitions)})"
        raise UnsupportedOnDevice(what, "source.path", "write the columns into the files")


def _require_plain_csv(settings: CsvSettings) -> None:
    if codecs.lookup(settings.encoding).name not in ("utf-8", "ascii"):
        raise UnsupportedOnDevice(f"the text is {settings.encoding}", "source.csv.encoding", "write the file as UTF-8")
    if settings.decimal != ".":
        raise UnsupportedOnDevice(f"the decimal point is {settings.decimal!r}", "source.csv.decimal", "write it as '.'")
    if settings.thousands is not None:
        raise UnsupportedOnDevice("thousands are set apart", "source.csv.thousands", "write the numbers without")
    if settings.delimiter == WHITESPACE:
        raise UnsupportedOnDevice(
            "fields are separated by runs of blanks", "source.csv.delimiter", "write the file with commas"
        )
    if not (settings.delimiter or ",").isascii() or not (settings.quote or '"').isascii():
        raise UnsupportedOnDevice("a mark is no ASCII character", "source.csv", "use ASCII marks")


def _require_same_columns(files: Sequence[SourceFile], source: TableSource) -> None:
    first: dict[str, pa.DataType] | None = None
    for file in files:
        kinds = _wanted_kinds(file, source)
        for name, kind in kinds.items():
            if not is_plain(kind):
                fix = f"drop the column, or write it as another type: drop: [{name}]"
                raise UnsupportedOnDevice(f"column {name!r} holds {kind}", "source.path", fix)
        if all(map(pa.types.is_null, kinds.values())):
            raise UnsupportedOnDevice(
                "no column has a type: there are nulls alone", "source.path", "write the columns with types"
            )
        if first is not None and kinds != first:
            raise UnsupportedOnDevice("the files differ in columns or types", "source.path", "write them all alike")
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
    return {name: pa.month_day_nano_interval() if name in old else schema.field(name).type for name in names}


def is_plain(kind: pa.DataType) -> bool:
    """Whether a device holds the values of an Arrow type as they are, or as the host converts them.

    Not decimals: to the last bit Arrow's floats of them are its own.
    """
    types = pa.types
    if types.is_dictionary(kind):
        return is_plain(kind.value_type) and not types.is_temporal(kind.value_type)
    real = types.is_float32(kind) or types.is_float64(kind)
    text = types.is_string(kind) or types.is_large_string(kind)
    flag = types.is_boolean(kind) or types.is_null(kind)
    return bool(types.is_integer(kind) or real or text or flag or types.is_timestamp(kind) or types.is_date32(kind))
