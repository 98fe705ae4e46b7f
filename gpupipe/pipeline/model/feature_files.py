"""Features of a model as files of its directory: schema, levels, program, and the learned state of each op."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.errors import ArtifactError
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.pipeline.model.derivation import read_derivation, write_derivation
from gpupipe.pipeline.model.format_1 import is_format_1, read_levels
from gpupipe.pipeline.model.part_checks import read_described, read_schema, read_states, read_training
from gpupipe.table.blocks import layout
from gpupipe.table.schema import Schema
from gpupipe_kernels.program.program import Call, Program, block_id

LEVELS, LEVELS_1 = "levels.json", "levels.parquet"  # LEVELS_1: of format 1
TRAINING = "training_summary.json"


def write_features(writer: ArtifactWriter, features: FittedFeatures) -> None:
    """Write schema, levels, program and the learned state of each op."""
    writer.json("schema.json", features.schema.to_json())
    writer.json(LEVELS, features.schema.levels_to_json(), compact=True)
    writer.arrays("program.npz", features.program.arrays())
    writer.json("features.json", [asdict(feature) for feature in features.features])
    writer.json("learned.json", [_plain(state) for state in features.states])
    if features.training is not None:
        writer.json(TRAINING, features.training.to_json())
    if features.derivation is not None:
        write_derivation(writer, features.derivation)


def _plain(value: Any) -> Any:
    """Return JSON values: arrays as lists, what is not finite as text."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def read_features(reader: ArtifactReader, calls: tuple[Call, ...] = ()) -> FittedFeatures:
    """Return the features that `write_features` wrote; the program is checked."""
    levels = read_levels(reader, LEVELS_1).get("", {}) if is_format_1(reader) else reader.json(LEVELS)
    schema = read_schema(reader.json("schema.json"), levels)
    described = read_described(reader.json("features.json"))
    program = Program.from_arrays(reader.arrays("program.npz"), len(described), calls)
    check_program(program, schema)
    states = read_states(reader.json("learned.json"))
    # Models of earlier versions have none.
    training = read_training(reader.json(TRAINING)) if TRAINING in reader.names() else None
    derivation = read_derivation(reader)
    return FittedFeatures(schema, program, described, states=states, derivation=derivation, training=training)


def check_program(program: Program, schema: Schema) -> None:
    """Verify that `program` reads only what a table of `schema` has.

    Raises
    ------
    ArtifactError
        If it does not.
    """
    rows: dict[int, int] = {}
    n_codes = {}
    for name, (block, row) in layout(schema).items():
        rows[block_id(block)] = max(rows.get(block_id(block), 0), row + 1)
        n_codes[block_id(block), row] = schema[name].n_codes
    try:
        program.check(rows, n_codes)
    except (ValueError, KeyError) as error:
        raise ArtifactError(f"the feature program is not sound: {error}", fix="export the model again") from error
