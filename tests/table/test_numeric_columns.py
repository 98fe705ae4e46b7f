"""Numeric columns: storage, and accepted cells."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import SchemaError
from tests.examples import examples


@pytest.mark.parametrize(
    ("column", "storage"),
    [
        (pa.array([2**24, -(2**24), None]), "float32"),
        (pa.array([2**24 + 1]), "float64"),
        (pa.array([-(2**24) - 1], pa.int32()), "float64"),
        (pa.array([2**64 - 1], pa.uint64()), "float64"),
        (pa.array([255], pa.uint8()), "float32"),
        (pa.array([None], pa.int64()), "float32"),
        (pa.array([0.1]), "float64"),
        (pa.array([0.1], pa.float32()), "float32"),
        (pa.array([0.5]).cast(pa.float16()), "float32"),
        (pa.array([Decimal("0.25")]), "float64"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_a_column_is_float32_where_that_is_exact(encoded, column: pa.Array, storage: str) -> None:
    table = encoded({"x": column})
    assert table.schema["x"].storage == storage
    expected = [np.nan if v is None else float(v) for v in column.to_pylist()]
    np.testing.assert_array_equal(table.column("x"), np.array(expected, storage))


def test_a_column_can_be_declared_float32(encoded) -> None:
    assert encoded({"x": [0.1]}, x="float32").column("x").dtype == np.float32


@examples(60)
@given(values=st.lists(st.floats(-1e30, 1e30) | st.none(), max_size=30), cut=st.integers(0, 30))
def test_numbers_written_as_text_are_the_numbers(encoded, values: list, cut: int) -> None:
    texts = [None if v is None else f" {v!r} " for v in values]
    column = pa.chunked_array([texts[:cut], texts[cut:]], pa.string())
    got = encoded(pa.table({"x": column}), x="float").column("x")
    np.testing.assert_array_equal(got, np.array(values, float))


def test_other_ways_to_write_numbers(encoded, meaning) -> None:
    texts = ["1e3", "+5", "-.5", "007", "NaN", "", "  ", None, "inf", "1E400"]
    got = meaning(encoded({"x": texts}, x="float"), "x")
    assert got == [1000, 5, -0.5, 7, None, None, None, None, None, None]


def test_text_that_is_not_a_number_is_reported_with_its_rows(encoded) -> None:
    texts = pa.chunked_array([["1", "n/a", "3"], ["4", "1,5", "n/a"]])
    with pytest.raises(
        SchemaError, match=r"(?s)expected a number in column 'x'; found 'n/a', '1,5'.*data rows 1, 4, 5\n.*null_v"
    ):
        encoded(pa.table({"x": texts}), x="float")


def test_many_errors_are_counted_and_not_all_shown(encoded) -> None:
    with pytest.raises(
        SchemaError, match=r"(?s)'v4' and 45 other values.*data rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...\n"
    ):
        encoded({"x": [f"v{i}" for i in range(50)]}, x="float")


def test_values_too_large_for_the_matrix_are_null(encoded, meaning) -> None:
    values = [1.0, np.inf, -np.inf, 1e300, float(np.finfo("float32").max), -1e37]
    for kind in ("float64", "float32"):
        assert meaning(encoded({"x": values}, x=kind), "x") == [1, None, None, None, None, np.dtype(kind).type(-1e37)]


def test_booleans_and_times_may_be_declared_numbers(encoded, meaning) -> None:
    table = encoded({"b": [True, None, False], "t": pa.array([1, None, 2], pa.timestamp("ms"))}, b="int", t="float")
    assert meaning(table, "b") == [1, None, 0]
    assert meaning(table, "t") == [1000, None, 2000]


def test_durations_and_times_of_day_are_seconds(encoded, meaning) -> None:
    table = encoded({
        "d": pa.array([1500, None], pa.duration("ms")),
        "n": pa.array([1_500_000_000, None], pa.duration("ns")),
        "t": pa.array([3600, None], pa.time32("s")),
        "u": pa.array([3_600_500_000, None], pa.time64("us")),
    })  # fmt: skip
    assert [meaning(table, name) for name in "dntu"] == [[1.5, None], [1.5, None], [3600, None], [3600.5, None]]
