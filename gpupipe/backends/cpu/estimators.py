"""Estimators on the host: the classes of scikit-learn and of boosting libraries."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from gpupipe.errors import ConfigError, did_you_mean

# estimator name → the module of the class with that name
ESTIMATORS: dict[str, str] = {
    "CalibratedClassifierCV": "sklearn.calibration",
    "CatBoostClassifier": "catboost",
    "CatBoostRegressor": "catboost",
    "ElasticNet": "sklearn.linear_model",
    "GaussianNB": "sklearn.naive_bayes",
    "HistGradientBoostingClassifier": "sklearn.ensemble",
    "HistGradientBoostingRegressor": "sklearn.ensemble",
    "ExtraTreesClassifier": "sklearn.ensemble",
    "ExtraTreesRegressor": "sklearn.ensemble",
    "KMeans": "sklearn.cluster",
    "KNeighborsClassifier": "sklearn.neighbors",
    "KNeighborsRegressor": "sklearn.neighbors",
    "Lasso": "sklearn.linear_model",
    "LGBMClassifier": "lightgbm",
    "LGBMRanker": "lightgbm",
    "LGBMRegressor": "lightgbm",
    "LinearRegression": "sklearn.linear_model",
    "LinearSVC": "sklearn.svm",
    "LogisticRegression": "sklearn.linear_model",
    "PCA": "sklearn.decomposition",
    "RandomForestClassifier": "sklearn.ensemble",
    "RandomForestRegressor": "sklearn.ensemble",
    "Ridge": "sklearn.linear_model",
    "XGBClassifier": "xgboost",
    "XGBRanker": "xgboost",
    "XGBRegressor": "xgboost",
}
INSTALL = {
    "catboost": "pip install 'gpupipe[catboost]'",
    "lightgbm": "pip install 'gpupipe[lightgbm]'",
    "sklearn": "pip install scikit-learn",
    "xgboost": "pip install 'gpupipe[cpu]'",
}


def create(name: str, params: Mapping[str, Any]) -> Any:
    """Return an unfitted estimator of scikit-learn or a boosting library.

    Raise ConfigError if the estimator is unknown, or its library is not installed.
    """
    if name not in ESTIMATORS:
        hint = did_you_mean(name, ESTIMATORS) or f"one of {', '.join(ESTIMATORS)}"
        raise ConfigError(f"the CPU backend has no estimator {name!r}", fix=hint)
    library = ESTIMATORS[name].partition(".")[0]
    try:
        module = import_module(ESTIMATORS[name])
    except ImportError as error:
        raise ConfigError(f"{name} needs {library}: {error}", fix=INSTALL[library]) from error
    return getattr(module, name)(**params)
