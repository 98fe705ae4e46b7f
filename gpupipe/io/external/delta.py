"""Snapshots of Delta Lake tables, read by the engine of deltalake, with deletion vectors and column mapping."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from gpupipe.errors import DataError
from gpupipe.io.external.column_choice import describe_choice, needed_columns
from gpupipe.io.external.delta_log import check_log, require_in_table
from gpupipe.io.external.open_table import OpenTable, convert_errors, guard_batches, load_library
from gpupipe.io.external.row_predicate import implied_condition, to_sql
from gpupipe.io.files import mask
from gpupipe.io.settings import TableSource
from gpupipe.io.table_folder import TableFolder, without_scheme

TO_READ = "check the table and the access to its files, then run the same command again"
IN_ORDER = {"datafusion.execution.target_partitions": "1"}  # files one after the other, in the order of the log


@contextmanager
def open_delta(source: TableSource, also: frozenset[str]) -> Iterator[OpenTable]:
    """Yield the needed columns of one version of a Delta table, without rows that the row filter excludes anyway.

    Partitions that it excludes are not read. `also` are columns that are needed although ``columns:`` and ``drop:``
    exclude them. Raise ConfigError if deltalake is not installed; DataError if the table or its version does not exist,
    cannot be read, or leads to files outside of its folder.
    """
    deltalake = load_library("deltalake", "deltalake", "delta")
    label = f"Delta table {mask(source.label)}"
    table = _table(deltalake, source, label)
    schema = pa.schema(table.schema())
    names = needed_columns(source, schema.names, also)
    condition = implied_condition(source, schema)
    partitions = _exact_partitions(table, schema)
    query = f"SELECT {', '.join(map(_quoted, names))} FROM snapshot"
    if (pruning := implied_condition(source, partitions)) is not None:
        query += f" WHERE {to_sql(pruning, _quoted)}"
    with convert_errors("the Delta table cannot be read", label, TO_READ):
        found = deltalake.QueryBuilder(IN_ORDER).register("snapshot", table).execute(query)
        reader = pa.RecordBatchReader.from_stream(found)
    version = table.version()
    pin = f"version {version} of {table.metadata().id}{describe_choice(names, schema.names, condition)}"
    batches = guard_batches(iter(reader), "the Delta table cannot be read", label, TO_READ)
    yield OpenTable(label, reader.schema, batches, pin, {"version": version}, condition)


def _table(deltalake: Any, source: TableSource, label: str) -> Any:
    assert source.delta is not None
    path = source.delta
    if "://" not in path:
        path = str(Path(path).expanduser().absolute())
        if not Path(path, "_delta_log").is_dir():
            fix = "check the path: a Delta table is a folder with a folder _delta_log"
            raise DataError("the folder has no Delta table", where=path, fix=fix)
    version, wanted = source.version, "" if source.version is None else f" at version {source.version}"
    fix = "check path, version and access; access to storage is configured in the environment"
    with convert_errors(f"the Delta table cannot be opened{wanted}", label, fix):
        if source.outside_files:
            return deltalake.DeltaTable(path, version=version)
        if (folder := without_scheme(path)).startswith("/"):
            TableFolder(unquote(folder) if "://" in path else folder).require_all()
        files = pa.fs.PyFileSystem(load_library("deltalake.fs", "deltalake", "delta").DeltaStorageHandler(path))
        require = partial(require_in_table, path, label)
        table = deltalake.DeltaTable(path, version=check_log(files, version, require))
        for location in table.get_add_actions().column("path").to_pylist():
            require(location)
        return table


def _exact_partitions(table: Any, schema: pa.Schema) -> pa.Schema:
    """Return the partition columns of integers and text, the only ones by which the engine may select.

    It replaces a column that it selects by with the minimum of a file, if that is also the maximum. NaN is in neither:
    with deltalake 1.6.6, ``x IS NOT NULL`` turns the values NaN and 7 of a file into 7 and 7.
    """
    names = frozenset(table.metadata().partition_columns)
    return pa.schema([f for f in schema if f.name in names and not pa.types.is_floating(f.type)])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
