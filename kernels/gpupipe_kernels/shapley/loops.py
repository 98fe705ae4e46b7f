"""Compiled loops for Shapley values of trees.

The value of a leaf for a set of players is the product of one factor per player on its path: whether the row goes to
the leaf at all of the player's splits (`follows`, 0 or 1) for players in the set, and the share of the training rows
that do for all others. With a probability t of being in the set, its mean is the product of the factors ``share (1 - t)
+ follows t``, and the Shapley value of player i is

    leaf * (follows_i - share_i) * integral from 0 to 1 of the product of the factors of all other players,

a polynomial of degree n_players - 1, which Gauss-Legendre quadrature with n_players / 2 points integrates exactly
(Owen, "Multilinear extensions of games", Management Science 18 (1972) P64; the same idea for trees: QuadratureTreeSHAP,
arXiv 2605.04497). Factors are products of positive numbers, so nothing cancels.

The tree is walked once: a leaf's product of factors is passed up, added over the leaves below an edge, and weighted
there (as in Yu et al., "Linear TreeShap", NeurIPS 2022). An edge whose player has an edge above replaces that one's
factor in its subtree, so the weight of the edge above is subtracted again. Each loop computes several rows at once, its
lanes.
"""

from __future__ import annotations

from numpy import int32, int64

from gpupipe_kernels.launch import array_formula, host_walk
from gpupipe_kernels.rows.trees_numba import fill_table, side_of

# Of an edge and a point t of the quadrature: the factor of rows that do not follow, the reciprocal of that of rows that
# do, the weight of rows that do not follow, and by how much that of rows that do is larger.
MISS, INVERSE, WEIGHT, GAIN = range(4)
N_NUMBERS = 4


@array_formula
def _fill_tables(X, start, words, tables):
    """Write the numbers of the rows of all lanes that nodes compare; the last row stands for rows after it."""
    last = X.shape[0] - 1
    for lane in range(tables.shape[0]):
        fill_table(X, min(start + lane, last), words, tables[lane])


@array_formula
def _enter(step, points, follows, sides, factors, numbers):
    """Write the numbers of the edge into a node, and the products of the factors on the path to it."""
    depth = step.depth
    previous = step.previous
    share = step.share
    lanes = follows.shape[1]
    for lane in range(lanes):
        goes = 1.0 if sides[depth - 1, lane] == step.side else 0.0
        follows[depth, lane] = goes * follows[previous, lane]  # those of the root are 1
    for q in range(points.shape[0]):
        t = points[q]
        miss = share * (1.0 - t)
        hit = miss + t
        inverse = 1.0 / hit
        numbers[depth, q, MISS], numbers[depth, q, INVERSE] = miss, inverse
        numbers[depth, q, WEIGHT] = -1.0 / (1.0 - t)
        numbers[depth, q, GAIN] = (1.0 - share) * inverse + 1.0 / (1.0 - t)
        if previous == 0:
            rise = hit - miss
            for lane in range(lanes):
                factors[depth, q, lane] = factors[depth - 1, q, lane] * (miss + follows[depth, lane] * rise)
            continue
        # The factor of the edge above is divided out.
        above = numbers[previous, q, MISS]
        neither = miss / above if above > 0.0 else 0.0
        only_above = miss * numbers[previous, q, INVERSE]
        both = hit * numbers[previous, q, INVERSE]
        for lane in range(lanes):
            ratio = (
                neither + follows[previous, lane] * (only_above - neither) + follows[depth, lane] * (both - only_above)
            )
            factors[depth, q, lane] = factors[depth - 1, q, lane] * ratio


@array_formula
def _leave(step, output, n_points, follows, sums, numbers, phi):
    """Add the terms of the edge into a node to its player's values, and the sums of its subtree to its parent's."""
    depth, previous = step.depth, step.previous
    for j in range(sums.shape[1]):
        values = phi[output + j, step.player]
        for q in range(n_points):
            weight, gain = numbers[depth, q, WEIGHT], numbers[depth, q, GAIN]
            own = sums[depth, j, q]
            parent = sums[depth - 1, j, q]
            follow = follows[depth]
            if previous == 0:
                for lane in range(own.shape[0]):
                    values[lane] += own[lane] * (weight + follow[lane] * gain)
                    parent[lane] += own[lane]
                continue
            gain_above, above = numbers[previous, q, GAIN], follows[previous]
            for lane in range(own.shape[0]):
                values[lane] += own[lane] * (follow[lane] * gain - above[lane] * gain_above)
                parent[lane] += own[lane]


@array_formula
def _at_node(step, nodes, words, values, tables, weights, sides, factors, sums):
    """Write the terms of a leaf, or the side of each row at a split."""
    depth, node = step.depth, nodes[step.node]
    if step.is_leaf != int32(0):
        for j in range(sums.shape[1]):
            for q in range(weights.shape[0]):
                term = weights[q] * values[node.code, j]
                for lane in range(sums.shape[3]):
                    sums[depth, j, q, lane] = term * factors[depth, q, lane]
        return
    for j in range(sums.shape[1]):
        for q in range(weights.shape[0]):
            for lane in range(sums.shape[3]):
                sums[depth, j, q, lane] = 0.0
    for lane in range(tables.shape[0]):
        sides[depth, lane] = side_of(tables[lane, node.column], node, words)


