"""The training problem of one neural fit: architecture, row split and target, without the matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.errors import ConfigError, DataError
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.tasks import CLASSIFICATION, Task

if TYPE_CHECKING:
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

LEAST_ROWS = 16  # fewer leave nothing to learn from once some are held out


@dataclass(frozen=True)
class TrainingProblem:
    """One neural fit: its network, rows and target; arrays are on the host.

    Attributes
    ----------
    architecture : Architecture
    training, validation : array of int64
        Rows that the weights are fitted to, and rows that decide when to stop; ascending.
    target : array, shape (n,)
        Target of all rows, as the loss takes it: int64 codes, or float32, centred and scaled.
    weight : array of float32, shape (n,), optional
    center, scale : float
        Center and scale of the target.
    """

    architecture: Architecture
    training: Array
    validation: Array
    target: Array
    weight: Array | None
    center: float
    scale: float


def make_training_problem(
    model: NeuralSettings,
    n_columns: int,
    y: Array,
    weights: Array | None,
    classes: tuple[int, ...],
    context: FitContext,
) -> TrainingProblem:
    """Return the training problem of `model`; arguments as in `gpupipe.models.neural.fit.fit_network`.

    Raises
    ------
    DataError
        If there are too few rows.
    ConfigError
        If the ids are not the last columns.
    """
    weighty = np.arange(len(y)) if weights is None else np.flatnonzero(weights)  # the others teach nothing
    if len(weighty) < LEAST_ROWS:
        what = f"a neural model needs {LEAST_ROWS} training rows with a weight; there are {len(weighty)}"
        raise DataError(what, fix="use another model")
    n_numbers, cardinalities = _columns(context.categorical, n_columns)
    training, validation = _held_out(y, weighty, model.validation_fraction, context)
    target, center, scale = _target(y, training, context.task)
    n_outputs = len(classes) if context.task == "multiclass" else 1
    architecture = model.architecture(n_numbers, cardinalities, n_outputs, len(training))
    weight = None if weights is None else np.asarray(weights, np.float32)
    return TrainingProblem(architecture, training, validation, target, weight, center, scale)


def _columns(categorical: Mapping[int, int], n_columns: int) -> tuple[int, tuple[int, ...]]:
    """Return how many columns are numbers, and how many ids each of the others has."""
    n_numbers = n_columns - len(categorical)
    if sorted(categorical) != list(range(n_numbers, n_columns)):
        raise ConfigError(
            f"ids are in the columns {sorted(categorical)} of {n_columns}, and a network takes them last",
            where="models",
            fix="use the view 'embedding' of the features",
        )
    return n_numbers, tuple(categorical[j] for j in sorted(categorical))


def _held_out(y: Array, rows: Array, share: float, context: FitContext) -> tuple[Array, Array]:
    """Return which of `rows` to train on and which say when to stop, in order; of each class its share."""
    generator = np.random.default_rng(context.seed)
    strata = y[rows].astype(np.int64) if context.task in CLASSIFICATION else np.zeros(len(rows), np.int64)
    held = np.zeros(len(rows), bool)
    for code in np.unique(strata):
        members = np.flatnonzero(strata == code)
        held[generator.permutation(members)[: int(share * len(members))]] = True
    if not held.any():
        held[generator.integers(len(rows))] = True
    return rows[~held], rows[held]


def _target(y: Array, training: Array, task: Task) -> tuple[Array, float, float]:
    """Return the target as the loss takes it, and what it was centred and scaled by."""
    if task in CLASSIFICATION:
        return np.asarray(y, np.int64), 0.0, 1.0
    center, scale = float(y[training].mean()), float(y[training].std())
    scale = scale if scale > 0 else 1.0
    return ((y - center) / scale).astype(np.float32), center, scale
