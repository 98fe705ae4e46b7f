"""The trees of estimator.ubj for a walk without XGBoost."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.models.xgboost.tree_check import LEAF_VECTORS
from gpupipe_kernels.rows.libm import libm_function
from gpupipe_kernels.rows.links import Link
from gpupipe_kernels.rows.trees import (
    LEAF,
    LEFT,
    RIGHT,
    CategoryWords,
    PackedTrees,
    TreeArrays,
    join_nodes,
    less_than,
    pack_trees,
)

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

LINKS = {
    "binary:logistic": Link.SIGMOID,
    "count:poisson": Link.EXP,
    "multi:softprob": Link.SOFTMAX,
    "reg:gamma": Link.EXP,
    "reg:tweedie": Link.EXP,
}
BASE_MARGIN = 1e-6  # least distance of the logistic base score from 0 and 1
SCALED_LEAVES = (3, 3)  # first version of XGBoost that multiplies the leaves of dart by the weights of their trees


@dataclass(frozen=True)
class XGBoostTrees:
    """The trees of a model, of the rounds that predict, and its output."""

    packed: PackedTrees  # with one float32 value per leaf, or one for each of several targets
    base: HostArray  # float32, shape (n_outputs,): first term of the sum of each output
    link: Link  # transform of the sums

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.base)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> XGBoostTrees:
        """Return the trees of a document that `gpupipe.models.xgboost.document.read_model` has checked."""
        learner = document["learner"]
        sizes, objective = learner["learner_model_param"], learner["objective"]["name"]
        booster = learner["gradient_booster"]
        model = booster.get("gbtree", booster)["model"]
        base = np.array([_margin(score, objective) for score in _scores(sizes["base_score"])], np.float32)
        if len(base) == 1:
            base = np.repeat(base, max(1, int(sizes["num_class"])) * int(sizes.get("num_target", "1")))
        best = learner["attributes"].get("best_iteration")
        n_trees = model["iteration_indptr"][-1 if best is None else int(best) + 1]
        outputs = np.array(model["tree_info"][:n_trees], np.int64)
        scale = _leaf_scale(booster, base[outputs], document["version"])
        packed = _pack(model["trees"][:n_trees], outputs, scale, int(sizes["num_feature"]))
        return cls(packed, base, LINKS.get(objective, Link.IDENTITY))


def is_exact(document: Mapping[str, Any]) -> bool:
    """Return whether a walk of the trees has the digits of XGBoost on this machine.

    On processors with fused multiply-add instructions in their base instruction set, compilers round the weighted
    leaves of dart once, not twice, so a model with tree weights is predicted by XGBoost there.
    """
    booster = document["learner"]["gradient_booster"]
    has_weights = bool(booster.get("weight_drop") or booster.get("gbtree", booster)["model"].get("weight_drop"))
    return not has_weights or platform.machine().lower() in ("x86_64", "amd64")


def _scores(text: str) -> list[str]:
    return text.strip("[]").split(",")


def _margin(text: str, objective: str) -> float:
    """Return a base score as a margin, in float32 arithmetic like XGBoost's."""
    score, one = np.float32(text), np.float32(1)
    link = LINKS.get(objective)
    with np.errstate(divide="ignore", invalid="ignore"):
        if link == Link.SIGMOID:
            least = np.float32(BASE_MARGIN)
            score = min(max(score, least), one - least)
            return -float(libm_function("logf")(one / score - one))
        return float(libm_function("logf")(score)) if link == Link.EXP else float(score)


