"""Splits of trees by an operand of a column, as ONNX nodes; see `gpupipe.inference.targets.exact_columns`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gpupipe.inference.onnx.graph import OnnxGraph
    from gpupipe.inference.onnx.instructions import RegisterColumn
    from gpupipe.inference.targets.exact_columns import ExactColumn, NumberSplits


class OperandColumn(NamedTuple):
    """A column of the matrix that is split by an operand, and the registers of the program in the graph."""

    exact: ExactColumn
    values: Sequence[RegisterColumn]

    def write(self, graph: OnnxGraph) -> str:
        """Return the operand, float32, shape (rows, 1), with NaN where it has no image."""
        operand, image = (self.values[each].select(graph) for each in (self.exact.operand, self.exact.image))
        return graph.where(graph.add("IsNaN", image), graph.constant(math.nan, np.float32), operand)


def exact_splits(
    graph: OnnxGraph, width: int, operands: Mapping[int, OperandColumn], splits: NumberSplits
) -> tuple[list[str], NumberSplits]:
    """Return splits that read operands, and these columns, float32, to be appended to a matrix of `width` columns."""
    read = [own for own in operands if (splits.column == own).any()]
    place = {own: width + i for i, own in enumerate(read)}
    moved = splits.by_operand({own: operands[own].exact for own in read}, place)
    return [operands[own].write(graph) for own in read], moved
