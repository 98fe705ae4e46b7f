"""Conversion of data frames of other libraries to the same Arrow table."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from gpupipe.errors import DataError, SchemaError
from gpupipe.table.frames import frame_to_arrow, is_frame, rows_to_arrow
from gpupipe.table.string_columns import as_dictionary

COLUMNS = {"plan": ["a", None, "b"], "age": [20, 31, 42]}


class HuggingFaceRows:
    """Stand-in for the class Dataset of the package datasets: a table, and the rows selected from it."""

    def __init__(self, columns, rows=(0, 1, 2)):
        self.data, self.rows = columns, list(rows)

    def __len__(self):
        return len(self.rows)

    def with_format(self, name):
        assert name == "arrow"
        return self

    def __getitem__(self, key):
        assert key == slice(None)
        return pa.table(self.data).take(self.rows)


HuggingFaceRows.__name__, HuggingFaceRows.__module__ = "Dataset", "datasets.arrow_dataset"


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        pl.DataFrame,
        pl.LazyFrame,
        pa.table,
        pa.RecordBatch.from_pydict,
        lambda columns: pa.table(columns).to_reader(),
        lambda columns: pyarrow.dataset.dataset(pa.table(columns)),
        HuggingFaceRows,
        dict,
    ],
    ids=["pandas", "polars", "polars lazy", "table", "batch", "batch reader", "dataset", "Hugging Face", "dict"],
)
def test_every_frame_keeps_its_names_and_values(make):
    frame = make(COLUMNS)
    assert is_frame(frame)
    assert frame_to_arrow(frame).to_pydict() == COLUMNS
    assert rows_to_arrow(make(COLUMNS), ["age"]).to_pydict() == {"age": COLUMNS["age"]}


def test_selected_rows_of_hugging_face_are_those_of_the_selection():
    assert frame_to_arrow(HuggingFaceRows(COLUMNS, [2, 0])).to_pydict() == {"plan": ["b", "a"], "age": [42, 20]}


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


BANDS = pd.cut(pd.Series([0.5, 1.5]), [0, 1, 2])


@pytest.mark.parametrize(
    ("row", "expected"),
    [({"band": BANDS[0]}, "(0, 1]"), ({"band": pd.Period("2024-01")}, "2024-01"), ({"band": [BANDS[0]]}, "(0, 1]")],
)
def test_intervals_and_periods_in_rows_are_texts(row, expected):
    assert rows_to_arrow(row, ["band"]).to_pydict() == {"band": [expected]}


def test_sparse_columns_become_dense():
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([1, 0, 1]), "b": pd.arrays.SparseArray([np.nan, 1.5, np.nan])})
    assert frame_to_arrow(frame).to_pydict() == {"a": [1, 0, 1], "b": [None, 1.5, None]}


@pytest.mark.parametrize(
    "values",
    [[object()] * 2, np.arange(2) * 1j, pd.Categorical([1, object()])],
    ids=["objects", "complex", "mixed categories"],
)
def test_a_column_that_cannot_be_converted_is_named_with_a_way_out(values):
    with pytest.raises(DataError, match=r"cannot convert column 'odd'.* of dtype") as caught:
        frame_to_arrow(pd.DataFrame({"x": [1, 2], "odd": values}))
    assert "frame['odd'].astype(str)" in caught.value.fix
    assert rows_to_arrow(pd.DataFrame({"x": [1, 2], "odd": values}), ["x"]).column_names == ["x"]
