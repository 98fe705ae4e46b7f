"""FeatureProgram in scikit-learn pipelines and searches."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data, parametrize_with_checks

import gpupipe as gp
from gpupipe.errors import ConfigError, DataError, SchemaError
from gpupipe.pipeline.api.transformer import FeatureProgram


@parametrize_with_checks([FeatureProgram([{"impute": "@numeric"}, {"min_max": "@numeric"}])])
def test_it_passes_the_checks_of_scikit_learn(estimator, check) -> None:
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks(
    [
        FeatureProgram(),
        FeatureProgram(view="codes"),
        FeatureProgram([{"bucketize": {"columns": "@numeric", "bins": 3}}, {"one_hot": "@categorical"}]),
    ]
)
def test_other_programs_pass_them(estimator, check) -> None:
    check(estimator)


BINS = {"bucketize": {"columns": "@numeric", "bins": 3}}
NUMBERS = {"columns": "@numeric"}


@pytest.mark.parametrize(
    "ops",
    [
        [{"auto": "@all"}],
        *([{"impute": NUMBERS | {"strategy": strategy}}] for strategy in ("median", "mean", "most_frequent")),
        [{"standardize": "@numeric"}],
        [{"min_max": "@numeric"}],
        [{"robust_scale": NUMBERS | {"quantiles": [0.1, 0.7]}}],
        [{"log1p": "@numeric"}],
        [{"yeo_johnson": "@numeric"}],
        [{"clip": NUMBERS | {"quantiles": [0.05, 0.9]}}],
        [BINS],
        [{"bucketize": NUMBERS | {"bins": 4, "strategy": "uniform"}}],
        [BINS, {"encode": {"columns": "@categorical", "max_one_hot": 2}}],
        [BINS, {"one_hot": {"columns": "@categorical", "max_categories": 2}}],
        [BINS, {"one_hot": {"columns": "@categorical", "min_frequency": 9}}],
        [BINS, {"categorify": {"columns": "@categorical", "max_categories": 2}}],
        [BINS, {"frequency_encode": "@categorical"}],
        [BINS, {"target_encode": {"columns": "@categorical", "smoothing": 2}}],
        [BINS, {"impute": {"columns": "@categorical", "strategy": "most_frequent"}}],
        [{"polynomial": "@numeric"}],
    ],
    ids=lambda ops: "-".join(name for op in ops for name in op),
)
def test_integer_weights_are_repeated_rows_for_each_op(ops) -> None:
    """By scikit-learn's check, which drops rows with weight 0."""
    for view in ("codes", "dense"):
        check_sample_weight_equivalence_on_dense_data("FeatureProgram", FeatureProgram(ops, view=view))


@pytest.fixture
def target() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2, 400)


def test_columns_of_a_pandas_frame_are_named_and_keep_their_index(people) -> None:
    people.index = np.arange(1000, 1400)
    program = FeatureProgram([{"one_hot": "plan"}], schema={"city": "categorical"}).set_output(transform="pandas")
    got = program.fit_transform(people)
    assert isinstance(got, pd.DataFrame)
    assert got.index.equals(people.index)
    assert list(got.columns) == list(program.get_feature_names_out())
    assert list(got.columns[:4]) == ["plan=basic", "plan=plus", "plan=pro", "plan=(null)"]
    assert program.n_features_in_ == 6
    assert list(program.feature_names_in_) == list(people.columns)


def test_every_dtype_of_pandas_is_taken(people) -> None:
    plain = FeatureProgram(view="codes").fit_transform(people)
    other = people.assign(
        age=people["age"].astype("Int64"),
        income=people["income"].astype("Float64"),
        plan=people["plan"].astype("category"),
        city=people["city"].astype("string"),
        since=people["since"].astype("datetime64[ns]"),
        active=people["active"].astype("object"),
    )
    np.testing.assert_array_equal(FeatureProgram(view="codes").fit_transform(other), plain)


