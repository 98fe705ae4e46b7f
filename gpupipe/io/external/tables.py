"""Copies of external tables, by the origin in the settings of a table."""

from __future__ import annotations

from collections.abc import Iterable

from gpupipe.io.external.delta import open_delta
from gpupipe.io.external.iceberg import open_iceberg
from gpupipe.io.external.parquet_copy import copy_table
from gpupipe.io.external.sql import open_query
from gpupipe.io.files import SourceFile
from gpupipe.io.settings import TableSource


def copy_external(source: TableSource, also: Iterable[str] = ()) -> SourceFile:
    """Copy an external table to a temporary Parquet file, which exists as long as the result or a copy of it.

    The source has ``sql``, ``delta`` or ``iceberg``. `also` are columns that are needed although ``columns:`` and
    ``drop:`` exclude them, such as the keys of a join.

    Raises
    ------
    ConfigError
        If a library is not installed.
    DataError
        If the table cannot be read. Nothing is left of the copy.
    LimitError
        If the disk is full.
    """
    if source.sql is not None:
        opened = open_query(source)
    else:
        opened = (open_delta if source.delta is not None else open_iceberg)(source, frozenset(also))
    with opened as table:
        has_lists = any(column.kind == "list" for column in source.declarations().values())
        return copy_table(table, with_nested=has_lists or source.prepare is not None)
