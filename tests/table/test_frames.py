"""Conversion of data frames of other libraries to the same Arrow table."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gpupipe.errors import DataError, SchemaError
from gpupipe.table.frames import frame_to_arrow, is_frame

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
