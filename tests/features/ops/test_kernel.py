"""The op for custom kernels."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpupipe as gp
from gpupipe.errors import ConfigError
from gpupipe.pipeline.api.transformer import FeatureProgram

FILE = Path(__file__).parents[1] / "kernels_of_the_tests.py"
BASE = 2.0


@gp.kernel
def ratio(a, b):
    return a / (BASE + b)


@gp.kernel(out="int32", nulls="pass")
def nulls_of(a, b):
    return int(math.isnan(a)) + int(math.isnan(b))


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "tenure": [1.0, 2.0, None, 8.0],
            "charges": [2, 0, 4, 6],
            "is_new": pd.array([True, None, False, True], dtype="boolean"),
            "plan": ["a", "b", None, "a"],
            "since": pd.to_datetime(["2024-01-01", "2024-02-01", "NaT", "2024-03-01"]),
            "note": ["x" * 40, "y" * 40, "z", None],
        }
    )


def op(use: object, *inputs: str, **more: object) -> dict[str, object]:
    return {"kernel": {"use": use, "inputs": list(inputs), **more}}


def test_it_adds_a_column_and_its_inputs_stay(fit, frame) -> None:
    done = fit(frame, [op(ratio, "tenure", "charges")], view="codes")
    expected = frame["tenure"] / (BASE + frame["charges"])
    np.testing.assert_allclose(done.training["ratio"], expected, rtol=1e-6)
    assert {"tenure", "charges", "ratio"} <= set(done.names)
    np.testing.assert_array_equal(done.serve(frame), done.training)
    assert done.features.lineage["ratio"] == ["tenure", "charges"]


def test_inputs_are_results_of_earlier_ops_and_later_ops_read_the_result(fit, frame) -> None:
    ops = [
        {"impute": {"columns": "tenure", "strategy": "constant", "value": 16}},
        op(ratio, "tenure", "is_new", **{"as": "r"}),
        op(ratio, "r", "r", **{"as": "rr"}),
        {"clip": {"columns": "rr", "upper": 0.5}},
    ]
    done = fit(frame, ops, view="codes")
    r = np.array([1 / 3, np.nan, 16 / 2, 8 / 3])
    np.testing.assert_allclose(done.training["r"], r, rtol=1e-6)
    np.testing.assert_allclose(done.training["rr"], np.minimum(r / (2 + r), 0.5), rtol=1e-6)


def test_a_kernel_that_passes_nulls_counts_them(fit, frame) -> None:
    done = fit(frame, [op(nulls_of, "tenure", "is_new")], view="codes")
    assert done.training["nulls_of"].tolist() == [0, 1, 1, 0]


def test_linear_models_get_its_result_without_nulls_and_scaled(fit, frame) -> None:
    done = fit(frame, [op(ratio, "tenure", "charges")])
    values = done.training["ratio"]
    assert np.isfinite(values).all() and values.mean() == pytest.approx(0, abs=1e-6)


def test_many_rows_on_many_threads_are_the_same_as_one_by_one(fit) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200_000), "b": rng.random(200_000)})
    frame.loc[::7, "a"] = np.nan
    done = fit(frame, [op(ratio, "a", "b")], view="codes", n_threads=4)
    expected = frame["a"].astype("f4") / (BASE + frame["b"].astype("f4"))
    np.testing.assert_allclose(done.training["ratio"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (["plan", "charges"], ["'plan' is categorical", "- encode: plan"]),
        (["charges", "since"], ["'since' is datetime", "datetime_parts", "since_elapsed_days"]),
        (["tenur", "charges"], ["no column 'tenur'", "'tenure'"]),
        (["charge*", "tenure"], ["no column matches 'charge*'"]),
        (["note", "charges"], ["'note' is text", "- text_vectors: note"]),
    ],
)
def test_inputs_that_are_not_numeric_are_rejected_with_advice(fit, frame, inputs, words) -> None:
    with pytest.raises(ConfigError) as caught:
        fit(frame, [op(ratio, *inputs)], schema={"note": "text"})
    for word in words:
        assert word in str(caught.value)


def test_the_advice_for_a_time_works(fit, frame) -> None:
    ops = [
        {"datetime_parts": {"columns": "since", "parts": ["elapsed_days"]}},
        op(ratio, "since_elapsed_days", "charges"),
    ]
    assert fit(frame, ops, view="codes").training["ratio"].tolist()[:2] == [0.0, 31 / BASE]


def test_a_name_that_is_taken_is_refused(fit, frame) -> None:
    with pytest.raises(ConfigError, match="column 'tenure' already exists"):
        fit(frame, [op(ratio, "charges", "tenure", **{"as": "tenure"})])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"use": f"{FILE}:scaled", "inputs": ["a", "b"]}, r"each parameter \(x\); got 2"),
        ({"use": ratio, "inputs": ["a"]}, r"each parameter \(a, b\); got 1"),
        ({"use": f"{FILE}:plain", "inputs": ["a"]}, "plain is a function, not a kernel"),
        ({"use": f"{FILE}:scale", "inputs": ["a"]}, "no kernel scale"),
        ({"use": "gone.py:f", "inputs": ["a"]}, "cannot read gone.py"),
        ({"use": "kernels.yaml", "inputs": ["a"]}, "expected file.py:function, got 'kernels.yaml'"),
        ({"use": abs, "inputs": ["a"]}, "expected file.py:function, got <built-in function abs>"),
        ({"use": "python object f, sha256 00", "inputs": ["a"]}, "passed as a Python object; use a file"),
        ({"use": ratio, "inputs": []}, "at least 1"),
    ],
)
def test_invalid_settings_are_rejected_before_anything_runs(settings, words) -> None:
    with pytest.raises(ConfigError, match=words):
        FeatureProgram([{"kernel": settings}]).fit(np.ones((3, 1)))


def test_the_number_of_inputs_is_checked_after_running_the_file(fit) -> None:
    with pytest.raises(ConfigError, match="one input for each parameter"):
        fit({"a": [1.0]}, [op(f"{FILE}:made_later", "a", "a")])


def test_errors_in_the_file_are_reported_with_their_line(fit) -> None:
    with pytest.raises(ConfigError, match="cannot compute lshift") as caught:
        fit({"a": [1.0]}, [op(f"{FILE}:mistyped", "a")])
    line = FILE.read_text().splitlines().index("    return x << 1") + 1
    assert caught.value.where == f"{FILE}:{line}"


UNNAMED = {"check_sample_weights_pandas_series": "the columns of its frame are named 0 and 1"}


@parametrize_with_checks(
    [FeatureProgram([op(f"{FILE}:scaled", "x0")])], expected_failed_checks=lambda estimator: UNNAMED
)
def test_it_passes_the_checks_of_scikit_learn(estimator, check) -> None:
    check(estimator)


@pytest.mark.parametrize("use", [f"{FILE}:scaled", ratio], ids=["file", "object"])
def test_clones_and_pickles_transform_alike(use) -> None:
    frame = pd.DataFrame({"x": [1.0, None, 3.0], "y": [0.0, 1.0, 2.0]})
    program = FeatureProgram([op(use, *(["x"] if isinstance(use, str) else ["x", "y"]))], view="codes")
    expected = program.fit_transform(frame)
    np.testing.assert_array_equal(clone(program).fit_transform(frame), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(program)).transform(frame), expected)


def test_it_works_in_a_grid_search() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=120), "y": rng.random(120)})
    target = (frame["x"] / (BASE + frame["y"]) > 0.1).astype(int)
    model = make_pipeline(FeatureProgram([op(ratio, "x", "y")]), LogisticRegression())
    search = GridSearchCV(model, {"logisticregression__C": [0.1, 100.0]}, cv=2).fit(frame, target)
    assert search.best_score_ > 0.9
