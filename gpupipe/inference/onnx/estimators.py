"""Estimators as ONNX nodes: from the feature matrix to predictions, by kind of model.

Results have the columns of `Prediction.output`: the probability of class 1 of two, those of all of more classes, a
value, quantiles, or the outputs of several targets; float64, shape (rows, columns).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.inference.onnx.exact_columns import ExactColumn
from gpupipe.inference.onnx.oblivious import write_outcomes
from gpupipe.inference.onnx.trees import TreeMatrix, write_trees
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
    from gpupipe.inference.onnx.graph import OnnxGraph
    from gpupipe.models.contributions.trees import ExplainedTrees

LINKS = {
    "IdentityLink": Link.IDENTITY,
    "LogLink": Link.EXP,
    "LogitLink": Link.SIGMOID,
    "MultinomialLogit": Link.SOFTMAX,
}
NETWORKS = ("torch", "onnxruntime")  # libraries


@dataclass
class EstimatorNodes:
    """Writer of estimators."""

    graph: OnnxGraph
    X: str  # the feature matrix, float32
    n_codes: Sequence[int]  # number of codes of each column of the matrix; 0 for numbers
    networks: Mapping[int, Any] = field(default_factory=dict)  # the ONNX form of each network, by its identity
    # Columns of the matrix that trees split by an operand.
    exact: Mapping[int, ExactColumn] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return len(self.n_codes)

    def of_columns(self, columns: Sequence[int]) -> EstimatorNodes:
        """Return the writer for some columns of the matrix."""
        selected = self.graph.select(self.X, columns, self.width)
        exact = {i: self.exact[column] for i, column in enumerate(columns) if column in self.exact}
        n_codes = [self.n_codes[column] for column in columns]
        return EstimatorNodes(self.graph, selected, n_codes, self.networks, exact)

    def write(self, model: FittedModel) -> str:
        """Write the nodes of a model and return its predictions."""
        if isinstance(model, FittedEnsemble):
            return self._ensemble(model)
        if isinstance(model, FittedScaledTarget):
            offset, unit = map(self.graph.constant, model.of_columns_of(each.width for each in model.targets))
            return self.graph.add("Add", self.graph.add("Mul", self.write(model.model), unit), offset)
        if isinstance(model, FittedQuantiles):
            return self._in_order(self.graph.join([self.write(each) for each in model.models]), len(model.models))
        if isinstance(model, FittedTargets):
            return self.graph.join([self.write(each) for each in model.models])
        return WRITERS[model.library](self, model)

    def _ensemble(self, model: FittedEnsemble) -> str:
        terms = []
        for member in model.members:
            own = self.of_columns(member.columns)
            weight = self.graph.constant(member.weight_of_model, np.float64)
            terms += [self.graph.add("Mul", own.write(each), weight) for each in member.models]
        return terms[0] if len(terms) == 1 else self.graph.add("Sum", *terms)

    def doubles(self) -> TreeMatrix:
        """Return the matrix in float64, which contains each float32."""
        return TreeMatrix(self.graph.cast(self.X, np.float64), self.n_codes, self.exact)

    def linked(self, margins: str, link: Link) -> str:
        """Return predictions of margins."""
        ops = {Link.EXP: "Exp", Link.SIGMOID: "Sigmoid"}
        if link == Link.SOFTMAX:
            return self.graph.add("Softmax", margins, axis=1)
        return margins if link == Link.IDENTITY else self.graph.add(ops[link], margins)

    def of_scores(self, model: FittedModel, scores: str, n_scores: int) -> str:
        """Return the predictions of scores: values or logits, as `FittedModel` does."""
        graph = self.graph
        if model.task in CLASSIFICATION:
            return self.of_classes(
                model, self.linked(scores, Link.SIGMOID if n_scores == 1 else Link.SOFTMAX), n_scores
            )
        if model.task == "quantile":
            return self._in_order(scores, n_scores)
        if model.task != "multioutput":
            return scores
        links = {"regression": Link.IDENTITY, "binary": Link.SIGMOID, "multiclass": Link.SOFTMAX}
        bounds = pairwise(column_bounds(model.targets))
        return graph.join(
            [
                self.linked(graph.select(scores, range(*bound), n_scores), links[target.task])
                for target, bound in zip(model.targets, bounds, strict=True)
            ]
        )

    def of_classes(self, model: FittedModel, probability: str, width: int) -> str:
        """Return the probabilities of all classes from those of the classes that occurred in the training rows.

        A single column has the probability of the second of two classes.
        """
        graph = self.graph
        if model.task == "binary":
            return graph.select(probability, [width - 1], width)
        if width == 1:
            opposite = graph.add("Sub", graph.constant(1.0, np.float64), probability)
            probability, width = graph.join([opposite, probability]), 2
        if width == model.n_classes:
            return probability
        zero = graph.add("Mul", graph.select(probability, [0], width), graph.constant(0.0, np.float64))
        columns = [model.classes.index(code) if code in model.classes else width for code in range(model.n_classes)]
        return graph.select(graph.join([probability, zero]), columns, width + 1)

    def _in_order(self, quantiles: str, n_quantiles: int) -> str:
        n = self.graph.constant([n_quantiles], np.int64)
        return self.graph.add_several("TopK", (quantiles, n), 2, axis=1, largest=0, sorted=1)[0]


def single_models(model: FittedModel) -> Iterator[FittedModel]:
    """Yield the models that do not consist of others, in order."""
    for each in model.models:
        yield from (each,) if each is model else single_models(each)


def is_writable(model: FittedModel) -> bool:
    """Return whether there are nodes for a model that does not consist of others."""
    if isinstance(model, FittedXGBoost):
        return model.trees() is not None
    if isinstance(model, FittedSklearn):
        return _sklearn_trees(model) is not None
    return model.library in WRITERS


def _xgboost(nodes: EstimatorNodes, model: FittedModel) -> str:
    assert isinstance(model, FittedXGBoost)
    trees = model.trees()
    assert trees is not None
    margins = write_trees(nodes.graph, nodes.doubles(), trees.packed, trees.base.astype(np.float64))
    found = nodes.linked(margins, trees.link)
    return nodes.of_classes(model, found, trees.n_outputs) if model.task in CLASSIFICATION else found


def _lightgbm(nodes: EstimatorNodes, model: FittedModel) -> str:
    trees = model.estimator.trees
    margins = write_trees(nodes.graph, nodes.doubles(), trees.packed, np.zeros(trees.n_outputs))
    found = nodes.linked(margins, trees.link)
    return nodes.of_classes(model, found, trees.n_outputs) if model.task in CLASSIFICATION else found


def _catboost(nodes: EstimatorNodes, model: FittedModel) -> str:
    from gpupipe.models.catboost.contributions import explained_catboost

    assert isinstance(model, FittedCatBoost)
    trees = model.estimator.trees
    outcomes = write_outcomes(nodes.graph, TreeMatrix(nodes.X, nodes.n_codes, nodes.exact), trees)
    explained = explained_catboost(trees, model.task)
    sums = write_trees(nodes.graph, TreeMatrix(outcomes, [0] * trees.n_tests), explained.packed, explained.start)
    if trees.is_log[0]:
        return nodes.linked(sums, Link.EXP)
    return nodes.of_scores(model, sums, len(explained.start))


def _linear(nodes: EstimatorNodes, model: FittedModel) -> str:
    graph, (coef, intercept) = nodes.graph, model.estimator
    product = graph.add("MatMul", graph.cast(nodes.X, np.float64), graph.constant(coef.T, np.float64))
    scores = graph.add("Add", product, graph.constant(intercept, np.float64))
    return nodes.of_scores(model, scores, len(coef))


def _sklearn_trees(model: FittedModel) -> ExplainedTrees | None:
    """Return the trees of a scikit-learn model; None if it has none that can be written."""
    from gpupipe.models.scikit_learn.rows.forest import explained_forest
    from gpupipe.models.scikit_learn.rows.hist_boosting import explained_boosting

    name = type(model.estimator).__name__
    if name in FORESTS:
        return explained_forest(model.estimator, model.task in CLASSIFICATION)
    return explained_boosting(model.estimator) if name in HIST_BOOSTING else None


def _scikit_learn(nodes: EstimatorNodes, model: FittedModel) -> str:
    trees = _sklearn_trees(model)
    assert trees is not None
    sums = write_trees(nodes.graph, nodes.doubles(), trees.packed, trees.start)
    if type(model.estimator).__name__ in FORESTS:
        found = nodes.graph.add("Mul", sums, nodes.graph.constant(trees.factor, np.float64))
    else:
        found = nodes.linked(sums, LINKS[type(model.estimator._loss.link).__name__])
    return nodes.of_classes(model, found, len(trees.start)) if model.task in CLASSIFICATION else found


def _network(nodes: EstimatorNodes, model: FittedModel) -> str:
    """Embed the nodes of a network's ONNX file; its first output has the scores."""
    scores, n_scores = nodes.graph.embed(nodes.networks[id(model)], nodes.X)
    return nodes.of_scores(model, nodes.graph.cast(scores, np.float64), n_scores)


WRITERS: dict[str, Callable[[EstimatorNodes, Any], str]] = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "linear": _linear,
    "scikit-learn": _scikit_learn,
    **dict.fromkeys(NETWORKS, _network),
}
