"""True and predicted values of the same rows: the argument of every metric.

Arrays stay on the device of the backend; only counts and means are copied to the host.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from gpupipe.errors import DataError
from gpupipe.metrics.ranking import Ranking
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.metrics.settings import Costs

Threshold: TypeAlias = "float | Array"
"""The lowest probability that is predicted positive, or an array of float64, shape (n,), with one for each row."""
ROUNDING = 1e-6  # tolerance for probabilities outside [0, 1], as float32 sums produce them


@dataclass(frozen=True)
class ClassPredictions:
    """True classes and predicted probabilities of rows."""

    y_true: Array  # int64, shape (n,): class codes
    # float64, shape (n,) or (n, k): probability of class 1 for two classes; otherwise of each class, summing to 1 in
    # each row.
    probability: Array
    label: Array  # int64, shape (n,): predicted class codes
    n_classes: int
    backend: Backend
    costs: Costs | None = None
    sample_weight: Array | None = None  # float64, shape (n,): the weight of each row; None if all rows weigh 1

    @staticmethod
    def of(
        task: str,
        y_true: Array,
        probability: Array,
        threshold: Threshold,
        n_classes: int,
        backend: Backend,
        costs: Costs | None = None,
        sample_weight: Array | None = None,
    ) -> ClassPredictions:
        """Return the predictions on the device of `backend`, from arrays of any dtype on the host or the device.

        Raise DataError if a value is not a probability.
        """
        y_true = backend.to_device(y_true).astype("int64")
        probability = backend.to_device(probability).astype("float64", copy=False)
        label = predicted_labels(task, probability, backend.to_device(threshold) if has_rows(threshold) else threshold)
        if probability.ndim > 1:  # float32 probabilities sum to 1 with a rounding error
            probability = probability / probability.sum(axis=1, keepdims=True)
        weight = _on_device(sample_weight, backend)
        return ClassPredictions(y_true, _within(probability, backend), label, n_classes, backend, costs, weight)

    @cached_property
    def counts(self) -> Array:
        """Confusion matrix, on the host: row i, column j is the number or weight of rows of class i predicted as j."""
        cells = self.backend.xp.bincount(
            self.y_true * self.n_classes + self.label, self.sample_weight, minlength=self.n_classes**2
        )
        return self.backend.to_host(cells).reshape(self.n_classes, self.n_classes)

    @property
    def present(self) -> list[int]:
        """The class codes that occur in the rows."""
        return [code for code, n_rows in enumerate(self.counts.sum(axis=1)) if n_rows]

    @property
    def of_truth(self) -> Array:
        """Predicted probability of the true class of each row, shape (n,)."""
        xp = self.backend.xp
        if self.probability.ndim > 1:
            of_truth: Array = xp.take_along_axis(self.probability, self.y_true[:, None], axis=1)[:, 0]
            return of_truth
        return xp.where(self.y_true == 1, self.probability, 1.0 - self.probability)

    def rankings(self) -> Iterator[tuple[int, Ranking]]:
        """Yield the ranking of each class against all others, of class 1 only for two classes.

        Classes without rows, or with all rows, are skipped.
        """
        for code in [1] if self.n_classes == 2 else range(self.n_classes):
            score = self.probability if self.probability.ndim == 1 else self.probability[:, code]
            ranking = Ranking.of(self.y_true == code, score, self.backend, self.sample_weight)
            if ranking.is_defined:
                yield code, ranking

    @cached_property
    def areas(self) -> tuple[float, float]:
        """Areas under the ROC curve and the precision-recall curve, averaged over classes; NaN for a single class.

        Both are computed together, so that each ranking is freed before the next.
        """
        found = [(ranking.roc_area(), ranking.average_precision()) for _, ranking in self.rankings()]
        if not found:
            return math.nan, math.nan
        roc, precision_recall = zip(*found, strict=True)
        return mean(roc), mean(precision_recall)

    def mean(self, values: Array) -> float:
        """Return the mean over the rows of an array on the device of the backend."""
        return weighted_mean(values, self.sample_weight, self.backend)


@dataclass(frozen=True)
class ValuePredictions:
    """True and predicted values of rows."""

    # y_true, value: float64, shape (n,).
    y_true: Array
    value: Array
    backend: Backend
    sample_weight: Array | None = None  # float64, shape (n,): the weight of each row; None if all rows weigh 1

    @staticmethod
    def of(y_true: Array, value: Array, backend: Backend, sample_weight: Array | None = None) -> ValuePredictions:
        """Return the predictions on the device of `backend`.

        Raise DataError if a predicted value is not finite.
        """
        y_true, value = (backend.to_device(given).astype("float64", copy=False) for given in (y_true, value))
        if not bool(backend.to_host(backend.xp.isfinite(value).all())):
            raise _invalid_prediction("values that are not finite")
        return ValuePredictions(y_true, value, backend, _on_device(sample_weight, backend))

    @property
    def error(self) -> Array:
        """True minus predicted value, float64, shape (n,)."""
        return self.y_true - self.value

    def mean(self, values: Array) -> float:
        """Return the mean over the rows of an array on the device of the backend."""
        return weighted_mean(values, self.sample_weight, self.backend)


@dataclass(frozen=True)
class QuantilePredictions:
    """True values and predicted quantiles of rows."""

    y_true: Array  # float64, shape (n,)
    quantiles: Array  # float64, shape (n, k): ascending in each row
    levels: tuple[float, ...]  # level of each of the k quantiles, ascending, in (0, 1)
    backend: Backend
    sample_weight: Array | None = None  # float64, shape (n,): the weight of each row; None if all rows weigh 1

    @staticmethod
    def of(
        y_true: Array,
        quantiles: Array,
        levels: Sequence[float],
        backend: Backend,
        sample_weight: Array | None = None,
    ) -> QuantilePredictions:
        """Return the predictions on the device of `backend`.

        Raise DataError if a predicted quantile is not finite.
        """
        values = ValuePredictions.of(y_true, quantiles, backend, sample_weight)
        return QuantilePredictions(values.y_true, values.value, tuple(levels), backend, values.sample_weight)

    @property
    def losses(self) -> list[float]:
        """Mean pinball loss of each quantile."""
        columns = zip(self.levels, self.quantiles.T, strict=True)
        return [self.loss(level, self.y_true - column) for level, column in columns]

    @property
    def shares(self) -> list[float]:
        """Fraction of the rows whose true value is at most each quantile."""
        is_below = (self.y_true[:, None] <= self.quantiles).astype("float64")
        return [weighted_mean(column, self.sample_weight, self.backend) for column in is_below.T]

    def loss(self, level: float, error: Array) -> float:
        """Return the mean pinball loss of errors, the true minus the predicted values."""
        losses = self.backend.xp.maximum(level * error, (level - 1.0) * error)
        return weighted_mean(losses, self.sample_weight, self.backend)


@dataclass(frozen=True)
class UnlabelledPredictions:
    """Clusters or embeddings of rows without a target, on the host."""

    X: Array  # float32, shape (n, d): the feature matrix, which the predictions are compared with
    found: Array  # shape (n,) or (n, k): clusters or embeddings


def _on_device(sample_weight: Array | None, backend: Backend) -> Array | None:
    return None if sample_weight is None else backend.to_device(sample_weight).astype("float64", copy=False)


def weighted_mean(values: Array, sample_weight: Array | None, backend: Backend) -> float:
    """Return the mean of an array on the device of `backend`, by weight if weights are given."""
    if sample_weight is None:
        return float(backend.to_host(values.mean()))
    return float(backend.to_host((values * sample_weight).sum() / sample_weight.sum()))


def mean(values: Sequence[float]) -> float:
    """Return the mean of numbers on the host."""
    import numpy as np

    return float(np.mean(values))


def cost_matrix(costs: Costs) -> list[list[float]]:
    """Return the cost of each decision, ``[actual class][predicted class]``."""
    return [[costs.true_negative, costs.false_positive], [costs.false_negative, costs.true_positive]]


def has_rows(threshold: Threshold) -> TypeGuard[Array]:
    """Return whether the threshold is an array with one value per row."""
    return getattr(threshold, "ndim", 0) > 0


def predicted_labels(task: str, probability: Array, threshold: Threshold = 0.5) -> Array:
    """Return the predicted class code of each row: by the threshold if binary, else by the highest probability."""
    if task == "binary":
        is_positive: Array = (probability >= threshold).astype("int64")
        return is_positive
    classes: Array = probability.argmax(axis=1)
    return classes


def _within(probability: Array, backend: Backend) -> Array:
    """Return probabilities clipped to [0, 1]; raise DataError if the excess is more than rounding."""
    if not probability.shape[0]:
        return probability
    low, high = (float(backend.to_host(end)) for end in (probability.min(), probability.max()))
    if low >= 0.0 and high <= 1.0:
        return probability
    if not (low >= -ROUNDING and high <= 1.0 + ROUNDING):  # also true for NaN
        raise _invalid_prediction(f"probabilities from {low:g} to {high:g}")
    return probability.clip(0.0, 1.0)


def _invalid_prediction(what: str) -> DataError:
    return DataError(f"the model predicts {what}", where="evaluate", fix="clip or scale features with extreme values")


Predictions = ClassPredictions | ValuePredictions | QuantilePredictions | UnlabelledPredictions
