"""Explanation of the rows of a feature matrix by a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.errors import ArtifactError, DataError
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.contributions.base import Explainer
from gpupipe.pipeline.explain.explanation import Explanation, join_explanations
from gpupipe.pipeline.explain.folding import Folding
from gpupipe.pipeline.goal import Goal
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.pipeline.model.model import Model

BLOCK_BYTES = 1 << 26  # of contributions to matrix columns at once
MIN_BLOCK_ROWS = 64
EXPLAINED = ("binary", "multiclass", "regression", "quantile", "ranking", "multioutput")


class ModelExplainer:
    """Explanations of a fitted model. Its methods are thread-safe.

    Parameters
    ----------
    goal : Goal
    folding : Folding
    estimator : FittedModel
        On the host.
    background : callable
        Returns rows of the matrix that stand for the training rows: float32, shape (n, d).

    Raises
    ------
    DataError
        If the task has no predictions to explain: clusters and embeddings.
    """

    def __init__(
        self, goal: Goal, folding: Folding, estimator: FittedModel, background: Callable[[], HostArray]
    ) -> None:
        if goal.task not in EXPLAINED:
            raise DataError(
                f"a model of the task {goal.task} has no predictions to explain",
                fix="explain a model with a target",
            )
        self._folding, self._estimator = folding, estimator
        self._explainer: Explainer = estimator.explainer(background)
        self._outputs = output_names(goal, estimator)

    @staticmethod
    def of(model: Model) -> ModelExplainer:
        """Return the explanations of a loaded model."""
        return ModelExplainer(model.goal, Folding.of(model.features), model.estimator, lambda: recorded_matrix(model))

    def explain(self, X: HostArray, *, interactions: bool = False) -> Explanation:
        """Return the explanation of rows on the host, float32, shape (n, d), computed by blocks.

        Raises
        ------
        ConfigError
            If interactions are requested for a model that does not consist of trees.
        """
        n_margins, d = self._estimator.n_margins, X.shape[1]
        step = max(MIN_BLOCK_ROWS, BLOCK_BYTES // (8 * n_margins * d * (d if interactions else 1)))
        starts = range(0, max(1, len(X)), step)
        return join_explanations([self._explain(X[start : start + step], interactions) for start in starts])

    def _explain(self, X: HostArray, interactions: bool) -> Explanation:
        found = self._explainer.contributions(X)
        values: HostArray = np.moveaxis(self._folding.fold(found.values), 1, 2)
        base: Any = found.base
        pairs = None
        if interactions:
            pairs = np.moveaxis(self._folding.fold_pairs(self._explainer.interactions(X)), 1, 3)
        if not self._outputs:
            values, base = values[:, :, 0], float(base[0])
            pairs = None if pairs is None else pairs[..., 0]
        return Explanation(
            self._folding.columns, np.ascontiguousarray(values), base, self._outputs, found.scale,
            self._explainer.method, self._folding.divided, pairs,
        )  # fmt: skip


def output_names(goal: Goal, estimator: FittedModel) -> tuple[str, ...]:
    """Return the names of the margins of a model; none for a single one."""
    if goal.task == "multiclass":
        return tuple(str(goal.labels[code]) for code in estimator.classes)
    if goal.quantiles:
        return goal.quantile_names
    if not goal.targets:
        return ()
    names = []
    models: Sequence[FittedModel] = estimator.models
    for i, own in enumerate(goal.targets):
        part = models[i] if len(models) == len(goal.targets) else None
        classes = range(own.n_classes) if part is None else part.classes
        names += (
            [f"{own.target}_{own.labels[code]}" for code in classes] if own.task == "multiclass" else [own.target or ""]
        )
    return tuple(names)


def recorded_matrix(model: Model) -> HostArray:
    """Return the feature matrix of the recorded rows of the run, float32, shape (n, d).

    Raises
    ------
    ArtifactError
        If the model has no recorded rows, or they are malformed.
    """
    from gpupipe.pipeline.parity.files import read_record

    reader, where = ArtifactReader(model.folder), str(model.folder)
    fix = "run its configuration again with this version of gpupipe"
    if "parity.json" not in reader.names():
        raise ArtifactError("the model has no recorded rows to explain it by", where=where, fix=fix)
    with refuse_failures("cannot read the recorded rows", where, fix):
        recorded = read_record(reader, ())
        X = recorded.X[(recorded.trial.rows >= 0) & recorded.predicted]
        if X.shape[1] != len(model.features.features) or not len(X):
            raise ValueError(f"expected rows of {len(model.features.features)} features; found shape {X.shape}")
    return np.ascontiguousarray(X)
