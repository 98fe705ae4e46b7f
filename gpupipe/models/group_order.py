"""Rows of a ranking in the order of their groups, as boosting libraries take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gpupipe.errors import DataError

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.typing import Array

CUTOFF = 32
"""Rows of a group that the NDCG of early stopping counts: XGBoost's default."""


class RowsByGroup(NamedTuple):
    """Rows of which those of a group follow each other."""

    # X, y: on the device of the backend; the matrix is column-major.
    X: Any
    y: Any
    group: Array  # int64, shape (n,): code of the group of each row, ascending, on the host

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each group."""
        import numpy as np

        sizes: list[int] = np.bincount(self.group).tolist()
        return sizes

    def require_sizes(self, most: int, library: str) -> None:
        """Raise DataError if a group has more rows than a library takes."""
        if (largest := max(self.sizes)) > most:
            raise DataError(
                f"{library} ranks groups of at most {most:,} rows; one has {largest:,}",
                where="split.group",
                fix="use the model xgboost, or a column with smaller groups",
            )


def order_by_group(X: Any, y: Any, groups: Array | None, backend: Backend) -> RowsByGroup:
    """Return rows in the order of their groups, which are the values of a column; within a group in their own order.

    Raise ValueError if the groups are not known.
    """
    import numpy as np

    if groups is None:
        raise ValueError("a ranking needs the group of each row")
    codes = np.unique(groups, return_inverse=True)[1]
    if (codes[1:] >= codes[:-1]).all():
        return RowsByGroup(X, y, codes)
    order = np.argsort(codes, kind="stable")
    return RowsByGroup(backend.take_rows(X, order), y[backend.to_device(order)], codes[order])
