"""Memory layout of columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gpupipe.errors import SchemaError


def test_columns_of_one_type_are_rows_of_one_block_in_their_order(encoded) -> None:
    table = encoded({
        "a": [1.5, 2.5], "c": ["x", "y"], "i": [1, 2], "b": [0.5, 1.5], "t": pa.array([3, 4], pa.timestamp("us")),
        "d": ["y", None],
    })  # fmt: skip
    assert table.places == {
        "a": ("float64", 0), "b": ("float64", 1), "c": ("int8", 0), "d": ("int8", 1),
        "i": ("float32", 0), "t": ("int64", 0),
    }  # fmt: skip
    assert {name: block.shape for name, block in table.blocks.items()} == {
        "float64": (2, 2), "int8": (2, 2), "float32": (1, 2), "int64": (1, 2),
    }  # fmt: skip
    assert all(block.flags.c_contiguous and block.dtype == name for name, block in table.blocks.items())
    assert table.n_bytes == 4 * 8 + 4 * 1 + 2 * 4 + 2 * 8
    assert table.n_columns == 6


def test_a_column_is_a_view_into_its_block(encoded) -> None:
    table = encoded({"a": [1.5, 2.5], "b": [0.5, 1.5]})
    assert np.shares_memory(table.column("b"), table.blocks["float64"])
    assert table.column("b").tolist() == [0.5, 1.5]


def test_a_name_that_is_wrong_is_hinted_at(encoded) -> None:
    with pytest.raises(SchemaError, match=r"(?s)no column 'agee'.*did you mean 'age'"):
        encoded({"age": [1]}).column("agee")
