"""Contributions of trees, against XGBoost, LightGBM and CatBoost, and for scikit-learn against the definition."""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import Any

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)

from gpupipe.backends import choose
from gpupipe.errors import ConfigError
from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.catboost.fitted import FittedCatBoost
from gpupipe.models.composites.contributions import to_outputs
from gpupipe.models.composites.ensemble import EnsembleMember, FittedEnsemble
from gpupipe.models.contributions.base import Contributions
from gpupipe.models.contributions.trees import WORK_SECONDS
from gpupipe.models.fitted.base import FittedModel, class_probability, logistic
from gpupipe.models.lightgbm.fitted import FittedLightGBM
from gpupipe.models.linear.fitted import FittedLinear
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from gpupipe.models.xgboost.fitted import FittedXGBoost
from gpupipe.tasks import Task
from gpupipe_kernels.rows.trees import LEAF

RNG = np.random.default_rng(0)
N, D = 600, 5
NAMES = tuple(f"f{j}" for j in range(D))
X = RNG.normal(size=(N, D)).astype(np.float32)
X[:, 0], X[:, 1] = RNG.integers(0, 4, N), RNG.integers(0, 20, N)  # categories
COMPLETE = X.copy()
X[RNG.random(X.shape) < 0.05] = np.nan
SCORE = COMPLETE[:, 2] * COMPLETE[:, 3] + (COMPLETE[:, 0] == 2) - (COMPLETE[:, 1] > 12) + RNG.normal(0, 0.2, N)
TARGETS: dict[Task, Any] = {
    "regression": SCORE, "binary": (SCORE > 0).astype(int), "multiclass": np.digitize(SCORE, [-0.5, 0.5]),
}  # fmt: skip
TASKS = pytest.mark.parametrize("task", TARGETS)


def no_background() -> Any:
    raise AssertionError("these trees have their own covers")


def fitted(kind: type[FittedModel], estimator: Any, task: Task) -> FittedModel:
    n_classes = {"binary": 2, "multiclass": 3}.get(task, 0)
    return kind.of(estimator, task, NAMES, n_classes, tuple(range(n_classes)))


def of_library(contributions: Any) -> tuple[Any, Any]:
    """Return the contributions, (n, n_margins, d), and the base of an array that has the base in the last column."""
    found = np.asarray(contributions, np.float64).reshape(N, -1, D + 1)
    return found[:, :, :-1], found[0, :, -1]


@TASKS
def test_xgboost_gives_the_values_and_interactions_of_xgboost(task: Task) -> None:
    kind = xgboost.XGBRegressor if task == "regression" else xgboost.XGBClassifier
    types = ["c", "c", "q", "q", "q"]
    estimator = kind(n_estimators=15, max_depth=5, enable_categorical=True, feature_types=types, max_cat_to_onehot=5)
    estimator.fit(X, TARGETS[task])
    matrix = xgboost.DMatrix(X, feature_types=types, enable_categorical=True)
    booster = estimator.get_booster()
    values, base = of_library(booster.predict(matrix, pred_contribs=True))
    explainer = fitted(FittedXGBoost, estimator, task).explainer(no_background)
    found = explainer.contributions(np.asfortranarray(X))
    np.testing.assert_allclose(found.values, values, atol=1e-5)
    np.testing.assert_allclose(found.base, base, atol=1e-6)
    pairs = booster.predict(matrix, pred_interactions=True).reshape(N, -1, D + 1, D + 1)[:, :, :-1, :-1]
    np.testing.assert_allclose(explainer.interactions(X), pairs, atol=1e-5)


@TASKS
def test_lightgbm_gives_the_values_of_lightgbm(task: Task) -> None:
    kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    estimator = kind(n_estimators=15, verbose=-1, n_jobs=1)
    estimator.fit(X, TARGETS[task], categorical_feature=[0, 1], feature_name=list(NAMES))
    values, base = of_library(estimator.booster_.predict(X, pred_contrib=True))
    found = fitted(FittedLightGBM, estimator, task).explainer(no_background).contributions(X)
    np.testing.assert_allclose(found.values, values, atol=1e-12)
    np.testing.assert_allclose(found.base, base, atol=1e-12)


