"""The row filter: selected rows, and errors."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import ConfigError, SchemaError
from gpupipe.io.filter import filter_rows
from gpupipe.io.filter_expression import columns_of, parse_where
from tests.examples import examples

TABLE = pa.table(
    {
        "row": list(range(6)),
        "fare": [1.0, 2.5, 50.0, None, float("nan"), 200.0],
        "kind": pa.chunked_array(
            [
                pa.array(["Cash", "Card", None]).dictionary_encode(),
                pa.array(["Card", "Cash", "Other"]).dictionary_encode(),
            ]
        ),
        "paid": [True, False, None, True, True, False],
        "start": pa.array([dt.datetime(2024, 1, day) for day in range(1, 7)], pa.timestamp("us")),
        "education-num": [1, 2, 3, 4, 5, None],
    }
)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("2.5 <= fare <= 100", [1, 2]),
        ("fare > 2 and fare < 60", [1, 2]),
        ("fare < 2 or kind == 'Other'", [0, 5]),
        ("not fare > 2", [0]),
        ("fare != 50", [0, 1, 5]),
        ("fare is None", [3, 4]),
        ("fare is not None", [0, 1, 2, 5]),
        ("fare is None or fare > 100", [3, 4, 5]),
        ("kind in ['Cash', 'Other']", [0, 4, 5]),
        ("kind not in ('Cash', 'Other')", [1, 3]),
        ("kind is None", [2]),
        ("paid", [0, 3, 4]),
        ("not paid", [1, 5]),
        ("paid == False", [1, 5]),
        ("start >= '2024-01-03' and start < '2024-01-05 00:00:00'", [2, 3]),
        ("start > '2024-01-05T23:00:00-02:00'", []),
        ("`education-num` >= 4", [3, 4]),
        ("row > fare", []),
        ("row >= -1", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_row_stays_where_the_filter_is_true(where: str, rows: list[int]) -> None:
    assert filter_rows(TABLE, where).column("row").to_pylist() == rows


def test_the_columns_of_a_filter_are_known_without_data() -> None:
    where = "2 < fare < 9 and `education-num` > 1 or kind in ['x']"
    assert sorted(columns_of(where)) == ["education-num", "fare", "kind"]
    assert columns_of(None) == ()


@pytest.mark.parametrize(
    "where",
    ["fare >", "fare > 2 and", "fare + 1 > 2", "__import__('os')", "fare.x > 2", "fare if paid else 2", "3", "1 < 2",
     "fare is 3", "fare in kind", "fare in [None]", "[f for f in fare]", "lambda: 1", "fare > None", "f'{fare}'",
     "", "fare := 3"],
)  # fmt: skip
def test_an_invalid_filter_is_refused(where: str) -> None:
    with pytest.raises(ConfigError):
        parse_where(where)


def test_an_error_is_shown_at_its_position() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_where("fare > 2 and fare + 1 > 3")
    assert "column 14" in caught.value.where


def test_an_unknown_column_is_named_with_the_nearest() -> None:
    with pytest.raises(SchemaError, match="no column 'far'") as caught:
        filter_rows(TABLE, "far > 2")
    assert "did you mean 'fare'?" in caught.value.fix


@pytest.mark.parametrize("where", ["kind > 3", "fare == 'x'", "start > 3", "start > 'soon'", "paid > 'x'", "fare"])
def test_values_of_unlike_types_are_not_compared(where: str) -> None:
    with pytest.raises(SchemaError):
        filter_rows(TABLE, where)


NUMBERS = st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=1, max_size=30)


@examples(60)
@given(a=NUMBERS, low=st.integers(-5, 5), high=st.integers(-5, 5), negate=st.booleans())
def test_nulls_are_unknown_as_in_sql(a: list[int | None], low: int, high: int, negate: bool) -> None:
    table = pa.table({"i": list(range(len(a))), "a": pa.array(a, pa.int64())})
    where = f"{low} <= a < {high} or a == {high}"
    kept = filter_rows(table, f"not ({where})" if negate else where).column("i").to_pylist()
    frame = pd.DataFrame({"a": pd.array(a, "Int64")})
    mask = ((frame["a"] >= low) & (frame["a"] < high)) | (frame["a"] == high)
    mask = ~mask if negate else mask
    assert kept == frame.index[mask.fillna(False)].tolist()


def test_what_is_nested_without_end_is_refused() -> None:
    for text in ("not " * 5_000 + "x", "(" * 5_000 + "x" + ")" * 5_000):
        with pytest.raises(ConfigError):
            parse_where(text)
