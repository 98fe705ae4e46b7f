"""Export of a trained model to a portable directory of arrays and JSON, without pickle.

Custom kernels are included as source text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupipe.artifact import ArtifactWriter
from gpupipe.files.jsonfile import plain
from gpupipe.files.libraries import libraries
from gpupipe.inference.drift.files import write_reference
from gpupipe.inference.drift.reference import DriftReference
from gpupipe.inference.evaluation.held_out import HeldOutRows, write_held_out
from gpupipe.inference.model import load_model
from gpupipe.inference.parity.record import TrialRows
from gpupipe.inference.parity.verification import Verification
from gpupipe.inference.prediction.input_source import describe_reading
from gpupipe.metrics import ColumnImportance
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.feature_files import write_features
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.importances import Importances
from gpupipe.model_parts.user_code import write_kernels
from gpupipe.pipeline.records.parity import write_parity
from gpupipe.pipeline.update.training_settings import NAME as TRAINING
from gpupipe.pipeline.update.training_settings import describe_training
from gpupipe.training.fit import TrainedModel
from gpupipe.training.job import Job
from gpupipe.training.preparation.plugins import plugins_of


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
    `held_out` has outputs and targets of some rows that the model was not trained on, and `latest` is the last value of
    ``split.time`` among its training rows.
    """

    importances: Sequence[ColumnImportance] = ()
    ids: Sequence[str] = ()
    drift: DriftReference | None = None
    held_out: HeldOutRows | None = None
    latest: float | None = None


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
    }
    if plugins := plugins_of(config, [trained.entry.name]):
        content["plugins"] = plugins
    if records.importances:
        content["importances"] = Importances.of(job.metrics[0], records.importances).to_json()
    writer.finish(content, libraries())
    if trial is None:
        return None
    written = load_model(folder, "cpu", allow_code=True)
    found = write_parity(writer, written, trial, trained, decision, goal, job.backend)
    writer.finish(content, libraries())  # again, to list the parity files
    return found