def catboost_of(task: Task, **params: Any) -> tuple[Any, Any]:
    frame = pd.DataFrame(COMPLETE).astype({0: int, 1: int})
    kind = catboost.CatBoostRegressor if task == "regression" else catboost.CatBoostClassifier
    params = {"iterations": 15, "depth": 4} | params
    estimator = kind(verbose=0, thread_count=1, cat_features=[0, 1], allow_writing_files=False, **params)
    return estimator.fit(frame, TARGETS[task]), catboost.Pool(frame, cat_features=[0, 1])


@TASKS
@pytest.mark.parametrize("one_hot", [1, 5])
def test_catboost_gives_the_values_of_catboost(task: Task, one_hot: int) -> None:
    estimator, pool = catboost_of(task, one_hot_max_size=one_hot, max_ctr_complexity=1)
    values, base = of_library(estimator.get_feature_importance(pool, type="ShapValues"))
    found = fitted(FittedCatBoost, estimator, task).explainer(no_background).contributions(COMPLETE)
    np.testing.assert_allclose(found.values, values, atol=1e-10)
    np.testing.assert_allclose(found.base, base, atol=1e-10)


def test_a_statistic_of_several_columns_counts_for_all_of_them() -> None:
    """CatBoost itself ignores the numbers in a combination, so only the sums agree."""
    estimator, pool = catboost_of("binary", one_hot_max_size=1, max_ctr_complexity=3, iterations=60, depth=6)
    values, base = of_library(estimator.get_feature_importance(pool, type="ShapValues"))
    model = fitted(FittedCatBoost, estimator, "binary")
    found = model.explainer(no_background).contributions(COMPLETE)
    np.testing.assert_allclose(found.margins, base + values.sum(axis=2), atol=1e-10)
    assert (np.abs(found.values - values).max(axis=(0, 1)) > 1e-6).any()


class Tree:
    """A binary tree of scikit-learn for the definition: children, split, weight of the training rows and leaf."""

    def __init__(self, left: Any, right: Any, goes_left: Any, column: Any, cover: Any, value: Any) -> None:
        self.left, self.right, self.goes_left, self.column = left, right, goes_left, column
        self.cover, self.value = cover, value

    def expected(self, x: Any, known: frozenset[int], at: int = 0) -> Any:
        """Return the expected leaf if some columns are known."""
        if self.left[at] == LEAF:
            return self.value[at]
        sides = self.left[at], self.right[at]
        if self.column[at] in known:
            return self.expected(x, known, sides[0] if self.goes_left(at, x) else sides[1])
        shares = [self.cover[side] / self.cover[at] for side in sides]
        return sum(share * self.expected(x, known, side) for share, side in zip(shares, sides, strict=True))


def trees_of_forest(forest: Any) -> list[Tree]:
    def goes_left(tree: Any, at: int, x: Any) -> bool:
        value = x[tree.feature[at]]
        return bool(tree.missing_go_to_left[at]) if np.isnan(value) else bool(value <= tree.threshold[at])

    return [
        Tree(
            tree.children_left, tree.children_right, lambda at, x, tree=tree: goes_left(tree, at, x), tree.feature,
            tree.weighted_n_node_samples, tree.value[:, 0, :] / len(forest.estimators_),
        )
        for tree in (each.tree_ for each in forest.estimators_)
    ]  # fmt: skip


