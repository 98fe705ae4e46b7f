"""Checks of encoding, filtering and joining columns on a simulated device, run by `test_encode`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpupipe.io.device.filter import filter_columns
from gpupipe.io.device.join import join_columns
from gpupipe.io.settings import JoinedTable
from gpupipe.table.device.encode import TextRules, encode_frame
from gpupipe.table.device.frame_columns import DeviceColumn, DeviceDictionary, DeviceNumbers, to_micros
from gpupipe.table.schema import NAT, declare
from gpupipe.table.time_columns import MICROS
from tests.backends.double import DeviceDouble, uncounted
from tests.backends.pandas_double import PandasBackend

COLUMNS = {
    "i": (np.array([1, 2**40, -3]), np.array([True, True, False]), pa.int64()),
    "small": (np.array([1, 2, 3], np.int8), np.array([True, True, True]), pa.int8()),
    "f": (np.array([0.5, np.inf, np.nan]), np.array([True, True, False]), pa.float64()),
    "b": (np.array([1, 0, 0], np.int8), np.array([True, True, False]), pa.bool_()),
    "t": (np.array([0, 10**15, NAT]), np.array([True, True, False]), MICROS),
}


def columns(backend: Any) -> dict[str, DeviceNumbers]:
    there = backend.to_device
    return {n: DeviceNumbers(there(v), there(ok), kind) for n, (v, ok, kind) in COLUMNS.items()}


@pytest.mark.parametrize("declared", [{}, {"small": "category", "b": "category", "f": "category", "t": "category"}])
def test_numbers_are_encoded_where_they_are(declared: dict[str, str]) -> None:
    kinds = {name: declare(kind) for name, kind in declared.items()}
    host = PandasBackend()
    expected = encode_frame(columns(host), host, kinds)
    device = DeviceDouble()
    given = columns(device)
    device.open_stage()
    table = encode_frame(given, device, kinds)
    use = device.close_stage()
    assert table.schema == expected.schema
    for name, block in expected.blocks.items():
        np.testing.assert_array_equal(device.to_host(table.blocks[name]), block)
    # The distinct values of what is declared categorical: two or three of each, of 8 bytes at most.
    assert use.bytes_to_host <= 8 * 3 * len(declared)
    assert not [line for line in uncounted if ".tolist" in line or ".get" in line]


def test_texts_are_looked_up_where_their_codes_are() -> None:
    device, values = DeviceDouble(), pa.array(["b", None, "a", "unused"])
    coded = DeviceDictionary(device.to_device(np.array([2, 0, -1, 1])), values).trim(device)
    assert coded.values.to_pylist() == ["b", "a"]
    table = encode_frame({"c": coded}, device)
    assert table.schema["c"].levels == ("a", "b")
    np.testing.assert_array_equal(device.to_host(table.column("c")), [3, 4, 0, 0])


def test_rows_are_filtered_where_they_are() -> None:
    device = DeviceDouble()
    where = (
        "(i > 0 or f is None) and not b == False and t not in ['2001-09-09 01:46:40']"  # prose: allow is no (a filter)
    )
    kept = filter_columns(columns(device), where, TextRules(), device)
    np.testing.assert_array_equal(device.to_host(kept["i"].values), [1, -3][:1])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_converted_where_they_are(unit: str) -> None:
    ticks = np.array([-1, 1_999, 2**62, NAT])
    device = DeviceDouble()
    found = to_micros(device.to_device(ticks), unit, device.xp)
    np.testing.assert_array_equal(device.to_host(found), to_micros(ticks, unit, np))


@pytest.mark.parametrize("keys", [["i"], ["i", "b"], ["t", "small", "i"]])
def test_tables_are_joined_where_they_are(keys: list[str]) -> None:
    host, device = PandasBackend(), DeviceDouble()
    joined = JoinedTable(path="r", on=keys, cardinality="one_to_one", prefix="r_")
    expected, said = join_columns(columns(host), columns(host), "r", joined, host)
    found, note = join_columns(columns(device), columns(device), "r", joined, device)
    assert note == said == "table 'r': 66.7% of the rows have a match"
    for name, column in expected.items():
        there = found[name]
        assert isinstance(there, DeviceNumbers) and isinstance(column, DeviceNumbers)
        np.testing.assert_array_equal(device.to_host(there.valid), column.valid)
        np.testing.assert_array_equal(device.to_host(there.values), column.values)


def test_texts_are_joined_by_their_codes() -> None:
    device = DeviceDouble()
    left = {"k": DeviceDictionary(device.to_device(np.array([2, 0, -1, 1])), pa.array(["b", None, "a", "unused"]))}
    values = {
        "v": DeviceNumbers(device.to_device(np.array([7, 8])), device.to_device(np.array([True, False])), pa.int64())
    }
    right: dict[str, DeviceColumn] = {
        "k": DeviceDictionary(device.to_device(np.array([1, 0])), pa.array(["b", "a"])),
        **values,
    }
    found, _ = join_columns(left, right, "r", JoinedTable(path="r", on="k", cardinality="many_to_one"), device)
    joined = found["v"]
    assert isinstance(joined, DeviceNumbers)
    np.testing.assert_array_equal(device.to_host(joined.valid), [True, False, False, False])
    assert device.to_host(joined.values)[0] == 7
