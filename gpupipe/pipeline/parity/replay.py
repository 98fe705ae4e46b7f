"""Replay of recorded rows by a model, on the machine where it serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.metrics import evaluate
from gpupipe.models import Prediction
from gpupipe.models.fitted.device import matrix_on_host
from gpupipe.pipeline.model.part_checks import read_names
from gpupipe.pipeline.parity.check import TOLERANCE, compare_columns, compare_predictions
from gpupipe.pipeline.parity.files import ROWS, read_record
from gpupipe.pipeline.parity.record import ParityRecord, predict_arrays
from gpupipe.pipeline.parity.rows import TrialRows
from gpupipe.pipeline.parity.verification import Verification
from gpupipe.table.encode import encode
from gpupipe.tasks import SUPERVISED
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.pipeline.model.model import Model

NAME = "parity.json"
ANEW = "run its configuration again with this version of gpupipe"


def verify_model(model: Model) -> Verification:
    """Check every file of a loaded model again, and replay what its training side recorded.

    Raises
    ------
    ArtifactError
        If a file is damaged, or nothing was recorded.
    """
    reader, where = ArtifactReader(model.folder), str(model.folder)
    if NAME not in reader.names():
        what = "no parity is recorded in this model: its files are whole, but nothing says what it must give"
        raise ArtifactError(what, where=where, fix=ANEW)
    document = reader.json(NAME)
    with refuse_failures(f"{NAME} and {ROWS} are not what this version reads", where, ANEW):
        recorded = read_record(reader, read_names(document["metrics"], "the metrics"))
        said, not_covered = document["tolerance"], tuple(document["not_covered"])
        tolerance = {kind: {name: float(said[kind][name]) for name in limits} for kind, limits in TOLERANCE.items()}
        if not all(0 <= share <= 1 for limits in tolerance.values() for share in limits.values()):
            raise ValueError("a tolerance is not a share from 0 to 1")
        if recorded.X.shape[1] != len(model.features.features):
            raise ValueError(f"{recorded.X.shape[1]} features are recorded of {len(model.features.features)}")
    try:
        with refuse_failures("the model fails on the rows that were recorded with it", where, ANEW):
            return replay(model, recorded, tolerance, not_covered)
    except ConfigError as error:  # a metric that is none, or not one of this task
        raise ArtifactError(f"{NAME}: {error.what}", where=where, fix=ANEW) from error


def replay(
    model: Model, recorded: ParityRecord, tolerance: Mapping[str, Any], not_covered: Sequence[str] = ()
) -> Verification:
    """Return what a loaded model makes of the recorded rows, and how far that is from what was recorded."""
    trial, rows, backend, features = recorded.trial, recorded.predicted, model.backend, model.features
    X = features.transform(encode(trial.inputs, backend, frozen=features.schema), backend)
    X = matrix_on_host(X, backend)
    columns = compare_columns(X, recorded.X, trial.rows >= 0, features.features, tolerance)

    def predict(matrix: Array) -> tuple[Array, Array]:
        asked = np.asfortranarray(matrix[rows])  # column-major, as the estimator always gets it
        return predict_arrays(model.estimator, asked, model.decision, model.goal, backend.host)

    numbers, labels = recorded.outputs[rows], recorded.labels[rows]
    alone, here = predict(recorded.X), predict(X)
    found = Verification(
        backend.name, backend.reason, backend.last_interpreter, len(rows), tuple(columns),
        compare_predictions(alone[0], numbers, alone[1], labels, tolerance["estimator"]),
        compare_predictions(here[0], numbers, here[1], labels, tolerance["predictions"]),
        _metrics(trial, rows, model, numbers, here[0]), (), tuple(not_covered),
    )  # fmt: skip
    return replace(found, problems=tuple(_problems(found, recorded, features)))


def _problems(found: Verification, recorded: ParityRecord, features: FittedFeatures) -> Iterator[str]:
    columns = zip(found.columns, features.features, strict=True)
    for column, feature in sorted((pair for pair in columns if pair[0].outside), key=lambda pair: -pair[0].outside):
        yield (
            f"feature {column.name}: {column.here!r} here, {column.recorded!r} recorded, in the row "
            f"{_row(recorded, column.worst, feature.inputs)}; {column.outside} rows are outside the tolerance"
        )
    for name, part in (("estimator, on the recorded features", found.estimator), ("predictions", found.predictions)):
        if not part.passed:
            row = int(np.flatnonzero(recorded.predicted)[part.worst])
            yield (
                f"{name}: {part.outside} of {part.rows} rows differ, {part.label_flips} in their label; {part.allowed} "
                f"may; by {part.largest:.3g} in the row {_row(recorded, row, recorded.trial.inputs.column_names)}"
            )


def _row(recorded: ParityRecord, row: int, columns: Sequence[str]) -> str:
    """Return the values of a row in words: those of `columns` that are inputs."""
    trial = recorded.trial
    shown = [name for name in columns if name in trial.inputs.column_names] or trial.inputs.column_names
    values = ", ".join(f"{name}={trial.inputs.column(name)[row].as_py()!r}" for name in shown[:12])
    return f"[{trial.cases[row] or f'row {trial.rows[row]} of the run'}] {values}"


def _metrics(trial: TrialRows, rows: Array, model: Model, then: Array, now: Array) -> dict[str, tuple[float, float]]:
    y, goal = trial.target[rows], model.goal
    known = ~np.isnan(y)
    if not known.any() or goal.task not in SUPERVISED:
        return {}
    field = "value" if goal.task == "regression" else "probability"

    def measured(numbers: Array) -> dict[str, float]:
        numbers = numbers[known] if goal.task == "multiclass" else numbers[known, 0]
        prediction = Prediction(goal.task, **{field: numbers})
        return evaluate(
            goal.task, y[known], prediction.output, trial.metrics, model.decision.threshold, goal.n_classes,
            backend=model.backend.host,
        )  # fmt: skip

    first, second = measured(then), measured(now)
    return {name: (first[name], second[name]) for name in first if first[name] == first[name]}
