"""Derived columns of a model in its directory: ``derivation.json``, and the levels of the columns they read."""

from __future__ import annotations

from typing import Any

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.config.features import read_op, write_op
from gpupipe.features.history.derivation import Derivation, DerivedOp, DerivedTable
from gpupipe.pipeline.model.format_1 import is_format_1, read_levels
from gpupipe.pipeline.model.part_checks import read_names, read_schema
from gpupipe.table.schema import Schema

NAME, LEVELS = "derivation.json", "derivation_levels.json"
LEVELS_1 = "derivation_levels.parquet"  # of format 1
MAIN = ""  # the main table, among the tables that have levels


def write_derivation(writer: ArtifactWriter, derivation: Derivation) -> None:
    """Write how the derived columns are made."""
    tables = {
        name: {
            "schema": table.schema.to_json(),
            "inputs": list(table.inputs),
            "left": list(table.left),
            "right": list(table.right),
        }
        for name, table in derivation.tables.items()
    }
    document = {
        "ops": [write_op(op) for op in derivation.ops],
        "schema": derivation.schema.to_json(),
        "inputs": list(derivation.inputs),
        "tables": tables,
        "made": {name: list(inputs) for name, inputs in derivation.made.items()},
    }
    writer.json(NAME, document)
    schemas = {MAIN: derivation.schema} | {name: table.schema for name, table in derivation.tables.items()}
    writer.json(LEVELS, {name: schema.levels_to_json() for name, schema in schemas.items()}, compact=True)


def read_derivation(reader: ArtifactReader) -> Derivation | None:
    """Return what `write_derivation` wrote; None where the model has no derived columns.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the document is not one that this version writes.
    """
    if NAME not in reader.names():
        return None
    document = reader.json(NAME)
    levels = read_levels(reader, LEVELS_1) if is_format_1(reader) else reader.json(LEVELS)

    def schema(columns: list[dict[str, Any]], table: str) -> Schema:
        return read_schema(columns, levels.get(table, {}))

    tables = {
        name: DerivedTable(
            schema(table["schema"], name),
            *(read_names(table[key], f"{key} of table {name:.40}") for key in ("inputs", "left", "right")),
        )
        for name, table in document["tables"].items()
    }
    made = {name: read_names(inputs, f"the inputs of {name:.40}") for name, inputs in document["made"].items()}
    inputs = read_names(document["inputs"], "the inputs of derived columns")
    ops = tuple(_derived(read_op(op)) for op in document["ops"])
    return Derivation(ops, schema(document["schema"], MAIN), inputs, tables, made)


def _derived(op: Any) -> DerivedOp:
    if not isinstance(op, DerivedOp):
        raise ValueError(f"{type(op).__name__} makes no columns before the split")
    return op
