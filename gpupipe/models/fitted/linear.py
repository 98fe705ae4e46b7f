"""A trained linear model: its coefficients, which predict on a machine without scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from gpupipe.artifact.untrusted.archives import read_arrays
from gpupipe.models.files.description import Description
from gpupipe.models.fitted.base import FittedModel, Prediction
from gpupipe.tasks import Task

if TYPE_CHECKING:
    from gpupipe.typing import Array

BLOCK_ROWS = 8_192  # a block of float64 stays in the cache


class Coefficients(NamedTuple):
    """``coef``, float64, shape (outputs, columns), and ``intercept``, shape (outputs,); one output for two classes."""

    coef: Array
    intercept: Array


@dataclass(frozen=True, repr=False)
class FittedLinear(FittedModel):
    """Coefficients; kept as npz, computed in float64.

    Probabilities are the logistic function of the score, or its softmax over the classes, as in scikit-learn's
    LogisticRegression.
    """

    library = "linear"
    file = "estimator.npz"

    @classmethod
    def of(
        cls, estimator: Any, task: Task, feature_names: tuple[str, ...], n_classes: int, classes: tuple[int, ...]
    ) -> Self:
        """Return the fitted model of an estimator with ``coef_`` and ``intercept_``."""
        import numpy as np

        coef = np.atleast_2d(np.asarray(estimator.coef_, np.float64))
        intercept = np.zeros(len(coef)) + np.asarray(estimator.intercept_, np.float64)
        return cls(Coefficients(coef, intercept), task, feature_names, n_classes, classes)

    @staticmethod
    def read(data: bytes, said: Description, where: str) -> Coefficients:
        """Return the coefficients in the bytes of a file.

        Raises
        ------
        ValueError
            If it holds none, or not those of such a model.
        """
        import numpy as np

        arrays = read_arrays(data)
        if set(arrays) != set(Coefficients._fields):
            raise ValueError(f"it holds {', '.join(sorted(arrays))[:80] or 'nothing'}, and no coefficients")
        found = Coefficients(**arrays)
        if any(values.dtype != "float64" for values in found) or found.coef.ndim != 2:
            raise ValueError("coefficients are float64, one row for each output")
        if found.intercept.shape != found.coef.shape[:1]:
            raise ValueError("coefficients and intercepts do not match")
        if not all(np.isfinite(values).all() for values in found):
            raise ValueError("a coefficient or an intercept is not finite")
        said.check_columns(found.coef.shape[1])
        said.check_outputs(found.coef.shape[0])
        return found

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`: each to the same bits, whichever others are asked for with it.

        A matrix product would add up the columns of a row in an order that depends on where the row stands.
        """
        import numpy as np

        with np.errstate(over="ignore", invalid="ignore"):  # of weights near the largest number
            return self._of_scores(self._scores(X))

    def _scores(self, X: Array) -> Array:
        """Return scores, float64, shape (n, outputs)."""
        import numpy as np

        coef, intercept = self.estimator
        score = np.zeros((len(coef), len(X)))
        for low in range(0, len(X), BLOCK_ROWS):
            rows = X[low : low + BLOCK_ROWS].astype(np.float64)
            for output, weights in zip(score[:, low : low + BLOCK_ROWS], coef, strict=True):
                for column, weight in zip(rows.T, weights, strict=True):
                    output += column * weight
        shifted: Array = score.T + intercept
        return shifted

    def importances(self) -> dict[str, float]:
        """Return the coefficients; of several classes the mean of their absolute values."""
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