def test_an_arrow_table_is_accepted(people, target, monkeypatch) -> None:
    arrow = pa.Table.from_pandas(people, preserve_index=False)
    program = FeatureProgram().fit(people, target)
    monkeypatch.delattr(pd.DataFrame, "__init__")  # no frame is made on the way
    from_arrow = FeatureProgram().fit(arrow, target)
    assert from_arrow.n_features_in_ == 6
    assert list(from_arrow.feature_names_in_) == arrow.column_names
    np.testing.assert_array_equal(from_arrow.transform(arrow), program.transform(arrow))


def test_an_arrow_table_may_have_strings_in_dictionaries_and_chunks() -> None:
    plain = pa.table({"c": ["a", "b", None, "a"], "x": [1, 2, 3, 4]})
    chunked = pa.concat_tables([plain.slice(0, 1), plain.slice(1)]).set_column(
        0, "c", pa.chunked_array([["a"], ["b", None, "a"]]).dictionary_encode()
    )
    np.testing.assert_array_equal(FeatureProgram().fit_transform(chunked), FeatureProgram().fit_transform(plain))


def test_arrays_of_strings_are_categories() -> None:
    got = FeatureProgram().fit(np.array([["a", 1.5], ["b", 2.5], [None, 3.5]], dtype=object))
    assert list(got.get_feature_names_out()) == ["x0=a", "x0=b", "x0=(null)", "x1"]
    assert got.transform(np.array([["b", 2.5]], dtype=object)).tolist() == [[0, 1, 0, 0]]


@pytest.mark.parametrize("make", [pd.DataFrame, lambda frame: pa.Table.from_pandas(pd.DataFrame(frame))])
def test_columns_that_differ_from_those_of_the_fit_are_refused(make) -> None:
    program = FeatureProgram().fit(make({"a": [1.0, 2.0], "b": [1.0, 3.0]}))
    with pytest.raises(ValueError, match="feature names should match"):
        program.transform(make({"a": [1.0], "c": [1.0]}))


@pytest.mark.parametrize("empty", [pd.DataFrame({"a": []}), pa.table({"a": pa.array([], pa.float64())})])
def test_no_rows_are_refused(empty) -> None:
    with pytest.raises(ValueError, match="0 sample"):
        FeatureProgram().fit(empty)


def test_training_rows_are_cross_fitted_and_others_are_not(people, target) -> None:
    ops = [{"target_encode": {"columns": "city", "smoothing": 1}}]
    program = FeatureProgram(ops, schema={"city": "categorical"})
    crossfitted = program.fit_transform(people, target)[:, 0]
    full = FeatureProgram(ops, schema={"city": "categorical"}).fit(people, target).transform(people)[:, 0]
    np.testing.assert_array_equal(full, program.transform(people)[:, 0])
    assert np.unique(full).size <= 40 < np.unique(crossfitted).size
    assert np.corrcoef(crossfitted, target)[0, 1] < 0.15 < np.corrcoef(full, target)[0, 1]


def test_random_state_decides_the_folds(people, target) -> None:
    ops = [{"target_encode": "plan"}]
    made = [FeatureProgram(ops, random_state=seed).fit_transform(people, target) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).any()


@pytest.mark.parametrize(
    ("y", "columns"),
    [
        (np.tile(["no", "yes"], 200), 1),
        (np.tile([True, False], 200), 1),
        (pd.Series(["a", "b", "c", "d"] * 100), 4),
        (pd.Series([7, 8, 9, 9] * 100, dtype="category"), 3),
        (pl.Series(["a", "b", "c", "d"] * 100), 4),
        (["a"] * 400, 1),
        ([0] * 400, 1),
        (np.tile([3.5, 7.0], 200), 1),
        (np.linspace(0, 1.5, 400), 1),
        (np.tile([0.5, 1.5, 2.5, 3.5], 100), 1),
        (np.random.default_rng(0).integers(300, 19_000, 400), 1),
        (np.random.default_rng(0).poisson(1.0, 400)[:, None], 1),
    ],
)
def test_labels_of_any_type_and_numbers_are_targets(people, y, columns: int) -> None:
    got = FeatureProgram([{"target_encode": "plan"}]).fit(people[["plan"]], y)
    assert len(got.get_feature_names_out()) == columns
    assert np.isfinite(got.transform(people[["plan"]])).all()