def trees_of_boosting(boosting: Any) -> list[Tree]:
    """Return the trees of a regression, for rows as scikit-learn has preprocessed them."""
    is_category = np.asarray(boosting.is_categorical_)
    order = np.concatenate([np.flatnonzero(is_category), np.flatnonzero(~is_category)])  # of scikit-learn's columns

    def of(predictor: Any) -> Tree:
        nodes = predictor.nodes
        is_leaf = nodes["is_leaf"] != 0

        def goes_left(at: int, x: Any) -> bool:
            node = nodes[at]
            value = x[node["feature_idx"]]
            if np.isnan(value):
                return bool(node["missing_go_to_left"])
            if node["is_categorical"]:
                bits = predictor.raw_left_cat_bitsets[node["bitset_idx"]]
                return bool(bits[int(value) // 32] >> (int(value) % 32) & 1)
            return bool(value <= node["num_threshold"])

        left, right = (np.where(is_leaf, LEAF, nodes[side].astype(int)) for side in ("left", "right"))
        return Tree(left, right, goes_left, order[nodes["feature_idx"]], nodes["count"], nodes["value"][:, None])

    return [of(predictor) for iteration in boosting._predictors for predictor in iteration]


def definition(trees: list[Tree], x: Any) -> Any:
    """Return the Shapley values of the sum of trees, shape (n_values, D)."""
    sets = [frozenset(s) for size in range(D + 1) for s in combinations(range(D), size)]
    worth = {known: sum(tree.expected(x, known) for tree in trees) for known in sets}
    values = np.zeros((len(worth[frozenset()]), D))
    for known in sets:
        for i in set(range(D)) - known:
            weight = factorial(len(known)) * factorial(D - len(known) - 1) / factorial(D)
            values[:, i] += weight * (worth[known | {i}] - worth[known])
    return values


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesClassifier])
def test_forests_have_the_values_of_the_definition(kind: Any) -> None:
    task: Task = "regression" if kind is RandomForestRegressor else "multiclass"
    forest = kind(n_estimators=4, max_depth=5, random_state=0).fit(X, TARGETS[task])
    found = fitted(FittedSklearn, forest, task).explainer(no_background).contributions(X[:12])
    trees = trees_of_forest(forest)
    np.testing.assert_allclose(found.values, [definition(trees, x) for x in X[:12]], atol=1e-12)


def test_histogram_boosting_has_the_values_of_the_definition() -> None:
    boosting = HistGradientBoostingRegressor(max_iter=4, categorical_features=[0, 1], random_state=0)
    boosting.fit(X, SCORE)
    found = fitted(FittedSklearn, boosting, "regression").explainer(no_background).contributions(X[:12])
    trees, rows = trees_of_boosting(boosting), boosting._preprocess_X(X[:12], reset=False)
    np.testing.assert_allclose(found.values, [definition(trees, x) for x in rows], atol=1e-12)


@pytest.mark.parametrize(("n_columns", "n_products"), [(1, 3 * 1), (3, 15 * 2)])  # nodes and points of quadrature
def test_the_work_of_a_row_is_counted(n_columns: int, n_products: int) -> None:
    y = (COMPLETE[:, 2 : 2 + n_columns] > 0) @ 2.0 ** np.arange(n_columns)  # each tree splits once by each column
    forest = RandomForestRegressor(2, max_depth=n_columns).fit(COMPLETE, y)
    model = fitted(FittedSklearn, forest, "regression")
    assert model.explainer(no_background).row_seconds == WORK_SECONDS * 2 * n_products
    ensemble = FittedEnsemble((EnsembleMember("m", "m", 1.0, tuple(range(D)), (model,) * 3),), "regression", NAMES)
    assert ensemble.explainer(no_background).row_seconds == pytest.approx(3 * WORK_SECONDS * 2 * n_products)


def test_trees_without_covers_are_weighted_by_the_background_rows() -> None:
    forest = RandomForestRegressor(n_estimators=3, max_depth=4, random_state=0, bootstrap=False).fit(X, SCORE)
    expected = fitted(FittedSklearn, forest, "regression").explainer(no_background).contributions(X[:5])
    for tree in forest.estimators_:  # as a forest that was converted from another library
        state = tree.tree_.__getstate__()
        state["nodes"]["weighted_n_node_samples"] = 0.0
        tree.tree_.__setstate__(state)
    model = fitted(FittedSklearn, forest, "regression")
    found = model.explainer(lambda: X).contributions(X[:5])  # all training rows
    np.testing.assert_allclose(found.values, expected.values, atol=1e-12)
    np.testing.assert_allclose(found.margins[:, 0], model.predict(X[:5]).output, atol=1e-12)


# Of each model, on all of its tasks.
QUICK: dict[str, dict[str, Any]] = {
    "linear_regression": {}, "ridge": {}, "lasso": {}, "elastic_net": {}, "logistic_regression": {}, "gaussian_nb": {},
    "linear_svc": {}, "knn": {}, "random_forest": {"n_estimators": 5}, "extra_trees": {"n_estimators": 5},
    "hist_gradient_boosting": {"max_iter": 10}, "xgboost": {"n_estimators": 10}, "lightgbm": {"n_estimators": 10},
    "catboost": {"iterations": 10},
}  # fmt: skip
CASES = [(name, task) for name in QUICK for task in sorted(MODELS.get(name).tasks) if task in TARGETS]


