"""A trained model to its portable directory: features, estimator, schema, lineage. Numbers and JSON, never pickle.

Users' kernels go with it as text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpupipe.artifact import ArtifactWriter
from gpupipe.backends.base import Backend
from gpupipe.config import Config
from gpupipe.features.fitted import FittedFeatures
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.derivation import write_derivation
from gpupipe.pipeline.jsonfile import plain
from gpupipe.pipeline.parity.rows import Trial
from gpupipe.pipeline.parity.verification import Verification
from gpupipe.pipeline.parity.write import write_parity
from gpupipe.pipeline.rules import ServedRules
from gpupipe.pipeline.target import Goal
from gpupipe.pipeline.training import Trained
from gpupipe.pipeline.user_code import write_kernels
from gpupipe.table.schema import Schema

LIBRARIES = (
    "numpy", "pandas", "pyarrow", "scikit-learn", "xgboost", "xgboost-cpu", "skops",
    "torch", "safetensors", "onnx", "onnxscript", "onnxruntime",
    "cudf-cu12", "cudf-cu13", "cuml-cu12", "cuml-cu13", "cupy-cuda12x", "cupy-cuda13x", "xgboost-cu12",
)  # fmt: skip


def export_model(
    folder: Path,
    trained: Trained,
    goal: Goal,
    decision: Decision,
    config: Config,
    metrics: Mapping[str, Any],
    trial: Trial | None = None,
    backend: Backend | None = None,
    rules: Sequence[ServedRules] = (),
) -> Verification | None:
    """Write the model directory.

    Parameters
    ----------
    folder : Path
        Created; must not exist.
    trained : Trained
    goal : Goal
    decision : Decision
        Calibration and threshold.
    config : Config
        For its name, and for how its files are read.
    metrics : mapping of str to float
        Of the exported model, for the record.
    trial : Trial, optional
        Rows that the model is replayed with; without any, it says nothing of what it must give.
    backend : Backend, optional
        Where it was trained; needed with `trial`.
    rules : sequence of ServedRules
        What it is to ask of the tables that it predicts.

    Returns
    -------
    Verification, optional
        How far the model, read from its files on the CPU, is from the training side; None without `trial`.

    Raises
    ------
    GpupipeError
        If the model that was written does not give on the CPU what the training side gives.
    """
    writer = ArtifactWriter(folder)
    write_features(writer, trained.features)
    kernels = write_kernels(writer, trained.features.program.calls)
    description = trained.model.save(folder)
    for name in description["files"]:
        writer.file(name)
    content = {
        "name": config.origin.borrowed.hide(config.name),
        "task": goal.task,
        "target": goal.target,
        "labels": list(goal.labels),
        "model": {"name": trained.entry.name, "params": trained.entry.params.model_dump(mode="json")},
        "estimator": description,
        "decision": decision.to_json(),
        "reading": {"csv": config.source.csv.model_dump(mode="json")},
        "inputs": list(trained.features.inputs),
        "lineage": trained.features.lineage,
        "kernels": kernels,
        "data": [each.to_json() for each in rules],
        "metrics": plain(metrics),
    }
    writer.finish(content, libraries())
    if trial is None or backend is None:
        return None
    found = write_parity(writer, trial, trained, decision, goal, backend, libraries())
    writer.finish(content, libraries())  # now with the parity among its files
    return found


def write_features(writer: ArtifactWriter, features: FittedFeatures) -> None:
    """Write schema, levels, program and what each op learned."""
    writer.json("schema.json", features.schema.to_json())
    writer.table("levels.parquet", levels_table(features.schema))
    writer.arrays("program.npz", features.program.arrays())
    writer.json("features.json", [asdict(feature) for feature in features.features])
    writer.json("learned.json", [_plain(state) for state in features.states])
    if features.derivation is not None:
        write_derivation(writer, features.derivation)


def levels_table(schema: Schema) -> pa.Table:
    """Return the levels of all columns as one table: column, level, in the order of their codes."""
    pairs = [(column.name, level) for column in schema for level in column.levels or ()]
    columns = pa.array([c for c, _ in pairs], pa.string()), pa.array([v for _, v in pairs], pa.string())
    return pa.table({"column": columns[0].dictionary_encode(), "level": columns[1]})


def _plain(value: Any) -> Any:
    """Return JSON values: arrays as lists, what is not finite as text."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def libraries() -> dict[str, str]:
    """Return the versions of the libraries that are installed and matter to a model."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
