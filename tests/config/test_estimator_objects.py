"""Estimator objects in ``models=[...]``: the entries that they become, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import gpupipe as gp
from gpupipe.config import resolved_yaml
from gpupipe.config.shorthand import entry_of
from gpupipe.training.preparation.run_inputs import code_references

FRAME = pd.DataFrame({"a": np.arange(80.0), "b": np.arange(80) % 7, "y": [0, 1] * 10 + [0] * 20 + [1] * 40})


class ForeignClassifier:
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("estimator", "entry"),
    [
        (LogisticRegression(C=0.1), {"logistic_regression": {"defaults": "library", "C": 0.1}}),
        (RandomForestClassifier(n_jobs=-1, verbose=1), {"random_forest": {"defaults": "library"}}),
        (XGBClassifier(n_estimators=9, n_jobs=2), {"xgboost": {"defaults": "library", "n_estimators": 9}}),
        (
            RandomForestClassifier(9, random_state=1),
            {
                "estimator": {
                    "use": "sklearn.ensemble.RandomForestClassifier",
                    "params": {"n_estimators": 9, "random_state": 1},
                },
                "as": "RandomForestClassifier",
            },
        ),
        (
            DecisionTreeClassifier(max_depth=3).fit(FRAME[["a"]], FRAME["y"]),
            {"estimator": {"use": "sklearn.tree.DecisionTreeClassifier", "params": {"max_depth": 3}},
             "as": "DecisionTreeClassifier"},
        ),
    ],
)  # fmt: skip
def test_an_object_becomes_an_entry_with_the_parameters_that_differ(estimator: Any, entry: dict[str, Any]) -> None:
    assert entry_of(estimator) == entry


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (LogisticRegression, "got its class; write LogisticRegression()"),
        (SVC(), "not a class of scikit-learn whose models can be exported"),
        (AdaBoostClassifier(DecisionTreeClassifier(max_depth=1)), "AdaBoostClassifier has estimator=Decision"),
        (make_pipeline(LogisticRegression()), "which a configuration cannot state; write a function"),
        (XGBClassifier(random_state=4), "set seed=4 of the pipeline instead"),
        (XGBClassifier(n_estimater=4), "n_estimater"),
        (ForeignClassifier(), "ForeignClassifier is not a class of sklearn"),
    ],
)
def test_what_a_configuration_cannot_state_is_refused_with_what_to_write(estimator: Any, words: str) -> None:
    with pytest.raises(gp.ConfigError) as error:
        gp.Pipeline(FRAME, target="y", models=["gaussian_nb", estimator])
    (problem,) = error.value.problems
    assert problem.startswith("models[1]") and words in problem


def test_labels_are_distinct_or_given() -> None:
    models = [
        LogisticRegression(),
        LogisticRegression(C=3),
        {"mine": DecisionTreeClassifier()},
        LogisticRegression(C=9),
    ]
    labels = [entry.label for entry in gp.Pipeline(FRAME, target="y", models=models).config.models]
    assert labels == ["logistic_regression", "logistic_regression_2", "mine", "logistic_regression_3"]
    (alone,) = gp.Pipeline(FRAME, target="y", models=LogisticRegression()).config.models
    assert alone.label == labels[0]


def test_a_class_of_scikit_learn_trains_as_the_object_and_needs_no_file(tmp_path: Any) -> None:
    quick: dict[str, Any] = {"target": "y", "report": {"enabled": False}, "evaluate": {"importance": False}}
    pipeline = gp.Pipeline(FRAME, models=[DecisionTreeClassifier(max_depth=3, random_state=5)], **quick)
    assert code_references(pipeline.config) == {}  # so it runs under --no-code
    (written,) = yaml.safe_load(resolved_yaml(pipeline.config))["models"]
    assert written["params"]["params"] == {"max_depth": 3, "random_state": 5}
    run = pipeline.run(tmp_path / "run")
    test = run.predictions["row"].to_numpy()
    train = np.setdiff1d(np.arange(len(FRAME)), test)
    own = DecisionTreeClassifier(max_depth=3, random_state=5).fit(FRAME.loc[train, ["a", "b"]], FRAME["y"][train])
    expected = own.predict_proba(FRAME.loc[test, ["a", "b"]])[:, 1]
    np.testing.assert_allclose(run.predictions["probability_1"], expected)


@pytest.mark.parametrize("use", ["sklearn.svm.SVC", "sklearn.Ridge", "sklearn.tree.DecisionTreeClasifier"])
def test_an_unknown_class_is_found_by_check(use: str) -> None:
    with pytest.raises(gp.ConfigError, match="is not a class of scikit-learn"):
        gp.Pipeline(FRAME, target="y", models=[{"estimator": {"use": use}}])
