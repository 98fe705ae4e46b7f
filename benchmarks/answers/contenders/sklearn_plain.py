"""Plain scikit-learn: a linear model on one-hot columns, histogram gradient boosting, or the better of the two.

The pipelines are those of the reference scores of the shared data. Option ``model``: ``linear``, ``boosting``, or
``best``, chosen by 5 folds of the training rows (of groups or in time order where the test rows are).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from benchmarks.answers.contenders.exchange import (
    Answer,
    AnswerTask,
    Clock,
    prediction_frame,
    probability_frame,
    run_contender,
    split_columns,
)

LINEAR = "linear"
BOOSTING = "boosting"
BEST = "best"
SCORING = {"roc_auc": "roc_auc", "log_loss": "neg_log_loss", "r2": "r2"}
FOLDS, MAX_LEVELS = 5, 250


def solve(task: AnswerTask, folder: Path) -> Answer:
    """Train the chosen pipeline and predict the test rows."""
    clock = Clock()
    X, y, X_test, train = split_columns(task, folder)
    numbers, texts = _column_kinds(X)
    X, X_test = (_plain(frame, numbers, texts) for frame in (X, X_test))
    pipelines = {LINEAR: _linear(task, numbers, texts), BOOSTING: _boosting(task, numbers, texts)}
    choice, note = task.options.get("model", BEST), ""
    if choice == BEST:
        scores = {name: _score(task, pipeline, X, y, train) for name, pipeline in pipelines.items()}
        choice = max(scores, key=scores.__getitem__)
        note = ", ".join(f"{name} {score:.5f}" for name, score in scores.items())
    model = pipelines[choice].fit(X, y)
    fit_s = clock.lap()
    if task.task == "regression":
        predictions = prediction_frame(model.predict(X_test))
    else:
        predictions = probability_frame(model.predict_proba(X_test), model.classes_)
    return Answer(predictions, fit_s, clock.lap(), f"{choice} ({note})" if note else choice)


def _column_kinds(X: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the numeric and the text columns, without columns that have no value to learn from."""
    known = [str(name) for name in X if X[name].notna().any()]
    numbers = [name for name in known if pd.api.types.is_numeric_dtype(X[name])]
    return numbers, [name for name in known if name not in set(numbers)]


def _plain(X: pd.DataFrame, numbers: list[str], texts: list[str]) -> pd.DataFrame:
    X = X[[*numbers, *texts]].astype(dict.fromkeys(numbers, "float64") | dict.fromkeys(texts, object))
    return X.assign(**{name: X[name].where(X[name].notna(), np.nan) for name in texts})


def _linear(task: AnswerTask, numbers: list[str], texts: list[str]) -> Any:
    # Sparse where one-hot columns are many: the reference's dense matrix would not fit in memory.
    one_hot = OneHotEncoder(handle_unknown="ignore")
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="constant", fill_value="missing"), one_hot), texts),
    )
    return make_pipeline(columns, Ridge() if task.task == "regression" else LogisticRegression(max_iter=2000))


def _boosting(task: AnswerTask, numbers: list[str], texts: list[str]) -> Any:
    unknown = {"handle_unknown": "use_encoded_value", "unknown_value": np.nan, "encoded_missing_value": np.nan}
    columns = make_column_transformer(
        ("passthrough", numbers), (OrdinalEncoder(max_categories=MAX_LEVELS, **unknown), texts)
    )
    kind = HistGradientBoostingRegressor if task.task == "regression" else HistGradientBoostingClassifier
    categorical = list(range(len(numbers), len(numbers) + len(texts))) or None
    return make_pipeline(columns, kind(random_state=task.seed, categorical_features=categorical))


def _score(task: AnswerTask, pipeline: Any, X: pd.DataFrame, y: pd.Series, train: pd.DataFrame) -> float:
    """Return the mean score over folds of the training rows; higher is better."""
    groups = None
    folds: Any = KFold(FOLDS, shuffle=True, random_state=task.seed)
    if task.time is not None:
        order = np.argsort(train[task.time].to_numpy(), kind="stable")
        X = X.iloc[order]
        y = y.iloc[order]
        folds = TimeSeriesSplit(FOLDS)
    elif task.group is not None:
        groups, folds = train[task.group].astype(str).to_numpy(), GroupKFold(FOLDS)
    elif task.task != "regression":
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=task.seed)
    scores = cross_val_score(pipeline, X, y, groups=groups, cv=folds, scoring=SCORING[task.metric], error_score=np.nan)
    return float(np.nanmean(scores))  # a fold whose training rows lack a class has no log loss


if __name__ == "__main__":
    run_contender(solve, ("scikit-learn", "pandas", "numpy"))
