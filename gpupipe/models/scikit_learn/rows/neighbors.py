"""Nearest neighbors of a row, and the mean of their targets, whatever rows are searched together.

scikit-learn's brute force takes distances from a product of matrices, whose last digits depend on the rows of the
batch and decide between neighbors that are about equally far. Here the product selects candidates only, with a bound
on its error; their distances are then summed in the order of the columns, and of equal distances the first training
row counts. Checked against scikit-learn 1.9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe.typing import Array

BLOCK_CELLS = 1 << 22  # distances held at once
GROUP = 32
# Distances that are computed pair by pair, and their names in SciPy.
PAIRWISE = {
    "braycurtis": "cityblock", "canberra": "canberra", "chebyshev": "chebyshev", "hamming": "hamming",
    "manhattan": "cityblock", "minkowski": "minkowski",
}  # fmt: skip
Search = Callable[["Array"], tuple["Array", "Array"]]


def neighbor_means(neighbors: Any) -> Callable[[Array], Array] | None:
    """Return the function from rows to the mean target, shape (n, 1), or the shares of the classes, of the neighbors.

    None if scikit-learn has to predict. `neighbors` is a ``KNeighborsClassifier`` or ``KNeighborsRegressor``, fitted on
    one target.
    """
    import numpy as np

    from gpupipe_kernels.rows.column_sums import sum_columns

    search = _search(neighbors)
    if search is None or neighbors.weights not in ("uniform", "distance") or neighbors._y.ndim != 1:
        return None
    targets, is_uniform = neighbors._y, neighbors.weights == "uniform"
    n_classes = len(neighbors.classes_) if hasattr(neighbors, "classes_") else 0

    def means(X: Array) -> Array:
        distance, index = search(X)
        weights = np.ones_like(distance)
        if not is_uniform:
            is_equal = distance == 0
            with np.errstate(divide="ignore"):
                weights = np.where(is_equal.any(axis=1, keepdims=True), is_equal, 1.0 / distance)
        if n_classes == 0:
            found: Array = sum_columns(targets[index] * weights) / sum_columns(weights)
            return found
        shares, rows = np.zeros((len(X), n_classes)), np.arange(len(X))
        for codes, own in zip(targets[index].T, weights.T, strict=True):
            shares[rows, codes] += own
        shares /= sum_columns(shares)
        return shares

    return means


def _search(neighbors: Any) -> Search | None:
    """Return the function from rows to distances, ascending, and positions of the neighbors; None if unknown."""
    import numpy as np

    if neighbors._fit_method != "brute":  # trees are walked for each row by itself
        return lambda X: neighbors.kneighbors(np.ascontiguousarray(X))
    metric, parameters = neighbors.effective_metric_, neighbors.effective_metric_params_
    train, k = np.asarray(neighbors._fit_X), neighbors.n_neighbors
    if train.dtype != np.float32 or not np.isfinite(train).all() or set(parameters) - {"p"}:
        return None
    if k > len(train):
        return None  # scikit-learn's error names both numbers
    if metric in PAIRWISE:
        by_block = _pairwise_search(train.astype(np.float64), metric, parameters, k)
    elif metric in ("cosine", "euclidean"):
        by_block = _product_search(train.astype(np.float64), metric == "cosine", k)
    else:
        return None
    step = max(1, BLOCK_CELLS // len(train))

    def search(X: Array) -> tuple[Array, Array]:
        starts = range(0, max(1, len(X)), step)
        distance, index = zip(*(by_block(X[low : low + step].astype(np.float64)) for low in starts), strict=True)
        return np.concatenate(distance), np.concatenate(index)

    return search


def _pairwise_search(train: Array, metric: str, parameters: dict[str, Any], k: int) -> Search:
    import numpy as np
    from scipy.spatial.distance import cdist

    train_sizes = _sizes(train)

    def search(X: Array) -> tuple[Array, Array]:
        distance = cdist(X, train, PAIRWISE[metric], **parameters)
        if metric == "braycurtis":  # as in scikit-learn's search: relative to |x| + |a|, not to |x + a| as in SciPy
            distance /= np.maximum(_sizes(X) + train_sizes.T, np.finfo(np.float64).tiny)
        row, index = _at_most(distance, _bound(distance, k))
        return _first(distance[row, index], row, index, len(X), k)

    return search


def _product_search(train: Array, is_cosine: bool, k: int) -> Search:
    import numpy as np

    if is_cosine:
        train = _directions(train, 0)
    lengths = np.square(train).sum(axis=1)
    longest = lengths.max()
    # Both the product and the ordered sum differ from the exact squared distance by less than this share of
    # |x|² + |a|²: each is a sum of d products of float64 (Higham, "Accuracy and stability of numerical algorithms",
    # 3.1), and (|x| + |a|)² is at most 2 (|x|² + |a|²). A neighbor is below the k-th smallest product plus two errors.
    error = 4.0 * (train.shape[1] + 4) * np.finfo(np.float64).eps

    def search(X: Array) -> tuple[Array, Array]:
        if is_cosine:
            X = _directions(X, 1)
        own = np.square(X).sum(axis=1)[:, None]
        shifted = (-2.0 * X) @ train.T  # the squared distance without |x|²
        shifted += lengths
        row, index = _at_most(shifted, _bound(shifted, k) + 2.0 * error * (own + longest))
        squared, index = _first(_squared_distances(X, train, row, index), row, index, len(X), k)
        return (squared / 2.0 if is_cosine else np.sqrt(squared)), index

    return search


def _bound(values: Array, k: int) -> Array:
    """Return the `k`-th smallest value of each row, shape (n, 1), or a little more."""
    import numpy as np

    width = values.shape[1] // GROUP
    if width >= 4 * k:  # of the smallest values of groups, which is several times faster
        groups = values[:, : GROUP * width].reshape(len(values), GROUP, width).min(axis=1)
        values = np.concatenate([groups, values[:, GROUP * width :]], axis=1)
    found: Array = np.partition(values, k - 1, axis=1)[:, k - 1 : k]
    return found


def _at_most(values: Array, bound: Array) -> tuple[Array, Array]:
    """Return the rows, ascending, and columns of the values within the bound of their row."""
    import numpy as np

    row, column = np.divmod(np.flatnonzero(values <= bound), values.shape[1])
    return row, column


def _squared_distances(X: Array, train: Array, row: Array, index: Array) -> Array:
    """Return the squared distance of each pair of rows, summed in the order of the columns."""
    import numpy as np

    found, step = np.empty(len(row)), max(1, (1 << 20) // train.shape[1])
    for low in range(0, len(row), step):
        pairs = slice(low, low + step)
        terms = np.square(X[row[pairs]] - train[index[pairs]])
        found[pairs] = np.add.accumulate(terms, axis=1, out=terms)[:, -1]
    return found


def _first(distance: Array, row: Array, index: Array, n_rows: int, k: int) -> tuple[Array, Array]:
    """Return distances and indices of the `k` nearest candidates of each row, shape (n, k), nearest first."""
    import numpy as np

    order = np.lexsort((index, distance, row))
    places = order[np.searchsorted(row, np.arange(n_rows))[:, None] + np.arange(k)]
    return distance[places], index[places]


def _sizes(rows: Array) -> Array:
    """Return the sum of the absolute values of each row, shape (n, 1)."""
    import numpy as np

    from gpupipe_kernels.rows.column_sums import sum_columns

    found: Array = sum_columns(np.abs(rows))
    return found


def _directions(rows: Array, side: int) -> Array:
    """Return rows of length 1, of which half the squared distance is the cosine distance.

    A row of zeros, whose cosine distance from every row is 1, gets a separate direction for each side.
    """
    import numpy as np

    from gpupipe_kernels.rows.column_sums import sum_columns

    lengths = np.sqrt(sum_columns(np.square(rows)))
    is_zero = lengths == 0
    extra = np.zeros((len(rows), 2))
    extra[:, side : side + 1] = is_zero
    return np.concatenate([rows / np.where(is_zero, 1.0, lengths), extra], axis=1)
