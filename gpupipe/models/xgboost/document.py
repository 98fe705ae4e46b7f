"""Check of estimator.ubj: the file is parsed, checked and written again before XGBoost loads it.

XGBoost trusts the numbers of a file: children, columns, categories and sizes are positions in memory. The file is
therefore parsed here, every field that XGBoost's loader reads must have a value that XGBoost could have written, and
only those fields reach XGBoost. Checked against the loaders of XGBoost 3.0, 3.2 and 3.4.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from gpupipe.artifact.untrusted.ubjson import UbjsonReader, render
from gpupipe.models.files.description import Description
from gpupipe.models.xgboost.fields import (
    INT32,
    array_of,
    check_number,
    fields_of,
    integer_of_text,
    integer_within,
    list_of,
)
from gpupipe.models.xgboost.tree_check import CategoryMemory, TreeShape, read_tree
from gpupipe.tasks import CLASSIFICATION, Task

FEATURE_TYPES = frozenset({"c", "float", "i", "int", "q"})

# Parameter of each objective: its group, its field and the range of its value.
OBJECTIVES: Mapping[str, tuple[str, str, float, float] | None] = {
    "binary:logistic": ("reg_loss_param", "scale_pos_weight", 0, math.inf),
    "count:poisson": ("poisson_regression_param", "max_delta_step", 0, math.inf),
    "multi:softprob": ("softmax_multiclass_param", "num_class", 1, INT32),
    "rank:map": None,
    "rank:ndcg": None,
    "rank:pairwise": None,
    "reg:absoluteerror": None,
    "reg:gamma": ("reg_loss_param", "scale_pos_weight", 0, math.inf),
    "reg:quantileerror": ("quantile_loss_param", "quantile_alpha", 0, 1),
    "reg:pseudohubererror": ("pseudo_huber_param", "huber_slope", -math.inf, math.inf),
    "reg:squarederror": ("reg_loss_param", "scale_pos_weight", 0, math.inf),
    "reg:squaredlogerror": ("reg_loss_param", "scale_pos_weight", 0, math.inf),
    "reg:tweedie": ("tweedie_regression_param", "tweedie_variance_power", 1, 2),
}
_NUMBERS = re.compile(r"\[?([-+.0-9eE]+(?:,[-+.0-9eE]+)*)\]?")


def rewrite_model(data: bytes, expected: Description) -> bytearray:
    """Return the model in `data` as XGBoost's binary JSON with checked fields only.

    `data` is a UBJ file, as written by XGBoost's ``save_raw``. The result is input of
    ``xgboost.Booster(model_file=...)``; its predictions equal those of `data`, bit for bit. Raise ValueError if a field
    is missing, unknown or has an impossible value, or the columns or outputs do not match `expected`.
    """
    return render(read_model(data, expected))


def read_model(data: bytes, expected: Description) -> dict[str, Any]:
    """Return the checked fields of the model in `data`, as `rewrite_model` writes them.

    Raise ValueError as `rewrite_model`.
    """
    try:
        document = fields_of(UbjsonReader(data).document(), "the model", ("learner", "version"))
        version = [
            integer_within(part, 0, INT32, "a part of the version") for part in list_of(document["version"], "version")
        ]
        if len(version) != 3:
            raise ValueError(f"its version has {len(version)} parts; expected 3")
        return {"learner": _learner(document["learner"], expected, len(data)), "version": version}
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"it is not a file written by XGBoost: {type(error).__name__} {error}") from None


def _learner(values: Any, expected: Description, n_bytes: int) -> dict[str, Any]:
    names = ("attributes", "feature_names", "feature_types", "gradient_booster", "learner_model_param", "objective")
    learner = fields_of(values, "the learner", names)
    sizes = fields_of(
        learner["learner_model_param"],
        "learner_model_param",
        ("base_score", "num_class", "num_feature"),
        ("boost_from_average", "num_target"),
    )
    n_columns = integer_of_text(sizes["num_feature"], 1, INT32 - 1, "num_feature")
    n_classes = integer_of_text(sizes["num_class"], 0, INT32, "num_class")
    n_targets = len(expected.targets) or 1
    n_groups = max(1, n_classes)
    integer_of_text(sizes.get("num_target", "1"), n_targets, n_targets, "num_target")
    integer_of_text(sizes.get("boost_from_average", "1"), 0, 1, "boost_from_average")
    expected.check_columns(n_columns)
    expected.check_outputs(n_targets * n_groups)
    _check_base_score(sizes["base_score"], n_targets * n_groups)
    memory = CategoryMemory(n_bytes, expected.n_models)
    shape = TreeShape(n_columns, n_groups, n_targets)
    booster, n_rounds = _booster(learner["gradient_booster"], shape, memory)
    return {
        "attributes": _attributes(learner["attributes"], n_rounds),
        "feature_names": _column_texts(learner["feature_names"], n_columns, "feature_names", lambda name: True),
        "feature_types": _column_texts(
            learner["feature_types"], n_columns, "feature_types", FEATURE_TYPES.__contains__
        ),
        "gradient_booster": booster,
        "learner_model_param": sizes,
        "objective": _objective(learner["objective"], _task_of(expected), n_classes),
    }


def _task_of(expected: Description) -> Task:
    """Return the task of the model, or of each of several targets, which is the same."""
    if not expected.targets:
        return expected.task
    tasks = {target.task for target in expected.targets}
    if len(tasks) > 1 or "multiclass" in tasks:
        raise ValueError("the targets of its trees are not all numbers, or all of two classes")
    return tasks.pop()


def _check_base_score(text: Any, n_outputs: int) -> None:
    found = _NUMBERS.fullmatch(text)
    scores = found[1].split(",") if found and text.startswith("[") == text.endswith("]") else []
    if len(scores) not in (1, n_outputs):
        raise ValueError(f"expected a base_score of {n_outputs} outputs; got {text[:40]!r}")
    for score in scores:
        check_number(score, -math.inf, math.inf, "base_score")


def _attributes(values: Any, n_rounds: int) -> dict[str, str]:
    """Return the attributes that gpupipe reads; XGBoost stores any attributes and uses none in prediction."""
    found = {name: values[name] for name in ("best_iteration", "best_score") if name in values}
    if "best_iteration" in found:
        integer_of_text(found["best_iteration"], 0, n_rounds - 1, "best_iteration")
    if "best_score" in found and (type(found["best_score"]) is not str or len(found["best_score"]) > 64):
        raise ValueError(f"its best_score is invalid: {found['best_score']!r:.40}")
    return found


def _column_texts(values: Any, n_columns: int, what: str, is_allowed: Callable[[str], bool]) -> list[str]:
    found = list_of(values, what)
    if len(found) not in (0, n_columns) or not all(type(text) is str and is_allowed(text) for text in found):
        raise ValueError(f"its {what} are invalid for {n_columns:,} columns")
    return found


def _objective(values: Any, task: Task, n_classes: int) -> dict[str, Any]:
    """Return the objective: one with probabilities for classification, one of orders for ranking, or another."""
    name = values["name"]
    if task in CLASSIFICATION:
        matches = name == ("multi:softprob" if n_classes else "binary:logistic")
    else:
        matches = name in OBJECTIVES and name.startswith("rank:" if task == "ranking" else ("reg:", "count:"))
    if not matches:
        raise ValueError(f"the objective {name!r:.40} does not match the task {task}")
    if task == "ranking":  # its parameters are for training
        return {"name": fields_of(values, f"the objective {name}", ("name",), ("lambdarank_param",))["name"]}
    parameters = OBJECTIVES[name]
    if parameters is None or (set(values) == {"name"} and name != "multi:softprob"):
        return fields_of(values, f"the objective {name}", ("name",))
    group, field, low, high = parameters
    text = fields_of(fields_of(values, f"the objective {name}", ("name", group))[group], group, (field,))[field]
    if name == "reg:quantileerror":  # a list of one quantile, since XGBoost 2
        check_number(text[1:-1] if text[:1] + text[-1:] == "[]" else text, low, high, field)
    elif name == "multi:softprob":
        integer_of_text(text, n_classes, n_classes, field)
    else:
        check_number(text, low, high, field)
    return {"name": name, group: {field: text}}


def _booster(values: Any, shape: TreeShape, memory: CategoryMemory) -> tuple[dict[str, Any], int]:
    """Return the booster and its number of rounds."""
    is_dart = values["name"] == "dart"
    if is_dart and shape.n_targets > 1:
        raise ValueError("dart has no trees for several targets")
    if is_dart:
        booster = fields_of(values, "the booster", ("gbtree", "name", "weight_drop"))
        inner = fields_of(booster["gbtree"], "the trees of dart", ("model", "name"))
    else:
        booster = inner = fields_of(values, "the booster", ("model", "name"))
    if inner["name"] != "gbtree":
        raise ValueError(f"unknown booster {values['name']!r:.40} with {inner['name']!r:.40} inside")
    model, n_rounds = _model(inner["model"], shape, memory)
    inner = {"model": model, "name": "gbtree"}
    if not is_dart:
        return inner, n_rounds
    weights = _weights(booster["weight_drop"])
    if len(weights) != len(model["trees"]):
        raise ValueError(f"it has weights for {len(weights):,} trees and {len(model['trees']):,} trees")
    return {"gbtree": inner, "name": "dart", "weight_drop": weights}, n_rounds


def _weights(values: Any) -> list[float]:
    weights = list_of(values, "weight_drop")
    if not all(type(weight) is float and math.isfinite(weight) for weight in weights):
        raise ValueError("the weight of a tree is not a finite number")
    return weights


def _model(values: Any, shape: TreeShape, memory: CategoryMemory) -> tuple[dict[str, Any], int]:
    needed = ("gbtree_model_param", "iteration_indptr", "tree_info", "trees")
    model = fields_of(values, "the trees", needed, ("cats", "weight_drop"))
    trees = list_of(model["trees"], "trees")
    sizes = fields_of(model["gbtree_model_param"], "gbtree_model_param", ("num_parallel_tree", "num_trees"))
    integer_of_text(sizes["num_trees"], len(trees), len(trees), "num_trees")
    integer_of_text(sizes["num_parallel_tree"], 1, INT32, "num_parallel_tree")
    most = shape.n_groups - 1
    groups = [integer_within(group, 0, most, "the output of a tree") for group in list_of(model["tree_info"], "groups")]
    if len(groups) != len(trees):
        raise ValueError(f"it has outputs for {len(groups):,} trees and {len(trees):,} trees")
    rounds = [
        integer_within(end, 0, len(trees), "the end of a round") for end in list_of(model["iteration_indptr"], "rounds")
    ]
    if rounds != sorted(rounds) or rounds[:1] != [0] or rounds[-1] != len(trees) or len(rounds) > len(trees) + 1:
        raise ValueError("its rounds do not match its trees")
    found = {
        "gbtree_model_param": sizes,
        "iteration_indptr": rounds,
        "tree_info": groups,
        "trees": [read_tree(tree, position, shape, memory) for position, tree in enumerate(trees)],
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
    cats = fields_of(values, "cats", ("enc", "feature_segments", "sorted_idx"))
    if any(len(value) for value in cats.values()):
        raise ValueError("it has category names, which a model of a numeric matrix has not")
    return {"enc": [], **{name: array_of(cats[name], ">i4", name) for name in ("feature_segments", "sorted_idx")}}
