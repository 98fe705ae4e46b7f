"""The walk over an estimator that all targets share: composites, links and classes; each target writes the primitives.

Results have the columns of `Prediction.output`: the probability of class 1 of two, those of all of more classes, a
value, quantiles, or the outputs of several targets; float64, shape (rows, columns).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from gpupipe.models.catboost.fitted import FittedCatBoost
from gpupipe.models.composites.ensemble import FittedEnsemble
from gpupipe.models.composites.parts import FittedQuantiles, FittedTargets
from gpupipe.models.composites.scaled_target import FittedScaledTarget
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.prediction import column_bounds
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from gpupipe.models.scikit_learn.rows.forest import FORESTS
from gpupipe.models.scikit_learn.rows.hist_boosting import HIST_BOOSTING
from gpupipe.models.xgboost.fitted import FittedXGBoost
from gpupipe.tasks import CLASSIFICATION
from gpupipe_kernels.rows.links import Link

if TYPE_CHECKING:
    from gpupipe.models.catboost.trees import CatBoostTrees
    from gpupipe.models.contributions.trees import ExplainedTrees
    from gpupipe.typing import HostArray
    from gpupipe_kernels.rows.trees import PackedTrees

LINKS = {
    "IdentityLink": Link.IDENTITY,
    "LogLink": Link.EXP,
    "LogitLink": Link.SIGMOID,
    "MultinomialLogit": Link.SOFTMAX,
}
NETWORKS = ("torch", "onnxruntime")  # libraries

Matrix = TypeVar("Matrix")


class EstimatorTarget(ABC, Generic[Matrix]):
    """Writer of estimators in the language of a target; `Matrix` is a matrix of float64 numbers in that language."""

    @abstractmethod
    def of_columns(self, columns: Sequence[int]) -> Self:
        """Return the writer for some columns of the feature matrix."""

    @abstractmethod
    def select(self, found: Matrix, columns: Sequence[int], width: int) -> Matrix:
        """Return some of the `width` columns of a matrix."""

    @abstractmethod
    def join(self, parts: Sequence[Matrix]) -> Matrix:
        """Return the columns of several matrices side by side."""

    @abstractmethod
    def zeros(self, like: Matrix, width: int) -> Matrix:
        """Return a column of zeros, for as many rows as a matrix with `width` columns has."""

    @abstractmethod
    def opposite(self, probability: Matrix) -> Matrix:
        """Return 1 less a column."""

    @abstractmethod
    def weighted_sum(self, terms: Sequence[tuple[Matrix, HostArray]]) -> Matrix:
        """Return the sum of matrices, each times a weight for each of its columns, or one for all."""

    @abstractmethod
    def scaled(self, found: Matrix, unit: HostArray, offset: HostArray) -> Matrix:
        """Return a matrix times `unit` plus `offset`, each with a number for each column."""

    @abstractmethod
    def in_order(self, found: Matrix, width: int) -> Matrix:
        """Return the numbers of each row in ascending order."""

    @abstractmethod
    def linked(self, margins: Matrix, link: Link) -> Matrix:
        """Return predictions of margins."""

    @abstractmethod
    def trees(self, packed: PackedTrees, start: HostArray) -> Matrix:
        """Return sums of leaves, which begin with `start`, float64, shape (n_outputs,)."""

    @abstractmethod
    def oblivious(self, trees: CatBoostTrees, explained: ExplainedTrees) -> Matrix:
        """Return the sums of CatBoost's trees, `explained` as trees that split the outcomes of tests."""

    @abstractmethod
    def linear(self, coef: HostArray, intercept: HostArray) -> Matrix:
        """Return the scores of a linear model: float64, shapes (n_scores, n_columns) and (n_scores,)."""

    @abstractmethod
    def network(self, model: FittedModel) -> tuple[Matrix, int]:
        """Return the scores of a network, and their number."""

    def write(self, model: FittedModel) -> Matrix:
        """Write a model and return its predictions."""
        if isinstance(model, FittedEnsemble):
            terms = []
            for member in model.members:
                own = self.of_columns(member.columns)
                weight = np.asarray(member.weight_of_model, np.float64)
                terms += [(own.write(each), weight) for each in member.models]
            return self.weighted_sum(terms)
        if isinstance(model, FittedScaledTarget):
            offset, unit = model.of_columns_of(each.width for each in model.targets)
            return self.scaled(self.write(model.model), np.asarray(unit), np.asarray(offset))
        if isinstance(model, FittedQuantiles):
            return self.in_order(self.join([self.write(each) for each in model.models]), len(model.models))
        if isinstance(model, FittedTargets):
            return self.join([self.write(each) for each in model.models])
        found: Matrix = FAMILIES[model.library](self, model)
        return found

    def of_scores(self, model: FittedModel, scores: Matrix, n_scores: int) -> Matrix:
        """Return the predictions of scores: values or logits, as `FittedModel` does."""
        if model.task in CLASSIFICATION:
            link = Link.SIGMOID if n_scores == 1 else Link.SOFTMAX
            return self.of_classes(model, self.linked(scores, link), n_scores)
        if model.task == "quantile":
            return self.in_order(scores, n_scores)
        if model.task != "multioutput":
            return scores
        links = {"regression": Link.IDENTITY, "binary": Link.SIGMOID, "multiclass": Link.SOFTMAX}
        bounds = pairwise(column_bounds(model.targets))
        return self.join(
            [
                self.linked(self.select(scores, range(*bound), n_scores), links[target.task])
                for target, bound in zip(model.targets, bounds, strict=True)
            ]
        )

    def of_classes(self, model: FittedModel, probability: Matrix, width: int) -> Matrix:
        """Return the probabilities of all classes from those of the classes that occurred in the training rows.

        A single column has the probability of the second of two classes.
        """
        if model.task == "binary":
            return self.select(probability, [width - 1], width)
        if width == 1:
            probability, width = self.join([self.opposite(probability), probability]), 2
        if width == model.n_classes:
            return probability
        zero = self.zeros(probability, width)
        columns = [model.classes.index(code) if code in model.classes else width for code in range(model.n_classes)]
        return self.select(self.join([probability, zero]), columns, width + 1)


