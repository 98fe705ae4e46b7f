"""Row estimator of XGBoost models: a walk of their trees, without XGBoost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe.models.xgboost.trees import XGBoostTrees
    from gpupipe.typing import Array
    from gpupipe_kernels.engines import HostEngine


def forest_scores(
    models: Sequence[XGBoostTrees], columns: Sequence[Sequence[int]], n_columns: int, engine: HostEngine
) -> Callable[[Array], Array]:
    """Return the function from rows to the outputs of several models, walked as one forest.

    The models have the same number of outputs and the same link; `columns` are those of the `n_columns` that each model
    reads. Rows are float32, shape (n, n_columns), outputs float64, shape (m, n), or (m, n, n_outputs) with several
    outputs.
    """
    import numpy as np

    from gpupipe_kernels.rows.trees import join_forests

    n_outputs = len(models[0].base)
    packed = join_forests([model.packed for model in models], columns, n_columns, n_outputs)
    base = np.concatenate([model.base for model in models])
    link = models[0].link
    m = len(models)

    def compiled() -> Callable[[Array], Array]:
        from gpupipe_kernels.launch import read_only
        from gpupipe_kernels.rows.trees_numba import add_forests_float32

        ends = np.cumsum([len(model.packed.trees) for model in models])
        arrays = [read_only(array) for array in (packed.nodes, packed.trees, packed.words, packed.values, ends)]
        start, width = base.astype(np.float64).reshape(m, n_outputs), packed.width

        def scores(X: Array) -> Array:
            out = np.empty((len(X), m, n_outputs))
            out[:] = start
            table = np.empty(width, np.int32)
            add_forests_float32(np.ascontiguousarray(X), *arrays, table, int(link), out.reshape(-1, n_outputs))
            return out.swapaxes(0, 1)

        return scores

    def with_numpy() -> Callable[[Array], Array]:
        from gpupipe_kernels.rows.links import apply_link
        from gpupipe_kernels.rows.trees_numpy import NumpyTrees, OrderedSum

        walk, total = NumpyTrees(packed), OrderedSum(packed.trees["output"], base)
        values = packed.values[:, 0]

        def scores(X: Any) -> Array:
            margin = total.of(values.take(walk.leaves(X)))
            out = apply_link(link, margin.reshape(-1, n_outputs)).astype(np.float64)
            return out.reshape(-1, m, n_outputs).swapaxes(0, 1)

        return scores

    of_models = compiled() if engine == "numba" else with_numpy()
    return of_models if n_outputs > 1 else lambda X: of_models(X)[..., 0]


def tree_scores(trees: XGBoostTrees, engine: HostEngine) -> Callable[[Array], Array]:
    """Return the function from rows, float32, shape (n, d), to the output of ``Booster.inplace_predict``, in float64.

    The output has the shape (n, n_outputs), or (n,) with one output.
    """
    return _compiled_scores(trees) if engine == "numba" else _numpy_scores(trees)


def _compiled_scores(trees: XGBoostTrees) -> Callable[[Array], Array]:
    import numpy as np

    from gpupipe_kernels.launch import read_only
    from gpupipe_kernels.rows.trees_numba import add_float32

    packed, link = trees.packed, int(trees.link)
    arrays = [read_only(array) for array in (packed.nodes, packed.trees, packed.words, packed.values)]
    base, n_outputs = trees.base.astype(np.float64), len(trees.base)
    nodes, roots, words, values = arrays
    width = packed.width

    def scores(X: Array) -> Array:
        out = np.empty((len(X), n_outputs))
        out[:] = base
        table = np.empty(width, np.int32)
        add_float32(np.ascontiguousarray(X), nodes, roots, words, values, table, link, out)
        return out if n_outputs > 1 else out[:, 0]

    return scores


def _numpy_scores(trees: XGBoostTrees) -> Callable[[Array], Array]:
    import numpy as np

    from gpupipe.models.fitted.tree_sums import numpy_sums
    from gpupipe_kernels.rows.links import apply_link

    sums = numpy_sums(trees.packed, trees.base)
    link = trees.link
    n_outputs = len(trees.base)

    def scores(X: Any) -> Array:
        out = apply_link(link, sums(X)).astype(np.float64)
        return out if n_outputs > 1 else out[:, 0]

    return scores
