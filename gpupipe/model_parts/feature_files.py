"""Files of a model's features: schema, levels, program, learned state of each op, and derivation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.errors import ArtifactError
from gpupipe.features import OPS
from gpupipe.features.history.derivation import Derivation, DerivedOp, DerivedTable, arrays_of_part, join_arrays
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.model_parts import part_shapes
from gpupipe.model_parts.format_1 import is_format_1, read_levels
from gpupipe.model_parts.part_checks import read_described, read_schema, read_training
from gpupipe.table.blocks import layout
from gpupipe.table.schema import Schema
from gpupipe_kernels.program.program import Call, Program, block_id

LEVELS, LEVELS_1 = "levels.json", "levels.parquet"  # LEVELS_1: format 1
TRAINING = "training_summary.json"
DERIVATION, DERIVED_LEVELS = "derivation.json", "derivation_levels.json"
DERIVED_ARRAYS = "derivation_arrays.npz"  # what ops have learned
DERIVED_LEVELS_1 = "derivation_levels.parquet"  # format 1
MAIN = ""  # name of the main table in derivation_levels.json


def write_features(writer: ArtifactWriter, features: FittedFeatures) -> None:
    """Write schema, levels, program and the learned state of each op."""
    writer.json("schema.json", features.schema.to_json())
    writer.json(LEVELS, features.schema.levels_to_json(), compact=True)
    writer.arrays("program.npz", features.program.arrays())
    writer.json("features.json", [asdict(feature) for feature in features.features])
    # Without repetitions: the views that the combined view consists of often learn the same.
    states = {json.dumps(state): state for state in map(_plain, features.states)}
    writer.json("learned.json", list(states.values()))
    if features.training is not None:
        writer.json(TRAINING, features.training.to_json())
    if features.derivation is not None:
        _write_derivation(writer, features.derivation)


def _plain(value: Any) -> Any:
    """Return JSON values: arrays become lists, non-finite floats become text."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def read_features(reader: ArtifactReader, calls: tuple[Call, ...] = ()) -> FittedFeatures:
    """Return the features written by `write_features`, with the program checked against the schema."""
    is_old = is_format_1(reader)
    levels = read_levels(reader, LEVELS_1).get("", {}) if is_old else reader.json(LEVELS, part_shapes.LEVELS)
    schema = read_schema(reader.json("schema.json", [part_shapes.COLUMN]), levels)
    described = read_described(reader.json("features.json", part_shapes.FEATURES))
    program = Program.from_arrays(reader.arrays("program.npz"), len(described), calls)
    check_program(program, schema)
    states = tuple(reader.json("learned.json", part_shapes.STATES))
    # Models written by earlier versions have no training summary.
    training = None
    if TRAINING in reader.names():
        training = read_training(reader.json(TRAINING, part_shapes.TRAINING))
    with refuse_failures(f"{DERIVATION} is invalid", str(reader.path(DERIVATION))):
        derivation = _read_derivation(reader)
    made = () if derivation is None else derivation.made
    if absent := [column.name for column in schema if column.derived and column.name not in made]:
        raise ValueError(f"{DERIVATION}: made: expected the derived column {absent[0]!r:.40}; it is missing")
    return FittedFeatures(schema, program, described, states=states, derivation=derivation, training=training)


def check_program(program: Program, schema: Schema) -> None:
    """Raise ArtifactError if `program` reads anything but columns and codes of `schema`."""
    rows: dict[int, int] = {}
    n_codes = {}
    for name, (block, row) in layout(schema).items():
        rows[block_id(block)] = max(rows.get(block_id(block), 0), row + 1)
        n_codes[block_id(block), row] = schema[name].n_codes
    try:
        program.check(rows, n_codes)
    except (ValueError, KeyError) as error:
        raise ArtifactError(f"the feature program is invalid: {error}", fix="export the model again") from error


def _write_derivation(writer: ArtifactWriter, derivation: Derivation) -> None:
    from gpupipe.config.features import write_op

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
    writer.json(DERIVATION, document)
    if arrays := join_arrays(op.arrays() for op in derivation.ops):
        writer.arrays(DERIVED_ARRAYS, arrays)
    schemas = {MAIN: derivation.schema} | {name: table.schema for name, table in derivation.tables.items()}
    writer.json(DERIVED_LEVELS, {name: schema.levels_to_json() for name, schema in schemas.items()}, compact=True)


def _read_derivation(reader: ArtifactReader) -> Derivation | None:
    """Return the derivation written by `_write_derivation`; None if the model has no derived columns.

    Raise ValueError if the document is malformed.
    """
    if DERIVATION not in reader.names():
        return None
    from gpupipe.config.features import read_op

    document = reader.json(DERIVATION, part_shapes.DERIVATION)
    if is_format_1(reader):
        levels = read_levels(reader, DERIVED_LEVELS_1)
    else:
        levels = reader.json(DERIVED_LEVELS, part_shapes.DERIVED_LEVELS)

    def schema(columns: list[dict[str, Any]], table: str) -> Schema:
        return read_schema(columns, levels.get(table, {}))

    tables = {
        name: DerivedTable(schema(table["schema"], name), *(tuple(table[key]) for key in ("inputs", "left", "right")))
        for name, table in document["tables"].items()
    }
    made = {name: tuple(inputs) for name, inputs in document["made"].items()}
    ops = [_read_derived_op(read_op(_own_op(op))) for op in document["ops"]]
    arrays = reader.arrays(DERIVED_ARRAYS) if DERIVED_ARRAYS in reader.names() else {}
    learned = tuple(op.with_arrays(arrays_of_part(arrays, i)) for i, op in enumerate(ops))
    return Derivation(learned, schema(document["schema"], MAIN), tuple(document["inputs"]), tables, made)


def _own_op(op: dict[str, Any]) -> Any:
    """Return an op in the form of the configuration; raise ValueError unless gpupipe has it: no plug-in is imported."""
    if not set(op) <= set(OPS.builtin_names()):
        raise ValueError("unknown op of derived columns")
    return op


def _read_derived_op(op: Any) -> DerivedOp:
    if not isinstance(op, DerivedOp):
        raise ValueError(f"{type(op).__name__} does not derive columns before the split")
    return op
