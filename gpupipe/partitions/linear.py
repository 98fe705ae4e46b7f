"""Linear models trained in passes over the partitions of a matrix that does not fit into one process.

The solvers are those of a matrix in memory (`gpupipe.models.linear`): a pass sums over partitions instead of tasks. The
last digits depend on where partitions end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.backends.threads import limit_threads
from gpupipe.models import FitContext, FittedModel, ModelSettings
from gpupipe.models.convergence import convergence_noted
from gpupipe.models.linear.fitted import FittedLinear
from gpupipe.models.linear.passes import Merge, Parts, Passes, Reduction, reduce_rows
from gpupipe.models.linear.settings import LinearSettings, LogisticRegression
from gpupipe.models.progress import ProgressReport
from gpupipe.models.training import explain_errors, keyword_arguments, prepare_rows, with_notes
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.typing import Array

MOST_WEIGHTS = 2_000  # the number of rows and columns of a Hessian, or of a triangular factor


def can_fit_in_passes(model: ModelSettings, n_columns: int, context: FitContext) -> bool:
    """Return whether `fit_in_passes` can train a model on a matrix of that shape."""
    n_outputs = context.n_classes if context.n_classes > 2 else 1
    fits = (n_columns + 1) * n_outputs <= MOST_WEIGHTS
    return fits and isinstance(model, LinearSettings) and model.can_train_in_passes()


def fit_in_passes(model: ModelSettings, X: PartitionedMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train a model that `can_fit_in_passes` accepts.

    Raise ConfigError if its parameters are rejected, and DataError if the rows have fewer than 2 classes.
    """
    assert isinstance(model, LinearSettings)
    rows = prepare_rows(model, X, y, context)
    assert rows.y is not None
    params = keyword_arguments(model, X, context, context.backend.n_threads)
    solver, passes = model.pass_solver(context, params), PartitionPasses(X, rows.y, rows.weights, context)
    with (
        explain_errors(model, X, context),
        convergence_noted(model, params) as notes,
        context.resources.show_progress(passes.report),
    ):
        if isinstance(model, LogisticRegression):
            solver.fit_passes(passes, len(rows.classes))
        else:
            solver.fit_passes(passes)
    fitted = FittedLinear.of(solver, context.task, tuple(context.feature_names), context.n_classes, rows.classes)
    note = f"trained in {passes.n} passes over the partitions: its matrix does not fit into one process"
    return with_notes(fitted, note, *notes)


class PartitionPasses(Passes):
    """Passes over the partitions of a matrix: their workers reduce the rows, and this process merges the results."""

    def __init__(self, X: PartitionedMatrix, y: Array, weights: Array | None, context: FitContext) -> None:
        super().__init__(X.shape, weights, context.resources.safe_point)
        own_weights = [None] * len(X.partitions) if weights is None else X.split_rows(weights)
        self._X = X
        self._own = [[X.workers.put(rows) for rows in zip(X.split_rows(y), own_weights, strict=True)]]

    def report(self) -> ProgressReport | None:
        """Return the passes that are complete; how many the optimizer needs is unknown."""
        return ProgressReport(self.n - 1, None, "pass") if self.n > 1 else None

    def _reduce(self, function: Reduction, arguments: Sequence[Any], merge: Merge) -> Parts:
        label = f"pass {self.n}"
        return reduce(merge, self._X.compute(_reduce, function, arguments, merge, each=self._own, label=label))


def _reduce(
    backend: Backend,
    X: Array,
    function: Reduction,
    arguments: Sequence[Any],
    merge: Merge,
    own: tuple[Array, Array | None],
) -> Parts:
    with limit_threads(blas=1):
        return reduce_rows(X, *own, backend.n_threads, function, arguments, merge)
