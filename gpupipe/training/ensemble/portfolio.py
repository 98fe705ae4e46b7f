"""Portfolio of the ensemble ``best``: models with published settings, in the order of value per predicted cost.

The first configuration of each model has its tuned defaults. Further ones were selected on many tables to complement
each other: the zero-shot portfolios of TabRepo (Salinas and Erickson, 2024) and TabArena (Erickson et al., 2025), as
AutoGluon 1.6 ships them; the suffix in a comment is AutoGluon's name. The order starts with one configuration of each
library, since different libraries complement each other more than settings of the same one. Linear models and forests
cost little and differ most from boosting. Histogram gradient boosting comes later: its algorithm is that of LightGBM,
which takes less time, and the published portfolios do without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.errors import ConfigError
from gpupipe.models import MODELS, ModelSettings, early_refusal
from gpupipe.models.best import PORTFOLIO_MODELS
from gpupipe.tasks import Task, View

LIBRARIES = {"lightgbm": "lightgbm", "catboost": "catboost", "xgboost": "xgboost", "mlp": "torch", "tabm": "torch"}
"""Module of the optional library that trains a model."""

FORESTS = frozenset({"random_forest", "extra_trees"})
"""Models that are trained once and predict out of bag; their cost is measured with a tenth of the trees first."""

NETWORKS = frozenset({"mlp", "tabm"})
"""Models that are trained for as many epochs as fit into the time that they get."""

BOOSTERS = frozenset({"lightgbm", "catboost", "xgboost", "hist_gradient_boosting"})
"""Models whose rounds take as many times longer as there are classes, from three on."""

BASE = "ridge"
"""Linear model whose residuals boosters learn if rows have times."""

# A booster that has not improved for this many rounds seldom improves by much: AutoGluon waits for 20 to 300.
PATIENCE = 60
_STOP = {"early_stopping_rounds": PATIENCE}
_HISTOGRAM = {"n_iter_no_change": PATIENCE // 2}
# A forest predicts its training rows out of bag, which takes one training instead of one per fold.
_FOREST = {"bootstrap": True}
# Smaller forests are trained per fold on a GPU; with groups, whose rows are not independent; and with weights, by which
# scikit-learn draws the rows of a tree, so that a heavy row is never out of bag.
_FOLD_FOREST = {"n_estimators": 100}
# Configurations that were selected as a whole: parameters that they do not state are those of the library.
_LIGHTGBM = {"defaults": "library", "n_estimators": 5000, **_STOP}
_XGBOOST = {"defaults": "library", "n_estimators": 5000, **_STOP}
_CATBOOST = {"defaults": "library", "iterations": 5000, **_STOP}

# Model, its parameters, and its predicted cost: seconds of training relative to LightGBM.
_ENTRIES: tuple[tuple[str, Mapping[str, Any], float], ...] = (
    ("lightgbm", _STOP, 1.0),
    ("xgboost", _STOP, 1.5),
    ("logistic_regression", {}, 0.3),
    ("ridge", {}, 0.1),
    ("catboost", _STOP, 4.0),
    ("random_forest", {**_FOREST, "min_samples_leaf": 2}, 3.0),
    ("extra_trees", {**_FOREST, "min_samples_leaf": 2}, 1.5),
    ("lightgbm", {**_LIGHTGBM, "learning_rate": 0.0179, "num_leaves": 39, "extra_trees": True,
                  "colsample_bytree": 0.4622, "min_child_samples": 3, "subsample": 0.8769, "subsample_freq": 1,
                  "reg_alpha": 0.2375, "reg_lambda": 0.3552}, 3.0),  # TabArena, third
    ("mlp", {}, 10.0),
    ("tabm", {"members": 8, "width": 128, "embedding_size": 8, "epochs": 40, "schedule": "cosine",
              "learning_rate": 4e-3}, 12.0),
    ("xgboost", {**_XGBOOST, "learning_rate": 0.0878, "max_depth": 5, "colsample_bytree": 0.6628,
                 "min_child_weight": 0.6294}, 1.0),  # _r89
    ("logistic_regression", {"C": 0.05}, 0.3),
    ("ridge", {"alpha": 30.0}, 0.1),
    ("hist_gradient_boosting", _HISTOGRAM, 1.5),
    ("catboost", {**_CATBOOST, "learning_rate": 0.0686, "depth": 6, "l2_leaf_reg": 2.1543, "one_hot_max_size": 10},
     3.0),  # _r177
    ("lightgbm", {**_LIGHTGBM, "learning_rate": 0.0121, "num_leaves": 53, "colsample_bytree": 0.7024,
                  "min_child_samples": 14}, 4.0),  # _r131
    ("xgboost", {**_XGBOOST, "learning_rate": 0.0181, "max_depth": 10, "colsample_bytree": 0.6917,
                 "min_child_weight": 0.6029}, 8.0),  # _r33
    ("hist_gradient_boosting", {**_HISTOGRAM, "defaults": "library", "max_iter": 2000, "early_stopping": True,
                                "learning_rate": 0.03, "max_leaf_nodes": 15, "max_features": 0.6}, 2.0),
    ("lightgbm", {**_LIGHTGBM, "learning_rate": 0.0152, "num_leaves": 16, "extra_trees": True,
                  "colsample_bytree": 0.5637, "min_child_samples": 48}, 3.0),  # _r96
    ("catboost", {**_CATBOOST, "learning_rate": 0.0494, "depth": 4, "l2_leaf_reg": 4.5592, "max_ctr_complexity": 3,
                  "one_hot_max_size": 3}, 3.0),  # _r137
    ("random_forest", {**_FOREST, "max_features": 0.75}, 9.0),  # _r195
    ("extra_trees", {**_FOREST, "max_features": 0.75}, 4.5),  # _r42
    ("lightgbm", {**_LIGHTGBM, "learning_rate": 0.0127, "num_leaves": 5, "extra_trees": True,
                  "colsample_bytree": 0.7335, "min_child_samples": 12, "subsample": 0.8541, "subsample_freq": 1},
     2.0),  # TabArena, 13th
    ("xgboost", {**_XGBOOST, "learning_rate": 0.0929, "max_depth": 7, "colsample_bytree": 0.909,
                 "min_child_weight": 0.8042}, 2.0),  # _r194
    ("catboost", {**_CATBOOST, "learning_rate": 0.0173, "depth": 8, "l2_leaf_reg": 3.3274, "max_ctr_complexity": 5,
                  "one_hot_max_size": 10}, 10.0),  # _r13; not _r9, whose trees are not symmetric
    ("mlp", {"width": 128, "depth": 2, "dropout": 0.4}, 8.0),
)  # fmt: skip


@dataclass(frozen=True)
class PortfolioEntry:
    """Model of the portfolio.

    `label` is unique: the name, or the name and a number. `params` are the stated parameters. `cost` is the predicted
    seconds of training, relative to those of other entries. If `is_out_of_bag`, the model is trained once, on all rows,
    and its trees predict the rows that they were not grown on. With a `base`, the model learns the residuals of that
    linear model.
    """

    label: str
    name: str
    params: Mapping[str, Any]
    settings: ModelSettings
    cost: float
    is_out_of_bag: bool = False
    base: ModelSettings | None = None

    @property
    def view(self) -> View:
        """The view of the matrix that the fitted model reads."""
        return self.settings.view if self.base is None else "combined"

    @property
    def is_network(self) -> bool:
        """True for a network, which is trained for as many epochs as fit into the time that it gets."""
        return self.name in NETWORKS


def make_portfolio(
    task: Task,
    backend: Backend,
    names: Sequence[str] | None = None,
    *,
    has_weights: bool = False,
    has_groups: bool = False,
    has_times: bool = False,
    n_classes: int = 0,
) -> list[PortfolioEntry]:
    """Return the models of the portfolio that can be trained, in order.

    If `has_times`, the first configuration of each booster of a regression is followed by one that learns the residuals
    of a linear model. Trees predict values between those of their training rows only; a linear model continues a trend
    (Zhang, Nettleton and Zhu, "Regression-Enhanced Random Forests", arXiv 1904.10416).

    On a GPU, models that train on the host only are dropped. `names` are those of models; default: all that are
    installed. If `has_weights`, models must take sample weights; if `has_groups`, rows of a group must stay together.
    `n_classes` is for the predicted costs; 0 for regression. Raise ConfigError if a named model is not installed, or no
    model remains.
    """
    for name in names or ():
        if not _is_installed(name):
            raise ConfigError(
                f"{name} needs {LIBRARIES[name]}, which is not installed",
                where="models: best.models",
                fix=f"pip install {LIBRARIES[name]}, or remove {name}",
            )
    found: list[PortfolioEntry] = []
    for name, stated, cost in _in_order(n_classes):
        if (names is not None and name not in names) or not _is_installed(name):
            continue
        is_out_of_bag = name in FORESTS and backend.name == "cpu" and not has_groups and not has_weights
        params = {**stated, **(_FOLD_FOREST if name in FORESTS and not is_out_of_bag else {})}
        settings = MODELS.get(name)(**params)
        takes_rows = task in settings.tasks and (settings.takes_sample_weight or not has_weights)
        if not takes_rows or (backend.name == "gpu" and early_refusal(settings, task, backend.lacks) is not None):
            continue
        n = 1 + sum(entry.name == name and entry.base is None for entry in found)
        label = name if n == 1 else f"{name}_{n}"
        cost *= n_classes if name in BOOSTERS and n_classes > 2 else 1
        found.append(PortfolioEntry(label, name, params, settings.for_task(task), cost, is_out_of_bag))
        is_base = has_times and task == "regression" and (names is None or BASE in names)
        if is_base and n == 1 and name in BOOSTERS:
            found.append(replace(found[-1], label=f"{BASE}+{name}", base=MODELS.get(BASE)()))
    if not found:
        raise ConfigError(
            f"no model of {', '.join(names or PORTFOLIO_MODELS)} can learn the task {task} on this device",
            where="models: best.models",
            fix="name other models",
        )
    return found


def _in_order(n_classes: int) -> Sequence[tuple[str, Mapping[str, Any], float]]:
    """Return the entries; for more than two classes, the first network is the second one.

    Boosters then take as many times longer as there are classes, networks do not. AutoGluon 1.6 trains a network before
    its boosters for more than two classes.
    """
    if n_classes <= 2:
        return _ENTRIES
    network = next(entry for entry in _ENTRIES if entry[0] in NETWORKS)
    first, *others = (entry for entry in _ENTRIES if entry is not network)
    return [first, network, *others]


def _is_installed(name: str) -> bool:
    """Return whether a model is registered and its optional library can be imported."""
    return name in MODELS and (name not in LIBRARIES or find_spec(LIBRARIES[name]) is not None)
