"""Device key codes: equal and null like the host's; events in the order of a stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.backends import choose
from gpupipe.errors import SchemaError
from gpupipe.table import keys
from gpupipe.table.device.frame_columns import DeviceColumn, DeviceDictionary, DeviceNumbers
from gpupipe.table.device.keys import dictionary_to_device, key_codes, row_codes, sort_by_key
from gpupipe.table.schema import NAT
from gpupipe.table.time_columns import MICROS

HOST = choose("cpu")
DTYPES = {pa.bool_(): "int8", MICROS: "int64", pa.float64(): "float64", pa.int16(): "int16", pa.int64(): "int64"}


def there(column: pa.ChunkedArray) -> DeviceColumn:
    """Return a column in its device form: texts as codes of distinct values, other types as numbers."""
    if column.type not in DTYPES:
        return dictionary_to_device(column, HOST)
    plain = column.cast(pa.int64()) if column.type in (MICROS, pa.bool_()) else column
    values = plain.fill_null(0).to_numpy().astype(DTYPES[column.type])
    valid = column.is_valid().to_numpy()
    if column.type == pa.float64():  # frames do not tell NaN and null apart
        values, valid = np.where(valid, values, np.nan), valid & ~np.isnan(values)
    return DeviceNumbers(values, valid, column.type)


def assert_same_keys(found: Any, expected: pa.Array) -> None:
    """Compare codes up to renumbering."""
    wanted = expected.fill_null(-1).to_numpy()
    assert ((found < 0) == (wanted < 0)).all()
    pairs = set(zip(found.tolist(), wanted.tolist(), strict=True))
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def compare(left: list[pa.ChunkedArray], right: list[pa.ChunkedArray]) -> None:
    """Compare the codes of two tables, and of each alone, or the error."""
    names = [f"k{i}" for i in range(len(left))]
    tables = [dict(zip(names, columns, strict=True)) for columns in (left, right)]
    ours, theirs = ([there(column) for column in columns] for columns in (left, right))
    for table, columns in zip(tables, (ours, theirs), strict=True):
        codes, size = row_codes(columns, HOST)
        assert codes.max(initial=-1) < max(size, 1)
        assert_same_keys(codes, keys.row_codes(pa.table(table), names))
    try:
        expected = keys.key_codes(pa.table(tables[0]), names, pa.table(tables[1]), names, "table 'other'")
    except SchemaError as error:
        with pytest.raises(SchemaError) as refused:
            key_codes(ours, theirs, list(zip(names, names, strict=True)), "table 'other'", HOST)
        assert str(refused.value) == str(error)
        return
    mine, other, size = key_codes(ours, theirs, list(zip(names, names, strict=True)), "table 'other'", HOST)
    assert max(mine.max(initial=-1), other.max(initial=-1)) < max(size, 1)
    assert_same_keys(np.concatenate([mine, other]), pa.concat_arrays(expected))


COLUMNS: dict[str, pa.ChunkedArray] = {
    name: pa.chunked_array([values])
    for name, values in {
        "small numbers": pa.array([1, 2, None, 2], pa.int16()),
        "numbers": pa.array([2, 7, None, 2**60], pa.int64()),
        "whole floats": pa.array([1.0, -0.0, None, float("nan")]),
        "floats": pa.array([1.5, 2.0, None, 1e300]),
        "zeros of both signs": pa.array([0.5, -0.0, None, 0.0]),
        "infinity": pa.array([1.0, float("inf"), float("-inf"), 2.0**63]),
        "out of int64's range": pa.array([1.0, 2.0**63, -(2.0**63), 1.0]),
        "flags": pa.array([True, False, None, True]),
        "times": pa.array([0, 5, None, 2], MICROS),
        "texts": pa.array(["a", "b", None, "b"]),
        "numbers as texts": pa.array(["2", "07", None, "x"]),
        "whole numbers as texts": pa.array(["2", "07", None, "1"]),
        "levels": pa.array(["b", None, "c", "b"]).dictionary_encode(),
        "nothing": pa.nulls(4, pa.int64()),
    }.items()
}


@pytest.mark.parametrize("left", COLUMNS)
def test_columns_of_all_types_meet_or_are_refused_as_on_the_host(left: str) -> None:
    for right in COLUMNS.values():
        compare([COLUMNS[left]], [right])


def test_several_columns_are_one_key() -> None:
    names = list(COLUMNS)
    for first, second, third in zip(names, names[3:] + names[:3], names[5:] + names[:5], strict=True):
        parts = [COLUMNS[name] for name in (first, second, third)]
        compare(parts, [part.take([3, 2, 1, 0, 0]) for part in parts])


@given(st.lists(st.tuples(st.integers(-1, 3), st.one_of(st.just(NAT), st.integers(-3, 3)))))
@settings(deadline=None)
def test_events_are_in_the_order_of_key_time_and_place(rows: list[tuple[int, int]]) -> None:
    codes, times = np.array([r[0] for r in rows], np.int32), np.array([r[1] for r in rows], np.int64)
    kept = [i for i, (code, time) in enumerate(rows) if code >= 0 and time != NAT]
    order = sort_by_key(codes, times, np)
    assert order.dtype == np.int32
    assert order.tolist() == sorted(kept, key=lambda i: (*rows[i], i))


def test_a_host_column_is_copied_as_codes_of_its_distinct_values() -> None:
    levels = pa.DictionaryArray.from_arrays(pa.array([1, None, 1, 0], pa.int8()), ["a", "b", "unused"])
    for chunks in ([levels], [levels[:2], levels[2:]], [levels[:0]]):
        column: Any = pa.chunked_array(chunks, levels.type)
        found = dictionary_to_device(column, HOST)
        assert isinstance(found, DeviceDictionary)
        assert found.values.take(pa.array(found.codes, mask=found.codes < 0)).to_pylist() == column.to_pylist()
        assert set(found.values.to_pylist()) == set(column.to_pylist()) - {None}
