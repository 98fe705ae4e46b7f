"""Export of a trained model to a portable directory of arrays and JSON, without pickle.

Custom kernels are included as source text.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpupipe.artifact import ArtifactWriter
from gpupipe.backends.base import Backend
from gpupipe.backends.machine import n_threads
from gpupipe.errors import DeviceError, GpupipeError
from gpupipe.features.program.fitted import Feature
from gpupipe.files.jsonfile import plain
from gpupipe.files.libraries import libraries
from gpupipe.inference.drift.files import write_reference
from gpupipe.inference.drift.reference import DriftReference
from gpupipe.inference.evaluation.held_out import HeldOutRows, write_held_out
from gpupipe.inference.model import Model, load_model
from gpupipe.inference.parity.check import TOLERANCE
from gpupipe.inference.parity.files import write_record
from gpupipe.inference.parity.record import ParityRecord, TrialRows, predict_arrays
from gpupipe.inference.parity.replay import NAME, replay
from gpupipe.inference.parity.verification import Verification
from gpupipe.inference.prediction.input_source import describe_reading
from gpupipe.metrics import ColumnImportance
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.feature_files import write_features
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.importances import Importances
from gpupipe.model_parts.reason_codes import ModelReasons
from gpupipe.model_parts.user_code import write_kernels
from gpupipe.pipeline.update.training_settings import NAME as TRAINING
from gpupipe.pipeline.update.training_settings import describe_training
from gpupipe.table.encode import encode
from gpupipe.training.fit import TrainedModel
from gpupipe.training.job import Job
from gpupipe.training.preparation.plugins import plugins_of
from gpupipe.typing import Array

REACH = 2.0  # rows are predicted if no feature exceeds this multiple of its largest value in the rows of the run


def describe_goal(goal: Goal) -> dict[str, Any]:
    """Return task, targets, labels and quantiles as entries of a manifest; `read_goal` reads them."""
    return {
        "task": goal.task,
        "target": goal.target,
        "labels": list(goal.labels),
        **({"label_type": goal.label_type} if goal.label_type else {}),
        **({"quantiles": list(goal.quantiles)} if goal.quantiles else {}),
        **({"targets": [describe_goal(each) for each in goal.targets]} if goal.targets else {}),
    }


@dataclass(frozen=True)
class ModelRecords:
    """Records of the training rows in a model, for people, for `Model.drift` and for `Model.evaluate`.

    `ids` are the identifier columns of the training table, `drift` has the distributions of its rows and scores,
    `held_out` has outputs and targets of some rows that the model was not trained on, `latest` is the last value of
    ``split.time`` among its training rows, and `sources` identifies what the run has read.
    """

    importances: Sequence[ColumnImportance] = ()
    ids: Sequence[str] = ()
    drift: DriftReference | None = None
    held_out: HeldOutRows | None = None
    latest: float | None = None
    sources: Sequence[Mapping[str, Any]] = ()


NO_RECORDS = ModelRecords()


def export_model(
    folder: Path,
    trained: TrainedModel,
    job: Job,
    decision: Decision,
    metrics: Mapping[str, Any],
    trial: TrialRows | None = None,
    records: ModelRecords = NO_RECORDS,
) -> Verification | None:
    """Write the model directory and verify it on the CPU.

    Return the differences between the written model on the CPU and the trained one; None without `trial`. Only the
    features that the model reads are written. Raise GpupipeError if the written model does not reproduce the outputs of
    the training on the CPU.

    - `folder`: the directory to create; it must not exist
    - `job`: the job that trained the model
    - `metrics`: metrics of the exported model
    - `trial`: rows to record for `Model.verify`; without them the model cannot be verified
    """
    goal, config = job.goal, job.config
    trained = trained.drop_unread_features()
    writer = ArtifactWriter(folder)
    write_features(writer, trained.features)
    kernels = write_kernels(writer, trained.features.program.calls)
    if records.drift is not None:
        write_reference(writer, records.drift)
    if records.held_out is not None:
        write_held_out(writer, records.held_out)
    description = trained.model.save(folder)
    for name in description["files"]:
        writer.file(name)
    if (settings := describe_training(config, trained.entry, records.latest)) is not None:
        writer.json(TRAINING, settings)
    params = trained.entry.params.model_dump(mode="json")
    content = {
        "name": config.name,
        **describe_goal(goal),
        "model": {"name": trained.entry.name, "params": config.origin.redactor.hide_all(params)},
        "estimator": description,
        "decision": decision.to_json(),
        "reading": describe_reading(config, trained.features, job.table.schema) | {"id": list(records.ids)},
        "inputs": list(trained.features.inputs),
        "lineage": trained.features.lineage,
        "kernels": kernels,
        "data": [each.to_json() for each in job.rules.served],
        "metrics": plain(metrics),
        "sources": list(records.sources),
    }
    if plugins := plugins_of(config, [trained.entry.name]):
        content["plugins"] = plugins
    if config.evaluate.reason_codes is not None:
        content["reason_codes"] = ModelReasons.of(config.evaluate.reason_codes, goal).to_json()
    if records.importances:
        content["importances"] = Importances.of(job.metrics[0], records.importances).to_json()
    writer.finish(content, libraries())
    if trial is None:
        return None
    written = load_model(folder, "cpu", allow_code=True)
    found = write_parity(writer, written, trial, trained, decision, goal, job.backend)
    writer.finish(content, libraries())  # again, to list the parity files
    return found


def write_parity(
    writer: ArtifactWriter,
    written: Model,
    trial: TrialRows,
    trained: TrainedModel,
    decision: Decision,
    goal: Goal,
    backend: Backend,
) -> Verification:
    """Add the parity record to an exported model and return the verification; the caller finishes `writer` again.

    `written` is the exported model, loaded on the CPU. Raise GpupipeError if it does not reproduce the outputs of the
    training; the message names columns and rows.
    """
    recorded, not_recorded = record(trial, trained, decision, goal, backend)
    interpreter, not_covered = backend.last_interpreter, (*_derived_columns(trained), *not_recorded)
    found = replay(written, recorded, TOLERANCE, not_covered)
    if not found.passed:
        what = f"outputs of the exported model on the CPU differ from those of the run on the {backend.name}:"
        raise GpupipeError(
            "\n".join([what, *(f"  {problem}" for problem in found.problems[:8])]),
            where="stage export",
            fix="run it with --device cpu" if backend.name == "gpu" else "",
        )
    write_record(writer, recorded)
    document = {
        "rows": {"of_the_run": int((trial.rows >= 0).sum()), "made": int((trial.rows < 0).sum())},
        "inputs": trial.inputs.column_names,
        "metrics": list(trial.metrics),
        "tolerance": TOLERANCE,
        "trained_on": {
            "device": backend.name,
            "reason": backend.reason,
            "interpreter": interpreter,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "threads": n_threads(),
            "libraries": libraries(),
        },
        "not_covered": list(not_covered),
        "replayed": found.to_json(),
    }
    writer.json(NAME, document)
    return found


def _derived_columns(trained: TrainedModel) -> list[str]:
    derived = [column.name for column in trained.features.schema if column.derived]
    return [f"derivation of {', '.join(derived)}: the record has the derived values"] if derived else []


def record(
    trial: TrialRows, trained: TrainedModel, decision: Decision, goal: Goal, backend: Backend
) -> tuple[ParityRecord, list[str]]:
    """Return the outputs of the trained features and estimator on their own backend, and what was not recorded.

    The second value is a list of texts, each with the reason.
    """
    features = trained.features
    on_device = features.transform(encode(trial.inputs, backend, frozen=features.schema), backend)
    X = backend.to_host(on_device)
    missing = np.isnan(X)
    within = np.abs(X) <= _bounds(X[trial.rows >= 0], features.features)
    predicted = (within | (missing & trained.entry.params.accepts_missing)).all(axis=1)

    def predict(rows: Array) -> tuple[Array, Array]:
        selected = backend.xp.asfortranarray(on_device[backend.to_device(np.flatnonzero(rows))])
        return predict_arrays(trained.model, selected, decision, goal, backend)

    unstable = np.zeros(len(X), bool)
    unstable[predicted] = trained.model.unstable_rows(X[predicted])
    predicted &= ~unstable
    refused = ""
    try:
        found = predict(predicted)
    except DeviceError as error:  # some models do not accept missing values on a GPU
        refused, predicted = error.what, predicted & ~missing.any(axis=1)
        found = predict(predicted)
    notes = []
    if n_outside := int((~predicted & ~unstable).sum()):
        notes.append(f"predictions for {n_outside} rows with missing features, or values far outside those of the run")
    if n_unstable := int(unstable.sum()):
        notes.append(f"predictions for {n_unstable} rows that depend on the {backend.name}'s float32 rounding")
    if refused:
        notes.append(f"predictions for rows with missing features on the device: {refused}")
    return ParityRecord(trial, X, predicted, *(_spread(values, predicted) for values in found)), notes


def _bounds(usual: Array, features: Sequence[Feature]) -> Array:
    """Return the largest absolute value of each feature to predict with; larger values only test overflow."""
    sizes = np.abs(usual).max(axis=0, initial=1.0, where=np.isfinite(usual))
    limits: Array = np.maximum(REACH * sizes, [feature.n_codes for feature in features])
    return limits


def _spread(values: Array, rows: Array) -> Array:
    """Return the values scattered to the rows selected by the mask `rows`; other rows are NaN or -1."""
    everywhere = np.full((len(rows), *values.shape[1:]), np.nan if values.dtype.kind == "f" else -1, values.dtype)
    everywhere[rows] = values
    return everywhere