@pytest.mark.parametrize(
    ("y", "task", "columns"),
    [
        (np.arange(400) % 3, "multiclass", 3),
        (np.arange(400) % 3 + 0.5, "multiclass", 3),
        (np.arange(400) % 2, "binary", 1),
        (["a"] * 400, "binary", 1),
        (np.arange(400) % 2 + 5, "regression", 1),
        ((np.arange(800) % 3).reshape(400, 2), "multiclass", 6),
        ((np.arange(800) % 3).reshape(400, 2), "regression", 2),
    ],
)
def test_the_task_can_be_stated(people, y: Any, task: Any, columns: int) -> None:
    program = clone(FeatureProgram([{"target_encode": "plan"}])).set_params(task=task)
    assert program.get_params()["task"] == task
    found = program.fit(people[["plan"]], y).transform(people[["plan"]])
    assert found.shape == (400, columns)
    if task == "regression":
        low, high = np.min(y), np.max(y)
        assert (found > low).all() and (found < high).all() and found.mean() == pytest.approx(np.mean(y), abs=0.1)
    if columns == 3:
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("y", "task", "error", "message"),
    [
        (np.arange(400) % 3, "binary", ConfigError, "task: binary needs a target of 2 classes; 'y' has 3"),
        (["a", "b"] * 200, "regression", ConfigError, "task: regression needs a numeric target; 'y' is categorical"),
        (np.arange(400), "multiclas", ConfigError, "task: expected None or one of .*did you mean 'multiclass'"),
        ([1.0, np.nan] * 200, None, ValueError, "y contains 200 missing values .*first in row 1"),
        (["a", None] * 200, None, ValueError, "y contains 200 missing values"),
        (pd.date_range("2020-01-01", periods=400), None, SchemaError, "'y' is datetime"),
    ],
)
def test_a_target_that_contradicts_the_task_is_refused(people, y: Any, task: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        FeatureProgram([{"target_encode": "plan"}], task=task).fit(people[["plan"]], y)


@pytest.mark.parametrize(
    "y", [[3, 5, 5, 9] * 100, [0, 1] * 200, [10.5, 11.5] * 200, ["a", "b", "b", "c"] * 100, [True, False] * 200]
)
def test_the_target_is_that_of_a_run(people, y: Any) -> None:
    ops = [{"target_encode": "plan"}]
    program = FeatureProgram(ops).fit(people[["plan"]], y)
    pipe = gp.Pipeline(people[["plan"]].assign(y=y), target="y", features=ops)
    X, _ = pipe.features(view="codes")
    found = program.transform(people[["plan"]])
    assert found.shape == X.shape
    np.testing.assert_allclose(found.mean(axis=0), X.mean(axis=0), rtol=0.02)


def test_each_of_several_targets_has_its_columns(people, target) -> None:
    frame = pd.DataFrame({"left": target, "spent": people["income"].fillna(0), "plan2": people["plan"].fillna("none")})
    ops = [{"target_encode": {"columns": "city", "smoothing": 5}}]
    program = FeatureProgram(ops, schema={"city": "categorical"}).fit(people, frame)
    names = ["city_target_left", "city_target_spent", *(f"city_target_plan2_{k}" for k in range(4))]
    assert list(program.get_feature_names_out())[:6] == names
    found = program.transform(people)
    for i, name in enumerate(["left", "spent"]):
        alone = FeatureProgram(ops, schema={"city": "categorical"}).fit(people, frame[name])
        np.testing.assert_array_equal(found[:, i], alone.transform(people)[:, 0])
    unnamed = FeatureProgram(ops, schema={"city": "categorical"}).fit(people, frame[["left", "spent"]].to_numpy())
    assert list(unnamed.get_feature_names_out())[:2] == ["city_target_y0", "city_target_y1"]
    twice = frame[["left", "spent"]].set_axis(["left", "left"], axis=1)
    with pytest.raises(ConfigError, match="two targets have the output 'left'"):
        FeatureProgram(ops, schema={"city": "categorical"}).fit(people, twice)
    with pytest.raises(ConfigError, match="generate chooses features for one target; there are 3"):
        FeatureProgram([{"generate": {}}]).fit(people, frame)


def test_rows_count_by_their_weight(people, target) -> None:
    ops: list[dict[str, Any]] = [{"impute": "age"}, {"standardize": "income"}, {"target_encode": {"columns": "plan"}}]
    weight = np.random.default_rng(2).integers(0, 4, len(people))
    weighted = FeatureProgram(ops).fit(people, target, sample_weight=weight)
    again = np.repeat(np.arange(len(people)), weight)
    repeated = FeatureProgram(ops).fit(people.iloc[again], target[again])
    np.testing.assert_allclose(weighted.transform(people), repeated.transform(people), rtol=1e-5, atol=1e-6)
    training = FeatureProgram(ops).fit_transform(people, target, sample_weight=weight)
    assert training.shape == (len(people), len(weighted.get_feature_names_out()))
    np.testing.assert_array_equal(training[weight == 0], weighted.transform(people)[weight == 0])
    assert (training[weight > 0] != weighted.transform(people)[weight > 0]).any()  # cross-fitted
    frame = FeatureProgram(ops).set_output(transform="polars").fit_transform(people, target, sample_weight=weight)
    np.testing.assert_array_equal(frame.to_numpy(), training)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0] * 399 + [-1.0], "expected numbers from 0; found -1 in row 399; rows are counted from 0"),
        ([1.0, np.nan] * 200, "found nan in row 1"),
        ([np.inf] * 400, "found inf in row 0"),
        ([0.0] * 400, "all weights are zero; give at least one row"),
        ([1.0] * 399, r"expected shape \(400,\).*got \(399,\)"),
    ],
)
def test_weights_that_are_not_numbers_from_0_are_refused_with_the_row(people, weight: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FeatureProgram([{"min_max": "income"}]).fit(people, sample_weight=weight)


def test_levels_and_nulls_of_rows_with_weight_0_are_absent() -> None:
    rows = pd.DataFrame({"c": ["a", "b", "only"] * 10, "x": [1.0, 2.0, np.nan] * 10, "day": pd.Timestamp("2024-03-01")})
    rows.loc[rows.c == "only", "day"] = pd.Timestamp("1999-12-31 23:59")
    weight = np.where(rows.c == "only", 0.0, 1.0)
    for view in ("dense", "codes"):
        weighted = FeatureProgram(view=view).fit(rows, sample_weight=weight)
        without = FeatureProgram(view=view).fit(rows[weight > 0])
        assert weighted.get_feature_names_out().tolist() == without.get_feature_names_out().tolist()
        np.testing.assert_array_equal(weighted.transform(rows), without.transform(rows))


def test_it_works_in_a_pipeline_and_in_a_grid_search(people, target) -> None:
    people["income"] += 40_000 * target
    pipe = make_pipeline(FeatureProgram(), LogisticRegression())
    grid = {
        "featureprogram__ops": [
            None,
            [{"target_encode": "@categorical"}],
            [{"log1p": "income"}, {"min_max": "income"}],
        ],
        "featureprogram__random_state": [0, 1],
    }
    search = GridSearchCV(pipe, grid, cv=3, scoring="roc_auc", n_jobs=1, error_score="raise").fit(people, target)
    assert search.best_score_ > 0.7
    assert search.predict_proba(people.head(5)).shape == (5, 2)
    assert cross_val_score(search.best_estimator_, people, target, cv=3, error_score="raise").mean() > 0.6


def test_clones_and_pickles_equal_the_original(people, target) -> None:
    program = FeatureProgram([{"target_encode": "city"}, {"hash_bucket": "plan"}], schema={"city": "category"})
    expected = program.fit(people, target).transform(people)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(program)).transform(people), expected)
    copy = clone(program)
    assert not hasattr(copy, "fitted_")
    np.testing.assert_array_equal(copy.fit(people, target).transform(people), expected)


