"""Rows of Dask DataFrames as partitioned tables, for feature programs: nothing is repaired or dropped."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.io.dask_table import DaskTable, partition_to_arrow
from gpupipe.io.notes import Notes
from gpupipe.partitions.encode import Declarations, encode_chunks
from gpupipe.partitions.source_chunks import ArrowChunk, ArrowChunks
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import Workers


def encode_collection(frame: DaskTable, workers: Workers, declared: Declarations) -> PartitionedTable:
    """Have the workers encode a Dask DataFrame as `gpupipe.table.encode.encode` encodes a frame.

    The result has one partition per partition that has rows. Raise DataError if a partition has other columns than the
    collection; SchemaError if a column has types that cannot be combined, or contradicts a declaration; ValueError as
    in scikit-learn's estimators, if there are no rows.
    """
    names, parts = frame.column_names, workers.partitions(frame.collection)
    labels = [f"reading partition {i + 1} of {len(parts)}" for i in range(len(parts))]
    given = [(part, names, f"{frame.label}, partition {i + 1}") for i, part in enumerate(parts)]
    del parts
    tables = list(workers.map(_to_arrow, given, labels))
    del given  # a partition that is not persisted is released once it is read
    found = workers.gather(workers.map(_describe, [(table,) for table in tables], labels))
    if not any(n_rows for _, n_rows in found):
        raise ValueError(f"Found array with 0 sample(s) (shape=(0, {len(names)})) while a minimum of 1 is required.")
    tables = [table for table, (_, n_rows) in zip(tables, found, strict=True) if n_rows]
    schema = _common([schema for schema, n_rows in found if n_rows], frame.label)
    heights = [n_rows for _, n_rows in found if n_rows]
    cast = workers.map(_cast, ((tables.pop(0), schema) for _ in heights), labels[: len(heights)])
    chunks = [ArrowChunk(table, n_rows) for table, n_rows in zip(cast, heights, strict=True)]
    return encode_chunks(ArrowChunks(chunks, schema, Notes(), []), workers, declared)


def _to_arrow(backend: Backend, frame: Any, names: list[str], label: str) -> pa.Table:
    return partition_to_arrow(frame, names, label).table


def _describe(backend: Backend, table: pa.Table) -> tuple[pa.Schema, int]:
    return table.schema.remove_metadata(), table.num_rows


def _cast(backend: Backend, table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.replace_schema_metadata(None).cast(schema)


def _common(schemas: list[pa.Schema], label: str) -> pa.Schema:
    """Return the schema of all partitions: a null type widens to any other, an integer to a float."""
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise SchemaError(
            f"the dtypes of the partitions differ: {error}",
            where=label,
            fix="give the column the same dtype in all partitions: collection.astype({...})",
        ) from error
