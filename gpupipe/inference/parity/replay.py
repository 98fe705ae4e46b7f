"""Replay of the parity record of a model, for `gpupipe.Model.verify`.

``parity_rows.json`` and ``parity.npz`` contain the rows, features and predictions; ``parity.json`` contains the
tolerance, the machine that computed them, and the outputs of the exported model on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.backends.base import Backend
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.inference.parity.check import TOLERANCE, compare_columns, compare_predictions
from gpupipe.inference.parity.files import ROWS, read_record
from gpupipe.inference.parity.record import ParityRecord, TrialRows, predict_arrays
from gpupipe.inference.parity.verification import Verification
from gpupipe.metrics import evaluate, join_scores
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.models.device.fitted import matrix_on_host
from gpupipe.models.fitted.prediction import column_bounds
from gpupipe.table.encode import encode
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.inference.model import Model

NAME = "parity.json"
_TOLERANCE: dict[Any, Any] = {kind: {**dict.fromkeys(limits, float), ...: float} for kind, limits in TOLERANCE.items()}
PARITY = {"metrics": [str], "tolerance": {**_TOLERANCE, ...: {...: float}}, "not_covered": [str], ...: object}
RUN_AGAIN = "run its configuration again with this version of gpupipe"


def verify_model(model: Model) -> Verification:
    """Check every file of a loaded model again, replay its parity record, and return the differences.

    Raise ArtifactError if a file is corrupt, or the model has no parity record.
    """
    reader, where = model.open_files(), str(model.folder)
    if NAME not in reader.names():
        what = "the model has no recorded rows to verify; its files are intact"
        raise ArtifactError(what, where=where, fix=RUN_AGAIN)
    document = reader.json(NAME, PARITY)
    with refuse_failures(f"cannot read {NAME} and {ROWS}", where, RUN_AGAIN):
        recorded = read_record(reader, tuple(document["metrics"]))
        values, not_covered = document["tolerance"], tuple(document["not_covered"])
        tolerance = {kind: {name: values[kind][name] for name in limits} for kind, limits in TOLERANCE.items()}
        shares = chain.from_iterable(limits.values() for limits in tolerance.values())
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError("expected tolerances in [0, 1]")
        n_recorded, n_features = recorded.X.shape[1], len(model.features.features)
        if n_recorded != n_features:
            raise ValueError(f"expected {n_features} recorded features; found {n_recorded}")
    try:
        with refuse_failures("the model fails on its recorded rows", where, RUN_AGAIN):
            return replay(model, recorded, tolerance, not_covered)
    except ConfigError as error:  # an unknown metric, or one of another task
        raise ArtifactError(f"{NAME}: {error.what}", where=where, fix=RUN_AGAIN) from error


def replay(
    model: Model, recorded: ParityRecord, tolerance: Mapping[str, Any], not_covered: Sequence[str] = ()
) -> Verification:
    """Return the differences between the outputs of a loaded model and the recorded ones."""
    trial = recorded.trial
    rows = recorded.predicted
    backend = model.backend
    features = model.features
    X = features.transform(encode(trial.inputs, backend, frozen=features.schema), backend)
    X = matrix_on_host(X, backend)
    columns = compare_columns(X, recorded.X, trial.rows >= 0, features.features, tolerance)

    estimator = model.estimator.with_library()  # which large tables are predicted with

    def predict(matrix: Array) -> tuple[Array, Array]:
        selected = np.asfortranarray(matrix[rows])  # column-major, as in predictions
        return predict_arrays(estimator, selected, model.decision, model.goal, backend.host)

    numbers, labels = recorded.outputs[rows], recorded.labels[rows]
    bounds = column_bounds(model.goal.specs) if model.goal.targets else ()
    alone = predict(recorded.X)
    here = alone if has_same_bits(X, recorded.X) else predict(X)
    found = Verification(
        backend.name,
        backend.reason,
        backend.last_interpreter,
        len(rows),
        tuple(columns),
        compare_predictions(alone[0], numbers, alone[1], labels, tolerance["estimator"], bounds),
        compare_predictions(here[0], numbers, here[1], labels, tolerance["predictions"], bounds),
        _metrics(trial, rows, model, numbers, here[0]),
        (),
        tuple(not_covered),
    )
    return replace(found, problems=tuple(_problems(found, recorded, features)))


def has_same_bits(X: Array, other: Array) -> bool:
    """Return whether two matrices of float32 have the same bits, also in zeros and NaN."""
    return X.shape == other.shape and all(
        np.array_equal(np.ascontiguousarray(a).view(np.uint32), np.ascontiguousarray(b).view(np.uint32))
        for a, b in zip(X.T, other.T, strict=True)
    )


def _problems(found: Verification, recorded: ParityRecord, features: FittedFeatures) -> Iterator[str]:
    columns = zip(found.columns, features.features, strict=True)
    for column, feature in sorted((pair for pair in columns if pair[0].outside), key=lambda pair: -pair[0].outside):
        yield (
            f"feature {column.name}: expected {column.recorded!r}; found {column.here!r} in row "
            f"{_row(recorded, column.worst, feature.inputs)}; {column.outside} rows are outside the tolerance"
        )
    for name, part in (("estimator, on the recorded features", found.estimator), ("predictions", found.predictions)):
        if not part.passed:
            row = int(np.flatnonzero(recorded.predicted)[part.worst])
            yield (
                f"{name}: {part.outside} of {part.rows} rows differ ({part.allowed} allowed), {part.label_flips} in "
                f"their label; by up to {part.largest:.3g}, as in row "
                f"{_row(recorded, row, recorded.trial.inputs.column_names)}"
            )


def _row(recorded: ParityRecord, row: int, columns: Sequence[str]) -> str:
    """Return the values of a row as text, limited to those `columns` that are inputs."""
    trial = recorded.trial
    shown = [name for name in columns if name in trial.inputs.column_names] or trial.inputs.column_names
    values = ", ".join(f"{name}={trial.inputs.column(name)[row].as_py()!r}" for name in shown[:12])
    return f"[{trial.cases[row] or f'row {trial.rows[row]} of the run'}] {values}"


def _metrics(trial: TrialRows, rows: Array, model: Model, then: Array, now: Array) -> dict[str, tuple[float, float]]:
    y, goal = trial.target[rows], model.goal
    known = ~np.isnan(y).reshape(len(y), -1).any(axis=1)
    if not known.any() or not goal.names or goal.task == "ranking":  # the recorded rows are not whole groups
        return {}

    def measured(numbers: Array) -> dict[str, float]:
        numbers = numbers[known]
        if not goal.targets:
            return _measured(trial, y[known], numbers, goal, model.decision, model.backend)
        each = zip(goal.targets, model.decision.targets, pairwise(column_bounds(goal.specs)), strict=True)
        scores = [
            _measured(trial, y[known, i], numbers[:, start:stop], own, decision, model.backend)
            for i, (own, decision, (start, stop)) in enumerate(each)
        ]
        return join_scores(goal.names, scores)

    first, second = measured(then), measured(now)
    return {name: (first[name], second[name]) for name in first if first[name] == first[name]}


def _measured(
    trial: TrialRows, y: Array, numbers: Array, goal: Goal, decision: Decision, backend: Backend
) -> dict[str, float]:
    """Return the metrics of recorded numbers of one target, shape (n, k)."""
    output = numbers if goal.task in ("multiclass", "quantile") else numbers[:, 0]
    return evaluate(
        goal.task,
        y,
        output,
        trial.metrics,
        decision.threshold,
        goal.n_classes,
        quantiles=goal.quantiles,
        backend=backend.host,
    )
