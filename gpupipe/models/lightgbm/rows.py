"""Predictions of LightGBM's trees without LightGBM: one row or many, in NumPy or compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpupipe.models.fitted.tree_sums import tree_sums

if TYPE_CHECKING:
    from gpupipe.models.lightgbm.trees import LightGBMTrees
    from gpupipe.typing import HostArray
    from gpupipe_kernels.engines import HostEngine
    from gpupipe_kernels.rows.trees import PackedTrees


def tree_outputs(trees: LightGBMTrees, engine: HostEngine) -> Callable[[Any], HostArray]:
    """Return the function from rows, float32, shape (n, d), to LightGBM's predictions, float64, shape (n, n_outputs).

    LightGBM adds the leaves of each output to 0 in the order of the trees, in float64.
    """
    return _linked_sums(trees.packed, trees.n_outputs, trees, engine)


def lightgbm_forest_outputs(
    models: Sequence[LightGBMTrees], columns: Sequence[Sequence[int]], n_columns: int, engine: HostEngine
) -> Callable[[Any], HostArray]:
    """Return the function from rows to the outputs of several models, walked as one forest.

    Parameters and result as in `gpupipe.models.xgboost.rows.forest_scores`.
    """
    from gpupipe_kernels.rows.trees import join_forests

    m, n_outputs = len(models), models[0].n_outputs
    packed = join_forests([model.packed for model in models], columns, n_columns, n_outputs)
    outputs = _linked_sums(packed, m * n_outputs, models[0], engine)

    def of_models(X: HostArray) -> HostArray:
        found = outputs(X).reshape(-1, m, n_outputs).swapaxes(0, 1)
        return found if n_outputs > 1 else found[..., 0]

    return of_models


def _linked_sums(
    packed: PackedTrees, n_sums: int, model: LightGBMTrees, engine: HostEngine
) -> Callable[[Any], HostArray]:
    """Return the function from rows to the sums of leaves, each group of ``model.n_outputs`` of them transformed."""
    import numpy as np

    from gpupipe_kernels.rows.links import apply_float64_link

    sums = tree_sums(packed, np.zeros(n_sums), engine)
    link = model.link
    n_outputs = model.n_outputs
    if engine == "numpy":
        return lambda X: apply_float64_link(link, sums(X).reshape(-1, n_outputs)).reshape(-1, n_sums)
    from gpupipe_kernels.rows.trees_numba import transform_float64

    def outputs(X: HostArray) -> HostArray:
        out = sums(X)
        transform_float64(int(link), out.reshape(-1, n_outputs))  # a view
        return out

    return outputs
