"""Conversion of data frames of other libraries to the same Arrow table."""

import datetime as dt

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gpupipe.errors import DataError, SchemaError
from gpupipe.table.frames import frame_to_arrow, is_frame
from gpupipe.table.string_columns import as_dictionary

COLUMNS = {"plan": ["a", None, "b"], "age": [20, 31, 42]}


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        pl.DataFrame,
        pl.LazyFrame,
        pa.table,
        pa.RecordBatch.from_pydict,
        lambda columns: pa.table(columns).to_reader(),
        dict,
    ],
    ids=["pandas", "polars", "polars lazy", "arrow table", "record batch", "batch reader", "dict"],
)
def test_every_frame_keeps_its_names_and_values(make):
    frame = make(COLUMNS)
    assert is_frame(frame)
    assert frame_to_arrow(frame).to_pydict() == COLUMNS


def test_duplicate_names_are_refused():
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(SchemaError, match="'a'"):
        frame_to_arrow(frame)


@pytest.mark.parametrize("data", [[1, 2], 3, "a,b", pl.Series("a", [1])])
def test_other_values_are_refused_with_their_type(data):
    with pytest.raises(DataError, match=type(data).__name__):
        frame_to_arrow(data)


@pytest.mark.parametrize(
    "make", [lambda values: pd.DataFrame({"c": values}, dtype=object), lambda values: {"c": values}]
)
def test_a_column_of_several_types_has_the_texts_that_each_value_has_alone(make):
    values = [1, "1", True, "x", 2.0, 1.5, dt.date(2024, 1, 31), pd.Timestamp("2024-01-31 05:06:07"), None]
    found = frame_to_arrow(make(values))["c"].to_pylist()
    assert found == ["1", "1", "true", "x", "2", "1.5", "2024-01-31", "2024-01-31 05:06:07", None]
    for value, text in zip(values[:-1], found[:-1], strict=True):
        alone = as_dictionary(frame_to_arrow(make([value]))["c"])
        assert alone.cast(pa.string()).to_pylist() == [text]


@pytest.mark.parametrize("values", [[1, "\ud800"], [1, b"x"], ["x", [1]]])
def test_other_values_of_several_types_are_refused_with_the_column(values):
    with pytest.raises(DataError, match="column 'c'"):
        frame_to_arrow({"c": values})