def test_the_matrix_is_float32_and_column_major(people) -> None:
    got = FeatureProgram().fit_transform(people)
    assert got.dtype == np.float32
    assert got.flags.f_contiguous


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (FeatureProgram([{"one_hott": "plan"}]), ConfigError, "one_hott: unknown feature op.*did you mean 'one_hot'"),
        (FeatureProgram([{"one_hot": "plan", "log1p": "age"}]), ConfigError, r"ops\[0\]: expected one op.*got 2 keys"),
        (
            FeatureProgram([{"target_encode": "plan"}]),
            ConfigError,
            r"requires a target.*y to FeatureProgram.fit\(X, y\)",
        ),
        (FeatureProgram(view="dens"), ConfigError, "expected one of .*did you mean 'dense'"),
        (FeatureProgram({"impute": "age"}), ConfigError, "ops: expected a list, got .* impute"),  # type: ignore[arg-type]
        (FeatureProgram([5]), ConfigError, r"ops\[0\]: expected one op"),  # type: ignore[list-item]
        (
            FeatureProgram([{"impute": {"strategy": "mdian"}}, {"log1p": {"columns": "age", "ofset": 1}}]),
            ConfigError,
            r"3 .*ops\[0\].impute.columns: is required.*impute.strategy: .*got 'mdian'; did you mean 'median'"
            r".*ops\[1\].log1p.ofset: unknown key",
        ),
        (FeatureProgram(schema=["plan"]), ConfigError, "schema: expected a dict .* got list"),  # type: ignore[arg-type]
        (FeatureProgram(schema={"plan": {"type": "float"}}), ConfigError, r"schema\['plan'\]: expected a kind"),
        (FeatureProgram(device="cuda"), ConfigError, "unknown device 'cuda'"),
        (FeatureProgram(schema={"plan": "float"}), SchemaError, "expected a number in column 'plan'; found "),
        (FeatureProgram(schema={"plans": "category"}), SchemaError, "did you mean 'plan'"),
        (FeatureProgram(schema={"plan": "categroy"}), SchemaError, "did you mean 'category'"),
    ],
)
def test_errors_are_reported(people, program: FeatureProgram, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        program.fit(people)


def as_duckdb(frame: pd.DataFrame) -> object:
    return pytest.importorskip("duckdb").from_arrow(pa.Table.from_pandas(frame, preserve_index=False))


@pytest.mark.parametrize(
    "make",
    [
        pl.from_pandas,
        lambda frame: pl.from_pandas(frame).lazy(),
        lambda frame: pa.Table.from_pandas(frame, preserve_index=False).to_batches()[0],
        as_duckdb,
        lambda frame: {name: frame[name].array for name in frame},
    ],
    ids=["polars", "lazy", "batch", "duckdb", "dict"],
)
def test_frames_of_every_library_keep_their_names(people, make) -> None:
    expected = FeatureProgram().fit(people)
    program = FeatureProgram().fit(make(people))
    assert list(program.feature_names_in_) == list(people.columns)
    assert list(program.get_feature_names_out()) == list(expected.get_feature_names_out())
    np.testing.assert_array_equal(program.transform(make(people)), expected.transform(people))
    with pytest.raises(ValueError, match="feature names should match"):
        program.transform(make(people.rename(columns={"age": "years"})))


@pytest.mark.parametrize("make", [pl.from_pandas, lambda frame: frame], ids=["polars", "pandas"])
def test_output_is_a_polars_frame_if_requested(people, make) -> None:
    program = FeatureProgram([{"impute": "age"}]).set_output(transform="polars")
    found = program.fit_transform(make(people))
    assert isinstance(found, pl.DataFrame) and found.columns == list(program.get_feature_names_out())
    np.testing.assert_array_equal(found.to_numpy(), FeatureProgram([{"impute": "age"}]).fit_transform(people))


@pytest.mark.parametrize("X", [None, "people.csv", 5])
def test_unsupported_containers_are_refused(X) -> None:
    with pytest.raises(DataError, match=f"expected a frame or a 2-D array; got {type(X).__name__}"):
        FeatureProgram().fit(X)


def test_times_in_text_of_an_unusual_form_can_be_declared() -> None:
    frame = pd.DataFrame({"at": ["31.12.24", "01.02.25"]})
    ops = [{"datetime_parts": {"columns": "at", "parts": ["year", "month"]}}]
    schema = {"at": {"kind": "datetime", "format": "%d.%m.%y"}}
    assert FeatureProgram(ops, schema=schema).fit_transform(frame).tolist() == [[2024, 12], [2025, 2]]
