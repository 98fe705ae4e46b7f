"""Parquet parts of model format 1, written by gpupipe 0.1; format 2 uses JSON and npz instead.

pyarrow parses them without further checks, so a crafted file can crash the process that loads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.model_parts.part_shapes import DERIVED_LEVELS
from gpupipe.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa


def is_format_1(reader: ArtifactReader) -> bool:
    """Return whether a model directory has format version 1."""
    return bool(reader.manifest["format_version"] == 1)


def read_levels(reader: ArtifactReader, name: str) -> dict[str, dict[str, list[str]]]:
    """Return the levels in a Parquet part by table (``""`` is the main table) and column."""
    rows = _read(reader, name).to_pydict()
    found: dict[str, dict[str, list[str]]] = {}
    tables = rows.get("table", [""] * len(rows["column"]))
    for table, column, level in zip(tables, rows["column"], rows["level"], strict=True):
        found.setdefault(table, {}).setdefault(column, []).append(level)
    check_shape(found, DERIVED_LEVELS)
    return found


def read_parity_rows(reader: ArtifactReader) -> tuple[list[str], pa.Table, Mapping[str, Array]]:
    """Return the cases, inputs and arrays of ``parity.parquet``."""
    import pyarrow as pa

    table = _read(reader, "parity.parquet")
    columns = dict(zip(table.column_names, table.columns, strict=True))
    cases, inputs = columns.pop("case").to_pylist(), columns.pop("inputs").combine_chunks()
    return cases, pa.Table.from_struct_array(inputs), {name: _array(values) for name, values in columns.items()}


def _read(reader: ArtifactReader, name: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.read_table(pa.BufferReader(reader.read(name)))


def _array(column: pa.ChunkedArray) -> Array:
    import pyarrow as pa

    values: Any = column.combine_chunks()
    if not pa.types.is_fixed_size_list(values.type):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    return np.asarray(values.flatten()).reshape(len(values), values.type.list_size)
