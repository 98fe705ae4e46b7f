"""Snapshots of Delta Lake tables, read by the engine of deltalake, with deletion vectors and column mapping.

The log of a table must lead to files in its folder only. deltalake 1.6 resolves locations as URLs relative to the
table, reads parts of checkpoints when it opens the table, does not list deletion vectors, and applies those of tables
whose protocol does not name them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyarrow import fs

from gpupipe.errors import DataError
from gpupipe.io.external.open_table import (
    OpenTable,
    convert_errors,
    describe_choice,
    guard_batches,
    load_library,
    needed_columns,
    quoted,
)
from gpupipe.io.external.row_predicate import implied_condition, to_sql
from gpupipe.io.files import mask
from gpupipe.io.settings import TableSource
from gpupipe.io.table_folder import AMBIGUOUS, TableFolder, require_inside, without_scheme

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
    query = f"SELECT {', '.join(map(quoted, names))} FROM snapshot"
    if (pruning := implied_condition(source, partitions)) is not None:
        query += f" WHERE {to_sql(pruning, quoted)}"
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


LOG = "_delta_log"
UUID_LENGTH = 20  # characters at the end of the location of a deletion vector
LEAVES = ("add.deletionVector.storageType", "add.deletionVector.pathOrInlineDv", "sidecar.path")
_VECTOR = pa.struct({"storageType": pa.string(), "pathOrInlineDv": pa.string()})
_SCHEMA = pa.schema({"add": pa.struct({"deletionVector": _VECTOR}), "sidecar": pa.struct({"path": pa.string()})})
_FILE = re.compile(r"(\d{20})\.(?:json|(checkpoint\.parquet)|.*\.(?:json|parquet))", re.ASCII)
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")


def require_in_table(path: str, label: str, location: str, folder: str = "") -> str:
    """Return the place of a location in the table at `path`; raise DataError if it is outside.

    A relative location starts in `folder` of the table.
    """
    root, full = unquote(path) if "://" in path else path, unquote(location, errors="surrogateescape")
    if AMBIGUOUS.search(location) is None and _ABSOLUTE.match(location) is None:
        full = "/".join(filter(None, (root.rstrip("/"), folder, full)))
    return require_inside(root, full, label)


def check_log(files: fs.FileSystem, version: int | None, require: Callable[..., str]) -> int:
    """Return the version to read, by default the latest one, after `require` has passed each location in its log.

    `files` are those of the table. Deletion vectors since the last checkpoint are checked, also those of files that
    were removed later.
    """
    names = {info.base_name: info.path for info in files.get_file_info(fs.FileSelector(LOG))}
    found = [match for match in map(_FILE.fullmatch, names) if match is not None]
    version = max((int(match[1]) for match in found), default=0) if version is None else version
    first = max((int(match[1]) for match in found if match[2] and int(match[1]) <= version), default=0)
    for match in found:
        if first <= int(match[1]) <= version:
            for part in dict.fromkeys(_check_file(files, names[match[0]], require)):
                _check_file(files, require(part, f"{LOG}/_sidecars"), require)
    return version


def _check_file(files: fs.FileSystem, place: str, require: Callable[..., str]) -> list[str]:
    """Check the deletion vectors in a file of the log, and return the parts of a checkpoint that it names."""
    with files.open_input_file(place) as file:
        if place.endswith(".json"):  # refuses repeated keys, of which libraries choose one
            options = pj.ParseOptions(_SCHEMA, newlines_in_values=True, unexpected_field_behavior="ignore")
            table = pj.read_json(file, pj.ReadOptions(block_size=file.size() + 1), options)
        else:
            table = pq.ParquetFile(file).read(columns=[*LEAVES])
    rows = table.flatten().flatten()
    kinds, places, parts = (rows.column(n).to_pylist() if n in rows.column_names else [] for n in LEAVES)
    for kind, location in zip(kinds, places, strict=True):
        if kind == "p":
            require(location)
        elif kind == "u" and location[:-UUID_LENGTH]:
            require(f"{location[:-UUID_LENGTH]}/file")
    return [part for part in parts if part is not None]
