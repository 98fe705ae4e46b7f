"""Snapshots of Apache Iceberg tables, read by PyIceberg: deletes, partitions and changed schemas too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import pyarrow as pa

from gpupipe.io.external.open_table import (
    OpenTable,
    convert_errors,
    describe_choice,
    guard_batches,
    load_library,
    needed_columns,
)
from gpupipe.io.external.row_predicate import Condition, JointCondition, implied_condition
from gpupipe.io.settings import TableSource
from gpupipe.io.table_folder import TableFolder, require_inside, without_scheme

DEFAULT_CATALOG = "default"
TO_READ = "check the table and the access to its files, then run the same command again"
EXPRESSIONS = {
    "<": "LessThan", "<=": "LessThanOrEqual", ">": "GreaterThan", ">=": "GreaterThanOrEqual", "=": "EqualTo",
    "not null": "NotNull", "and": "And", "or": "Or",
}  # fmt: skip


@contextmanager
def open_iceberg(source: TableSource, also: frozenset[str]) -> Iterator[OpenTable]:
    """Yield the needed columns of one snapshot of an Iceberg table, without rows that the row filter excludes anyway.

    `also` are columns that are needed although ``columns:`` and ``drop:`` exclude them. Raise ConfigError if PyIceberg
    is not installed; DataError if the catalog, the table or the snapshot does not exist, cannot be read, or leads to
    files outside of the folder of the table.
    """
    catalogs = load_library("pyiceberg.catalog", "pyiceberg", "iceberg")
    arrow = load_library("pyiceberg.io.pyarrow", "pyiceberg", "iceberg")
    label = f"Iceberg table {source.iceberg}"
    table = _table(catalogs, source, label)
    with convert_errors("the Iceberg table cannot be read", label, TO_READ):
        scan = table.scan(snapshot_id=source.snapshot)
        snapshot = scan.snapshot()
        schema = arrow.schema_to_pyarrow(scan.projection(), include_field_ids=False)
        names = needed_columns(source, schema.names, also)
        condition = _without_dots(implied_condition(source, schema))
        scan = scan.update(selected_fields=tuple(names))
        if condition is not None:
            scan = scan.filter(_expression(condition))
        projection = scan.projection()
        target = arrow.schema_to_pyarrow(projection, include_field_ids=False)
    number = None if snapshot is None else int(snapshot.snapshot_id)
    batches = guard_batches(
        _batches(arrow, scan, projection, target), "the Iceberg table cannot be read", label, TO_READ
    )
    pin = f"snapshot {number} of {table.metadata.table_uuid}{describe_choice(names, schema.names, condition)}"
    yield OpenTable(label, target, batches, pin, {} if number is None else {"snapshot": number})


def _table(catalogs: Any, source: TableSource, label: str) -> Any:
    properties = {**source.catalog} if isinstance(source.catalog, dict) else {"name": source.catalog}
    name = properties.pop("name", None) or DEFAULT_CATALOG
    fix = "check catalog and the name of the table; PyIceberg reads catalogs from .pyiceberg.yaml and the environment"
    with convert_errors("the Iceberg table cannot be opened", label, fix):
        catalog = catalogs.load_catalog(name, **properties)
        load_io, given = catalog._load_file_io, dict[str, str]()
        # PyIceberg 0.12 adds the properties of a table to those of the catalog: they may name a class to import, or a
        # server to send credentials to.
        catalog._load_file_io = lambda added={}, place=None: given.update(added) or load_io({}, place)
        table = catalog.load_table(source.iceberg)
        own = table.metadata.properties
        trusted = {key: value for key, value in given.items() if key in table.config or own.get(key) != value}
        table.io = load_io(trusted, table.metadata_location)
        if not source.outside_files:
            _confine(table, label)
        if source.snapshot is not None and table.snapshot_by_id(source.snapshot) is None:
            raise ValueError(f"the table has no snapshot {source.snapshot}")
        return table


def _confine(table: Any, label: str) -> None:
    """Let the table open only files in its folder: that of its metadata in the catalog, whatever the metadata say."""
    new_input = table.io.new_input
    root = _absolute(table.metadata_location.rpartition("/")[0].removesuffix("/metadata"))
    if root.startswith("/"):
        TableFolder(root).require_all()

    def confined_input(location: str) -> Any:
        require_inside(root, _absolute(location), label)
        return new_input(location)

    table.io.new_input = confined_input


def _absolute(location: str) -> str:
    """Return a URL, or the absolute path that PyIceberg opens."""
    found = without_scheme(location)
    return found if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", found) or found != location else os.path.abspath(found)


def _batches(arrow: Any, scan: Any, projection: Any, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows file by file: a scan of all files would keep finished files in memory until they are used."""
    reader = arrow.ArrowScan(scan.table_metadata, scan.io, projection, scan.row_filter, scan.case_sensitive)
    for task in scan.plan_files():
        for batch in reader.to_record_batches([task]):
            yield pa.RecordBatch.from_arrays(
                [batch.column(field.name).cast(field.type) for field in target], schema=target
            )


def _without_dots(condition: Condition | None) -> Condition | None:
    """Return a condition; None if the name of a column has a dot, which PyIceberg reads as a field of a struct."""
    if isinstance(condition, JointCondition):
        return None if None in map(_without_dots, condition.parts) else condition
    return None if condition is None or "." in condition.column else condition


def _expression(condition: Condition) -> Any:
    expressions = load_library("pyiceberg.expressions", "pyiceberg", "iceberg")
    if isinstance(condition, JointCondition):
        return reduce(getattr(expressions, EXPRESSIONS[condition.name]), map(_expression, condition.parts))
    values = () if condition.operator == "not null" else (condition.value,)
    return getattr(expressions, EXPRESSIONS[condition.operator])(condition.column, *values)