def test_every_model_with_a_prediction_is_covered() -> None:
    networks = {"mlp", "tabm", "ft_transformer"}  # tests/models/neural/test_expected_gradients.py
    assert set(QUICK) == set(MODELS.names()) - {"best", "estimator", "kmeans", "pca"} - networks


@pytest.mark.parametrize(("name", "task"), CASES)
def test_base_and_contributions_sum_to_the_prediction(name: str, task: Task) -> None:
    params = MODELS.get(name)(**QUICK[name])
    rows = X if params.accepts_missing else COMPLETE
    n_classes = {"binary": 2, "multiclass": 3}.get(task, 0)
    context = FitContext(choose("cpu"), task, seed=0, n_classes=n_classes, categorical={})
    model = fit(params, np.asfortranarray(rows), TARGETS[task].astype(float), context)
    found = model.explainer(lambda: rows[:9]).contributions(rows[:20])
    assert found.values.shape == (20, model.n_margins, D)
    output = model.predict(rows[:20]).output.reshape(20, -1)
    np.testing.assert_allclose(outputs_of(found), output, rtol=1e-5, atol=1e-5)


def outputs_of(found: Contributions) -> Any:
    """Return the predictions that the margins stand for."""
    if found.scale != "log-odds":
        return np.exp(found.margins) if found.scale == "log of the value" else found.margins
    if found.margins.shape[1] == 1:
        return logistic(found.margins.ravel())[:, None]
    return class_probability(found.margins)


@TASKS
def test_contributions_to_an_ensemble_sum_to_its_output(task: Task) -> None:
    n_classes = {"binary": 2, "multiclass": 3}.get(task, 0)
    y, is_value = TARGETS[task], task == "regression"
    first, second = (3, 0, 1), (4, 2)
    boosting = (HistGradientBoostingRegressor if is_value else HistGradientBoostingClassifier)(max_iter=5)
    forest = RandomForestRegressor(5) if is_value else ExtraTreesClassifier(5)
    models = [fitted(FittedSklearn, boosting.fit(X[:, first], y), task)]
    models += [fitted(FittedSklearn, forest.fit(COMPLETE[:, second], y), task)]
    members = tuple(
        EnsembleMember(f"m{i}", "m", weight, columns, (model,))
        for i, (weight, columns, model) in enumerate(zip((0.7, 0.3), (first, second), models, strict=True))
    )
    ensemble = FittedEnsemble(members, task, NAMES, n_classes, tuple(range(n_classes)))
    rows = np.asfortranarray(COMPLETE[:50])
    found = ensemble.explainer(no_background).contributions(rows)
    np.testing.assert_allclose(found.margins, ensemble.predict(rows).output.reshape(50, -1), atol=1e-12)
    parts = [
        to_outputs(model.explainer(no_background).contributions(rows[:, m.columns]))
        for model, m in zip(models, members, strict=True)
    ]
    for member, part in zip(members, parts, strict=True):  # no column is read by both
        np.testing.assert_allclose(found.values[:, :, list(member.columns)], member.weight * part.values, atol=1e-12)
    with pytest.raises(ConfigError):
        ensemble.explainer(no_background).interactions(rows)


@pytest.mark.parametrize("n_margins", [1, 3])
def test_contributions_to_probabilities_sum_to_them_for_any_log_odds(n_margins: int) -> None:
    rng = np.random.default_rng(0)
    scale = 10.0 ** rng.uniform(-9, 1.5, (200, 1, 1))
    values, base = rng.normal(size=(200, n_margins, 4)) * scale, rng.normal(size=n_margins)
    values[:3] = 0.0
    given = Contributions(values, base, "log-odds")
    found = to_outputs(given)
    np.testing.assert_allclose(found.margins, outputs_of(given), atol=1e-6)
    assert np.isfinite(found.values).all()
    if n_margins == 1:  # one factor for all columns of a row
        np.testing.assert_array_equal(np.sign(found.values), np.sign(values))


def test_linear_models_have_no_interactions() -> None:
    class Line:
        coef_, intercept_ = np.ones((1, D)), 0.0

    with pytest.raises(ConfigError):
        fitted(FittedLinear, Line, "regression").explainer(lambda: COMPLETE).interactions(COMPLETE)
