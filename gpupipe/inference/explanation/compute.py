"""Explanation of the rows of a feature matrix by a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.untrusted.failures import VERIFY, refuse_failures
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.inference.explanation.column_shares import ColumnShares
from gpupipe.inference.explanation.explanation import Explanation, join_explanations
from gpupipe.inference.explanation.outputs import margin_names, require_explainable
from gpupipe.inference.parity.arrays import read_parity_arrays
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.reason_codes import ModelReasons
from gpupipe.models.composites.scaled_target import FittedScaledTarget
from gpupipe.models.contributions.base import Explainer, Method
from gpupipe.models.fitted.base import FittedModel
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.features.program.fitted import FittedFeatures
    from gpupipe.inference.model import Model

FAILED = "the estimator failed to explain valid rows"
BLOCK_BYTES = 1 << 26  # of contributions to matrix columns at once


class ModelExplainer:
    """Explanations of a fitted model. Its methods are thread-safe.

    The `estimator` is on the host. `background` returns rows of the matrix that stand for the training rows: float32,
    shape (n, d). Raise DataError if the task has no predictions to explain: clusters and embeddings; ConfigError if a
    library that explains the model is not installed.
    """

    where = ""  # the directory of a loaded model, for messages
    reason_codes: ModelReasons | None = None

    def __init__(
        self, goal: Goal, shares: ColumnShares, estimator: FittedModel, background: Callable[[], HostArray]
    ) -> None:
        require_explainable(goal)
        self._shares, self._estimator = shares, estimator
        try:
            self._explainer: Explainer = estimator.explainer(background)
        except ImportError as error:
            what = f"explanations of this model require {error.name}"
            raise ConfigError(what, fix=f"pip install {error.name}") from None
        self._outputs = margin_names(goal, margin_classes(goal, estimator))

    @property
    def method(self) -> Method:
        """Method of the contributions."""
        return self._explainer.method

    @property
    def row_seconds(self) -> float:
        """Predicted seconds of one processor core for a row, the same on all machines."""
        return self._explainer.row_seconds

    @staticmethod
    def of(model: Model) -> ModelExplainer:
        """Return the explanations of a loaded model."""
        return ModelExplainer.read(model.open_files(), model.goal, model.features, model.estimator)

    @staticmethod
    def read(reader: ArtifactReader, goal: Goal, features: FittedFeatures, estimator: FittedModel) -> ModelExplainer:
        """Return the explanations of the parts of a model; its directory has the background rows."""
        n_features, where = len(features.features), str(reader.folder)
        with refuse_failures(FAILED, where, VERIFY):
            shares = ColumnShares.of(features)
            found = ModelExplainer(goal, shares, estimator, lambda: recorded_matrix(reader, n_features))
            found.reason_codes = ModelReasons.read(reader.manifest)
        found.where = where
        return found

    def explain(self, X: HostArray, *, interactions: bool = False) -> Explanation:
        """Return the explanation of rows on the host, float32, shape (n, d), computed by blocks.

        Raise ConfigError if interactions are requested for a model that does not consist of trees, and ArtifactError if
        the estimator raises any other error.
        """
        n_margins, d = self._estimator.n_margins, X.shape[1]
        step = max(1, BLOCK_BYTES // (8 * n_margins * d * (d if interactions else 1)))
        starts = range(0, max(1, len(X)), step)
        with refuse_failures(FAILED, self.where, VERIFY):
            return join_explanations([self._explain(X[start : start + step], interactions) for start in starts])

    def _explain(self, X: HostArray, interactions: bool) -> Explanation:
        pairs = None
        if interactions:  # first, because models without interactions may take minutes for their contributions
            pairs = np.moveaxis(self._shares.fold_pairs(self._explainer.interactions(X)), 1, 3)
        found = self._explainer.contributions(X)
        values: HostArray = np.moveaxis(self._shares.fold(found.values), 1, 2)
        base: Any = found.base
        if not self._outputs:
            values, base = values[:, :, 0], float(base[0])
            pairs = None if pairs is None else pairs[..., 0]
        return Explanation(
            self._shares.columns,
            np.ascontiguousarray(values),
            base,
            self._outputs,
            found.scale,
            self._explainer.method,
            self._shares.divided,
            pairs,
            self.reason_codes,
        )


def margin_classes(goal: Goal, estimator: FittedModel) -> list[tuple[int, ...]]:
    """Return the class codes that each target has a margin of; none for a target with a single margin."""
    if isinstance(estimator, FittedScaledTarget):
        estimator = estimator.model
    models = estimator.models
    parts = models if goal.targets and len(models) == len(goal.targets) else [None] * len(goal.each)
    found: list[tuple[int, ...]] = []
    for own, part in zip(goal.each, parts, strict=True):
        classes = estimator.classes if not goal.targets else range(own.n_classes) if part is None else part.classes
        found.append(tuple(classes) if own.task == "multiclass" else ())
    return found


def recorded_matrix(reader: ArtifactReader, n_features: int) -> HostArray:
    """Return the feature matrix of the recorded rows of the run, float32, shape (n, n_features).

    Raise ArtifactError if the model has no recorded rows, or they are malformed.
    """
    where, fix = str(reader.folder), "run its configuration again with this version of gpupipe"
    if "parity.json" not in reader.names():
        raise ArtifactError("the model has no recorded rows to explain it by", where=where, fix=fix)
    with refuse_failures("cannot read the recorded rows", where, fix):
        arrays = read_parity_arrays(reader)
        X: HostArray = arrays["features"][(arrays["row"] >= 0) & arrays["predicted"]]
        if X.shape[1] != n_features or not len(X):
            raise ValueError(f"expected rows of {n_features} features; found shape {X.shape}")
    return np.ascontiguousarray(X)
