"""Outcomes of the tests in CatBoost's trees as ONNX nodes, in the arithmetic of `gpupipe.models.catboost.rows`.

Categories are hashed in advance: a table has the hash of each code. Hashes of combinations are computed by nodes in
int64, whose overflow has the bits of CatBoost's uint64.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.inference.onnx.exact_splits import exact_splits
from gpupipe.inference.onnx.graph import ML
from gpupipe.inference.targets.exact_columns import NumberSplits
from gpupipe.models.catboost.rows import category_hash
from gpupipe_kernels.rows.city_hash import COMBINE

if TYPE_CHECKING:
    from gpupipe.inference.onnx.graph import OnnxGraph
    from gpupipe.inference.onnx.trees import TreeMatrix
    from gpupipe.models.catboost.trees import CatBoostTrees
    from gpupipe.typing import HostArray


def write_outcomes(graph: OnnxGraph, X: TreeMatrix, trees: CatBoostTrees) -> str:
    """Return 1 where a row passes a test, else 0: float64, shape (rows, n_tests); `X` is float32."""
    tests = _TestNodes(graph, X, trees)
    parts = [tests.numbers()] if len(trees.number_column) else []
    parts += [tests.category(*each) for each in _pairs(trees.category_column, trees.category_hash)]
    plain = graph.join(parts) if parts else ""
    if len(trees.test_statistic):
        parts.append(tests.statistics(plain, len(trees.number_column) + len(trees.category_column)))
    return graph.cast(graph.join(parts), np.float64)


def _pairs(columns: HostArray, hashes: HostArray) -> list[tuple[int, int]]:
    return list(zip(columns.tolist(), hashes.tolist(), strict=True))


class _TestNodes:
    """Writer of the tests of a model; outcomes are bool matrices."""

    def __init__(self, graph: OnnxGraph, X: TreeMatrix, trees: CatBoostTrees) -> None:
        self._graph = graph
        self._X = X.name
        self._n_codes = X.n_codes
        self._trees = trees
        self._exact = X.exact
        self._hashes: dict[int, str] = {}

    def numbers(self) -> str:
        """Return whether numbers exceed their borders."""
        graph, trees = self._graph, self._trees
        splits = NumberSplits(trees.number_column, trees.number_border, ~trees.number_missing.astype(bool))
        added, splits = exact_splits(graph, len(self._n_codes), self._exact, splits)
        x = graph.select(graph.join([self._X, *added]), splits.column.tolist(), len(self._n_codes) + len(added))
        found = graph.add("Greater", x, graph.constant(splits.limit, np.float32))
        if not splits.missing_left.all():
            missing = graph.add("And", graph.add("IsNaN", x), graph.constant(~splits.missing_left, bool))
            found = graph.add("Or", found, missing)
        return found

    def category(self, column: int, hashed: int) -> str:
        """Return whether categories have a hash."""
        return self._graph.add("Equal", self._hash_of(column), self._graph.constant([[_signed(hashed)]], np.int64))

    def statistics(self, plain: str, n_plain: int) -> str:
        """Return whether statistics of categories exceed their borders; `plain` has the outcomes of other tests."""
        graph, trees = self._graph, self._trees
        combined = [
            self._combined(plain, n_plain, start, end) for start, end in pairwise(trees.combination_start.tolist())
        ]
        parts, order = [], []
        for table, (start, end) in enumerate(pairwise(trees.table_start.tolist())):
            own = np.flatnonzero(trees.statistic_table == table)
            if not len(own):
                continue
            rows = trees.statistic_start[own] + np.arange(end - start + 1)[:, None]
            values = graph.constant(trees.statistic_value[rows], np.float32)
            at = self._position(combined[int(trees.table_combination[table])], trees.table_hash[start:end])
            parts.append(graph.add("Gather", values, graph.add("Squeeze", at, graph.constant([1], np.int64)), axis=0))
            order += own.tolist()
        places = {statistic: place for place, statistic in enumerate(order)}
        columns = [places[statistic] for statistic in trees.test_statistic.tolist()]
        found = graph.select(graph.join(parts), columns, len(order))
        return graph.add("Greater", found, graph.constant(trees.test_border, np.float32))

    def _hash_of(self, column: int) -> str:
        """Return the hashes of the categories in a column, int64 with the sign of an int32, shape (rows, 1)."""
        if column not in self._hashes:
            graph, n = self._graph, self._n_codes[column]
            x = graph.select(self._X, [column], len(self._n_codes))
            is_code = graph.add(
                "And",
                graph.add("GreaterOrEqual", x, graph.constant(0.0, np.float32)),
                graph.add("Less", x, graph.constant(float(n), np.float32)),
            )
            code = graph.cast(graph.where(is_code, x, graph.constant(float(n), np.float32)), np.int64)
            table = [_signed(category_hash(each)) for each in (*range(n), -1)]
            self._hashes[column] = graph.add("Gather", graph.constant(table, np.int64), code, axis=0)
        return self._hashes[column]

    def _combined(self, plain: str, n_plain: int, start: int, end: int) -> str:
        """Return the hash of a combination, int64, shape (rows, 1)."""
        graph, trees = self._graph, self._trees
        factor = graph.constant(np.uint64(COMBINE).astype(np.int64), np.int64)
        total = ""
        for is_test, part in zip(trees.part_is_test[start:end].tolist(), trees.part[start:end].tolist(), strict=True):
            value = graph.cast(graph.select(plain, [part], n_plain), np.int64) if is_test else self._hash_of(part)
            value = graph.add("Mul", value, factor)
            total = graph.add("Mul", graph.add("Add", total, value) if total else value, factor)
        return total

    def _position(self, hashes: str, known: HostArray) -> str:
        """Return the position of hashes in a table, its length for others."""
        from onnx import numpy_helper

        if not len(known):
            return self._graph.add("Mul", hashes, self._graph.constant(0, np.int64))
        tensors = {
            "keys_tensor": known.astype(np.int64),
            "values_tensor": np.arange(len(known)),
            "default_tensor": np.array([len(known)]),
        }
        attributes = {name: numpy_helper.from_array(values, name) for name, values in tensors.items()}
        return self._graph.add("LabelEncoder", hashes, domain=ML, **attributes)


def _signed(hashed: int) -> int:
    """Return a uint32 as CatBoost extends it to 64 bits."""
    return hashed - (1 << 32) if hashed >= 1 << 31 else hashed