def _leaf_scale(
    booster: Mapping[str, Any], base: HostArray, version: Sequence[int]
) -> Callable[[int, HostArray], HostArray]:
    """Return the function from the position of a tree and its leaf values to the terms that XGBoost adds.

    `base` has the base score of each tree's output, and `version` is that of the file.
    """
    outer, inner = booster.get("weight_drop"), booster.get("gbtree", booster)["model"].get("weight_drop")
    if not outer and not inner:
        return lambda at, leaves: leaves
    is_scaled = tuple(_installed_version() or version)[:2] >= SCALED_LEAVES
    weights = np.array(outer or (inner if is_scaled else []), np.float32)

    def term(at: int, leaves: HostArray) -> HostArray:
        if at >= len(weights):
            return leaves
        with np.errstate(over="ignore", invalid="ignore"):  # thresholds, which are among the leaves
            # Older versions predict each tree by itself, base score included, and subtract it again.
            scaled: HostArray = (leaves if is_scaled else (base[at] + leaves) - base[at]) * weights[at]
        return scaled

    return term


def _installed_version() -> tuple[int, ...] | None:
    """Return the version of the installed XGBoost, which is not imported; None without XGBoost."""
    found = find_spec("xgboost")
    if found is None or found.origin is None:
        return None
    text = (Path(found.origin).parent / "VERSION").read_text(encoding="utf8").strip()
    return tuple(int(part) for part in text.split(".")[:2])


def _pack(
    trees: Sequence[Mapping[str, HostArray]],
    outputs: HostArray,
    scale: Callable[[int, HostArray], HostArray],
    n_columns: int,
) -> PackedTrees:
    categories = CategoryWords(is_exact=False)
    shifts = np.cumsum([0, *(len(tree["left_children"]) for tree in trees)])

    def joined(name: str) -> HostArray:
        return join_nodes([tree[name].astype(np.int64) for tree in trees])

    def children(name: str) -> HostArray:
        return join_nodes([tree[name].astype(np.int64) for tree in trees], shifts[:-1])

    conditions = [tree["split_conditions"].astype(np.float32) for tree in trees]
    right = children("right_children")
    if trees and LEAF_VECTORS in trees[0]:
        value = join_nodes([_leaf_vectors(tree) for tree in trees])
        right = np.where(joined("left_children") < 0, LEAF, right)
    else:
        value = join_nodes([scale(at, values) for at, values in enumerate(conditions)])[:, None]
    arrays = TreeArrays(
        left=children("left_children"),
        right=right,
        column=joined("split_indices"),
        threshold=less_than(join_nodes(conditions).astype(np.float32)),
        missing=np.where(joined("default_left") == 1, LEFT, RIGHT),
        words=join_nodes([_positions(tree, categories) for tree in trees]),
        value=value.astype(np.float32),
        cover=join_nodes([tree["sum_hessian"].astype(np.float32) for tree in trees]),
    )
    return pack_trees(arrays, shifts[:-1], outputs, categories, n_columns)


def _leaf_vectors(tree: Mapping[str, HostArray]) -> HostArray:
    """Return the numbers of each node, float32, shape (n_nodes, n_targets); 0 for inner nodes."""
    is_leaf = tree["left_children"] == -1
    vectors = tree[LEAF_VECTORS].astype(np.float32).reshape(int(is_leaf.sum()), -1)
    found = np.zeros((len(is_leaf), vectors.shape[1]), np.float32)
    found[is_leaf] = vectors[tree["right_children"][is_leaf].astype(np.int64)]
    return found


def _positions(tree: Mapping[str, HostArray], words: CategoryWords) -> HostArray:
    """Return the position of each node's categories, which are added to `words`; 0 for other nodes."""
    position = np.zeros(len(tree["left_children"]), np.int64)
    categories = tree["categories"].astype(np.int64)
    ends = np.append(tree["categories_segments"], len(categories)).astype(np.int64)
    for node, (start, stop) in zip(tree["categories_nodes"].tolist(), pairwise(ends.tolist()), strict=True):
        # A category of the set goes to the right; any other one, negative ones and those too large to the left.
        missing = LEFT if tree["default_left"][node] else RIGHT
        position[node] = words.add(categories[start:stop], missing, other=LEFT)
    return position