@host_walk
def add_values(
    X,
    nodes,
    trees,
    words,
    values,
    steps,
    starts,
    orders,
    points,
    weights,
    tables,
    sides,
    follows,
    factors,
    sums,
    numbers,
    path,
    phi,
):
    """Add the Shapley values of each tree to `phi`.

    Parameters
    ----------
    X : array of float32, shape (n, n_columns), C-contiguous
    nodes, trees, words, values : array
        As in `gpupipe_kernels.rows.trees.PackedTrees`, with float64 values, shape (n_leaves, m).
    steps, starts : array
        As in `gpupipe_kernels.shapley.steps.TreeSteps`.
    orders : array of int64, shape (n_trees,)
        Number of points of the quadrature of each tree.
    points, weights : array of float64, shape (n_orders, most_points)
        Those of the quadrature of each number of points.
    tables, sides, follows, factors, sums, numbers, path
        Memory; see `gpupipe_kernels.shapley.values.TreeShapley`.
    phi : array of float64, shape (ceil(n / n_lanes), n_outputs, n_players, n_lanes)
    """
    for group in range(phi.shape[0]):
        _fill_tables(X, group * tables.shape[1], words, tables[group])
    for tree in range(trees.shape[0]):
        n_points = orders[tree]
        own_points, own_weights = points[n_points, :n_points], weights[n_points, :n_points]
        for group in range(phi.shape[0]):
            top = int64(0)
            for at in range(starts[tree], starts[tree + 1]):
                step = steps[at]
                while top >= step.depth and top > 0:
                    _leave(steps[path[top]], trees[tree].output, n_points, follows, sums, numbers, phi[group])
                    top -= 1
                top = int64(step.depth)
                path[top] = at
                if top > 0:
                    _enter(step, own_points, follows, sides, factors, numbers)
                _at_node(step, nodes, words, values, tables[group], own_weights, sides, factors, sums)
            while top > 0:
                _leave(steps[path[top]], trees[tree].output, n_points, follows, sums, numbers, phi[group])
                top -= 1


@array_formula
def _add_pairs(step, steps, output, n_points, follows, sums, numbers, path, replaced, phi):
    """Add the terms of a leaf to the interaction of each pair of players on its path."""
    for second in range(2, step.depth + 1):
        if replaced[second] > 0:
            continue
        for first in range(1, second):
            if replaced[first] > 0:
                continue
            one, other = steps[path[first]].player, steps[path[second]].player
            low, high = min(one, other), max(one, other)
            for j in range(sums.shape[1]):
                for q in range(n_points):
                    weight, gain = numbers[first, q, WEIGHT], numbers[first, q, GAIN]
                    weight_2, gain_2 = numbers[second, q, WEIGHT], numbers[second, q, GAIN]
                    for lane in range(sums.shape[3]):
                        both = (weight + follows[first, lane] * gain) * (weight_2 + follows[second, lane] * gain_2)
                        phi[output + j, low, high, lane] += 0.5 * sums[step.depth, j, q, lane] * both


@host_walk
def add_interactions(
    X,
    nodes,
    trees,
    words,
    values,
    steps,
    starts,
    orders,
    points,
    weights,
    tables,
    sides,
    follows,
    factors,
    sums,
    numbers,
    path,
    replaced,
    phi,
):
    """Add half of the Shapley interaction of each pair of players to ``phi[..., low, high, :]``, where low < high.

    The interaction of two players at a leaf is its value, times the difference of `follows` and share of both, times
    the integral of the product of the factors of all others.

    Parameters
    ----------
    X, nodes, trees, words, values, steps, starts, orders, points, weights
        As in `add_values`.
    tables, sides, follows, factors, sums, numbers, path
        Memory; see `gpupipe_kernels.shapley.values.TreeShapley`.
    replaced : array of int64, shape (deepest + 1,)
        Memory, initially 0: the number of edges below that replace the factor of an edge.
    phi : array of float64, shape (ceil(n / n_lanes), n_outputs, n_players, n_players, n_lanes)
    """
    for group in range(phi.shape[0]):
        _fill_tables(X, group * tables.shape[1], words, tables[group])
    for tree in range(trees.shape[0]):
        n_points = orders[tree]
        own_points, own_weights = points[n_points, :n_points], weights[n_points, :n_points]
        for group in range(phi.shape[0]):
            top = int64(0)
            for at in range(starts[tree], starts[tree + 1]):
                step = steps[at]
                while top >= step.depth and top > 0:
                    replaced[steps[path[top]].previous] -= 1
                    top -= 1
                top = int64(step.depth)
                path[top] = at
                if top > 0:
                    _enter(step, own_points, follows, sides, factors, numbers)
                    replaced[step.previous] += 1
                _at_node(step, nodes, words, values, tables[group], own_weights, sides, factors, sums)
                if step.is_leaf != int32(0):
                    _add_pairs(
                        step, steps, trees[tree].output, n_points, follows, sums, numbers, path, replaced, phi[group]
                    )
            while top > 0:
                replaced[steps[path[top]].previous] -= 1
                top -= 1
