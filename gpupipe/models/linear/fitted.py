"""Fitted linear model: coefficients that predict without scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from gpupipe.artifact.untrusted.archives import read_arrays
from gpupipe.models.files.description import Description
from gpupipe.models.fitted.base import PRODUCT_SECONDS, FittedModel, logistic
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.fitted.row_blocks import predict_in_blocks
from gpupipe.models.fitted.row_estimator import RowEstimator
from gpupipe.models.fitted.seen_rows import FILE as SEEN_ROWS
from gpupipe.models.fitted.seen_rows import SeenRows
from gpupipe.tasks import Task

if TYPE_CHECKING:
    from gpupipe.models.contributions.base import Explainer, Scale
    from gpupipe.models.files.model_files import ModelFiles
    from gpupipe.typing import Array, HostArray
    from gpupipe_kernels.engines import HostEngine


class Coefficients(NamedTuple):
    """``coef``, float64, shape (outputs, columns), and ``intercept``, shape (outputs,); two classes have one output."""

    coef: Array
    intercept: Array


@dataclass(frozen=True, repr=False)
class FittedLinear(FittedModel):
    """A linear model, computed in float64 and stored as npz.

    Probabilities are the logistic function of the score, or its softmax over the classes, as in scikit-learn's
    LogisticRegression.
    """

    library = "linear"
    file = "estimator.npz"

    seen: SeenRows | None = field(default=None, kw_only=True)

    @classmethod
    def of(
        cls, estimator: Any, task: Task, feature_names: tuple[str, ...], n_classes: int, classes: tuple[int, ...]
    ) -> Self:
        """Return the fitted model of an estimator with ``coef_`` and ``intercept_``."""
        import numpy as np

        coef = np.atleast_2d(np.asarray(estimator.coef_, np.float64))
        intercept = np.zeros(len(coef)) + np.asarray(estimator.intercept_, np.float64)
        seen = getattr(estimator, "seen_", None)
        seen = seen if seen is not None and seen.is_small else None
        return cls(Coefficients(coef, intercept), task, feature_names, n_classes, classes, seen=seen)

    @property
    def seen_rows(self) -> SeenRows | None:
        return self.seen

    def with_seen_rows(self, files: ModelFiles) -> FittedModel:
        if SEEN_ROWS not in files.names():
            return self
        found = SeenRows.of_arrays(read_arrays(files.read(SEEN_ROWS)))
        if found.point.shape[-1] - self.estimator.coef.shape[1] not in (0, 1):
            raise ValueError("the sums of the training rows have other columns than the model")
        return replace(self, seen=found)

    @staticmethod
    def read(data: bytes, expected: Description, where: str) -> Coefficients:
        """Return the coefficients in the content of a file.

        Raise ValueError if the file is malformed, or its coefficients do not match the model.
        """
        import numpy as np

        arrays = read_arrays(data)
        if set(arrays) != set(Coefficients._fields):
            raise ValueError(f"expected the arrays coef and intercept; got {', '.join(sorted(arrays))[:80] or 'none'}")
        found = Coefficients(**arrays)
        if any(values.dtype != "float64" for values in found) or found.coef.ndim != 2:
            raise ValueError("expected float64 coefficients with one row per output")
        if found.intercept.shape != found.coef.shape[:1]:
            raise ValueError("coefficients and intercepts differ in their number of outputs")
        if not all(np.isfinite(values).all() for values in found):
            raise ValueError("a coefficient or an intercept is not finite")
        expected.check_columns(found.coef.shape[1])
        expected.check_outputs(found.coef.shape[0])
        return found

    @property
    def row_seconds(self) -> float:
        return PRODUCT_SECONDS * float(self.estimator.coef.size)

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`; the prediction of a row is bit-identical whatever the other rows are.

        A matrix product would sum the columns of a row in an order that depends on the position of the row.
        """
        import numpy as np

        from gpupipe.models.linear.rows import linear_scores

        with np.errstate(over="ignore", invalid="ignore"):  # of infinite scores
            return self._of_scores(predict_in_blocks(linear_scores(self.estimator, "numpy"), X))

    def row_estimator(self, engine: HostEngine) -> RowEstimator:
        """Return dot products in the order of the columns."""
        import numpy as np

        from gpupipe.models.linear.rows import linear_scores

        scores, task = linear_scores(self.estimator, engine), self.task

        def predict_positive(X: Array) -> Prediction:  # without the probability of class 0
            return Prediction(task, probability=logistic(scores(X)[:, 0]))

        def predict(X: Array) -> Prediction:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._of_scores(scores(X))

        has_one_logit = task == "binary" and len(self.estimator.coef) == 1
        name = "compiled dot product" if engine == "numba" else "dot product in NumPy"
        return RowEstimator(name, predict_positive if has_one_logit else predict)

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return exact Shapley values for independent columns."""
        from gpupipe.models.linear.contributions import LinearExplainer

        scale: Scale = "log-odds" if self.has_classes else "score"
        return LinearExplainer(self.estimator.coef, self.estimator.intercept, background(), scale, self.n_margins)

    def importances(self) -> dict[str, float]:
        """Return the coefficients; for more than two classes, the mean of their absolute values."""
        import numpy as np

        coef = self.estimator.coef
        values = coef[0] if len(coef) == 1 else np.abs(coef).mean(axis=0)
        return {name: float(value) for name, value in zip(self._names(len(values)), values, strict=True)}

    def column_weights(self, X: Array) -> Array:
        """Return the mean absolute coefficient of each column times its standard deviation in `X`."""
        import numpy as np

        importance: Array = np.abs(self.estimator.coef).mean(axis=0) * X.std(axis=0, dtype=np.float64)
        return importance

    def _write(self, path: Path) -> None:
        import numpy as np

        np.savez(path, **self.estimator._asdict())

    def save(self, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
        import numpy as np

        description = super().save(folder, quick=quick)
        if self.seen is None:
            return description
        arrays: dict[str, Any] = self.seen.arrays()
        np.savez(Path(folder, SEEN_ROWS), **arrays)
        return {**description, "files": [*description["files"], SEEN_ROWS]}
