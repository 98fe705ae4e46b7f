"""Exact comparisons in ``where:``, compared with Python's fractions."""

from __future__ import annotations

import operator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from gpupipe.errors import SchemaError
from gpupipe.io.filter import filter_rows

OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
             "!=": operator.ne}  # fmt: skip
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [1, 100, None]),
    "int64": (pa.int64(), [-(2**63), 2**53, 2**53 + 1, 2**63 - 1, None]),
    "uint64": (pa.uint64(), [0, 2**53 + 1, 2**63, 2**64 - 1, None]),
    "whole": (pa.decimal128(38, 0), [Decimal(-(2**70)), Decimal(2**53 + 1), Decimal(2**63), None]),
    "price": (pa.decimal128(10, 2), [Decimal("0.10"), Decimal("2.50"), None]),
    "double": (pa.float64(), [0.1, 2.5, 2.0**53, 2.0**63, 1e300, None]),
}
NUMBERS = ["-1", "0.1", "2.5", "9007199254740992.0", "9007199254740993", "9223372036854775808", "18446744073709551615",
           "1180591620717411303424", "1e300"]  # fmt: skip


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize("name", COLUMNS)
def test_numbers_of_all_types_are_compared_exactly(name: str, sign: str) -> None:
    kind, values = COLUMNS[name]
    table = pa.table({"x": pa.array(values, kind)})
    for text in NUMBERS:
        is_float = name == "double" and not text.isdecimal()
        number = Fraction(float(text)) if is_float else Fraction(text)
        expected = [v for v in values if v is not None and OPERATORS[sign](Fraction(v), number)]
        assert filter_rows(table, f"x {sign} {text}").column("x").to_pylist() == expected, text
        if not text.startswith("-"):
            flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign)
            assert filter_rows(table, f"{text} {flipped} x").column("x").to_pylist() == expected, text


def test_columns_of_different_types_are_compared_exactly() -> None:
    table = pa.table({"a": pa.array([2**53 + 1, 5], pa.int64()), "b": pa.array([2**53 + 1, 2**63], pa.uint64())})
    assert filter_rows(table, "a == b").num_rows == 1
    assert filter_rows(table, "a < b").num_rows == 1
    assert filter_rows(table, "a in [9007199254740993, 99999999999999999999]").num_rows == 1


def test_a_number_of_too_many_digits_is_refused_with_the_limit() -> None:
    with pytest.raises(SchemaError, match="at most 76 digits; found one of 80"):
        filter_rows(pa.table({"x": [1]}), f"x < {10**79}")


def test_times_in_different_zones_are_compared_as_moments() -> None:
    zoned = pa.array([5, 6, None], pa.timestamp("us", "Asia/Tokyo"))
    table = pa.table({"t": zoned, "u": pa.array([6, 6, 6], pa.timestamp("us"))})
    assert filter_rows(table, "t < u")["t"].to_pylist() == zoned[:1].to_pylist()
    assert filter_rows(table, "t >= '1970-01-01T00:00:00.000006'")["t"].to_pylist() == zoned[1:2].to_pylist()
