"""Trees in preorder, with the share of the training rows on each edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy import int32, int64

from gpupipe_kernels.launch import host_walk, read_only
from gpupipe_kernels.rows.trees import PackedTrees

if TYPE_CHECKING:
    from gpupipe_kernels.typing import HostArray

# One step per node, in preorder. depth: 0 for the root. side: of the node at its parent. player: of the parent's split.
# previous: depth of the next edge above with the same player; 0 if there is none. node: position in the packed nodes.
# share: of the training rows of the parent, times the shares of all edges above with the same player.
STEP = np.dtype(
    [
        ("share", np.float64),
        ("depth", np.int32),
        ("side", np.int32),
        ("player", np.int32),
        ("previous", np.int32),
        ("node", np.int32),
        ("is_leaf", np.int32),
    ]
)


class TreeSteps(NamedTuple):
    """The trees of a model as steps.

    Attributes
    ----------
    steps : array of `STEP`
    starts : array of int64, shape (n_trees + 1,)
        First step of each tree.
    n_players : array of int64, shape (n_trees,)
        Largest number of players on the path to a leaf.
    base : array of float64, shape (n_outputs,)
        Expected sum of the leaves.
    """

    packed: PackedTrees
    steps: HostArray
    starts: HostArray
    n_players: HostArray
    base: HostArray
    total_players: int


def tree_steps(packed: PackedTrees, n_outputs: int, players: HostArray | None = None) -> TreeSteps:
    """Return the steps of trees with covers.

    Raise ValueError if a cover is negative or not finite.

    Parameters
    ----------
    packed : PackedTrees
        With float64 values.
    players : array of int, shape (n_columns,), optional
        The player that each column belongs to; None: each column is a player.
    """
    cover = packed.cover
    if cover is None or not np.isfinite(cover).all() or (cover < 0).any():
        raise ValueError("the weight of the training rows in a node is missing, negative or not finite")
    if players is None:
        players = np.arange(packed.n_columns)
    n_nodes, n_trees = len(packed.nodes), len(packed.trees)
    deepest = int(packed.trees["depth"].max(initial=0))
    steps, starts = np.zeros(n_nodes, STEP), np.zeros(n_trees + 1, np.int64)
    n_players, base = np.zeros(n_trees, np.int64), np.zeros(n_outputs)
    path, share = np.zeros((3, deepest + 2), np.int64), np.ones((2, deepest + 2))
    given = map(read_only, (packed.nodes, packed.trees, packed.values, cover, players.astype(np.int32)))
    _order(*given, packed.n_columns, path, share, steps, starts, n_players, base)
    return TreeSteps(packed, steps, starts, n_players, base, int(players.max(initial=-1)) + 1)


@host_walk
def _order(nodes, trees, values, cover, players, n_columns, path, share, steps, starts, n_players, base):
    """Write the steps of all trees.

    Parameters
    ----------
    nodes, trees, values, cover
        As in `gpupipe_kernels.rows.trees.PackedTrees`.
    players : array of int32, shape (n_columns,)
    path : array of int64, shape (3, deepest + 2)
        Memory for the path to a node: its nodes, the players of its edges, and the number of distinct players.
    share : array of float64, shape (2, deepest + 2)
        Memory for the path to a node: the shares of players, and the product of the shares of all edges.
    steps, starts, n_players, base
        Results; see `TreeSteps`.
    """
    at = int64(0)
    for tree in range(trees.shape[0]):
        starts[tree] = at
        depth = int64(0)
        node = int64(trees[tree].root)
        side = int64(0)
        path[0, 0] = node
        path[1, 0] = -1
        path[2, 0] = 0
        share[0, 0], share[1, 0] = 1.0, 1.0
        while depth >= 0:
            is_leaf = nodes[node].child == node
            step = steps[at]
            step.depth = int32(depth)
            step.side = int32(side)
            step.node = int32(node)
            step.is_leaf = int32(is_leaf)
            step.player = int32(path[1, depth])
            step.previous = int32(0)
            step.share = 1.0
            if depth > 0:
                first = int64(nodes[path[0, depth - 1]].child)
                total = cover[first] + cover[first + 1]
                own = cover[node] / total if total > 0.0 else 0.5  # no training row went here
                previous = depth - 1
                while previous > 0 and path[1, previous] != path[1, depth]:
                    previous -= 1
                path[2, depth] = path[2, depth - 1] + (1 if previous == 0 else 0)
                share[0, depth] = own * (share[0, previous] if previous > 0 else 1.0)
                share[1, depth] = own * share[1, depth - 1]
                step.previous, step.share = int32(previous), share[0, depth]
            at += 1
            if not is_leaf:
                depth += 1
                path[0, depth], side = int64(nodes[node].child), int64(0)
                path[1, depth] = players[(nodes[node].column - 1) % n_columns]
                node = path[0, depth]
                continue
            n_players[tree] = max(n_players[tree], path[2, depth])
            for j in range(values.shape[1]):
                base[trees[tree].output + j] += share[1, depth] * values[nodes[node].code, j]
            while depth > 0 and path[0, depth] != int64(nodes[path[0, depth - 1]].child):  # a right child
                depth -= 1
            if depth == 0:
                break
            side = int64(1)
            path[0, depth] += 1
            node = path[0, depth]
    starts[trees.shape[0]] = at
