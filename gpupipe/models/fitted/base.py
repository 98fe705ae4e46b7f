"""A trained model: what it predicts, what it finds important, and how it is kept on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe.typing import ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.tensors.receipt import Receipt
    from gpupipe.typing import Array


@dataclass(frozen=True)
class Prediction:
    """Predictions of a model for n rows; only the fields of its task are set. All are on the host, or all on a device.

    Attributes
    ----------
    task : Task
    probability : array of float64, shape (n,) or (n, k)
        binary: of class 1. multiclass: of each of the k classes.
    value : array of float64, shape (n,)
        regression
    label : array of int32, shape (n,)
        clustering: the cluster.
    distance : array of float64, shape (n,)
        clustering: to that cluster's centre.
    embedding : array of float32, shape (n, k)
        embedding
    """

    task: Task
    probability: Array | None = None
    value: Array | None = None
    label: Array | None = None
    distance: Array | None = None
    embedding: Array | None = None

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays that are set, by the names of their fields."""
        fields = ("probability", "value", "label", "distance", "embedding")
        return {name: getattr(self, name) for name in fields if getattr(self, name) is not None}

    @property
    def output(self) -> Array:
        """The array that metrics are of: probabilities, values, cluster labels or an embedding."""
        return next(iter(self.arrays.values()))

    def check(self, n_rows: int, n_classes: int) -> None:
        """Verify that the arrays are those of a task: an estimator from a file may give any.

        Parameters
        ----------
        n_rows : int
            Rows that were predicted.
        n_classes : int
            Of the target; 0 where it has none.

        Raises
        ------
        ValueError
            If an array is missing, or has another shape or other values.
        """
        tasks: dict[Task, dict[str, tuple[tuple[int, ...], str]]] = {
            "binary": {"probability": ((n_rows,), "f")},
            "multiclass": {"probability": ((n_rows, n_classes), "f")},
            "regression": {"value": ((n_rows,), "f")},
            "clustering": {"label": ((n_rows,), "i"), "distance": ((n_rows,), "f")},
            "embedding": {"embedding": ((n_rows, *getattr(self.embedding, "shape", ())[1:2]), "f")},
        }
        wanted = tasks[self.task]
        found = {name: (tuple(array.shape), array.dtype.kind) for name, array in self.arrays.items()}
        if found != wanted:
            raise ValueError(f"it gives {found} where {self.task} of {n_rows:,} rows is {wanted}")

    def mapped(self, function: Callable[[Array], Array]) -> Prediction:
        """Return the prediction with ``function(array)`` for each array: moved, or some of its rows."""
        return Prediction(self.task, **{name: function(array) for name, array in self.arrays.items()})


