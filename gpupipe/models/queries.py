"""Rows of a ranking in the order of their queries, as boosting libraries take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.typing import Array

CUTOFF = 32
"""Rows of a query that the NDCG of early stopping counts: XGBoost's default."""


class RowsByQuery(NamedTuple):
    """Rows of which those of a query follow each other.

    Attributes
    ----------
    X, y : array
        On the device of the backend.
    query : array of int64, shape (n,)
        Code of the query of each row, ascending, on the host.
    """

    X: Any
    y: Any
    query: Array

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each query."""
        import numpy as np

        sizes: list[int] = np.bincount(self.query).tolist()
        return sizes


def order_by_query(X: Any, y: Any, queries: Array | None, backend: Backend) -> RowsByQuery:
    """Return rows in the order of their queries, which are the values of a column; within a query in their own order.

    Raises
    ------
    ValueError
        If the queries are not known.
    """
    import numpy as np

    if queries is None:
        raise ValueError("a ranking needs the query of each row")
    codes = np.unique(queries, return_inverse=True)[1]
    if (codes[1:] >= codes[:-1]).all():
        return RowsByQuery(X, y, codes)
    order = np.argsort(codes, kind="stable")
    rows = backend.to_device(order)
    return RowsByQuery(X[rows], y[rows], codes[order])
