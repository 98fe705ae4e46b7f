"""Sums of leaf values in the order of the trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpupipe.typing import HostArray
    from gpupipe_kernels.engines import HostEngine
    from gpupipe_kernels.rows.trees import PackedTrees


def tree_sums(packed: PackedTrees, start: HostArray, engine: HostEngine) -> Callable[[HostArray], HostArray]:
    """Return the function from rows, float32, shape (n, d), to sums, float64, shape (n, n_outputs).

    `packed` has one value per leaf, or one for each output; `start` is the first term of each sum, float64, shape
    (n_outputs,).
    """
    return _compiled_sums(packed, start) if engine == "numba" else numpy_sums(packed, start)


def walk_name(engine: HostEngine) -> str:
    """Return the name of a walk of trees, as in `RowEstimator`."""
    return "compiled trees" if engine == "numba" else "trees in NumPy"


def _compiled_sums(packed: PackedTrees, start: HostArray) -> Callable[[HostArray], HostArray]:
    import numpy as np

    from gpupipe_kernels.launch import read_only
    from gpupipe_kernels.rows.trees_numba import add_float64

    nodes, trees, words, values = map(read_only, packed[:4])
    width, n_outputs = packed.width, len(start)

    def sums(X: HostArray) -> HostArray:
        out = np.empty((len(X), n_outputs))
        out[:] = start
        table = np.empty(width, np.int32)
        add_float64(np.ascontiguousarray(X), nodes, trees, words, values, table, out)
        return out

    return sums


def numpy_sums(packed: PackedTrees, start: HostArray) -> Callable[[HostArray], HostArray]:
    """Return the function of `tree_sums` in NumPy; the sums have the dtype of `start`, float32 or float64."""
    import numpy as np

    from gpupipe_kernels.rows.trees_numpy import NumpyTrees, OrderedSum

    walk, values = NumpyTrees(packed), packed.values
    if values.shape[1] == 1:
        total = OrderedSum(packed.trees["output"], start)
        return lambda X: total.of(values[:, 0].take(walk.leaves(X)))

    def sums(X: HostArray) -> HostArray:
        terms = np.concatenate([np.broadcast_to(start, (len(X), 1, len(start))), values[walk.leaves(X)]], axis=1)
        out: HostArray = np.add.accumulate(terms, axis=1)[:, -1]
        return out

    return sums
