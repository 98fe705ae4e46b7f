from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from gpupipe.errors import ConfigError
from gpupipe.models import MODELS, fit
from gpupipe.models.weights import row_weights

Y = np.array([0, 0, 0, 1, 1, 2])
FEW_ROUNDS = {
    "random_forest": {"n_estimators": 20},
    "extra_trees": {"n_estimators": 20},
    "hist_gradient_boosting": {"max_iter": 20},
    "xgboost": {"n_estimators": 20},
    "lightgbm": {"n_estimators": 20},
    "catboost": {"iterations": 20},
    **{name: {"epochs": 8, "batch_size": 32} for name in ("mlp", "tabm", "ft_transformer")},
}


def weights(*args: Any) -> Any:
    """Return the weights of rows that do not all weigh the same."""
    found = row_weights(*args)
    assert found is not None
    return found


def test_balanced_weights_match_scikit_learn() -> None:
    np.testing.assert_allclose(weights(Y, "balanced", [], 3), compute_sample_weight("balanced", Y))


def test_a_class_without_rows_does_not_disturb_balanced_weights() -> None:
    np.testing.assert_allclose(weights(Y, "balanced", [], 4), compute_sample_weight("balanced", Y))


@pytest.mark.parametrize(
    ("class_weight", "labels"),
    [
        ({"Yes": 3}, ("No", "Yes")),
        ({True: 3}, ("false", "true")),
        ({1: 3}, ("0.0", "1.0")),
        ({1: 3}, ()),
        ({"1": 3.0}, ()),
    ],
)
def test_a_label_is_found_in_any_yaml_spelling(class_weight: dict[Any, float], labels: tuple[str, ...]) -> None:
    assert weights(np.array([0, 1]), class_weight, labels, 2).tolist() == [1, 3]


def test_an_unknown_label_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'Yes'"):
        row_weights(np.array([0, 1]), {"yes": 3}, ("No", "Yes"), 2)


def test_class_weights_multiply_row_weights() -> None:
    assert weights(np.array([0, 1]), {1: 3}, (), 2, np.array([2.0, 5.0])).tolist() == [2, 15]


@pytest.mark.parametrize(
    "name", [name for name, m in MODELS.items() if "class_weight" in m.model_fields and name != "best"]
)
def test_weighting_a_class_raises_its_probability(name: str, tables: dict[str, Any]) -> None:
    data = tables["binary"]
    # Few columns, so that the classes overlap and weights have an effect.
    data = replace(data, X=np.asfortranarray(data.X[:, 9:12]), X_test=np.asfortranarray(data.X_test[:, 9:12]))
    data = replace(data, context=replace(data.context, feature_names=("a", "b", "c"), class_labels=("bad", "good")))
    params = dict(FEW_ROUNDS.get(name, {}))
    if name == "extra_trees":
        params["min_samples_leaf"] = 5  # a leaf of one class has no use for weights
    plain, weighted = (
        fit(MODELS.get(name)(class_weight=w, **params), data.X, data.y, data.context).predict(data.X_test).output
        for w in (None, {"good": 20})
    )
    assert weighted.mean() > plain.mean()


def test_class_weights_of_a_regression_are_refused(tables: dict[str, Any]) -> None:
    data = tables["regression"]
    with pytest.raises(ConfigError, match="class_weight is for classification"):
        fit(MODELS.get("xgboost")(class_weight="balanced"), data.X, data.y, data.context)


def test_the_forest_keeps_its_own_balanced_subsample(tables: dict[str, Any]) -> None:
    data = tables["binary"]
    fitted = fit(MODELS.get("random_forest")(class_weight="balanced_subsample"), data.X, data.y, data.context)
    assert fitted.estimator.class_weight == "balanced_subsample"
