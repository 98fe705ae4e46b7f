"""Work of an algorithm: bytes moved through memory, operations, and steps that wait for each other.

The formulas count what an algorithm must do. Rates turn counts into seconds, so a constant factor in a formula is in
the rate too. Published models of the same work: histograms of gradient boosting in Chen and Guestrin, "XGBoost" (KDD
2016); 6 operations per weight and row of a network in Kaplan et al. (arXiv 2001.08361).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gpupipe.models.neural.architecture import Architecture

FLOAT, DOUBLE = 4, 8
CELL = 9  # histogram cell: a bin of one byte, and the pair of gradients that is added
BOOSTED_ROW = 40  # per round: prediction read and written, gradients written, target, node and row number
BIN = 16  # sums of a histogram bin that a split search reads
SORTED_CELL = 13  # value, row number, target and node of a cell in the histogram forest of a device
NODE = 16  # bytes that a row reads per level of a tree

NEWTON_ITERATIONS = 7  # assumed: of newton-cholesky on standardized columns
LBFGS_ITERATIONS = 50  # assumed: of lbfgs and of cuML's quasi-Newton method on standardized columns


@dataclass(frozen=True)
class Work:
    """Amount of work.

    `n_bytes` are read and written. `flops`, `double_flops` and `tensor_flops` are operations in float32, in float64,
    and in matrix products that tensor cores can do in half precision. `n_steps` is the number of steps that start when
    the one before has ended: levels of trees, iterations, batches.
    """

    n_bytes: float = 0.0
    flops: float = 0.0
    double_flops: float = 0.0
    tensor_flops: float = 0.0
    n_steps: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(Work)))

    def times(self, factor: float) -> Work:
        """Return the work done `factor` times."""
        return Work(*(factor * getattr(self, part.name) for part in fields(Work)))

    @property
    def weight(self) -> float:
        """One number to compare work by: bytes and operations count the same."""
        return self.n_bytes + self.flops + self.double_flops + self.tensor_flops


def levels_of(params: Mapping[str, Any], n_rows: int) -> float:
    """Return the number of levels of a tree: its depth, or the depth of a balanced tree with as many leaves."""
    full = math.log2(max(2, n_rows))
    depth = params.get("max_depth") or params.get("depth")
    leaves = params.get("max_leaf_nodes") or params.get("num_leaves") or params.get("max_leaves")
    found = [full]
    if depth and depth > 0:
        found.append(float(depth))
    if leaves:
        found.append(math.log2(max(2, leaves)))
    return min(found)


def rounds_of(params: Mapping[str, Any]) -> int:
    """Return the maximum number of boosting rounds, or of trees of a forest."""
    return int(params.get("n_estimators") or params.get("max_iter") or params.get("iterations") or 100)


def boosting(params: Mapping[str, Any], n_rows: int, n_columns: int, n_outputs: int, *, by_leaf: bool) -> Work:
    """Return the work of gradient boosting on histograms.

    After the first level only the smaller child of a node is counted, at most half of the rows. A step splits one leaf
    if `by_leaf`, otherwise a whole level.
    """
    rounds, levels = rounds_of(params) * n_outputs, levels_of(params, n_rows)
    drawn = float(params.get("subsample") or 1.0)
    tried = float(n_columns)
    for name in ("colsample_bytree", "colsample_bylevel", "colsample_bynode", "colsample_by_tree", "max_features"):
        tried = tried * float(params.get(name) or 1.0)
    nodes = min(2.0**levels, n_rows)
    cells = drawn * n_rows * tried * (1 + (levels - 1) / 2)
    binning = 10 * FLOAT * n_rows * n_columns  # sketch, and a search of 8 steps per value
    a_round = CELL * cells + BOOSTED_ROW * n_rows + BIN * nodes * tried * float(params.get("max_bin") or 256)
    return Work(n_bytes=binning + rounds * a_round, n_steps=rounds * (nodes if by_leaf else levels))


def forest(params: Mapping[str, Any], n_rows: int, n_columns: int, *, on_device: bool, is_random: bool) -> Work:
    """Return the work of a forest: sorted values of each node on the host, histograms of each level on a device.

    If `is_random`, the thresholds are random and need no order.
    """
    trees, levels = rounds_of(params), levels_of(params, n_rows)
    tried = _tried(params.get("max_features"), n_columns)
    if on_device:
        return Work(n_bytes=SORTED_CELL * trees * n_rows * tried * levels, n_steps=trees * levels)
    values = trees * n_rows * tried
    sizes = sum(math.log2(max(2.0, n_rows / 2.0**level)) for level in range(round(levels)))
    return Work(flops=values * (2 * levels if is_random else sizes), n_steps=trees)


def _tried(max_features: Any, n_columns: int) -> float:
    if max_features == "sqrt":
        return math.sqrt(n_columns)
    if max_features == "log2":
        return max(1.0, math.log2(n_columns))
    if max_features is None:
        return n_columns
    return float(max_features) if isinstance(max_features, int) else max(1.0, float(max_features) * n_columns)


def logistic(params: Mapping[str, Any], n_rows: int, n_columns: int, n_outputs: int, *, on_device: bool) -> Work:
    """Return the work of a logistic regression: its Hessian in each step of Newton's method, or two passes of lbfgs."""
    cells = n_rows * n_columns
    if params.get("solver") == "newton-cholesky" and not on_device:
        n = min(NEWTON_ITERATIONS, params.get("max_iter", NEWTON_ITERATIONS))
        hessian = 2.0 * cells * n_columns * n_outputs**2
        return Work(n_bytes=n * 2 * DOUBLE * cells, double_flops=n * hessian, n_steps=n)
    n = min(LBFGS_ITERATIONS, params.get("max_iter", LBFGS_ITERATIONS))
    size = DOUBLE if params.get("solver") == "newton-cholesky" else FLOAT
    products = 4.0 * cells * n_outputs
    work = {"double_flops" if size == DOUBLE else "flops": n * products}
    return Work(n_bytes=n * 2 * size * cells, n_steps=n, **work)


