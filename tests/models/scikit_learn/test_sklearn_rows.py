from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import ensemble

from gpupipe.models.fitted import row_blocks
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from tests.models.fitted.row_checks import check_rows, with_special


def rows(rng: Any, n: int) -> Any:
    """Return rows of numbers on a coarse grid; columns 1 and 4 are categories."""
    X = np.round(rng.normal(size=(n, 5)), 1)
    X[:, 1], X[:, 4] = rng.integers(3, 9, n), rng.integers(0, 60, n)
    return np.where(rng.random((n, 5)) < 0.1, np.nan, X).astype(np.float32)


def classes_of(task: str) -> tuple[int, ...]:
    return {"binary": (0, 1), "multiclass": tuple(range(9)), "regression": ()}[task]


def target(rng: Any, task: str, n: int) -> Any:
    return rng.random(n) + 0.1 if task == "regression" else np.arange(n) % len(classes_of(task))


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("name", ["RandomForest", "ExtraTrees"])
@pytest.mark.parametrize("max_depth", [None, 1])
def test_a_walk_of_a_forest_equals_scikit_learn(name: str, task: Any, max_depth: int | None) -> None:
    rng = np.random.default_rng(3)
    kind = getattr(ensemble, name + ("Regressor" if task == "regression" else "Classifier"))
    forest = kind(n_estimators=7, max_depth=max_depth, random_state=0).fit(rows(rng, 200), target(rng, task, 200))
    model = FittedSklearn(forest, task, (), len(classes_of(task)), classes_of(task))
    X = with_special(rng, rows(rng, 100))
    assert check_rows(model, np.where(np.isinf(X), 0, X)) == "compiled trees"
    with pytest.raises(ValueError, match="infinity"):
        model.row_estimator("numpy")(np.full((1, 5), np.inf, np.float32))


@pytest.mark.parametrize(
    ("task", "loss"),
    [("binary", "log_loss"), ("multiclass", "log_loss")]
    + [("regression", loss) for loss in ("squared_error", "absolute_error", "gamma", "poisson", "quantile")],
)
@pytest.mark.parametrize("categorical", [None, [1, 4]])
def test_a_walk_of_histogram_boosting_equals_scikit_learn(task: Any, loss: str, categorical: list[int] | None) -> None:
    rng = np.random.default_rng(4)
    params: dict[str, Any] = {"max_iter": 8, "min_samples_leaf": 3, "categorical_features": categorical, "loss": loss}
    if loss == "quantile":
        params["quantile"] = 0.3
    kind = ensemble.HistGradientBoostingRegressor if task == "regression" else ensemble.HistGradientBoostingClassifier
    boosting = kind(**params).fit(rows(rng, 300), target(rng, task, 300))
    model = FittedSklearn(boosting, task, (), len(classes_of(task)), classes_of(task))
    X = with_special(rng, rows(rng, 100))
    X[:, [1, 4]] = np.where(np.isinf(X[:, [1, 4]]), 7.5, X[:, [1, 4]])
    assert check_rows(model, X) == "compiled trees"
    if categorical:
        with pytest.raises(ValueError, match="infinity"):
            model.row_estimator("numpy")(np.full((1, 5), np.inf, np.float32))


def test_categories_other_than_codes_are_left_to_scikit_learn() -> None:
    rng = np.random.default_rng(5)
    X = rows(rng, 100)
    X[:, 1] -= 20.5
    boosting = ensemble.HistGradientBoostingRegressor(categorical_features=[1]).fit(X, rng.random(100))
    assert check_rows(FittedSklearn(boosting, "regression"), X) == "scikit-learn"


def test_a_forest_adds_its_trees_in_order_on_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn's threads would add each tree when it is done."""
    monkeypatch.setattr(row_blocks, "MIN_BLOCK_ROWS", 10)
    rng = np.random.default_rng(6)
    forest = ensemble.RandomForestRegressor(40, max_depth=4, n_jobs=4).fit(rows(rng, 300), rng.random(300))
    check_rows(FittedSklearn(forest, "regression"), rows(rng, 200))
    assert forest.n_jobs == 4
