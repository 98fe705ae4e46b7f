"""The training problem of one neural fit: architecture, row split and target, without the matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.errors import ConfigError, DataError
from gpupipe.models.context import ValidationRows
from gpupipe.models.early_stopping import draw_validation_rows, gapless_codes
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.tasks import CLASSIFICATION, Task

if TYPE_CHECKING:
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

LEAST_ROWS = 16  # fewer rows are too few once some are held out


@dataclass(frozen=True)
class TrainingProblem:
    """One neural fit: its network, rows and target; arrays are on the host.

    Attributes
    ----------
    architecture : Architecture
    training, validation : array of int64
        Rows that the weights are fitted to, and held-out rows that select the best epoch; ascending.
    given : ValidationRows, optional
        Rows of another matrix, of which `validation` are held out; their target is in the form of the loss.
    target : array, shape (n,)
        Target of all rows in the form of the loss: int64 codes, or float32, centered and scaled.
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
    given: ValidationRows | None = None

    def with_all_rows(self) -> TrainingProblem:
        """Return the problem that fits the weights to the held-out rows too."""
        return replace(
            self, training=np.sort(np.concatenate([self.training, self.validation])), validation=self.validation[:0]
        )


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
    weighty = np.arange(len(y)) if weights is None else np.flatnonzero(weights)  # rows of weight 0 have no effect
    if len(weighty) < LEAST_ROWS:
        what = f"a neural model needs at least {LEAST_ROWS} training rows with a weight; there are {len(weighty)}"
        raise DataError(what, fix="use another model")
    n_numbers, cardinalities = _columns(context.categorical, n_columns)
    given = context.validation
    if given is None:
        training, validation = _held_out(y, weighty, model.validation_fraction, context)
    else:
        codes, known = gapless_codes(given, classes, context)
        training, validation = weighty, np.arange(len(codes)) if known is None else np.flatnonzero(known)
        if not len(validation):
            raise DataError("no validation row has a class of the training rows", fix="give other validation rows")
    target, center, scale = _target(y, training, weights, context.task)
    if given is not None:
        of_rows = None if given.weights is None else np.asarray(given.weights, np.float32)
        given = ValidationRows(given.X, _in_form(codes, center, scale, context.task), of_rows)
    n_outputs = len(classes) if context.task == "multiclass" else len(context.quantiles) or 1
    architecture = model.architecture(n_numbers, cardinalities, n_outputs, len(training))
    weight = None if weights is None else np.asarray(weights, np.float32)
    return TrainingProblem(architecture, training, validation, target, weight, center, scale, given)


def _columns(categorical: Mapping[int, int], n_columns: int) -> tuple[int, tuple[int, ...]]:
    """Return the number of numeric columns, and the number of ids of each categorical column."""
    n_numbers = n_columns - len(categorical)
    if sorted(categorical) != list(range(n_numbers, n_columns)):
        raise ConfigError(
            f"expected ids in the last columns of {n_columns}; got them in {sorted(categorical)}",
            where="models",
            fix="use the embedding view of the features",
        )
    return n_numbers, tuple(categorical[j] for j in sorted(categorical))


def _held_out(y: Array, rows: Array, share: float, context: FitContext) -> tuple[Array, Array]:
    """Split `rows` into training and held-out rows as for early stopping, at least one each; both ascending."""
    held = draw_validation_rows(y[rows], share, context.of_rows(rows))
    if not held.any():
        held[np.random.default_rng(context.seed).integers(len(rows))] = True
    return rows[~held], rows[held]


def _target(y: Array, training: Array, weights: Array | None, task: Task) -> tuple[Array, float, float]:
    """Return the target in the form of the loss, its center and its scale."""
    if task in CLASSIFICATION:
        return _in_form(y, 0.0, 1.0, task), 0.0, 1.0
    own, weight = y[training], None if weights is None else weights[training]
    center = float(np.average(own, weights=weight))
    scale = math.sqrt(float(np.average((own - center) ** 2, weights=weight)))
    scale = scale if scale > 0 else 1.0
    return _in_form(y, center, scale, task), center, scale


def _in_form(y: Array, center: float, scale: float, task: Task) -> Array:
    """Return int64 codes, or float32 values, centered and scaled."""
    return np.asarray(y, np.int64) if task in CLASSIFICATION else ((y - center) / scale).astype(np.float32)