def single_models(model: FittedModel) -> Iterator[FittedModel]:
    """Yield the models that do not consist of others, in order."""
    for each in model.models:
        yield from (each,) if each is model else single_models(each)


def is_writable(model: FittedModel) -> bool:
    """Return whether the walk knows a model that does not consist of others."""
    if isinstance(model, FittedXGBoost):
        return model.trees() is not None
    if isinstance(model, FittedSklearn):
        return _sklearn_trees(model) is not None
    return model.library in FAMILIES


def _xgboost(target: EstimatorTarget[Any], model: FittedModel) -> Any:
    assert isinstance(model, FittedXGBoost)
    trees = model.trees()
    assert trees is not None
    found = target.linked(target.trees(trees.packed, trees.base.astype(np.float64)), trees.link)
    return target.of_classes(model, found, trees.n_outputs) if model.task in CLASSIFICATION else found


def _lightgbm(target: EstimatorTarget[Any], model: FittedModel) -> Any:
    trees = model.estimator.trees
    found = target.linked(target.trees(trees.packed, np.zeros(trees.n_outputs)), trees.link)
    return target.of_classes(model, found, trees.n_outputs) if model.task in CLASSIFICATION else found


def _catboost(target: EstimatorTarget[Any], model: FittedModel) -> Any:
    from gpupipe.models.catboost.contributions import explained_catboost

    assert isinstance(model, FittedCatBoost)
    trees = model.estimator.trees
    explained = explained_catboost(trees, model.task)
    sums = target.oblivious(trees, explained)
    return target.linked(sums, Link.EXP) if trees.is_log[0] else target.of_scores(model, sums, len(explained.start))


def _linear(target: EstimatorTarget[Any], model: FittedModel) -> Any:
    coef, intercept = model.estimator
    return target.of_scores(model, target.linear(coef, intercept), len(coef))


def _sklearn_trees(model: FittedModel) -> ExplainedTrees | None:
    """Return the trees of a scikit-learn model; None if it has none that can be written."""
    from gpupipe.models.scikit_learn.rows.forest import explained_forest
    from gpupipe.models.scikit_learn.rows.hist_boosting import explained_boosting

    name = type(model.estimator).__name__
    if name in FORESTS:
        return explained_forest(model.estimator, model.task in CLASSIFICATION)
    return explained_boosting(model.estimator) if name in HIST_BOOSTING else None


def _scikit_learn(target: EstimatorTarget[Any], model: FittedModel) -> Any:
    trees = _sklearn_trees(model)
    assert trees is not None
    found = target.trees(trees.packed, trees.start)
    if type(model.estimator).__name__ in FORESTS:
        found = target.weighted_sum([(found, np.asarray(trees.factor, np.float64))])
    else:
        found = target.linked(found, LINKS[type(model.estimator._loss.link).__name__])
    return target.of_classes(model, found, len(trees.start)) if model.task in CLASSIFICATION else found


def _network(target: EstimatorTarget[Any], model: FittedModel) -> Any:
    return target.of_scores(model, *target.network(model))


FAMILIES: dict[str, Callable[[EstimatorTarget[Any], Any], Any]] = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "linear": _linear,
    "scikit-learn": _scikit_learn,
    **dict.fromkeys(NETWORKS, _network),
}
"""Writers of models by library."""
