"""A trained linear model: its coefficients, which predict on a machine without scikit-learn."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from gpupipe.errors import ArtifactError
from gpupipe.models.base import Task
from gpupipe.models.fitted import FittedModel, Prediction

if TYPE_CHECKING:
    from gpupipe.backends.base import Array

BLOCK_ROWS = 8_192  # a block of float64 stays in the cache


class Coefficients(NamedTuple):
    """``coef``, float64, shape (outputs, columns), and ``intercept``, shape (outputs,); one output for two classes."""

    coef: Array
    intercept: Array


@dataclass(frozen=True)
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
    def read(path: Path) -> Coefficients:
        """Return the coefficients in a file."""
        import numpy as np

        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                found = Coefficients(arrays["coef"], arrays["intercept"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ArtifactError(f"not a linear model: {error}", where=str(path), fix="export it again") from error
        if found.coef.ndim != 2 or found.intercept.shape != found.coef.shape[:1]:
            raise ArtifactError("coefficients and intercepts do not match", where=str(path), fix="export it again")
        return found

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`: each to the same bits, whichever others are asked for with it.

        A matrix product would add up the columns of a row in an order that depends on where the row stands.
        """
        import numpy as np

        coef, intercept = self.estimator
        score = np.zeros((len(coef), len(X)))
        for low in range(0, len(X), BLOCK_ROWS):
            rows = X[low : low + BLOCK_ROWS].astype(np.float64)
            for output, weights in zip(score[:, low : low + BLOCK_ROWS], coef, strict=True):
                for column, weight in zip(rows.T, weights, strict=True):
                    output += column * weight
        return self._of_scores(score.T + intercept)

    def importances(self) -> dict[str, float]:
        """Return the coefficients; of several classes the mean of their absolute values."""
        import numpy as np

        coef = self.estimator.coef
        values = coef[0] if len(coef) == 1 else np.abs(coef).mean(axis=0)
        return {name: float(value) for name, value in zip(self._names(len(values)), values, strict=True)}

    def _write(self, path: Path) -> None:
        import numpy as np

        np.savez(path, **self.estimator._asdict())
