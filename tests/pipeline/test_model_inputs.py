"""Tests of the inputs of a model: dicts, Series and frames of every library, and errors for other types."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gpupipe.datasets.churn import customers
from gpupipe.errors import ArtifactError, ConfigError, DataError, GpupipeError, SchemaError
from gpupipe.inference.model import Model, load_model
from gpupipe.pipeline.result import Run

N = 40


@pytest.fixture(scope="module")
def model(churn_run: Run) -> Model:
    return load_model(churn_run.path)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Return training rows, with categories as text."""
    frame = customers(3000, 7).to_pandas().head(N)
    return frame.astype({name: object for name, kind in frame.dtypes.items() if kind == "category"})


def as_duckdb(rows: pd.DataFrame) -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.from_arrow(pa.Table.from_pandas(rows, preserve_index=False))


def as_stream(rows: pd.DataFrame) -> Any:
    """Return an object that only supports the Arrow PyCapsule protocol."""

    class Stream:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return pa.Table.from_pandas(rows, preserve_index=False).__arrow_c_stream__(requested_schema)

    return Stream()


@pytest.mark.parametrize(
    "make",
    [
        pl.from_pandas,
        lambda rows: pl.from_pandas(rows).lazy(),
        lambda rows: pa.Table.from_pandas(rows, preserve_index=False).to_reader(7),
        as_duckdb,
        as_stream,
        lambda rows: rows.to_dict("list"),
        lambda rows: rows.to_dict("records"),
        lambda rows: [row.drop(["customerID", "Churn"]) for _, row in rows.iterrows()],
    ],
    ids=["polars", "lazy", "reader", "duckdb", "stream", "columns", "dicts", "series"],
)
def test_the_same_rows_in_any_container_give_the_same_predictions(
    model: Model, rows: pd.DataFrame, make: Callable[[pd.DataFrame], Any]
) -> None:
    given = make(rows)
    if isinstance(given, list) and isinstance(given[0], pd.Series):
        found: Any = np.concatenate([model.predict_proba(row) for row in given])
    else:
        found = model.predict_proba(given)
    np.testing.assert_array_equal(found, model.predict_proba(rows))


def test_a_dict_of_scalars_is_one_row(model: Model, rows: pd.DataFrame) -> None:
    row = rows.iloc[3].to_dict()
    assert model.predict(row).shape == (1,)
    np.testing.assert_array_equal(model.predict_proba(row), model.predict_proba(rows.iloc[[3]]))
    # Values of a JSON parser: integers for floats, times as text, None for missing values.
    row |= {"MonthlyCharges": 30, "Age": None, "signup_ts": str(row["signup_ts"]), "tenure": float(row["tenure"])}
    frame = rows.iloc[[3]].assign(MonthlyCharges=30.0, Age=np.nan)
    np.testing.assert_array_equal(model.predict_proba(row), model.predict_proba(frame))


def test_a_key_missing_from_some_rows_is_null_and_one_missing_from_all_is_an_error(
    model: Model, rows: pd.DataFrame
) -> None:
    some = rows.head(2).to_dict("records")
    del some[1]["Age"]
    frame = rows.head(2).copy()
    frame.loc[1, "Age"] = np.nan
    np.testing.assert_array_equal(model.predict_proba(some), model.predict_proba(frame))
    del some[0]["Age"]
    some[0]["age"] = 3
    with pytest.raises(SchemaError, match=r"(?s)not in the data: Age.*did you mean 'age'"):
        model.predict(some)


def test_unused_columns_may_have_any_values(model: Model, rows: pd.DataFrame) -> None:
    expected = model.predict_proba(rows)
    anything: dict[str, Any] = {"note": [object()] * N, "nested": [{"a": [1]}] * N}
    odd = rows.assign(**anything)
    np.testing.assert_array_equal(model.predict_proba(odd), expected)
    np.testing.assert_array_equal(model.predict_proba(odd.to_dict("records")), expected)


def test_zero_rows_give_zero_predictions(model: Model) -> None:
    assert model.predict([]).shape == (0,) and model.transform([]).shape == (0, len(model.feature_names))


def test_transform_returns_the_matrix_of_the_estimator(model: Model, rows: pd.DataFrame, churn_run: Run) -> None:
    X = model.transform(rows)
    assert X.dtype == np.float32 and X.flags.f_contiguous and X.shape == (N, len(model.feature_names))
    np.testing.assert_array_equal(model.estimator.predict(X).probability, model.predict_proba(rows)[:, 1])
    frame = model.transform(rows.iloc[0].to_dict(), as_frame=True)
    assert list(frame.columns) == list(model.feature_names)
    np.testing.assert_array_equal(frame.to_numpy(), X[:1])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (5, "got int"),
        (None, "got NoneType"),
        (b"rows.csv", "got bytes"),
        ("", "got an empty string"),
        (np.ones((2, 3)), r"(?s)got ndarray.*pandas.DataFrame\(array, columns="),
        (pl.Series("tenure", [1]), "Series is read as one row"),
        (pd.Series([1, 2], name="tenure"), r"(?s)index must .*; found 0, 1.*to_frame"),
        ([1, 2], "got int in row 0"),
        (iter([{"tenure": 1}]), r"(?s)got list_iterator.*list\(rows\)"),
        ({}, "columns that are not in the data"),
    ],
)
def test_errors_for_unsupported_inputs_name_the_expected_types(model: Model, data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        model.predict(data)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tenure": [1]}, "expected either single values or columns"),
        ({"tenure": "many"}, r"(?s)number.*'tenure'|'tenure'.*number"),
        ({"tenure": 2**300}, "cannot convert column 'tenure' to an Arrow array"),
        ({"tenure": {"months": 3}}, "'tenure' contains struct"),
        ({"signup_ts": "soon"}, "'signup_ts'"),
    ],
)
def test_the_error_for_a_value_of_another_kind_has_no_advice_on_configurations(
    model: Model, rows: pd.DataFrame, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        model.predict(rows.iloc[0].to_dict() | changed)
    assert "schema:" not in str(caught.value) and "drop:" not in str(caught.value)


def test_tables_and_cut_offs_of_other_types_are_rejected(model: Model, rows: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match=r"tables: expected a dict .* got str"):
        model.predict(rows, tables="orders.parquet")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"as_of: expected a date.* got int"):
        model.predict(rows, as_of=2024)  # type: ignore[arg-type]
    assert len(model.predict(rows, as_of=date(2024, 1, 1))) == N


@pytest.mark.parametrize("path", [None, 5, pd.DataFrame()])
def test_load_model_accepts_paths_only(path: Any) -> None:
    with pytest.raises(ConfigError, match=f"expected the path .* got {type(path).__name__}"):
        load_model(path)


def test_loading_a_missing_directory_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="no such directory"):
        load_model(tmp_path / "nope")
    (tmp_path / "file").touch()
    with pytest.raises(GpupipeError, match="found a file"):
        load_model(tmp_path / "file")
