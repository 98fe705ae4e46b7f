"""Base class of fitted models: prediction, importances and export."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from gpupipe.models.fitted.prediction import Prediction, column_bounds
from gpupipe.models.fitted.row_estimator import LIBRARIES, RowEstimator
from gpupipe.tasks import CLASSIFICATION, TargetSpec, Task
from gpupipe.typing import ArrayNamespace

if TYPE_CHECKING:
    from gpupipe.models.contributions.base import Explainer, Scale
    from gpupipe.models.files.model_files import ModelFiles
    from gpupipe.models.fitted.seen_rows import SeenRows
    from gpupipe.tensors.receipt import Receipt
    from gpupipe.typing import Array, HostArray
    from gpupipe_kernels.engines import HostEngine


# Nominal seconds of a processor core: for a column of a row, and for a product of two numbers.
COLUMN_SECONDS, PRODUCT_SECONDS = 2e-8, 1e-9
MATRIX_PRODUCT_SECONDS = 4e-11  # of two numbers in a product of large matrices of float32


def tree_seconds(n_trees: int, n_nodes: int, level_seconds: float) -> float:
    """Return the nominal seconds of one row for trees with `n_nodes` nodes in total, by the depth of balanced trees.

    `level_seconds` is for a level of a tree, measured with ten thousand rows and trees of 20 to 300 nodes.
    """
    return level_seconds * n_trees * math.log2(max(2.0, n_nodes / max(1, n_trees)))


@dataclass(frozen=True, repr=False)
class FittedModel(ABC):
    """A trained model of one library."""

    library: ClassVar[str]
    file: ClassVar[str]

    estimator: Any  # the estimator object of the library
    task: Task
    feature_names: tuple[str, ...] = ()  # names of the columns of the matrix, in order; empty if they have none
    n_classes: int = 0  # number of classes of the target; 0 without classes
    classes: tuple[int, ...] = ()  # class codes that occurred in the training rows; all other classes get probability 0
    notes: tuple[str, ...] = ()  # notes for the report: on the training, and on differences from scikit-learn
    targets: tuple[TargetSpec, ...] = field(default=(), kw_only=True)  # the targets of the task multioutput

    @classmethod
    def of(
        cls, estimator: Any, task: Task, feature_names: tuple[str, ...], n_classes: int, classes: tuple[int, ...]
    ) -> Self:
        """Return the fitted model of a trained estimator."""
        return cls(estimator, task, feature_names, n_classes, classes)

    @property
    def models(self) -> tuple[FittedModel, ...]:
        """The models that predict: those of an ensemble, otherwise this one."""
        return (self,)

    @property
    def n_outputs(self) -> int:
        """Number of predicted quantiles, or of columns of several targets; 0 for other tasks."""
        return sum(target.width for target in self.targets)

    @property
    def most_models(self) -> int:
        """The largest number of models of a member of an ensemble; 1 for other models."""
        return 1

    @property
    def target_units(self) -> tuple[tuple[float, float], ...]:
        """Offset and unit of each target during the training; empty if they are 0 and 1."""
        return ()

    @property
    def unscaled(self) -> FittedModel:
        """The model of the target in the units of the training."""
        return self

    @property
    def n_rounds(self) -> int:
        """Number of rounds of boosting, if further ones can be added to the model; otherwise 0."""
        return 0

    @property
    def seen_rows(self) -> SeenRows | None:
        """Sums of the training rows, if the training can continue from these and further rows."""
        return None

    def with_seen_rows(self, files: ModelFiles) -> FittedModel:
        """Return a loaded model with its `seen_rows`, which no prediction needs; `files` are those it was read from.

        Raise ValueError if they are malformed.
        """
        return self

    def of_first_models(self, n: int) -> FittedModel:
        """Return the ensemble with at most the first `n` models of each member; other models: itself."""
        return self

    @property
    def row_seconds(self) -> float:
        """Predicted seconds of one processor core for a row of a large table, from the size of the model.

        A rough figure, which is the same on all machines. By default, that of some operations for each column.
        """
        return COLUMN_SECONDS * max(1, len(self.feature_names))

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """Receipts of the arrays handed to another library in training."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task}, {len(self.feature_names)} features, by {self.library})"

    @property
    def history(self) -> tuple[Mapping[str, float], ...]:
        """The losses ``training`` and ``validation`` of each epoch; empty for models without epochs."""
        return ()

    @abstractmethod
    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, float32, shape (n, d)."""

    def row_estimator(self, engine: HostEngine) -> RowEstimator:
        """Return the fastest estimator of single rows whose predictions are those of `predict`; see `RowEstimator`.

        `engine` runs the project's own kernels; compiled ones need Numba.
        """
        if (portable := self.portable()) is not self:
            return portable.row_estimator(engine)
        return RowEstimator(LIBRARIES.get(self.library, self.library), self.predict)

    @property
    def has_classes(self) -> bool:
        """True for classification, also of several targets."""
        return ({target.task for target in self.targets} or {self.task}) <= CLASSIFICATION

    @property
    def n_margins(self) -> int:
        """Number of margins that `explainer` explains: one, or one per class, quantile or column of several targets."""
        return len(self.classes) if self.task == "multiclass" else self.n_outputs or 1

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return what explains the margins of rows on the host by the columns of the matrix.

        By default, the outputs are explained by predictions of rows mixed with the background rows. `background`
        returns rows of the matrix, float32, shape (n, d), that stand for the training rows. It is called only if the
        parameters of the model do not have what is needed.
        """
        if (portable := self.portable()) is not self:
            return portable.explainer(background)
        from gpupipe.models.contributions.permutations import OutputExplainer, predicted_outputs

        scale: Scale = "probability" if self.has_classes else "score"
        return OutputExplainer(predicted_outputs(self), background(), scale, self.n_margins, self.row_seconds)

    def of_targets(self, targets: tuple[TargetSpec, ...]) -> FittedModel:
        """Return this model as one of several targets; it was trained on all of them as columns of one target."""
        return replace(self, task="multioutput", targets=targets)

    def with_library(self) -> FittedModel:
        """Return the model whose predictions are those of its library, for any number of rows; by default, this one."""
        return self

    def unstable_rows(self, X: Array) -> Array:
        """Return a mask of the rows whose predictions may differ between machines by rounding: bool, shape (n,).

        `X` is on the host, float32, shape (n, d), without missing values.
        """
        import numpy as np

        return np.zeros(len(X), bool)

    def columns_read(self) -> tuple[int, ...]:
        """Return the columns of the matrix that the model reads, ascending: those of the members of an ensemble.

        Empty if the columns have no names.
        """
        return tuple(range(len(self.feature_names)))

    def of_columns(self, columns: Sequence[int]) -> FittedModel:
        """Return the model for the matrix of `columns` only.

        Raise ValueError if the model needs the other columns, or has no column names.
        """
        if tuple(columns) != self.columns_read():
            raise ValueError(f"{type(self).__name__} needs all {len(self.feature_names)} columns")
        return self

    def portable(self) -> FittedModel:
        """Return the model that predicts on a machine without a GPU; `save` writes this one."""
        return self

    @abstractmethod
    def importances(self) -> dict[str, float] | None:
        """Return the estimator's importance of each column, in order; None if it has none.

        Linear models: the coefficient (more than two classes: the mean of its absolute values). Forests: the mean
        decrease in impurity. XGBoost: the mean gain of the splits on the column; histogram boosting: their total gain.
        """

    def column_weights(self, X: Array) -> Array | None:
        """Return the weight of each column in the model, float64, shape (d,); None if it has no such measure.

        Weights are computed from the parameters, zero or positive, and comparable within this model only. Linear
        models: the absolute coefficient times the standard deviation of the column in `X`, rows on the host. Others:
        `importances`.
        """
        import numpy as np

        own = self.importances()
        return None if own is None else np.abs(np.fromiter(own.values(), np.float64))

    def _write(self, path: Path) -> None:
        """Write the estimator of a portable model to one file."""
        raise NotImplementedError

    def _write_quickly(self, path: Path) -> None:
        """Write the estimator to one file as fast as possible; the file may be larger."""
        self._write(path)

    def save(self, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
        """Write the estimator to `folder` and return its description for `load_fitted`, as JSON values.

        ``files`` in the description lists the names of the written files. Nothing is pickled. With `quick`, nothing is
        compressed: the files are larger and take a fraction of the time.
        """
        if (portable := self.portable()) is not self:
            return portable.save(folder, quick=quick)
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (self._write_quickly if quick else self._write)(folder / self.file)
        return self._describe([self.file])

    def _describe(self, files: list[str]) -> dict[str, Any]:
        """Return the description of a model whose files have been written."""
        targets = [{"task": target.task, "n_classes": target.n_classes} for target in self.targets]
        return {
            "library": self.library,
            "files": files,
            "task": self.task,
            "feature_names": list(self.feature_names),
            "n_classes": self.n_classes,
            "classes": list(self.classes),
            **({"targets": targets} if targets else {}),
        }

    def _names(self, n_columns: int) -> tuple[str, ...]:
        return self.feature_names or tuple(f"f{j}" for j in range(n_columns))

    def _of_scores(self, score: Array, xp: ArrayNamespace | None = None) -> Prediction:
        """Return the prediction from scores, float64, shape (n, k): values, or the logits of `class_probability`.

        `xp` is the array namespace of `score`; None: ``numpy``.
        """
        if self.task in CLASSIFICATION:
            return self._classification(class_probability(score, xp), xp)
        if self.task == "quantile":
            return Prediction(self.task, quantiles=in_order(score, xp))
        if self.task == "multioutput":
            return Prediction(self.task, outputs=outputs_of_scores(score, self.targets, xp), targets=self.targets)
        return Prediction(self.task, value=score[:, 0])

    def _classification(self, probability: Array, xp: ArrayNamespace | None = None) -> Prediction:
        """Return the prediction from the probability of each class in `classes`, float, shape (n, len(classes))."""
        import numpy as np

        xp = xp or np
        if self.task == "binary":  # contiguous, since metrics read them several times
            return Prediction(self.task, probability=xp.ascontiguousarray(probability[:, 1]).astype("f8", copy=False))
        probability = probability.astype("f8", copy=False)
        if len(self.classes) < self.n_classes:
            every = xp.zeros((len(probability), self.n_classes))
            every[:, list(self.classes)] = probability
            probability = every
        return Prediction(self.task, probability=probability)


def select_columns(X: Array, columns: tuple[int, ...]) -> Array:
    """Return some columns of a matrix, column-major; a view if they are neighbors in order."""
    first, width = columns[0], len(columns)
    if columns == tuple(range(first, first + width)):
        found: Array = X[:, first : first + width]
    else:
        found = X.T[list(columns)].T
    return found


def outputs_of_scores(score: Array, targets: Sequence[TargetSpec], xp: ArrayNamespace | None = None) -> Array:
    """Return the outputs of several targets from scores, float64, shape (n, k): values, or logits of probabilities.

    `xp` is the array namespace of `score`; None: ``numpy``.
    """
    import numpy as np

    found: Array = (xp or np).empty(score.shape)
    for target, (start, stop) in zip(targets, pairwise(column_bounds(targets)), strict=True):
        if target.task == "regression":
            found[:, start] = score[:, start]
        elif target.task == "binary":
            found[:, start] = logistic(score[:, start], xp)
        else:
            found[:, start:stop] = class_probability(score[:, start:stop], xp)
    return found


def in_order(quantiles: Array, xp: ArrayNamespace | None = None) -> Array:
    """Return predicted quantiles, shape (n, k), ascending in each row; `xp` is their namespace.

    Quantiles that were learned apart can cross. Sorting them never increases their pinball loss (Chernozhukov,
    Fernández-Val and Galichon, "Quantile and probability curves without crossing", Econometrica 78 (2010) 1093).
    """
    import numpy as np

    found: Array = (xp or np).sort(quantiles, axis=1)
    return found


def class_probability(score: Array, xp: ArrayNamespace | None = None) -> Array:
    """Return the probability of each class, shape (n, k), without overflow for large scores.

    `score` is float64, shape (n, k) or (n, 1): one logit per class; for two classes, the logit of the second is enough.
    `xp` is its array namespace; None: ``numpy``.
    """
    import numpy as np

    from gpupipe_kernels.rows.column_sums import sum_columns

    xp = xp or np
    if score.shape[1] == 1:
        positive = logistic(score[:, 0], xp)
        return xp.column_stack([1.0 - positive, positive])
    grown = xp.exp(score - score.max(axis=1, keepdims=True))
    shares: Array = grown / sum_columns(grown)
    return shares


def logistic(score: Array, xp: ArrayNamespace | None = None) -> Array:
    """Return the logistic function of each score, float64, shape (n,), without overflow; `xp` is its namespace."""
    import numpy as np

    xp = xp or np
    small = xp.exp(-xp.abs(score))
    positive: Array = xp.where(score >= 0, 1.0, small) / (1.0 + small)
    return positive
