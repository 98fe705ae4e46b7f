"""Values of NumPy, pandas and other types, compared with tables of one row of the same values."""

from __future__ import annotations

import enum
import subprocess
import sys
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import DataError
from gpupipe.rules import ColumnRules
from gpupipe.rules.model_rules import ServedRules
from gpupipe.rules.row_rules import RowRules
from gpupipe.table.cell_encoders import UnfitCell, cell_encoder
from gpupipe.table.plain_values import form_of
from gpupipe.table.schema import Column, DeclaredColumn
from tests.examples import examples
from tests.table.test_cell_encoders import COLUMNS, cell_of_row, cell_of_table


class Code(str):
    """A text whose own methods must not be called."""

    __slots__ = ()

    def __str__(self) -> str:
        return "another text"

    strip = __str__  # type: ignore[assignment]


class Count(int):
    def __int__(self) -> int:
        return -1


class Price(float):
    def __float__(self) -> float:
        return -1.0


class Plan(enum.StrEnum):
    A = "a"
    NONE = "NA"


class Grade(enum.IntEnum):
    ONE = 1


class Moment(datetime):
    pass


class Raw(bytes):
    pass


ZONES = [UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata"), timezone(timedelta(hours=-9, minutes=-30))]
INTEGERS: list[Any] = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]
TICKS = st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(-(10**6), 10**6), st.integers(0, 2 * 10**9))
TIMES_OF_DAY = st.times() | st.just(time(1, 2, 3, 4, tzinfo=UTC))
MOMENTS = st.datetimes()  # the years 1 to 9999: before 1677 and after 2262 there are no nanoseconds
FOLDED = datetime(2021, 10, 31, 2, 30)  # occurs twice in Berlin
NANOS = st.integers(-(2**63) + 10**14, 2**63 - 10**14)  # pandas needs a day of room for zones
NUMBER_TEXTS = st.sampled_from(["a", "1", "1.0", " 3 ", "0.1", "NA", "", "2020-01-01", "é", "true", "nan"])

WITH_FORM = st.one_of(
    *(st.integers(int(np.iinfo(kind).min), int(np.iinfo(kind).max)).map(kind) for kind in INTEGERS),
    st.floats(width=16).map(np.float16),
    st.floats().map(np.float64),
    st.booleans().map(np.bool_),
    st.builds(
        lambda ticks, unit: np.array(ticks, np.int64).view(f"datetime64[{unit}]")[()], TICKS, st.sampled_from(UNITS)
    ),
    st.sampled_from(UNITS).map(lambda unit: np.array("NaT", f"datetime64[{unit}]")[()]),
    st.builds(
        lambda ticks, unit: np.array(ticks).view(f"timedelta64[{unit}]")[()],
        TICKS,
        st.sampled_from(["s", "ms", "us", "ns"]),
    ),
    st.just(np.timedelta64("NaT", "us")),
    NUMBER_TEXTS.map(np.str_),
    NUMBER_TEXTS.map(Code),
    st.sampled_from([Plan.A, Plan.NONE, Grade.ONE, pd.NA, pd.NaT]),
    st.binary(max_size=3).map(np.bytes_),
    st.sampled_from([b"a", b"\xff", Raw(b" 1"), Raw(b"NA")]),
    st.integers(-(2**63), 2**63 - 1).map(Count),
    st.floats().map(Price),
    NANOS.map(pd.Timestamp),
    st.builds(lambda nanos, zone: pd.Timestamp(nanos, tz=zone), NANOS, st.sampled_from(ZONES)),
    MOMENTS.map(pd.Timestamp),
    st.builds(lambda moment, unit: pd.Timestamp(moment).as_unit(unit), MOMENTS, st.sampled_from(["s", "ms"])),
    MOMENTS,
    MOMENTS.map(lambda moment: Moment(*moment.timetuple()[:6])),
    st.builds(lambda moment, zone: moment.replace(tzinfo=zone), MOMENTS, st.sampled_from(ZONES)),
    st.sampled_from([FOLDED.replace(tzinfo=ZONES[1], fold=fold) for fold in (0, 1)]),
    st.sampled_from([FOLDED, pd.Timestamp(FOLDED).tz_localize("Europe/Berlin", ambiguous=True)]),
    st.dates(),
    TIMES_OF_DAY,
    st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000)),
    st.integers(-(10**15), 10**15).map(lambda nanos: pd.Timedelta(nanos, "ns")),
    st.sampled_from([pd.Interval(0.0, 1.5), pd.Period("2024-01"), pd.Period("2024-01-05", "D")]),
)
EXACT = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**8), max_value=10**8, places=6),
    st.integers(-(2**62), 2**62).map(Decimal),
    st.integers(0, 2**128 - 1).map(lambda value: UUID(int=value)),
    st.floats(width=32).map(np.float32),
)
OF_TABLES = st.one_of(
    st.decimals(),
    st.sampled_from([2**63, -(2**63) - 1, Decimal("sNaN"), Decimal("1e400"), np.longdouble(1), np.array(2.5), 1j]),
    st.sampled_from([np.timedelta64(3, "D"), np.array(3, "datetime64[10s]")[()], timedelta.max, 2**70, {}, object()]),
)


