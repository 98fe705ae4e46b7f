"""True and predicted values of the same rows: the argument of every metric.

Arrays stay on the device of their backend; only counts and means are copied to the host.
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
"""A probability from which a row is called positive, or an array of float64, shape (n,): one for each row."""
ROUNDING = 1e-6  # a probability that was summed up in float32 may be so far out of 0..1


@dataclass(frozen=True)
class ClassPredictions:
    """True classes of rows, and their predicted probabilities.

    Attributes
    ----------
    y_true : array of int64, shape (n,)
        Class codes.
    probability : array of float64, shape (n,) or (n, k)
        Of class 1 where there are two; of each class, the rows sum to one.
    label : array of int64, shape (n,)
        The predicted class of each row.
    n_classes : int
    backend : Backend
    costs : Costs, optional
        What each decision costs.
    """

    y_true: Array
    probability: Array
    label: Array
    n_classes: int
    backend: Backend
    costs: Costs | None = None

    @staticmethod
    def of(
        task: str,
        y_true: Array,
        probability: Array,
        threshold: Threshold,
        n_classes: int,
        backend: Backend,
        costs: Costs | None = None,
    ) -> ClassPredictions:
        """Return the predictions of a model on the device of `backend`; arrays may be on either side, of any dtype.

        Raises
        ------
        DataError
            If a value is not a probability.
        """
        y_true = backend.to_device(y_true).astype("int64")
        probability = backend.to_device(probability).astype("float64", copy=False)
        label = predicted_labels(task, probability, backend.to_device(threshold) if has_rows(threshold) else threshold)
        if probability.ndim > 1:  # float32 sums to one only nearly
            probability = probability / probability.sum(axis=1, keepdims=True)
        return ClassPredictions(y_true, _within(probability, backend), label, n_classes, backend, costs)

    @cached_property
    def counts(self) -> Array:
        """Confusion matrix, on the host: row i, column j is the number of rows of class i predicted as j."""
        cells = self.backend.xp.bincount(self.y_true * self.n_classes + self.label, minlength=self.n_classes**2)
        return self.backend.to_host(cells).reshape(self.n_classes, self.n_classes)

    @property
    def present(self) -> list[int]:
        """The classes that the rows hold."""
        return [code for code, n_rows in enumerate(self.counts.sum(axis=1)) if n_rows]

    @property
    def of_truth(self) -> Array:
        """The probability of the class that each row has, shape (n,)."""
        xp = self.backend.xp
        if self.probability.ndim > 1:
            of_truth: Array = xp.take_along_axis(self.probability, self.y_true[:, None], axis=1)[:, 0]
            return of_truth
        return xp.where(self.y_true == 1, self.probability, 1.0 - self.probability)

    def rankings(self) -> Iterator[tuple[int, Ranking]]:
        """Yield each class against the rest, but those without rows and those with all; of two classes the second."""
        for code in [1] if self.n_classes == 2 else range(self.n_classes):
            score = self.probability if self.probability.ndim == 1 else self.probability[:, code]
            ranking = Ranking.of(self.y_true == code, score, self.backend)
            if ranking.is_defined:
                yield code, ranking

    @cached_property
    def areas(self) -> tuple[float, float]:
        """Below the ROC curve and the precision-recall curve, the mean over the classes; NaN where there is but one.

        Both at once, since a ranking is worth keeping no longer than that.
        """
        found = [(ranking.roc_area(), ranking.average_precision()) for _, ranking in self.rankings()]
        if not found:
            return math.nan, math.nan
        roc, precision_recall = zip(*found, strict=True)
        return mean(roc), mean(precision_recall)

    def mean(self, values: Array) -> float:
        """Return the mean of an array of the backend."""
        return float(self.backend.to_host(values.mean()))


@dataclass(frozen=True)
class ValuePredictions:
    """True and predicted values of rows.

    Attributes
    ----------
    y_true, value : array of float64, shape (n,)
    backend : Backend
    """

    y_true: Array
    value: Array
    backend: Backend

    @staticmethod
    def of(y_true: Array, value: Array, backend: Backend) -> ValuePredictions:
        """Return the predictions of a model on the device of `backend`.

        Raises
        ------
        DataError
            If a predicted value is not finite.
        """
        y_true, value = (backend.to_device(given).astype("float64", copy=False) for given in (y_true, value))
        if not bool(backend.to_host(backend.xp.isfinite(value).all())):
            raise _no_numbers("values that are no finite numbers")
        return ValuePredictions(y_true, value, backend)

    @property
    def error(self) -> Array:
        """How far each row is off, float64, shape (n,)."""
        return self.y_true - self.value

    def mean(self, values: Array) -> float:
        """Return the mean of an array of the backend."""
        return float(self.backend.to_host(values.mean()))


@dataclass(frozen=True)
class UnlabelledPredictions:
    """Clusters or embeddings of rows without a target, on the host.

    Attributes
    ----------
    X : array of float32, shape (n, d)
        The feature matrix, which stands for it.
    found : array, shape (n,) or (n, k)
        Clusters or embeddings.
    """

    X: Array
    found: Array


def mean(values: Sequence[float]) -> float:
    """Return the mean of figures on the host."""
    import numpy as np

    return float(np.mean(values))


def cost_matrix(costs: Costs) -> list[list[float]]:
    """Return ``[actual][called]``: what a row of each class costs, called each class."""
    return [[costs.true_negative, costs.false_positive], [costs.false_negative, costs.true_positive]]


def has_rows(threshold: Threshold) -> TypeGuard[Array]:
    """Return whether there is a threshold for each row, instead of one for all."""
    return getattr(threshold, "ndim", 0) > 0


def predicted_labels(task: str, probability: Array, threshold: Threshold = 0.5) -> Array:
    """Return the class code of each row: binary by its threshold, several classes by the highest probability."""
    if task == "binary":
        is_positive: Array = (probability >= threshold).astype("int64")
        return is_positive
    classes: Array = probability.argmax(axis=1)
    return classes


def _within(probability: Array, backend: Backend) -> Array:
    """Return probabilities none of which is out of 0..1."""
    if not probability.shape[0]:
        return probability
    low, high = (float(backend.to_host(end)) for end in (probability.min(), probability.max()))
    if low >= 0.0 and high <= 1.0:
        return probability
    if not (low >= -ROUNDING and high <= 1.0 + ROUNDING):  # NaN is neither
        raise _no_numbers(f"probabilities from {low:g} to {high:g}")
    return probability.clip(0.0, 1.0)


def _no_numbers(what: str) -> DataError:
    return DataError(f"the model predicts {what}", where="evaluate", fix="look for features of extreme values")


Predictions = ClassPredictions | ValuePredictions | UnlabelledPredictions
