"""The training problem of one neural fit: architecture, row split and target, without the matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.errors import ConfigError, DataError
from gpupipe.models.context import ValidationRows
from gpupipe.models.early_stopping import draw_validation_rows, gapless_codes
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.random_streams import make_generator
from gpupipe.tasks import CLASSIFICATION, TargetSpec

if TYPE_CHECKING:
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array

LEAST_ROWS = 16  # fewer rows are too few once some are held out


@dataclass(frozen=True)
class TrainingProblem:
    """One neural fit: its network, rows and target; arrays are on the host."""

    architecture: Architecture
    # training, validation: int64: rows that the weights are fitted to, and held-out rows that select the best epoch;
    # ascending.
    training: Array
    validation: Array
    # shape (n,) or (n, k): target of all rows in the form of the loss: int64 codes, or float32, centered and
    # scaled; of several targets, codes and numbers as float32.
    target: Array
    weight: Array | None  # float32, shape (n,)
    # center, scale: float, or float64, shape (n_outputs,): center and scale of the target; of several targets, of each
    # output, 0 and 1 for classes.
    center: float | Array
    scale: float | Array
    # Rows of another matrix, of which `validation` are held out; their target is in the form of the loss.
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

    Raise DataError if there are too few rows; ConfigError if the ids are not the last columns.
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
    form = _forms(y, training, weights, context.targets) if context.targets else _form(y, training, weights, context)
    target = form.apply(y)
    if given is not None:
        of_rows = None if given.weights is None else np.asarray(given.weights, np.float32)
        given = ValidationRows(given.X, form.apply(codes), of_rows)
    n_outputs = n_network_outputs(context, len(classes))
    architecture = model.architecture(n_numbers, cardinalities, n_outputs, len(training))
    weight = None if weights is None else np.asarray(weights, np.float32)
    return TrainingProblem(architecture, training, validation, target, weight, form.center, form.scale, given)


def n_network_outputs(context: FitContext, n_classes: int) -> int:
    """Return the number of outputs of a network for a task with `n_classes` classes in training."""
    if context.targets:
        return sum(target.width for target in context.targets)
    return n_classes if context.task == "multiclass" else len(context.quantiles) or 1


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
        held[make_generator(context.seed, "early stopping").integers(len(rows))] = True
    return rows[~held], rows[held]


@dataclass(frozen=True)
class _TargetForm:
    """Form of the target in the loss: int64 codes, or float32, centered and scaled.

    Several targets are float32; `center` and `scale` then have a number for each output.
    """

    center: float | Array
    scale: float | Array
    is_code: bool = False
    first: Array | None = None  # first output of each of several targets

    def apply(self, y: Array) -> Array:
        """Return a target in this form."""
        if self.is_code:
            return np.asarray(y, np.int64)
        center, scale = self.center, self.scale
        if self.first is not None:
            center, scale = np.asarray(center)[self.first], np.asarray(scale)[self.first]
        return np.asarray((y - center) / scale, np.float32)


def _form(y: Array, training: Array, weights: Array | None, context: FitContext) -> _TargetForm:
    """Return the form of one target."""
    if context.task in CLASSIFICATION:
        return _TargetForm(0.0, 1.0, is_code=True)
    return _TargetForm(*_center_and_scale(y[training], None if weights is None else weights[training]))


def _forms(y: Array, training: Array, weights: Array | None, targets: Sequence[TargetSpec]) -> _TargetForm:
    """Return the form of several targets; classes are not scaled."""
    own, widths = None if weights is None else weights[training], [target.width for target in targets]
    found = [
        (0.0, 1.0) if target.task in CLASSIFICATION else _center_and_scale(column[training], own)
        for column, target in zip(y.T, targets, strict=True)
    ]
    center, scale = (np.repeat(values, widths) for values in zip(*found, strict=True))
    return _TargetForm(center, scale, first=np.cumsum([0, *widths])[:-1])


def _center_and_scale(y: Array, weight: Array | None) -> tuple[float, float]:
    center = float(np.average(y, weights=weight))
    scale = math.sqrt(float(np.average((y - center) ** 2, weights=weight)))
    return center, scale if scale > 0 else 1.0