def cell_of_frame(column: Column, value: Any) -> Any:
    """Return the cell of a pandas.DataFrame with one row."""
    return cell_of_table(column, pd.DataFrame({"x": pd.Series([value], dtype=object)}))


@examples(1500)
@given(value=WITH_FORM | EXACT | OF_TABLES, column=st.sampled_from(COLUMNS))
def test_a_value_has_the_cell_of_a_table_and_of_a_frame(value: Any, column: Column) -> None:
    found = cell_of_row(column, value)
    assert found == cell_of_table(column, value)
    if not isinstance(value, np.ndarray | dict):
        assert found == cell_of_frame(column, value)


EDGES: list[Any] = [
    np.str_(" 3 "), Code("0.1"), Plan.NONE, Count(5), Price(2.5), Raw(b"1"), np.float16(0.1), np.int8(-128),
    np.uint64(2**64 - 1), np.float32(0.1), np.bool_(True), Decimal("0.000092449"), Decimal("-3.507104658"), UUID(int=3),
    np.array("-290308-12-22", "datetime64[D]")[()], np.array(2**62, "datetime64[s]")[()], np.timedelta64("NaT", "s"),
    pd.Timestamp(-(2**63) + 1, unit="ns"), pd.Timestamp("1969-12-31T23:59:59.999999999", tz="UTC"),
    pd.Timestamp("2300-01-01").as_unit("s"), pd.Timestamp(FOLDED).tz_localize("Europe/Berlin", ambiguous=False),
    FOLDED.replace(tzinfo=ZONES[1], fold=1), pd.NaT, pd.NA, pd.Timedelta(-1500, "ns"), time(23, 59, 59, 999999),
]  # fmt: skip


@pytest.mark.parametrize("value", EDGES, ids=repr)
def test_an_edge_has_the_cell_of_a_table(value: Any) -> None:
    for column in COLUMNS:
        assert cell_of_row(column, value) == cell_of_table(column, value), column


def refuse_tables(column: Column, value: Any) -> Any:
    raise AssertionError(f"{value!r} was read as a table, which takes 300 us")


@examples(300)
@given(value=WITH_FORM, column=st.sampled_from(COLUMNS))
def test_values_with_a_plain_form_need_no_table(value: Any, column: Column) -> None:
    try:
        cell_encoder(column, refuse_tables)(value)
    except UnfitCell:
        with pytest.raises((DataError, pa.ArrowException)):
            raise_of_table(column, value)


def raise_of_table(column: Column, value: Any) -> None:
    if cell_of_table(column, value) == "refused":
        raise DataError("refused")


@pytest.mark.parametrize(
    ("kind", "rules", "value"),
    [
        ("numeric", {"range": (0, 5)}, np.int16(5)),
        ("numeric", {"range": (0, 5)}, np.float64(0.5)),
        ("numeric", {"range": (0, 5)}, pd.NA),
        ("categorical", {"set": ("a", "b")}, np.str_("a")),
        ("categorical", {"set": ("a", "b")}, Plan.A),
        ("boolean", {"set": (True,)}, np.bool_(True)),
        ("datetime", {"range": ("2020-01-01", None)}, pd.Timestamp("2020-01-01", tz="UTC")),
        ("datetime", {"range": ("2020-01-01", None)}, np.datetime64("2020-01-02", "ns")),
        ("datetime", {"range": ("2020-01-01", None)}, pd.NaT),
    ],
)
def test_rules_accept_values_by_their_plain_form(
    kind: Any, rules: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = RowRules([ServedRules("x", DeclaredColumn(kind), ColumnRules.model_validate(rules))], refuse_tables)
    monkeypatch.setattr("gpupipe.rules.row_rules._check_in_full", lambda columns, rows: ["checked in full"])
    assert compiled.check([{"x": value}]) == []
    wrong = {"numeric": np.int16(9), "datetime": pd.Timestamp("2019-12-31"), "boolean": np.bool_(False)}
    assert compiled.check([{"x": wrong.get(kind, np.str_("c"))}]) == ["checked in full"]


def test_types_without_end_are_not_all_kept() -> None:
    for i in range(1_000):
        assert form_of(type(f"Own{i}", (int,), {})) is not None
    assert form_of.cache_info().currsize < 1_000


def test_no_library_of_tables_is_imported() -> None:
    code = """
import sys
from datetime import date, time, timedelta
from decimal import Decimal
import numpy as np
from gpupipe.table.row_encoder import RowEncoder
from gpupipe.table.schema import Column, Schema

schema = Schema((
    Column("n", "numeric", "double", storage="float64"), Column("t", "datetime", "timestamp[us]", storage="int64"),
    Column("c", "categorical", "string", storage="int8", levels=("a", "1")),
))
rows = [
    {"n": np.float32(0.5), "t": np.datetime64(1, "s"), "c": np.str_("a")},
    {"n": Decimal("0.25"), "t": date(1970, 1, 2), "c": b"a"},
    {"n": timedelta(seconds=3), "t": None, "c": np.int8(1)},
]
cells = RowEncoder(schema).encode(rows).cells
print(cells.double.tolist(), cells.times[:2].tolist(), cells.codes.tolist())
print(sorted({"pandas", "pyarrow"} & {*sys.modules}))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["[[0.5], [0.25], [3.0]] [[1000000], [86400000000]] [[3], [3], [4]]", "[]"]
