"""Estimators as ONNX nodes: from the feature matrix to predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.inference.onnx.oblivious import write_outcomes
from gpupipe.inference.onnx.trees import TreeMatrix, write_trees
from gpupipe.inference.targets.estimators import EstimatorTarget
from gpupipe_kernels.rows.links import Link

if TYPE_CHECKING:
    from gpupipe.inference.onnx.exact_splits import OperandColumn
    from gpupipe.inference.onnx.graph import OnnxGraph
    from gpupipe.models.catboost.trees import CatBoostTrees
    from gpupipe.models.contributions.trees import ExplainedTrees
    from gpupipe.models.fitted.base import FittedModel
    from gpupipe.typing import HostArray
    from gpupipe_kernels.rows.trees import PackedTrees

OPS = {Link.EXP: "Exp", Link.SIGMOID: "Sigmoid"}


@dataclass
class EstimatorNodes(EstimatorTarget[str]):
    """Writer of estimators; a matrix is the name of a value of the graph."""

    graph: OnnxGraph
    X: str  # the feature matrix, float32
    n_codes: Sequence[int]  # number of codes of each column of the matrix; 0 for numbers
    networks: Mapping[int, Any] = field(default_factory=dict)  # the ONNX form of each network, by its identity
    # Columns of the matrix that trees split by an operand.
    exact: Mapping[int, OperandColumn] = field(default_factory=dict)

    def of_columns(self, columns: Sequence[int]) -> EstimatorNodes:
        """Return the writer for some columns of the matrix."""
        selected = self.graph.select(self.X, columns, len(self.n_codes))
        exact = {i: self.exact[column] for i, column in enumerate(columns) if column in self.exact}
        n_codes = [self.n_codes[column] for column in columns]
        return EstimatorNodes(self.graph, selected, n_codes, self.networks, exact)

    def select(self, found: str, columns: Sequence[int], width: int) -> str:
        """Return some of the `width` columns of a matrix."""
        return self.graph.select(found, columns, width)

    def join(self, parts: Sequence[str]) -> str:
        """Return the columns of several matrices side by side."""
        return self.graph.join(parts)

    def zeros(self, like: str, width: int) -> str:
        """Return a column of zeros."""
        return self.graph.add("Mul", self.graph.select(like, [0], width), self.graph.constant(0.0, np.float64))

    def opposite(self, probability: str) -> str:
        """Return 1 less a column."""
        return self.graph.add("Sub", self.graph.constant(1.0, np.float64), probability)

    def weighted_sum(self, terms: Sequence[tuple[str, HostArray]]) -> str:
        """Return the sum of matrices, each times its weight."""
        found = [self.graph.add("Mul", each, self.graph.constant(weight, np.float64)) for each, weight in terms]
        return found[0] if len(found) == 1 else self.graph.add("Sum", *found)

    def scaled(self, found: str, unit: HostArray, offset: HostArray) -> str:
        """Return a matrix times `unit` plus `offset`."""
        product = self.graph.add("Mul", found, self.graph.constant(unit))
        return self.graph.add("Add", product, self.graph.constant(offset))

    def in_order(self, found: str, width: int) -> str:
        """Return the numbers of each row in ascending order."""
        n = self.graph.constant([width], np.int64)
        return self.graph.add_several("TopK", (found, n), 2, axis=1, largest=0, sorted=1)[0]

    def linked(self, margins: str, link: Link) -> str:
        """Return predictions of margins."""
        if link == Link.SOFTMAX:
            return self.graph.add("Softmax", margins, axis=1)
        return margins if link == Link.IDENTITY else self.graph.add(OPS[link], margins)

    def trees(self, packed: PackedTrees, start: HostArray) -> str:
        """Return sums of leaves; trees read the matrix in float64, which contains each float32."""
        X = TreeMatrix(self.graph.cast(self.X, np.float64), self.n_codes, self.exact)
        return write_trees(self.graph, X, packed, start)

    def oblivious(self, trees: CatBoostTrees, explained: ExplainedTrees) -> str:
        """Return the sums of CatBoost's trees."""
        outcomes = write_outcomes(self.graph, TreeMatrix(self.X, self.n_codes, self.exact), trees)
        return write_trees(self.graph, TreeMatrix(outcomes, [0] * trees.n_tests), explained.packed, explained.start)

    def linear(self, coef: HostArray, intercept: HostArray) -> str:
        """Return the scores of a linear model."""
        graph = self.graph
        product = graph.add("MatMul", graph.cast(self.X, np.float64), graph.constant(coef.T, np.float64))
        return graph.add("Add", product, graph.constant(intercept, np.float64))

    def network(self, model: FittedModel) -> tuple[str, int]:
        """Embed the nodes of a network's ONNX file; its first output has the scores."""
        scores, n_scores = self.graph.embed(self.networks[id(model)], self.X)
        return self.graph.cast(scores, np.float64), n_scores
