"""list_columns: items of lists of one length, or the first and last ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpupipe as gp
from gpupipe.errors import ConfigError, RowError
from gpupipe.features.ops.list_columns import ListColumns

VECTORS = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)


def program(**settings: Any) -> gp.FeatureProgram:
    return gp.FeatureProgram([{"list_columns": {"columns": "x", **settings}}], view="codes")


def frame(lists: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(lists, dtype=object)})


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 3), pa.large_list(pa.float64()), pa.list_(pa.float16())])
def test_embeddings_of_every_layout_are_columns(kind: pa.DataType) -> None:
    values = VECTORS.astype(np.float16).astype(np.float32)
    table = pa.table({"x": pa.array([None, *values.tolist()], kind)}).slice(1)
    np.testing.assert_array_equal(program().fit_transform(table), values)


def test_shorter_lists_end_with_nulls_and_the_last_item_may_come_first() -> None:
    lists = [[1, 2, 3], [4], [], None]
    nan = np.nan
    first = program(size=2).fit_transform(frame(lists))
    np.testing.assert_array_equal(first, np.array([[1, 2], [4, nan], [nan, nan], [nan, nan]], np.float32))
    last = program(size=2, last=True).fit_transform(frame(lists))
    np.testing.assert_array_equal(last[:2], np.array([[3, 2], [4, nan]], np.float32))


def test_other_lengths_are_refused() -> None:
    fitted = program().fit(frame([[1, 2], None, [3, 4]]))
    with pytest.raises(RowError, match="row 1, column 'x': expected a list of 2 items; found 3 items"):
        fitted.transform(frame([None, [1, 2, 3]]))
    with pytest.raises(ConfigError, match="expected lists of one length in column 'x'; found between 1 and 2 items"):
        program().fit(frame([[1, 2], [1]]))
    with pytest.raises(ValueError, match="out of range"):
        ListColumns(columns=["x"]).with_arrays({"sizes": np.array([2**40])})


def test_slices_of_nvtabular() -> None:
    """The first and last items of ListSlice in NVTabular's tests; slices that start elsewhere have no setting."""
    lists = [[0, 1, 2, 2, 767], [1, 2, 2, 3], [1, 223, 4]]
    first = program(size=2).fit_transform(frame(lists))
    assert first.tolist() == [[0, 1], [1, 2], [1, 223]]  # ListSlice(0, 2)
    last = program(size=4, last=True).fit_transform(frame(lists))
    found = [[int(item) for item in row[::-1] if item == item] for row in last]
    assert found == [[1, 2, 2, 767], [1, 2, 2, 3], [1, 223, 4]]  # ListSlice(-4)
