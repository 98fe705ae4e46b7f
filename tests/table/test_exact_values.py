"""Exact Arrow types of integers and decimals, compared with Python's integers and `decimal`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.table.exact_texts import decimal_text, uuid_text
from gpupipe.table.exact_values import as_whole, exact_array, integer_array, wider_number
from gpupipe.table.keys import key_codes
from gpupipe.table.string_columns import format_values
from tests.examples import examples

WHOLE = pa.decimal128(38, 0)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, -(2**63)], pa.int64()),
        ([1, None, 2**63], pa.uint64()),
        ([-1, 2**63], WHOLE),
        ([2**64], WHOLE),
        ([10**38], pa.decimal256(76, 0)),
        ([], pa.int64()),
    ],
)
def test_integers_have_the_narrowest_type_that_holds_all_digits(values: list[int | None], kind: pa.DataType) -> None:
    found = integer_array(values)
    assert found.type == kind
    assert [None if value is None else int(value) for value in found.to_pylist()] == values


def test_an_integer_of_more_than_76_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 76 digits"):
        integer_array([10**76])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pd.Series([2**70, None], dtype=object), [Decimal(2**70), None]),
        (pd.Series([np.uint64(2**63 + 1), np.nan], dtype=object), [2**63 + 1, None]),
        (pd.Series([Decimal("NaN"), Decimal("1.50")], dtype=object), [None, Decimal("1.50")]),
        (pd.Series([2**70, pd.NA, 1.5], dtype=object), [float(2**70), None, 1.5]),
        ([True, None], [True, None]),
    ],
)
def test_columns_of_objects_keep_their_values(values: Any, expected: list[Any]) -> None:
    assert exact_array(values).to_pylist() == expected


@pytest.mark.parametrize(
    ("a", "b", "wider"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.uint64(), pa.uint8(), pa.uint64()),
        (pa.uint64(), pa.int8(), WHOLE),
        (pa.int64(), pa.decimal128(10, 2), pa.decimal128(22, 2)),
        (pa.decimal128(38, 0), pa.decimal128(10, 5), pa.decimal256(43, 5)),
        (pa.decimal256(76, 0), pa.decimal128(10, 5), pa.float64()),
        (pa.float32(), pa.int64(), pa.float64()),
        (pa.string(), pa.int64(), None),
    ],
)
def test_the_wider_of_two_types_holds_the_values_of_both(
    a: pa.DataType, b: pa.DataType, wider: pa.DataType | None
) -> None:
    assert wider_number(a, b) == wider_number(b, a) == wider


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**36), max_value=10**36, places=2))
@examples(60)
def test_a_decimal_and_the_float_that_it_equals_are_one_level(value: Decimal) -> None:
    text = decimal_text(value)
    assert Decimal(text) == value
    is_whole = value == value.to_integral_value()
    if (Decimal(float(value)) if is_whole else Decimal(repr(float(value)))) == value:
        assert text == format_values(pa.array([float(value)])).to_pylist()[0]


def test_a_uuid_has_the_text_of_the_standard_library() -> None:
    import uuid

    value = uuid.UUID(int=2**127 + 5)
    assert uuid_text(value.bytes) == str(value)


@pytest.mark.parametrize("left", [pa.int64(), pa.uint64(), WHOLE, pa.decimal128(22, 2)], ids=str)
@pytest.mark.parametrize("right", [pa.int64(), pa.uint64(), WHOLE, pa.decimal128(22, 2)], ids=str)
def test_keys_of_all_exact_types_are_equal_if_their_values_are(left: pa.DataType, right: pa.DataType) -> None:
    values = [2**60, 2**60 + 1, 7]
    tables = [pa.table({"k": pa.array(map(Decimal, values), WHOLE).cast(kind)}) for kind in (left, right)]
    found, _ = key_codes(tables[0], ["k"], tables[1].take([2, 1, 0]), ["k"], "")
    assert found.to_pylist() == [2, 1, 0]


@pytest.mark.parametrize("kind", [pa.uint64(), WHOLE], ids=str)
def test_keys_outside_int64_differ_in_the_last_digit(kind: pa.DataType) -> None:
    keys = pa.table({"k": pa.array([Decimal(2**63 + i) for i in range(3)], WHOLE).cast(kind)})
    found, _ = key_codes(keys, ["k"], keys, ["k"], "")
    assert found.to_pylist() == [0, 1, 2]
    texts = pa.table({"k": [str(2**63 + 1), "HQ"]})
    assert key_codes(texts, ["k"], keys, ["k"], "")[0].to_pylist() == [1, None]


def test_decimals_with_a_fraction_stay_decimals() -> None:
    column = pa.chunked_array([pa.array([Decimal("1.50"), Decimal("2.00")])])
    assert as_whole(column).type == column.type
    assert as_whole(column.slice(1)).to_pylist() == [2]
