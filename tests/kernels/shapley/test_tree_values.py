"""Shapley values of trees, against their definition: all sets of players, by expected values that follow the tree."""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe_kernels.rows.trees import LEAF, LEFT, RIGHT, CategoryWords, PackedTrees, TreeArrays, pack_trees
from gpupipe_kernels.shapley.steps import tree_steps
from gpupipe_kernels.shapley.values import TreeShapley
from tests.examples import examples

N_COLUMNS, N_CATEGORIES = 4, 5


class RandomTrees:
    """Some trees over four columns: splits of numbers and of sets of categories, and empty nodes."""

    def __init__(self, seed: int, n_trees: int, depth: int, n_values: int) -> None:
        self.rng, self.n_values = np.random.default_rng(seed), n_values
        self.nodes: list[dict[str, Any]] = []
        self.words = CategoryWords(is_exact=True)
        self.roots = [self._grow(depth, float(self.rng.integers(1, 9))) for _ in range(n_trees)]
        self.outputs = self.rng.integers(0, 2, n_trees) if n_values == 1 else np.zeros(n_trees, np.int64)

    def _grow(self, depth: int, cover: float) -> int:
        at, rng = len(self.nodes), self.rng
        node: dict[str, Any] = {"left": LEAF, "right": LEAF, "column": 0, "threshold": 0.0, "missing": LEFT, "words": 0}
        self.nodes.append(node | {"cover": cover, "value": rng.normal(size=self.n_values), "right_set": None})
        if depth == 0 or rng.random() < 0.2:
            return at
        node = self.nodes[at]
        node["column"] = int(rng.integers(N_COLUMNS))
        node["threshold"] = float(rng.integers(N_CATEGORIES)) - 0.5
        node["missing"] = int(rng.choice([LEFT, RIGHT]))
        if rng.random() < 0.4:
            node["right_set"] = np.flatnonzero(rng.random(N_CATEGORIES) < 0.5)
            node["words"] = self.words.add(node["right_set"], node["missing"], LEFT)
        share = float(rng.choice([0.0, 0.25, 0.5, 1.0]))
        node["left"] = self._grow(depth - 1, cover * share)
        node["right"] = self._grow(depth - 1, cover * (1.0 - share))
        return at

    def packed(self) -> PackedTrees:
        """The trees as the loops read them."""
        columns = {
            name: np.array([node[name] for node in self.nodes])
            for name in ("left", "right", "column", "missing", "words", "cover", "value")
        }
        threshold = np.array([node["threshold"] for node in self.nodes], np.float32)
        arrays = TreeArrays(threshold=threshold, **columns)
        return pack_trees(arrays, np.array(self.roots), np.array(self.outputs), self.words, N_COLUMNS)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return 2

    def worth(self, x: Any, players: Any, known: frozenset[int]) -> Any:
        """Return the expected outputs if the columns of the known players are known."""
        total = np.zeros(2)
        for root, output in zip(self.roots, self.outputs, strict=True):
            value = self._expected(root, x, players, known)
            total[output : output + len(value)] += value
        return total

    def _expected(self, at: int, x: Any, players: Any, known: frozenset[int]) -> Any:
        node = self.nodes[at]
        if node["left"] == LEAF:
            return node["value"]
        sides = node["left"], node["right"]
        if players[node["column"]] in known:
            return self._expected(sides[self._side(node, x)], x, players, known)
        covers = [self.nodes[child]["cover"] for child in sides]
        shares = [cover / sum(covers) if sum(covers) else 0.5 for cover in covers]
        return sum(share * self._expected(child, x, players, known) for share, child in zip(shares, sides, strict=True))

    @staticmethod
    def _side(node: dict[str, Any], x: Any) -> int:
        value = x[node["column"]]
        if np.isnan(value):
            return int(node["missing"])
        if node["right_set"] is not None:
            return int(value in node["right_set"])
        return int(value > node["threshold"])


def definition(trees: RandomTrees, x: Any, players: Any) -> tuple[Any, Any]:
    """Return the Shapley values, shape (2, n_players), and interactions, shape (2, n_players, n_players), of a row."""
    n = int(players.max()) + 1
    worth = {
        frozenset(known): trees.worth(x, players, frozenset(known))
        for size in range(n + 1)
        for known in combinations(range(n), size)
    }
    values, pairs = np.zeros((2, n)), np.zeros((2, n, n))
    for known in worth:
        size = len(known)
        for i in set(range(n)) - known:
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            values[:, i] += weight * (worth[known | {i}] - worth[known])
            for j in set(range(n)) - known - {i}:
                weight = factorial(size) * factorial(n - size - 2) / (2 * factorial(n - 1))
                gain = worth[known | {i, j}] - worth[known | {i}] - worth[known | {j}] + worth[known]
                pairs[:, i, j] += weight * gain
    diagonal = np.arange(n)
    pairs[:, diagonal, diagonal] = values - pairs.sum(axis=2)
    return values, pairs


