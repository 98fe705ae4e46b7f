"""Check of estimator.ubj: the file is parsed, checked and written again before XGBoost loads it.

XGBoost trusts the numbers of a file: children, columns, categories and sizes are positions in memory. The file is
therefore parsed here, every field that XGBoost's loader reads must have a value that XGBoost could have written, and
only those fields reach XGBoost. Checked against the loaders of XGBoost 3.0, 3.2 and 3.4.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.untrusted import most_bytes
from gpupipe.artifact.untrusted.ubjson import UbjsonReader, render
from gpupipe.models.files.description import Description
from gpupipe.models.files.tree_checks import check_nodes
from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe.typing import HostArray
from gpupipe.units import GIB

if TYPE_CHECKING:
    from gpupipe.typing import Array

INT32 = (1 << 31) - 1
DELETED = INT32  # split index of a node removed by pruning
MAX_DEPTH = 4096  # XGBoost 3.2 recurses once per level of a tree, and a stack overflow ends the process
MAX_CATEGORIES = 1 << 24  # float32 represents every integer below it exactly
MAX_CATEGORY_BYTES = GIB  # XGBoost allocates a bit for each category up to the largest of a node
MAX_SHARED_BYTES = 8 * GIB  # the same for all models of an ensemble
FEATURE_TYPES = frozenset({"c", "float", "i", "int", "q"})

TREE_ARRAYS = {
    "base_weights": ">f4", "categories": ">i4", "categories_nodes": ">i4", "categories_segments": ">i8",
    "categories_sizes": ">i8", "default_left": ">u1", "left_children": ">i4", "loss_changes": ">f4", "parents": ">i4",
    "right_children": ">i4", "split_conditions": ">f4", "split_indices": ">i4", "split_type": ">u1",
    "sum_hessian": ">f4",
}  # fmt: skip
TREE_FIELDS = {*TREE_ARRAYS, "id", "tree_param"}
# Parameter of each objective: its group, its field and the range of its value.
OBJECTIVES: Mapping[str, tuple[str, str, float, float] | None] = {
    "binary:logistic": ("reg_loss_param", "scale_pos_weight", 0, math.inf),
    "count:poisson": ("poisson_regression_param", "max_delta_step", 0, math.inf),
    "multi:softprob": ("softmax_multiclass_param", "num_class", 1, INT32),
    "reg:absoluteerror": None,
    "reg:gamma": ("reg_loss_param", "scale_pos_weight", 0, math.inf),
    "reg:quantileerror": ("quantile_loss_param", "quantile_alpha", 0, 1),
    "reg:pseudohubererror": ("pseudo_huber_param", "huber_slope", -math.inf, math.inf),
    "reg:squarederror": ("reg_loss_param", "scale_pos_weight", 0, math.inf),
    "reg:squaredlogerror": ("reg_loss_param", "scale_pos_weight", 0, math.inf),
    "reg:tweedie": ("tweedie_regression_param", "tweedie_variance_power", 1, 2),
}
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,9}")
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
_NUMBERS = re.compile(r"\[?([-+.0-9eE]+(?:,[-+.0-9eE]+)*)\]?")


def rewrite_model(data: bytes, expected: Description) -> bytearray:
    """Return the model in `data` as XGBoost's binary JSON with checked fields only.

    Parameters
    ----------
    data : bytes
        A UBJ file, as written by XGBoost's ``save_raw``.
    expected : Description
        Description of the estimator in the model directory.

    Returns
    -------
    bytearray
        Input of ``xgboost.Booster(model_file=...)``. Its predictions equal those of `data`, bit for bit.

    Raises
    ------
    ValueError
        If a field is missing, unknown or has an impossible value, or the columns or outputs do not match `expected`.
    """
    return render(read_model(data, expected))


def read_model(data: bytes, expected: Description) -> dict[str, Any]:
    """Return the checked fields of the model in `data`, as `rewrite_model` writes them.

    Raises
    ------
    ValueError
        As `rewrite_model`.
    """
    try:
        document = _fields(UbjsonReader(data).document(), "the model", ("learner", "version"))
        version = [_within(part, 0, INT32, "a part of the version") for part in _list(document["version"], "version")]
        if len(version) != 3:
            raise ValueError(f"its version has {len(version)} parts; expected 3")
        return {"learner": _learner(document["learner"], expected, len(data)), "version": version}
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"it is not a file written by XGBoost: {type(error).__name__} {error}") from None


def _learner(values: Any, expected: Description, n_bytes: int) -> dict[str, Any]:
    names = ("attributes", "feature_names", "feature_types", "gradient_booster", "learner_model_param", "objective")
    learner = _fields(values, "the learner", names)
    sizes = _fields(
        learner["learner_model_param"],
        "learner_model_param",
        ("base_score", "num_class", "num_feature"),
        ("boost_from_average", "num_target"),
    )
    n_columns = _integer(sizes["num_feature"], 1, INT32 - 1, "num_feature")
    n_classes = _integer(sizes["num_class"], 0, INT32, "num_class")
    n_groups = max(1, n_classes)
    _integer(sizes.get("num_target", "1"), 1, 1, "num_target")
    _integer(sizes.get("boost_from_average", "1"), 0, 1, "boost_from_average")
    expected.check_columns(n_columns)
    expected.check_outputs(n_groups)
    _check_base_score(sizes["base_score"], n_groups)
    memory = _CategoryMemory(n_bytes, expected.n_models)
    booster, n_rounds = _booster(learner["gradient_booster"], n_columns, n_groups, memory)
    return {
        "attributes": _attributes(learner["attributes"], n_rounds),
        "feature_names": _column_texts(learner["feature_names"], n_columns, "feature_names", lambda name: True),
        "feature_types": _column_texts(
            learner["feature_types"], n_columns, "feature_types", FEATURE_TYPES.__contains__
        ),
        "gradient_booster": booster,
        "learner_model_param": sizes,
        "objective": _objective(learner["objective"], expected.task, n_classes),
    }


def _check_base_score(text: Any, n_groups: int) -> None:
    found = _NUMBERS.fullmatch(text)
    scores = found[1].split(",") if found and text.startswith("[") == text.endswith("]") else []
    if len(scores) not in (1, n_groups):
        raise ValueError(f"expected a base_score of {n_groups} outputs; got {text[:40]!r}")
    for score in scores:
        _number(score, -math.inf, math.inf, "base_score")


def _attributes(values: Any, n_rounds: int) -> dict[str, str]:
    """Return the attributes that gpupipe reads; XGBoost stores any attributes and uses none in prediction."""
    found = {name: values[name] for name in ("best_iteration", "best_score") if name in values}
    if "best_iteration" in found:
        _integer(found["best_iteration"], 0, n_rounds - 1, "best_iteration")
    if "best_score" in found and (type(found["best_score"]) is not str or len(found["best_score"]) > 64):
        raise ValueError(f"its best_score is invalid: {found['best_score']!r:.40}")
    return found


def _column_texts(values: Any, n_columns: int, what: str, is_allowed: Callable[[str], bool]) -> list[str]:
    found = _list(values, what)
    if len(found) not in (0, n_columns) or not all(type(text) is str and is_allowed(text) for text in found):
        raise ValueError(f"its {what} are invalid for {n_columns:,} columns")
    return found


def _objective(values: Any, task: Task, n_classes: int) -> dict[str, Any]:
    """Return the objective: one with probabilities for classification, another for regression."""
    name = values["name"]
    needed = "" if task not in CLASSIFICATION else "multi:softprob" if n_classes else "binary:logistic"
    if name not in OBJECTIVES or (name != needed if needed else name.startswith(("binary:", "multi:"))):
        raise ValueError(f"the objective {name!r:.40} does not match the task {task}")
    parameters = OBJECTIVES[name]
    if parameters is None or (set(values) == {"name"} and name != "multi:softprob"):
        return _fields(values, f"the objective {name}", ("name",))
    group, field, low, high = parameters
    text = _fields(_fields(values, f"the objective {name}", ("name", group))[group], group, (field,))[field]
    if name == "reg:quantileerror":  # a list of one quantile, since XGBoost 2
        _number(text[1:-1] if text[:1] + text[-1:] == "[]" else text, low, high, field)
    elif name == "multi:softprob":
        _integer(text, n_classes, n_classes, field)
    else:
        _number(text, low, high, field)
    return {"name": name, group: {field: text}}


def _booster(values: Any, n_columns: int, n_groups: int, memory: _CategoryMemory) -> tuple[dict[str, Any], int]:
    """Return the booster and its number of rounds."""
    is_dart = values["name"] == "dart"
    if is_dart:
        booster = _fields(values, "the booster", ("gbtree", "name", "weight_drop"))
        inner = _fields(booster["gbtree"], "the trees of dart", ("model", "name"))
    else:
        booster = inner = _fields(values, "the booster", ("model", "name"))
    if inner["name"] != "gbtree":
        raise ValueError(f"unknown booster {values['name']!r:.40} with {inner['name']!r:.40} inside")
    model, n_rounds = _model(inner["model"], n_columns, n_groups, memory)
    inner = {"model": model, "name": "gbtree"}
    if not is_dart:
        return inner, n_rounds
    weights = _weights(booster["weight_drop"])
    if len(weights) != len(model["trees"]):
        raise ValueError(f"it has weights for {len(weights):,} trees and {len(model['trees']):,} trees")
    return {"gbtree": inner, "name": "dart", "weight_drop": weights}, n_rounds


def _weights(values: Any) -> list[float]:
    weights = _list(values, "weight_drop")
    if not all(type(weight) is float and math.isfinite(weight) for weight in weights):
        raise ValueError("the weight of a tree is not a finite number")
    return weights


def _model(values: Any, n_columns: int, n_groups: int, memory: _CategoryMemory) -> tuple[dict[str, Any], int]:
    needed = ("gbtree_model_param", "iteration_indptr", "tree_info", "trees")
    model = _fields(values, "the trees", needed, ("cats", "weight_drop"))
    trees = _list(model["trees"], "trees")
    sizes = _fields(model["gbtree_model_param"], "gbtree_model_param", ("num_parallel_tree", "num_trees"))
    _integer(sizes["num_trees"], len(trees), len(trees), "num_trees")
    _integer(sizes["num_parallel_tree"], 1, INT32, "num_parallel_tree")
    groups = [_within(group, 0, n_groups - 1, "the output of a tree") for group in _list(model["tree_info"], "groups")]
    if len(groups) != len(trees):
        raise ValueError(f"it has outputs for {len(groups):,} trees and {len(trees):,} trees")
    rounds = [_within(end, 0, len(trees), "the end of a round") for end in _list(model["iteration_indptr"], "rounds")]
    if rounds != sorted(rounds) or rounds[:1] != [0] or rounds[-1] != len(trees) or len(rounds) > len(trees) + 1:
        raise ValueError("its rounds do not match its trees")
    found = {
        "gbtree_model_param": sizes,
        "iteration_indptr": rounds,
        "tree_info": groups,
        "trees": [_tree(tree, position, n_columns, memory) for position, tree in enumerate(trees)],
    }
    if "weight_drop" in model:  # dart, since XGBoost 3.4
        found["weight_drop"] = _weights(model["weight_drop"])
        if len(found["weight_drop"]) > len(trees):
            raise ValueError("it has more tree weights than trees")
    if "cats" in model:
        found["cats"] = _no_categories(model["cats"])
    return found, len(rounds) - 1


def _no_categories(values: Any) -> dict[str, Any]:
    """Return the category names, which must be empty: models are trained on a matrix of numbers."""
    cats = _fields(values, "cats", ("enc", "feature_segments", "sorted_idx"))
    if any(len(value) for value in cats.values()):
        raise ValueError("it has category names, which a model of a numeric matrix has not")
    return {"enc": [], **{name: _array(cats[name], ">i4", name) for name in ("feature_segments", "sorted_idx")}}


class _CategoryMemory:
    """Limit on the bytes that XGBoost allocates for the categories of all trees."""

    def __init__(self, n_bytes: int, n_models: int) -> None:
        self.left = max(most_bytes(n_bytes), min(MAX_CATEGORY_BYTES, MAX_SHARED_BYTES // n_models))

    def take(self, n_bytes: int) -> None:
        self.left -= n_bytes
        if self.left < 0:
            raise ValueError("the categories of its trees need more memory than a file of its size can justify")


def _tree(values: Any, position: int, n_columns: int, memory: _CategoryMemory) -> dict[str, Any]:
    tree = _fields(values, "a tree", TREE_FIELDS)
    tree |= {name: _array(tree[name], dtype, name) for name, dtype in TREE_ARRAYS.items()}
    n_nodes = len(tree["left_children"])
    if any(len(tree[name]) != n_nodes for name in TREE_ARRAYS if not name.startswith("categories")):
        raise ValueError("a tree has arrays of different lengths")
    _within(tree["id"], position, position, "the id of a tree")
    needed = ("num_deleted", "num_feature", "num_nodes", "size_leaf_vector")
    sizes = _fields(tree["tree_param"], "tree_param", needed)
    _integer(sizes["num_nodes"], n_nodes, n_nodes, "num_nodes")
    _integer(sizes["size_leaf_vector"], 0, 1, "size_leaf_vector")
    _integer(sizes["num_feature"], n_columns, n_columns, "num_feature of a tree")
    n_deleted = _check_links(tree, n_columns)
    _integer(sizes["num_deleted"], n_deleted, n_deleted, "num_deleted")
    _check_categories(tree, memory)
    return {**tree, "tree_param": sizes}


def _check_links(tree: Mapping[str, Array], n_columns: int) -> int:
    """Verify children, parents, columns and leaves of a tree; return the number of nodes removed by pruning."""
    import numpy as np

    left, right, parents, column = (
        tree[name].astype(np.int64) for name in ("left_children", "right_children", "parents", "split_indices")
    )
    leaf, default_left, n_nodes = left == -1, tree["default_left"], len(left)
    check_nodes(left, right, column, leaf, n_columns)
    deleted = (column == DELETED) & (default_left == 1)
    inner = np.flatnonzero(~leaf)
    reached = np.zeros(n_nodes, bool)
    reached[0] = reached[left[inner]] = reached[right[inner]] = True
    if (right[leaf] != -1).any() or (reached == deleted).any() or (~leaf & deleted).any():
        raise ValueError("a tree has a leaf with children, or a node without a parent")
    if (right[inner] != left[inner] + 1).any():  # XGBoost goes to the neighbor of the left child
        raise ValueError("the children of a node are not neighbors")
    if parents[0] not in (-1, INT32) or ((parents[1:] < 0) | (parents[1:] >= n_nodes)).any():
        raise ValueError("a tree has a parent that does not exist")
    if (parents[left[inner]] != inner).any() or (parents[right[inner]] != inner).any():
        raise ValueError("the parents of a tree do not match its children")
    if ((column < 0) | (column >= n_columns))[~deleted].any() or (default_left > 1).any():
        raise ValueError("a tree reads a column that does not exist, or has no side for missing values")
    if not np.isfinite(tree["split_conditions"][leaf & ~deleted]).all():
        raise ValueError("a tree has a leaf whose value is not finite")
    level, depth = np.zeros(1, np.int64), 0
    while len(level := level[~leaf[level]]):
        level, depth = np.concatenate([left[level], right[level]]), depth + 1
        if depth > MAX_DEPTH:
            raise ValueError(f"a tree is deeper than {MAX_DEPTH:,} levels")
    return int(deleted.sum())


def _check_categories(tree: Mapping[str, Array], memory: _CategoryMemory) -> None:
    import numpy as np

    names = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    categories, nodes, starts, sizes = (tree[name].astype(np.int64) for name in names)
    if (tree["split_type"] > 1).any() or not np.array_equal(np.flatnonzero(tree["split_type"]), nodes):
        raise ValueError("the categories of a tree do not match its categorical splits")
    if not len(nodes) == len(starts) == len(sizes):
        raise ValueError("a tree lacks the categories of a node")
    if len(nodes) == 0:
        return
    if sizes.min() < 1 or sizes.max() > len(categories) or sizes.sum() != len(categories):
        raise ValueError("a tree splits by categories that do not exist")
    if not np.array_equal(starts, np.cumsum(sizes) - sizes):
        raise ValueError("the categories of a tree's nodes overlap")
    if categories.min() < 0 or categories.max() >= MAX_CATEGORIES:
        raise ValueError(f"expected categories in [0, {MAX_CATEGORIES:,}); a tree has {categories.max():,}")
    memory.take(int((np.maximum.reduceat(categories, starts) // 32 + 1).sum()) * 4)


def _fields(value: Any, what: str, needed: Any, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError(f"{what} should be an object")
    if missing := set(needed) - set(value):
        raise ValueError(f"{what} has no {min(missing)}")
    if unknown := set(value) - set(needed) - set(optional):
        raise ValueError(f"{what} has an unknown field {min(unknown)!r:.40}")
    return dict(value)


def _list(value: Any, what: str) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"{what} should be a list")
    return value


def _array(value: Any, dtype: str, what: str) -> HostArray:
    import numpy as np

    if not isinstance(value, np.ndarray) or value.dtype != dtype:
        raise ValueError(f"{what} should be an array of {dtype[1:]}")
    return value


def _within(value: Any, low: int, high: int, what: str) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} is {value!r:.40}; expected an integer from {low} to {high}")
    return value


def _integer(text: Any, low: int, high: int, what: str) -> int:
    """Return the integer of a text in canonical form."""
    if type(text) is not str or not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
        raise ValueError(f"{what} is {text!r:.40}; expected an integer from {low} to {high}")
    return int(text)


def _number(text: Any, low: float, high: float, what: str) -> None:
    import numpy as np

    if type(text) is not str or not _NUMBER.fullmatch(text) or abs(float(text)) > np.finfo(np.float32).max:
        raise ValueError(f"{what} is {text!r:.40}; expected a finite number")
    if not low <= float(text) <= high:
        raise ValueError(f"{what} is {text}; expected a number from {low} to {high}")
