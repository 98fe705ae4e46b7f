"""Parity of an exported model: outputs of its training side for some rows, compared with those of its files.

``parity_rows.json`` and ``parity.npz`` hold the rows, features and predictions; ``parity.json`` the tolerance, where
they were computed, and the outputs of the exported model on the CPU.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from gpupipe.artifact import ArtifactWriter
from gpupipe.backends.base import Backend
from gpupipe.errors import GpupipeError
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.libraries import libraries
from gpupipe.pipeline.parity.check import TOLERANCE
from gpupipe.pipeline.parity.files import write_record
from gpupipe.pipeline.parity.record import record
from gpupipe.pipeline.parity.replay import NAME, replay
from gpupipe.pipeline.parity.rows import TrialRows
from gpupipe.pipeline.parity.verification import Verification
from gpupipe.pipeline.target import Goal
from gpupipe.pipeline.training import TrainedModel

if TYPE_CHECKING:
    from gpupipe.pipeline.model.model import Model


def write_parity(
    writer: ArtifactWriter,
    written: Model,
    trial: TrialRows,
    trained: TrainedModel,
    decision: Decision,
    goal: Goal,
    backend: Backend,
) -> Verification:
    """Add the record to a model that is finished, and must be finished again; return the comparison.

    `written` is that model, loaded on the CPU.

    Raises
    ------
    GpupipeError
        If the model, read from its files on the CPU, gives something else than the training side; the column and the
        values of the row are named.
    """
    recorded, not_recorded = record(trial, trained, decision, goal, backend)
    interpreter, not_covered = backend.last_interpreter, (*_derived_columns(trained), *not_recorded)
    found = replay(written, recorded, TOLERANCE, not_covered)
    if not found.passed:
        what = f"the exported model does not give on the CPU what the run gave on the {backend.name}:"
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
            "libraries": libraries(),
        },
        "not_covered": list(not_covered),
        "replayed": found.to_json(),
    }
    writer.json(NAME, document)
    return found


def _derived_columns(trained: TrainedModel) -> list[str]:
    derived = [column.name for column in trained.features.schema if column.derived]
    return [f"how {', '.join(derived)} are derived: their values are given, as they came out of the run"] * bool(
        derived
    )