@given(
    seed=st.integers(0, 2**32 - 1),
    n_trees=st.integers(1, 3),
    depth=st.integers(0, 5),
    n_values=st.integers(1, 2),
    joined=st.booleans(),
)
@examples(60)
def test_values_and_interactions_are_those_of_the_definition(
    seed: int, n_trees: int, depth: int, n_values: int, joined: bool
) -> None:
    trees = RandomTrees(seed, n_trees, depth, n_values)
    players = np.array([0, 1, 2, 1]) if joined else np.arange(N_COLUMNS)
    X = np.random.default_rng(seed).integers(-1, N_CATEGORIES, (3, N_COLUMNS)).astype(np.float32)
    X[X < 0] = np.nan
    shapley = TreeShapley(tree_steps(trees.packed(), trees.n_outputs, players))
    values, pairs = shapley.values(X), shapley.interactions(X)
    np.testing.assert_allclose(shapley.base, trees.worth(X[0], players, frozenset()), atol=1e-12)
    for row, x in enumerate(X):
        expected_values, expected_pairs = definition(trees, x, players)
        np.testing.assert_allclose(values[row], expected_values, atol=1e-12)
        np.testing.assert_allclose(pairs[row], expected_pairs, atol=1e-12)


def test_the_values_of_a_row_do_not_depend_on_the_other_rows() -> None:
    trees = RandomTrees(seed=7, n_trees=9, depth=9, n_values=1)
    X = np.random.default_rng(0).integers(0, N_CATEGORIES, (1_000, N_COLUMNS)).astype(np.float32)
    shapley = TreeShapley(tree_steps(trees.packed(), 2))
    together = shapley.values(X)
    assert all(np.array_equal(shapley.values(X[i : i + 1])[0], together[i]) for i in range(0, 1_000, 37))
    np.testing.assert_array_equal(shapley.values(np.asfortranarray(X)), together)
    assert shapley.values(X[:0]).shape == (0, 2, N_COLUMNS)


def test_paths_with_many_players_are_integrated_exactly() -> None:
    """A chain of 40 columns: the row follows all splits, each of which half of the training rows do."""
    n = 40
    inner, leaves = np.arange(n), np.arange(n, 2 * n + 1)  # node i splits column i; its left child is a leaf
    children = np.full((2 * n + 1, 2), LEAF)
    children[inner, 0] = leaves[:n]
    children[inner, 1] = np.append(inner[1:], leaves[n])
    cover = np.empty(2 * n + 1)
    cover[inner] = 2.0 ** -inner.astype(float)
    cover[leaves] = np.append(cover[inner] / 2, cover[n - 1] / 2)
    value = np.zeros((2 * n + 1, 1))
    value[leaves[n]] = 1.0
    arrays = TreeArrays(
        children[:, 0], children[:, 1], np.append(inner, np.zeros(n + 1, np.int64)), np.zeros(2 * n + 1, np.float32),
        np.zeros(2 * n + 1, np.int64), np.zeros(2 * n + 1, np.int64), value, cover,
    )  # fmt: skip
    packed = pack_trees(arrays, np.array([0]), np.array([0]), CategoryWords(is_exact=True), n)
    found = TreeShapley(tree_steps(packed, 1)).values(np.ones((1, n), np.float32))[0, 0]
    # All players are equal, so each has the same share of 1 - 2**-40.
    np.testing.assert_allclose(found, (1.0 - 2.0**-n) / n, rtol=1e-12)


@pytest.mark.parametrize("cover", [None, [1.0, -1.0, 2.0], [1.0, np.nan, 1.0]])
def test_trees_need_valid_covers(cover: Any) -> None:
    arrays = TreeArrays(
        np.array([1, LEAF, LEAF]), np.array([2, LEAF, LEAF]), np.zeros(3, np.int64), np.zeros(3, np.float32),
        np.zeros(3, np.int64), np.zeros(3, np.int64), np.ones((3, 1)), None if cover is None else np.array(cover),
    )  # fmt: skip
    packed = pack_trees(arrays, np.array([0]), np.array([0]), CategoryWords(is_exact=True), 1)
    with pytest.raises(ValueError, match="missing, negative or not finite"):
        tree_steps(packed, 1)
