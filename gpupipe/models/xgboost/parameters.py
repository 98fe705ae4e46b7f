"""Parameters of XGBoost's own training function."""

from __future__ import annotations

from typing import Any


def native_parameters(estimator: Any, n_classes: int) -> dict[str, Any]:
    """Return the parameters of ``xgboost.train`` for an XGBClassifier or XGBRegressor that is not fitted."""
    params: dict[str, Any] = estimator.get_xgb_params()
    if estimator.eval_metric is not None:
        params["eval_metric"] = estimator.eval_metric
    if n_classes > 2:
        params |= {"objective": "multi:softprob", "num_class": n_classes}
    return params
