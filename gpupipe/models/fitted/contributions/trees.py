"""Shapley values of models that consist of trees."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpupipe.backends import machine
from gpupipe.models.fitted.contributions.base import Contributions, Explainer, Method, Scale, as_multiclass

if TYPE_CHECKING:
    from gpupipe.models.files.lightgbm import LightGBMTrees
    from gpupipe.models.files.xgboost.trees import XGBoostTrees
    from gpupipe.typing import HostArray
    from gpupipe_kernels.rows.links import Link
    from gpupipe_kernels.rows.trees import PackedTrees

MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 256, 16_384  # fewer rows per thread take no longer on one; more need much memory


@dataclass(frozen=True)
class ExplainedTrees:
    """The trees of a model, for its explanation.

    Attributes
    ----------
    start : array of float64, shape (n_margins,)
        First term of each sum.
    scale : Scale
        Of the sums.
    factor : float
        Of each leaf: one over the number of trees, for a mean.
    read : callable, optional
        From rows to the columns that the trees read, float32, shape (n, packed.n_columns); None: the rows themselves.
    players : array of int64, shape (packed.n_columns,), optional
        The player that each of these columns belongs to; None: each column is a player.
    shares : array of float64, shape (n_players, d), optional
        Share of each column of the matrix in the contribution of each player.
    """

    packed: PackedTrees
    start: HostArray
    scale: Scale
    factor: float = 1.0
    read: Callable[[HostArray], HostArray] | None = None
    players: HostArray | None = None
    shares: HostArray | None = None


class TreeExplainer(Explainer):
    """Exact Shapley values of trees; see `gpupipe_kernels.shapley`.

    Parameters
    ----------
    n_margins : int
        Number of margins; trees of two classes have one.
    background : callable
        Returns rows, float32, shape (n, d). They weight the nodes of trees that do not have the weight of their
        training rows.
    """

    method: Method = "exact trees"

    def __init__(self, trees: ExplainedTrees, n_margins: int, background: Callable[[], HostArray]) -> None:
        import numpy as np

        from gpupipe_kernels.shapley.steps import tree_steps
        from gpupipe_kernels.shapley.values import TreeShapley

        packed = trees.packed
        if not _has_cover(packed):
            packed = packed._replace(cover=_counts(packed, _rows(trees, background())))
        packed = packed._replace(values=packed.values.astype(np.float64) * trees.factor)
        self._trees, self._n_margins = trees, n_margins
        self._shapley = TreeShapley(tree_steps(packed, len(trees.start), trees.players))
        self._base = trees.start + self._shapley.base

    def contributions(self, X: HostArray) -> Contributions:
        """Return the contributions to the margins of rows; see `Explainer`."""
        values = self._by_blocks(self._shapley.values, X)
        if self._trees.shares is not None:
            values = values @ self._trees.shares
        return as_multiclass(Contributions(values, self._base, self._trees.scale), self._n_margins)

    def interactions(self, X: HostArray) -> HostArray:
        """Return the interactions of columns in rows; see `Explainer`."""
        import numpy as np

        values = self._by_blocks(self._shapley.interactions, X)
        if (shares := self._trees.shares) is not None:
            values = shares.T @ values @ shares
        d = values.shape[-1]
        flat = Contributions(values.reshape(*values.shape[:2], d * d), self._base, self._trees.scale)
        found = as_multiclass(flat, self._n_margins).values
        return np.ascontiguousarray(found.reshape(*found.shape[:2], d, d))

    def _by_blocks(self, function: Callable[[HostArray], HostArray], X: HostArray) -> HostArray:
        """Return the result of a function of rows, computed by blocks on the threads of the machine."""
        import numpy as np

        step = min(MAX_BLOCK_ROWS, max(MIN_BLOCK_ROWS, -(-len(X) // machine.n_threads())))
        if len(X) <= step:
            return function(_rows(self._trees, X))
        starts = range(0, len(X), step)
        with ThreadPoolExecutor(machine.n_threads()) as pool:
            blocks = pool.map(lambda start: function(_rows(self._trees, X[start : start + step])), starts)
            found: HostArray = np.concatenate(list(blocks))
        return found


def _rows(trees: ExplainedTrees, X: HostArray) -> HostArray:
    """Return the columns that the trees read."""
    return X if trees.read is None else trees.read(X)


def _has_cover(packed: PackedTrees) -> bool:
    """Return whether the trees have the weight of the training rows in each node: that of its children, if it has any.

    Trees that were converted from another library may have none. Rounding to float32 may change it by some digits.
    """
    import numpy as np

    cover, nodes = packed.cover, packed.nodes
    if cover is None or not np.isfinite(cover).all() or (cover < 0).any():
        return False
    child = nodes["child"]
    inner = np.flatnonzero(child != np.arange(len(nodes)))
    children = cover[child[inner]] + cover[child[inner] + 1]
    return bool((cover[packed.trees["root"]] > 0).all() and np.allclose(children, cover[inner], rtol=1e-2, atol=1e-6))


def _counts(packed: PackedTrees, rows: HostArray) -> HostArray:
    """Return the number of rows that reach each node, float64, shape (n_nodes,)."""
    import numpy as np

    from gpupipe_kernels.launch import read_only
    from gpupipe_kernels.rows.trees_numba import count_rows

    counts = np.zeros(len(packed.nodes))
    arrays = map(read_only, (packed.nodes, packed.trees, packed.words))
    count_rows(np.ascontiguousarray(rows, np.float32), *arrays, np.empty(packed.width, np.int32), counts)
    return counts


def explained_forest(forest: Any, is_classifier: bool) -> ExplainedTrees:
    """Return the trees of one of scikit-learn's forests; the margins are means of leaves: probabilities, or values."""
    import numpy as np

    from gpupipe.models.fitted.rows.forest import pack_forest

    packed = pack_forest(forest)
    if is_classifier and packed.values.shape[1] == 2:
        packed = packed._replace(values=np.ascontiguousarray(packed.values[:, 1:]))
    scale: Scale = "probability" if is_classifier else "score"
    return ExplainedTrees(packed, np.zeros(packed.values.shape[1]), scale, 1.0 / len(forest.estimators_))


def explained_boosting(boosting: Any) -> ExplainedTrees | None:
    """Return the trees of scikit-learn's histogram gradient boosting; None if a walk cannot read its categories."""
    import numpy as np

    from gpupipe.models.fitted.rows.hist_boosting import pack_boosting

    packed = pack_boosting(boosting)
    if packed is None:
        return None
    start = 0.0 + np.asarray(boosting._baseline_prediction, np.float64).reshape(-1)
    link = type(boosting._loss.link).__name__
    scale: Scale = "log-odds" if hasattr(boosting, "classes_") else "log of the value" if link == "LogLink" else "score"
    return ExplainedTrees(packed, start, scale)


def explained_xgboost(trees: XGBoostTrees) -> ExplainedTrees:
    """Return the trees of an XGBoost model."""
    return ExplainedTrees(trees.packed, trees.base.astype("float64"), _scale(trees.link))


def explained_lightgbm(trees: LightGBMTrees) -> ExplainedTrees:
    """Return the trees of a LightGBM model that were read with their covers."""
    import numpy as np

    return ExplainedTrees(trees.packed, np.zeros(trees.n_outputs), _scale(trees.link))


def _scale(link: Link) -> Scale:
    from gpupipe_kernels.rows.links import Link

    scales: dict[Link, Scale] = {Link.SIGMOID: "log-odds", Link.SOFTMAX: "log-odds", Link.EXP: "log of the value"}
    return scales.get(link, "score")