def least_squares(name: str, n_rows: int, n_columns: int) -> Work:
    """Return the work of a linear regression in float64: a triangular factor, or the matrix of products of columns."""
    cells = n_rows * n_columns
    factor = 6.0 if name == "LinearRegression" else 2.0
    return Work(n_bytes=6 * DOUBLE * cells, double_flops=factor * cells * n_columns, n_steps=1)


def network_weights(a: Architecture) -> tuple[float, float]:
    """Return the weights by which each row is multiplied, and its values that are kept for the gradients.

    For perceptrons.
    """
    tokens = a.n_tokens + 1
    encoder = float(a.n_numbers * a.encoding_size * a.embedding_size)
    values = 2.5 * a.n_numbers * a.encoding_size + 4.0 * tokens * a.embedding_size
    width = a.n_tokens * a.embedding_size * a.width
    body, kept = width + (a.depth - 1) * float(a.width**2), a.depth * (4.0 * a.width + 2.5 * a.hidden)
    if a.members > 1:
        kept += 2.0 * tokens * a.embedding_size
    return encoder + a.members * body, values + a.members * kept


def network(a: Architecture, n_rows: int, n_epochs: int, n_batches: int) -> Work:
    """Return the work of training a network: 6 operations per weight and row, and its activations written and read."""
    weights, values = network_weights(a)
    rows = float(n_rows * n_epochs)
    return Work(n_bytes=3 * FLOAT * values * rows, tensor_flops=6 * weights * rows, n_steps=n_batches * n_epochs)


def network_prediction(a: Architecture, n_rows: int) -> Work:
    """Return the work of predicting with a network, in float32."""
    weights, values = network_weights(a)
    return Work(n_bytes=FLOAT * values * n_rows, flops=2.0 * weights * n_rows, n_steps=1)


def tree_prediction(params: Mapping[str, Any], n_rows: int, n_trained: int, n_outputs: int) -> Work:
    """Return the work of predicting with trees: a node per level, tree and row."""
    n_trees = rounds_of(params) * n_outputs
    return Work(n_bytes=float(NODE * n_rows * n_trees * levels_of(params, n_trained)), n_steps=1)


def linear_prediction(n_rows: int, n_columns: int, n_outputs: int) -> Work:
    """Return the work of one pass over a matrix."""
    return Work(n_bytes=float(FLOAT * n_rows * n_columns), flops=2.0 * n_rows * n_columns * n_outputs, n_steps=1)


def features(
    n_fitted: int, n_written: int, encoded_row: float, n_instructions: int, n_columns: int, *, on_device: bool
) -> Work:
    """Return the work of fitting features to `n_fitted` rows and writing the matrix of `n_written` rows.

    A device reads a row and writes its columns in one launch. The host reads and writes a float32 per instruction.
    """
    fitted = n_fitted * 2 * encoded_row
    moved = encoded_row + FLOAT * n_columns
    if not on_device:
        moved += 2 * FLOAT * n_instructions
    return Work(n_bytes=fitted + n_written * moved, n_steps=n_instructions)


def evaluation(n_rows: int, n_outputs: int, n_metrics: int) -> Work:
    """Return the work of metrics: predictions are sorted and summed for each."""
    n_bytes = 2 * DOUBLE * n_rows * max(1.0, math.log2(max(2, n_rows)) / 4)
    return Work(n_bytes=n_bytes * n_outputs * n_metrics, n_steps=n_metrics)
