"""Published search spaces of the models, used by ``tune:`` unless the configuration has its own.

Sources: TabArena (Erickson et al., 2025, https://arxiv.org/abs/2506.16791), whose spaces are also part of pytabkit;
TabRepo (Salinas and Erickson, 2024, https://arxiv.org/abs/2311.02971); Gorishniy et al. (2021,
https://arxiv.org/abs/2106.11959) for ft_transformer; auto-sklearn (Feurer et al., 2015) for support vectors; the
parameter grids of scikit-learn's own cross-validated linear models.

Numbers of rounds and epochs are not searched: early stopping on held-out rows finds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpupipe.models.search_space import SearchChoices, SearchRange, SearchSpace


def _real(low: float, high: float, log: bool = False) -> SearchRange:
    return SearchRange(low=float(low), high=float(high), log=log)


def _whole(low: int, high: int, log: bool = False) -> SearchRange:
    return SearchRange(low=low, high=high, log=log)


def _one_of(*choices: Any) -> SearchChoices:
    return SearchChoices(choices=choices)


# TabArena's space of LightGBM; parameters of the same meaning in scikit-learn's histogram boosting.
_HIST_GRADIENT_BOOSTING: SearchSpace = {
    "learning_rate": _real(5e-3, 0.1, log=True),
    "max_leaf_nodes": _whole(2, 200, log=True),
    "min_samples_leaf": _whole(1, 64, log=True),
    "max_features": _real(0.4, 1.0),
    "l2_regularization": _real(1e-5, 2.0, log=True),
}
_XGBOOST: SearchSpace = {  # TabArena
    "learning_rate": _real(5e-3, 0.1, log=True),
    "max_depth": _whole(4, 10),
    "min_child_weight": _real(1e-3, 5.0, log=True),
    "subsample": _real(0.6, 1.0),
    "colsample_bylevel": _real(0.6, 1.0),
    "colsample_bynode": _real(0.6, 1.0),
    "reg_alpha": _real(1e-4, 5.0, log=True),
    "reg_lambda": _real(1e-4, 5.0, log=True),
    "grow_policy": _one_of("depthwise", "lossguide"),
    "max_cat_to_onehot": _whole(8, 100, log=True),
    "max_leaves": _whole(8, 1024, log=True),
}
_LIGHTGBM: SearchSpace = {  # TabArena
    "learning_rate": _real(5e-3, 0.1, log=True),
    "num_leaves": _whole(2, 200, log=True),
    "min_child_samples": _whole(1, 64, log=True),
    "subsample": _real(0.7, 1.0),
    "colsample_bytree": _real(0.4, 1.0),
    "extra_trees": _one_of(False, True),
    "reg_alpha": _real(1e-5, 1.0, log=True),
    "reg_lambda": _real(1e-5, 2.0, log=True),
    "min_data_per_group": _whole(2, 100, log=True),
    "cat_l2": _real(5e-3, 2.0, log=True),
    "cat_smooth": _real(1e-3, 100.0, log=True),
    "max_cat_to_onehot": _whole(8, 100, log=True),
}
_CATBOOST: SearchSpace = {  # TabArena
    "learning_rate": _real(5e-3, 0.1, log=True),
    "depth": _whole(4, 8),
    "subsample": _real(0.7, 1.0),
    "rsm": _real(0.85, 1.0),
    "l2_leaf_reg": _real(1e-4, 5.0, log=True),
    "leaf_estimation_iterations": _whole(1, 20, log=True),
    "one_hot_max_size": _whole(8, 100, log=True),
    "model_size_reg": _real(0.1, 1.5, log=True),
    "max_ctr_complexity": _whole(2, 5),
}
_FOREST: SearchSpace = {  # TabRepo; a random forest's max_samples is TabArena's
    "max_features": _one_of("sqrt", "log2", 0.5, 0.75, 1.0),
    "min_samples_leaf": _whole(1, 80, log=True),
}
# The columns of the dense view are standardized, so no coefficient differs from 0 above one standard deviation of the
# target; scikit-learn's LassoCV goes down to a thousandth of the largest useful penalty.
_L1_PENALTY = SearchRange(low=1e-4, high=1.0, log=True, relative_to="target")

SPACES: Mapping[str, SearchSpace] = {
    "xgboost": _XGBOOST,
    "lightgbm": _LIGHTGBM,
    "hist_gradient_boosting": _HIST_GRADIENT_BOOSTING,
    "random_forest": {**_FOREST, "max_samples": _real(0.5, 1.0)},
    "extra_trees": _FOREST,
    "catboost": _CATBOOST,
    "logistic_regression": {"C": _real(1e-4, 1e4, log=True)},  # scikit-learn's LogisticRegressionCV
    "ridge": {"alpha": _real(1e-6, 1e6, log=True)},  # scikit-learn's guide to RidgeCV
    "lasso": {"alpha": _L1_PENALTY},
    "elastic_net": {  # scikit-learn's ElasticNetCV
        "alpha": _L1_PENALTY,
        "l1_ratio": _one_of(0.1, 0.5, 0.7, 0.9, 0.95, 0.99, 1.0),
    },
    "knn": {  # TabRepo
        "n_neighbors": _whole(3, 50, log=True),
        "weights": _one_of("uniform", "distance"),
        "p": _one_of(1, 2),
    },
    "linear_svc": {"C": _real(0.03125, 32768.0, log=True)},  # auto-sklearn
    "mlp": {  # TabArena's space of RealMLP
        "learning_rate": _real(2e-2, 0.3, log=True),
        "weight_decay": _real(1e-3, 5e-2, log=True),
        "depth": _whole(2, 4),
        "width": _one_of(256, 384, 512),
        "dropout": _real(0.0, 0.5),
        "embedding_size": _one_of(4, 8, 16),
    },
    "tabm": {  # TabArena
        "learning_rate": _real(1e-4, 3e-3, log=True),
        "weight_decay": _real(1e-4, 0.1, log=True),
        "depth": _whole(2, 5),
        "width": _whole(128, 1024),
        "dropout": _real(0.0, 0.5),
        "embedding_size": _whole(8, 32),
        "n_bins": _whole(2, 128),
    },
    "ft_transformer": {
        "learning_rate": _real(1e-5, 1e-3, log=True),
        "weight_decay": _real(1e-6, 1e-3, log=True),
        "depth": _whole(1, 4),
        "embedding_size": _one_of(32, 64, 96, 128, 192, 256),
        "hidden": _whole(64, 512, log=True),
        "dropout": _real(0.0, 0.2),
        "hidden_dropout": _real(0.0, 0.5),
        "attention_dropout": _real(0.0, 0.5),
    },
}
"""Name of a model to its search space."""
