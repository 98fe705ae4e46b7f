"""`Contributions`: Shapley values of the columns of a feature matrix, and `Explainer`, which computes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from gpupipe.errors import ConfigError

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

# What a margin is. A score is a value of the target, or the score by which a ranking orders rows.
Scale = Literal["log-odds", "probability", "score", "log of the value"]
Method = Literal[
    "exact trees", "exact linear", "exact subsets", "expected gradients", "sampled permutations", "weighted sum"
]


@dataclass(frozen=True)
class Contributions:
    """Contribution of each column of a matrix to each margin of each row.

    The base and the contributions of a row sum to its margins: ``base + values.sum(axis=2)``.
    """

    values: HostArray  # float64, shape (n, n_margins, d)
    base: HostArray  # float64, shape (n_margins,): expected margins, over the training rows or over the background rows
    # Binary classification has one margin, that of class 1; several classes have one per class that occurred in
    # training; quantiles one per level, before they are sorted; several targets those of each target.
    scale: Scale

    @property
    def margins(self) -> HostArray:
        """The explained margins, float64, shape (n, n_margins)."""
        import numpy as np

        # In one memory layout: in that of column-major rows, NumPy adds in another order for one row than for several.
        margins: HostArray = self.base + np.ascontiguousarray(self.values).sum(axis=2)
        return margins


class Explainer(ABC):
    """Contributions of the columns of the matrix of one model. Its methods are thread-safe."""

    @property
    @abstractmethod
    def method(self) -> Method:
        """The method that computes the contributions."""

    @property
    def row_seconds(self) -> float:
        """Predicted seconds of one processor core for a row, as `FittedModel.row_seconds`; 0 for a closed form."""
        return 0.0

    @abstractmethod
    def contributions(self, X: HostArray) -> Contributions:
        """Return the contributions to the margins of rows, float32, shape (n, d)."""

    def interactions(self, X: HostArray) -> HostArray:
        """Return the interactions of columns in rows, float64, shape (n, n_margins, d, d).

        The sum over the last axis is the contribution of a column, and ``[:, :, i, j]`` is half of the interaction of
        columns i and j; see Lundberg et al., "From local explanations to global understanding with explainable AI for
        trees", Nature Machine Intelligence 2 (2020) 56. Raise ConfigError if the model does not consist of trees.
        """
        raise ConfigError("interactions are computed for models that consist of trees", fix="leave interactions out")


def as_multiclass(found: Contributions, n_margins: int) -> Contributions:
    """Return the contributions with one margin per class; one margin of two classes becomes that of the second."""
    import numpy as np

    if found.values.shape[1] == n_margins:
        return found
    first = 1.0 - found.base if found.scale == "probability" else np.zeros(1)
    other = -found.values if found.scale == "probability" else np.zeros_like(found.values)
    values = np.concatenate([other, found.values], axis=1)
    return replace(found, values=values, base=np.concatenate([first, found.base]))