@dataclass(frozen=True, repr=False)
class FittedModel(ABC):
    """A trained model of one library.

    Attributes
    ----------
    estimator : object
        The library's own object.
    task : Task
    feature_names : tuple of str
        The columns of the matrix, in order; empty if they were not named.
    n_classes : int
        Classification only: how many classes the target has.
    classes : tuple of int
        Classification only: the codes that were among the training rows; the others get probability 0.
    notes : tuple of str
        What the reader of the report should know of the training, or of what differs from scikit-learn's.
    """

    library: ClassVar[str]
    file: ClassVar[str]

    estimator: Any
    task: Task
    feature_names: tuple[str, ...] = ()
    n_classes: int = 0
    classes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, estimator: Any, task: Task, feature_names: tuple[str, ...], n_classes: int, classes: tuple[int, ...]
    ) -> Self:
        """Return the fitted model around the object that training left."""
        return cls(estimator, task, feature_names, n_classes, classes)

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Of the arrays that another library was handed in training."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task}, {len(self.feature_names)} features, by {self.library})"

    @property
    def history(self) -> tuple[Mapping[str, float], ...]:
        """``training`` and ``validation``: the loss of each epoch, where a model is trained in epochs."""
        return ()

    @abstractmethod
    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, float32, shape (n, d)."""

    def unstable_rows(self, X: Array) -> Array:
        """Return which rows rounding alone may predict differently on another machine: bool, shape (n,), on the host.

        Parameters
        ----------
        X : array of float32, shape (n, d)
            On the host, without missing values.
        """
        import numpy as np

        return np.zeros(len(X), bool)

    def portable(self) -> FittedModel:
        """Return the model as it predicts on a machine without a device; what `save` writes."""
        return self

    @abstractmethod
    def importances(self) -> dict[str, float] | None:
        """Return the estimator's own importance of each column, in order; None where it has none.

        Linear models: the coefficient (several classes: the mean of its absolute values). Forests: the mean decrease
        in impurity. XGBoost: the mean gain of the splits on the column; histogram boosting: their total gain.
        """

    def column_weights(self, X: Array) -> Array | None:
        """Return how much the model relies on each column, by its own account; None where it has no such measure.

        Parameters
        ----------
        X : array of float32, shape (n, d)
            Rows on the host, for the spread of each column.

        Returns
        -------
        array of float64, shape (d,), optional
            Zero or positive, comparable within this model alone. Linear models: the absolute coefficient times the
            standard deviation of the column. Others: `importances`.
        """
        import numpy as np

        own = self.importances()
        return None if own is None else np.abs(np.fromiter(own.values(), np.float64))

    def _write(self, path: Path) -> None:
        """Write the estimator of a portable model into one file."""
        raise NotImplementedError

    def _write_quickly(self, path: Path) -> None:
        """Write the estimator into one file that may be larger, in as little time as can be."""
        self._write(path)

    def save(self, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
        """Write the estimator into `folder` and return what `load_fitted` needs to know, as JSON values.

        ``files`` of the description lists the names of the files written. Nothing is pickled. With `quick` nothing is
        compressed: larger files, in a fraction of the time.
        """
        if (portable := self.portable()) is not self:
            return portable.save(folder, quick=quick)
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (self._write_quickly if quick else self._write)(folder / self.file)
        return {
            "library": self.library,
            "files": [self.file],
            "task": self.task,
            "feature_names": list(self.feature_names),
            "n_classes": self.n_classes,
            "classes": list(self.classes),
        }

    def _names(self, n_columns: int) -> tuple[str, ...]:
        return self.feature_names or tuple(f"f{j}" for j in range(n_columns))

    def _of_scores(self, score: Array, xp: ArrayNamespace | None = None) -> Prediction:
        """Return the prediction from float64 of shape (n, k): numbers, or logits as `class_probability` takes them.

        `xp` is the array namespace of `score`; None: ``numpy``.
        """
        if self.task in CLASSIFICATION:
            return self._classification(class_probability(score, xp), xp)
        return Prediction(self.task, value=score[:, 0])

    def _classification(self, probability: Array, xp: ArrayNamespace | None = None) -> Prediction:
        """Return the prediction from the probability of each class in `classes`, float, shape (n, len(classes))."""
        import numpy as np

        xp = xp or np
        if self.task == "binary":  # one behind the other: what measures them reads them often
            return Prediction(self.task, probability=xp.ascontiguousarray(probability[:, 1]).astype("f8", copy=False))
        probability = probability.astype("f8", copy=False)
        if len(self.classes) < self.n_classes:
            every = xp.zeros((len(probability), self.n_classes))
            every[:, list(self.classes)] = probability
            probability = every
        return Prediction(self.task, probability=probability)


def class_probability(score: Array, xp: ArrayNamespace | None = None) -> Array:
    """Return the probability of each class, shape (n, k), without overflow for large scores.

    Parameters
    ----------
    score : array of float64, shape (n, k) or (n, 1)
        One logit for each class; of two classes, that of the second is enough.
    xp : namespace, optional
        Of `score`; None: ``numpy``.
    """
    import numpy as np

    xp = xp or np
    if score.shape[1] == 1:
        small = xp.exp(-xp.abs(score[:, 0]))
        positive = xp.where(score[:, 0] >= 0, 1.0, small) / (1.0 + small)
        return xp.column_stack([1.0 - positive, positive])
    grown = xp.exp(score - score.max(axis=1, keepdims=True))
    shares: Array = grown / grown.sum(axis=1, keepdims=True)
    return shares
