"""estimator.ubj: read here before XGBoost reads it, which follows the numbers of a tree without looking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.models.description import Description
from gpupipe.models.sound_trees import check_nodes
from gpupipe.models.task import CLASSIFICATION, Task
from gpupipe.untrusted.ubjson import Reader

if TYPE_CHECKING:
    from gpupipe.backends.base import Array

MOST_CATEGORIES = 1 << 24  # float32 holds every integer below it; XGBoost keeps a bit for each
OF_EACH_NODE = ("split_conditions", "default_left", "base_weights", "loss_changes", "sum_hessian", "parents")


def check_file(path: Path, said: Description) -> None:
    """Verify that a file holds sound trees, and as many columns and outputs as the model says.

    Raises
    ------
    ValueError
        If it does not.
    """
    try:
        learner = Reader(path.read_bytes()).document()["learner"]
        _check_learner(learner, said)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"it is not what XGBoost writes: {type(error).__name__} {error}") from None


def _check_learner(learner: Mapping[str, Any], said: Description) -> None:
    sizes, booster = learner["learner_model_param"], learner["gradient_booster"]
    if booster["name"] not in ("gbtree", "dart") or int(sizes.get("num_target", 1)) != 1:
        raise ValueError(f"a booster {booster['name']!r:.40} of {sizes.get('num_target')!r:.40} targets")
    n_groups, n_columns = max(1, int(sizes["num_class"])), int(sizes["num_feature"])
    said.check_columns(n_columns)
    said.check_outputs(n_groups)
    _check_objective(learner["objective"]["name"], said.task, n_groups)
    int(learner["attributes"].get("best_iteration", "0"))
    is_dart = booster["name"] == "dart"
    model = (booster["gbtree"] if is_dart else booster)["model"]
    _check_trees(model, n_columns, n_groups)
    if is_dart and len(booster["weight_drop"]) != len(model["trees"]):
        raise ValueError("it does not give the weight of each tree")


def _check_objective(name: str, task: Task, n_groups: int) -> None:
    """Verify that the outputs are probabilities where the model has classes, and numbers where it has none."""
    needed = "" if task not in CLASSIFICATION else "binary:logistic" if n_groups == 1 else "multi:softprob"
    if name != needed if needed else name.startswith(("binary:", "multi:")):
        raise ValueError(f"its objective is {name[:40]!r}, and the task {task}")


def _check_trees(model: Mapping[str, Any], n_columns: int, n_groups: int) -> None:
    trees, groups, rounds = model["trees"], model["tree_info"], model["iteration_indptr"]
    if len(groups) != len(trees) or int(model["gbtree_model_param"]["num_trees"]) != len(trees):
        raise ValueError(f"it has {len(trees)} trees, and says otherwise")
    if any(not 0 <= group < n_groups for group in groups):
        raise ValueError("a tree adds to an output that is not there")
    if [*rounds] != sorted(rounds) or rounds[0] != 0 or rounds[-1] != len(trees):
        raise ValueError("its rounds are not those of its trees")
    if any(len(values) for values in model.get("cats", {}).values()):
        raise ValueError("it names categories, which a matrix of numbers has none of")
    for tree in trees:
        _check_tree(tree, n_columns)


def _check_tree(tree: Mapping[str, Array], n_columns: int) -> None:
    left, parameters = tree["left_children"], tree["tree_param"]
    if int(parameters["num_nodes"]) != len(left) or int(parameters["size_leaf_vector"]) > 1:
        raise ValueError("a tree has other nodes than it says")
    if any(len(tree[name]) != len(left) for name in OF_EACH_NODE) or len(tree["split_type"]) != len(left):
        raise ValueError("a tree has nodes without all their values")
    check_nodes(left, tree["right_children"], tree["split_indices"], left == -1, n_columns)
    if len(tree["categories_nodes"]):
        _check_categories(tree, len(left))


def _check_categories(tree: Mapping[str, Array], n_nodes: int) -> None:
    import numpy as np

    names = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    categories, nodes, starts, sizes = (tree[name].astype(np.int64) for name in names)
    if not len(nodes) == len(starts) == len(sizes):
        raise ValueError("a tree does not give the categories of each node")
    if min(nodes.min(), starts.min(), sizes.min()) < 0 or nodes.max() >= n_nodes or (np.diff(nodes) <= 0).any():
        raise ValueError("a tree has categories of nodes that are not there")
    if sizes.min() < 1 or (starts + sizes).max() > len(categories):
        raise ValueError("a tree looks at categories that are not there")
    if categories.min() < 0 or categories.max() >= MOST_CATEGORIES:
        raise ValueError(f"a tree has a category {categories.max():,}")
