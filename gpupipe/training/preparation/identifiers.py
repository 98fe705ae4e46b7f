"""Identifier columns of a training table: excluded from the features, copied to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.arrow_numpy import to_numpy
from gpupipe.config import Config
from gpupipe.errors import GpupipeError, SchemaError
from gpupipe.io.column_settings import ColumnSettings
from gpupipe.io.dask_table import DaskTable
from gpupipe.io.files import SourceFile
from gpupipe.io.filter import filter_rows
from gpupipe.io.filter_expression import columns_of
from gpupipe.io.input_files import InputFiles
from gpupipe.io.raw_columns import read_stored, require_rows
from gpupipe.io.row_sample import take_sample
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow
from gpupipe.names import SELECTORS
from gpupipe.table.schema import FIRST_LEVEL, NULL
from gpupipe.table.time_columns import is_text
from gpupipe.typing import Array
from gpupipe.units import is_time

NAME = r"^\S{1,64}$"  # text with blanks is not an identifier
ROW = "#row"  # not a name that a filter uses
FRACTION = r"^-?[0-9]*[.,][0-9]+([eE][+-]?[0-9]+)?$"


def find_identifiers(config: Config, files: InputFiles | None = None) -> list[str]:
    """Return the identifiers of the main table, whose `files` may have been listed already.

    These are the columns of ``source.id``. If there are none: the columns named exactly by ``source.drop`` whose values
    in a sample are unique, not null, and whole numbers or words.
    """
    source = config.source
    if source.id:
        return list(source.id)
    names = [name for name in source.drop if name not in SELECTORS and not set(name) & set("*?[")]
    if not names or source.prepare or source.is_made_of_events:
        return []
    # No isolation: the files have been read before.
    whole = {"drop": (), "columns": None, "where": None, "target": None, "weight": None, "isolate": False}
    plain = source.model_copy(update=whole)
    listed = None if files is None else files.source
    try:
        if source.frame is not None:
            table = _read(plain, names)
        else:
            with TemporaryDirectory(prefix="gpupipe-sample-") as folder:
                table = _read(take_sample(plain, Path(folder), files=listed).source, names)
    except (GpupipeError, OSError):
        return []  # not worth failing a run that has read the table
    found = dict(zip(table.column_names, table.columns, strict=True))
    return [name for name in names if name in found and _names_rows(found[name])]


def read_identifiers(
    config: Config, rows: npt.NDArray[Any], files: InputFiles | None = None
) -> dict[str, pa.ChunkedArray]:
    """Return the columns of ``source.id`` for `rows` of the main table, with the type and the values of the input.

    Raise SchemaError as `read_unencoded`.
    """
    names = list(config.source.id)
    source = config.source
    if not names or source.prepare or source.is_made_of_events or source.generate:
        return read_unencoded(config, names, rows, files) if names else {}
    source = _gathered(config, names)
    listed = None if files is None else files.source
    if source.has_files:
        stored = read_stored(source, names, listed)
    else:
        assert source.frame is not None
        stored = source.frame.table.select(names)
    if source.where is not None:
        stored = _filtered(stored, source, listed)
    return _picked(stored, names, rows)


def _filtered(stored: pa.Table, source: Source, files: Sequence[SourceFile] | None) -> pa.Table:
    """Return the rows of stored columns that pass the filter of the source, which reads plain columns."""
    needed = columns_of(source.where)
    plain = {"where": None, "target": None, "weight": None, "isolate": False}
    table = read_arrow(source.model_copy(update=plain), columns=needed, files=files).table.select(needed)
    require_rows(stored, table.num_rows, source)
    kept = filter_rows(table.append_column(ROW, pa.array(range(table.num_rows), pa.int64())), source.where or "")
    return stored.take(kept.column(ROW))


def read_unencoded(
    config: Config, names: Sequence[str], rows: npt.NDArray[Any], files: InputFiles | None = None
) -> dict[str, pa.ChunkedArray]:
    """Return the columns `names` for `rows` of the main table as it was read; numbers in CSV files are text.

    Raise SchemaError if the table has fewer rows than when it was first read.
    """
    table = _read(_gathered(config, names), list(names), None if files is None else files.source)
    return _picked(table, names, rows)


def _picked(table: pa.Table, names: Sequence[str], rows: npt.NDArray[Any]) -> dict[str, pa.ChunkedArray]:
    if len(rows) and int(rows.max()) >= table.num_rows:
        raise SchemaError(
            f"the source changed during the run: expected more than {int(rows.max()):,} rows, found {table.num_rows:,}",
            fix="run it again",
        )
    picked = table.take(pa.array(rows))
    return {name: picked.column(name) for name in names}


def has_inexact(values: Array) -> bool:
    """Return whether numbers may differ only in digits that float64 does not have: integers above 2^53."""
    return bool(values.dtype.kind == "f" and len(values) and np.nanmax(np.abs(values), initial=0) >= 2**53)


def exact_groups(config: Config, rows: Array, files: InputFiles | None) -> Array:
    """Return the code of the group of each row, int64, in the order of the exact values; `NULL` if it is missing."""
    name = config.split.group or ""
    column = read_unencoded(config, [name], np.asarray(rows), files)[name].combine_chunks()
    values = column.unique().drop_null().sort()
    codes = to_numpy(pc.index_in(column, value_set=values))
    found: Array = np.where(np.isnan(codes), NULL, codes + FIRST_LEVEL).astype(np.int64)
    return found


def _gathered(config: Config, names: Sequence[str]) -> Source:
    """Return the source; of a Dask DataFrame, the columns `names` and those to read with them, in this process."""
    source = config.source
    if not isinstance(source.frame, DaskTable):
        return source
    read = [*names, *columns_of(source.where), *source.targets, source.weight]
    found = source.frame.gather([name for name in read if name], config.cluster.client)
    return source.model_copy(update={"frame": found})


def _read(source: Source, names: list[str], files: Sequence[SourceFile] | None = None) -> pa.Table:
    """Return columns of a source; numbers in CSV files stay text."""
    declared = dict.fromkeys(names, ColumnSettings(kind="text"))
    source = source.model_copy(update={"declared": declared})
    table = read_arrow(source, columns=names, files=files).table.select(names)
    columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(columns, names=names)


def _names_rows(column: pa.ChunkedArray) -> bool:
    """Return whether the values of a column look like identifiers."""
    if len(column) < 2 or column.null_count or pc.count_distinct(column).as_py() < len(column):
        return False
    if not is_text(column.type):
        return bool(pa.types.is_integer(column.type))
    if not pc.all(pc.match_substring_regex(column, NAME)).as_py():
        return False
    return not pc.all(pc.match_substring_regex(column, FRACTION)).as_py() and not is_time(column[0].as_py())
