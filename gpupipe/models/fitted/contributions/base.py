"""`Contributions`: Shapley values of the columns of a feature matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

# Scale of what is explained. A score is a value of the target, or the score by which a ranking orders rows.
Scale = Literal["log-odds", "probability", "score", "log of the value"]
Method = Literal["exact trees", "exact linear", "expected gradients", "sampled permutations", "weighted sum"]


@dataclass(frozen=True)
class Contributions:
    """Contribution of each column of a matrix to each margin of each row.

    The base and the contributions of a row sum to its margins: ``base + values.sum(axis=2)``.

    Attributes
    ----------
    values : array of float64, shape (n, n_margins, d)
    base : array of float64, shape (n_margins,)
        Expected margins, over the training rows or over the background rows.
    scale : Scale
        Of the margins. Binary classification has one margin; several classes have one per class in ``classes``;
        quantiles one per level, before they are sorted; several targets those of each target.
    method : Method
    """

    values: HostArray
    base: HostArray
    scale: Scale
    method: Method

    def margins(self) -> HostArray:
        """Return the explained margins, float64, shape (n, n_margins)."""
        margins: HostArray = self.base + self.values.sum(axis=2)
        return margins
