"""Scores of predictions, computed with scikit-learn from the true values that contenders never receive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.answers.contenders.exchange import PREDICTION

if TYPE_CHECKING:
    import pandas as pd

HIGHER_IS_BETTER = {"roc_auc": True, "log_loss": False, "r2": True}


def score_predictions(predictions: pd.DataFrame, truth: pd.Series, metric: str) -> float:
    """Return the ROC-AUC, log loss or R² of predictions in the format of `exchange`.

    The positive class of the ROC-AUC is the last one in alphabetical order; the ROC-AUC of two classes does not depend
    on it.

    Raises
    ------
    ValueError
        If there is another number of rows, the column of a class that occurs is missing, or a value is not finite.
    """
    from sklearn.metrics import log_loss, r2_score, roc_auc_score

    if len(predictions) != len(truth):
        message = f"expected {len(truth)} predictions, found {len(predictions)}"
        raise ValueError(message)
    classes = [PREDICTION] if metric == "r2" else sorted(set(truth) | set(predictions.columns))
    if missing := sorted({*classes} - set(predictions.columns)):
        message = f"the predictions have no column {', '.join(missing)}"
        raise ValueError(message)
    values: Any = predictions[classes].to_numpy(dtype="float64")
    if not np.isfinite(values).all():
        message = f"{np.count_nonzero(~np.isfinite(values))} predictions are not finite"
        raise ValueError(message)
    if metric == "r2":
        return float(r2_score(truth, values[:, 0]))
    if metric == "roc_auc":
        return float(roc_auc_score(truth == classes[-1], values[:, -1]))
    return float(log_loss(truth, values / values.sum(axis=1, keepdims=True), labels=classes))
