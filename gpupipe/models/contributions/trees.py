"""Shapley values of models that consist of trees."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.backends import machine
from gpupipe.models.contributions.base import Contributions, Explainer, Method, Scale, as_multiclass

if TYPE_CHECKING:
    from gpupipe.typing import HostArray
    from gpupipe_kernels.rows.links import Link
    from gpupipe_kernels.rows.trees import PackedTrees

MAX_BLOCK_ROWS = 16_384  # more need much memory
MIN_BLOCK_SECONDS = 2e-3  # of a thread; less work takes no longer on one
WORK_SECONDS = 1e-9  # nominal, of a node and a point of its quadrature


@dataclass(frozen=True)
class ExplainedTrees:
    """The trees of a model, for its explanation."""

    packed: PackedTrees
    start: HostArray  # float64, shape (n_margins,): first term of each sum
    scale: Scale  # of the sums
    factor: float = 1.0  # of each leaf: one over the number of trees, for a mean
    # From rows to the columns that the trees read, float32, shape (n, packed.n_columns); None: the rows themselves.
    read: Callable[[HostArray], HostArray] | None = None
    # int64, shape (packed.n_columns,): the player that each of these columns belongs to; None: each column is a player.
    players: HostArray | None = None
    # float64, shape (n_players, d): share of each column of the matrix in the contribution of each player.
    shares: HostArray | None = None


class TreeExplainer(Explainer):
    """Exact Shapley values of trees; see `gpupipe_kernels.shapley`.

    Trees of two classes have one margin. `background` returns rows, float32, shape (n, d), which weight the nodes of
    trees that do not have the weight of their training rows.
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

    @property
    def row_seconds(self) -> float:
        return WORK_SECONDS * self._shapley.row_work

    def contributions(self, X: HostArray) -> Contributions:
        values = self._by_blocks(self._shapley.values, X)
        if self._trees.shares is not None:
            values = values @ self._trees.shares
        return as_multiclass(Contributions(values, self._base, self._trees.scale), self._n_margins)

    def interactions(self, X: HostArray) -> HostArray:
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

        from gpupipe_kernels.shapley.values import LANES

        least = max(LANES, int(MIN_BLOCK_SECONDS / max(self.row_seconds, 1e-9)))
        if len(X) <= least:  # the number of threads is read from files of the system
            return function(_rows(self._trees, X))
        step = min(MAX_BLOCK_ROWS, max(least, -(-len(X) // machine.n_threads())))
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


def scale_of(link: Link) -> Scale:
    """Return the scale of sums of leaves that a link transforms."""
    from gpupipe_kernels.rows.links import Link

    scales: dict[Link, Scale] = {Link.SIGMOID: "log-odds", Link.SOFTMAX: "log-odds", Link.EXP: "log of the value"}
    return scales.get(link, "score")
