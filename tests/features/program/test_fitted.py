"""A fitted program applied to new rows from other readers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpupipe.errors import SchemaError

OPS = [{"one_hot": "plan"}, {"categorify": "city"}, {"datetime_parts": {"columns": "since", "parts": ["year", "hour"]}}]


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_rows_of_the_fit_get_the_same_values_when_they_are_served(fit, people, view: str) -> None:
    made = fit(people, OPS, view=view)
    pd.testing.assert_frame_equal(made.serve(people), made.training)


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_a_row_gets_the_same_values_in_any_batch(fit, people, view: str) -> None:
    made = fit(people, OPS, view=view)
    for row in (0, 7, 399):
        one = made.serve(people.iloc[[row]])
        pd.testing.assert_frame_equal(one, made.training.iloc[[row]].reset_index(drop=True))
    assert made.serve(people.iloc[:0]).shape == (0, len(made.names))


def test_column_order_and_further_columns_do_not_matter(fit, people) -> None:
    made = fit(people, OPS)
    other = people[people.columns[::-1]].assign(extra="x", more=1.0)
    pd.testing.assert_frame_equal(made.serve(other), made.training)


def test_unused_columns_may_be_absent_from_new_rows(fit, people) -> None:
    notes = people.assign(note=[f"text {i}" for i in range(400)])
    made = fit(notes, OPS)
    assert "note" not in made.features.inputs
    pd.testing.assert_frame_equal(made.serve(people), made.training)


def test_columns_that_are_missing_are_named(fit, people) -> None:
    made = fit(people, OPS)
    with pytest.raises(SchemaError, match=r"(?s)needs columns that are not in the data: age, city.*columns found"):
        made.serve(people.drop(columns=["city", "age"]))
    with pytest.raises(SchemaError, match=r"(?s)needs a column that is not in the data: plan.*did you mean 'plans'"):
        made.serve(people.rename(columns={"plan": "plans"}))


def test_a_value_of_another_kind_is_named_with_its_row(fit, people) -> None:
    made = fit(people, OPS)
    ages = people["age"].astype("string")
    ages[3] = ages[17] = "unknown"
    with pytest.raises(SchemaError, match=r"(?s)a number in column 'age'; found 'unknown'.*data rows 3, 17\n"):
        made.serve(people.assign(age=ages))
    with pytest.raises(SchemaError, match=r"(?s)in column 'active'; found 'Perhaps'.*data row 0\n"):
        made.serve(people.assign(active=["Perhaps"] + ["yes"] * 399))
    with pytest.raises(SchemaError, match=r"(?s)expected a unit for the times in column 'since'"):
        made.serve(people.assign(since=1.5))


def test_whole_numbers_with_nulls_are_equal_from_every_reader(fit) -> None:
    values = [17850, 0, None, -3]
    inputs = {
        "int": pa.array(values, pa.int64()),
        "small": pa.array(values, pa.int32()),
        "float": pa.array([17850.0, 0.0, None, -3.0]),
        "float with NaN": pa.array([17850.0, -0.0, float("nan"), -3.0]),
        "text": pa.array(["17850", "0", None, "-3"]),
        "coded text": pa.array(["17850", "0", None, "-3"]).dictionary_encode(),
        "nullable": pa.Array.from_pandas(pd.Series(values, dtype="Int64")),
        "decimal": pa.array(values, pa.decimal128(9, 0)),
    }
    numbers = [fit(pa.table({"x": column}), view="codes", schema={"x": "float"}) for column in inputs.values()]
    categories = [fit(pa.table({"x": column}), view="codes", schema={"x": "category"}) for column in inputs.values()]
    for made in numbers:
        for column in inputs.values():
            np.testing.assert_array_equal(made.serve(pa.table({"x": column}))["x"], [17850, 0, np.nan, -3])
    for made in categories:
        assert made.training["x"].tolist() == [5, 4, 0, 3]
        for column in inputs.values():
            assert made.serve(pa.table({"x": column}))["x"].tolist() == [5, 4, 0, 3]


def test_booleans_are_equal_from_every_reader(fit) -> None:
    inputs = [
        pa.array([True, None, False]),
        pa.array(["yes", None, "NO"]),
        pa.array(["true", " ", "f"]),
        pa.array([1, None, 0]),
        pa.array([1.0, None, 0.0]),
    ]
    made = fit(pa.table({"b": inputs[0]}), view="codes")
    for column in inputs:
        np.testing.assert_array_equal(made.serve(pa.table({"b": column}))["b"], [1, np.nan, 0])


def test_times_are_equal_from_every_reader(fit) -> None:
    made = fit({"t": pd.to_datetime(["2024-02-03 04:05:06", "NaT"])}, [
        {"datetime_parts": {"columns": "t", "parts": ["day", "hour", "second"]}}
    ], view="codes")  # fmt: skip
    stamp = pd.Timestamp("2024-02-03 04:05:06")
    for column in (
        pa.array([stamp, None], pa.timestamp("ns")),
        pa.array([stamp, None], pa.timestamp("s")),
        pa.array([stamp, None], pa.timestamp("us", "UTC")),
        pa.array([stamp.tz_localize("UTC").tz_convert("Asia/Tokyo"), None], pa.timestamp("us", "Asia/Tokyo")),
        pa.array(["2024-02-03 04:05:06", None]),
        pa.array(["2024-02-03T04:05:06Z", ""]),
    ):
        np.testing.assert_array_equal(made.serve(pa.table({"t": column})), [[3, 4, 6], [np.nan] * 3])


def test_a_format_that_was_guessed_at_fit_is_the_format_at_serve(fit) -> None:
    """01/02 alone could be read either way; the training rows have said which."""
    op = {"datetime_parts": {"columns": "t", "parts": ["day", "month"]}}
    made = fit({"t": ["31/12/2020", "01/02/2020"]}, [op], schema={"t": "date"})
    assert made.serve({"t": ["01/02/2020"]}).to_numpy().tolist() == [[1, 2]]


def test_the_lineage_of_a_column_is_the_inputs_it_is_made_of(fit, people) -> None:
    ops = [{"cross": {"columns": ["plan", "city"], "as": "pc"}}, {"frequency_encode": "pc"}]
    made = fit(people[["plan", "city", "age"]], ops)
    lineage = made.features.lineage
    assert lineage["pc_frequency"] == ["plan", "city"]
    assert lineage["age"] == lineage["age_missing"] == ["age"]
    assert all(inputs == [name.partition("=")[0]] for name, inputs in lineage.items() if "=" in name)
    assert set(made.features.inputs) == {"age", "plan", "city"}
