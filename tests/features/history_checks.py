"""Checks of history ops on the device double against the host, run by `test_on_device` in Numba's simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpupipe.backends import choose
from gpupipe.features.history.derivation import derive
from gpupipe.features.history.key_partitions import derive_partition, merge_partitions
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.features.ops.lag import Lag
from gpupipe.features.ops.last_events import LastEvents
from gpupipe.features.ops.text_counts import TextCounts
from gpupipe.features.ops.text_hash import TextHash
from gpupipe.features.ops.text_vectors import TextVectors
from gpupipe.features.program.fit import fit_features
from gpupipe.features.statistics import text_components
from gpupipe.features.statistics.training import Statistics
from gpupipe.table.device.frame_columns import DeviceColumn, DeviceDictionary, DeviceNumbers
from gpupipe.table.device.keys import key_codes, row_codes, sort_by_key
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare
from tests.backends import double
from tests.backends.double import DeviceDouble
from tests.features.histories import ORDERS, OWN, SINGLE_SERIES, ops_of, rows, sources

N = 40
SIZES = "device/arrays.py"  # `item` reads the one number of a compaction
# of arithmetic on infinities, where Python computes: the simulator
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


class SmallDevice(DeviceDouble):
    """A device that cannot allocate columns above a number of elements, except for the blocks of the table."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    @property
    def xp(self) -> Any:
        return _Small(self.most)


class _Small:
    def __init__(self, most: int) -> None:
        self._most = most

    def __getattr__(self, name: str) -> Any:
        return getattr(double.xp, name)

    def empty(self, shape: Any, *more: Any, **named: Any) -> Any:
        if isinstance(shape, int) and shape > self._most:
            raise MemoryError(f"std::bad_alloc: {shape}")
        return double.xp.empty(shape, *more, **named)


def assert_same(found: Any, expected: Any, device: DeviceDouble) -> None:
    assert found.schema == expected.schema
    for column in expected.schema:
        if column.derived:
            values = device.to_host(found.column(column.name))
            np.testing.assert_array_equal(values, expected.column(column.name), strict=True)


def strayed() -> list[str]:
    return [line for line in double.uncounted if SIZES not in line]


def test_every_op_equals_the_host_and_no_row_leaves_the_device() -> None:
    device, host = DeviceDouble(), choose("cpu")
    ops = (*ops_of(), Lag.model_validate(SINGLE_SERIES))
    there = sources(device, N)
    double.uncounted.clear()
    device.open_stage()
    found, how = derive(ops, there)
    use = device.close_stage()
    expected, again = derive(ops, sources(host, N))
    assert_same(found, expected, device)
    assert (how.made, how.schema, how.tables) == (again.made, again.schema, again.tables)
    assert list(there.engines) == ["cuda"]
    assert (use.bytes_to_host, strayed(), use.fallbacks) == (0, [], ())
    assert use.bytes_to_device < 4 * 4 * N + 200  # int32 codes of three key columns that the host has read, and tables


def test_lists_of_events_equal_the_host() -> None:
    ops = [LastEvents.model_validate(each | {"columns": ["spend", "kind"], "size": 3}) for each in (OWN, ORDERS)]
    device, host = DeviceDouble(), choose("cpu")
    found, expected = (derive(ops, sources(backend, N))[0] for backend in (device, host))
    for name in (made for op in ops for made in op.made_lists()):
        assert found.texts[name].equals(expected.texts[name])
    keys = ops[1].keys(there := sources(device, N))
    parts = [derive_partition(ops[1], there, keys, a, b) for a, b in ((0, 2), (2, keys.size))]
    for column in merge_partitions(parts, there):
        lists: Any = column.values
        assert lists.to_pylist() == expected.texts[column.name].to_pylist()


TEXTS = [
    None,
    "",
    "Été à la PLAGE 😀",
    "red  retrospot bag, 12",
    "İstanbul\n½ ß 漢字",
    "a\0b _c",
    *map("no {}".format, range(40)),
]
HASHES: list[dict[str, Any]] = [
    {"ngrams": [1, 2]},
    {"analyzer": "char", "ngrams": [2, 3], "value": "log"},
    {"analyzer": "char_wb", "ngrams": [3, 4], "value": "binary", "norm": "none"},
    {"lowercase": False, "alternate_sign": False, "value": "log", "norm": "none"},
]


@pytest.mark.parametrize("is_read_there", [False, True])
def test_texts_have_the_bits_of_the_host_and_no_row_leaves_the_device(is_read_there: bool) -> None:
    device, host = DeviceDouble(), choose("cpu")
    settings = [{"columns": "note", "buckets": 8, "prefix": f"{i}", **more} for i, more in enumerate(HASHES)]
    counts = TextCounts.model_validate({"columns": "note", "patterns": {"d": "[0-9]"}})
    ops = [*map(TextHash.model_validate, settings), counts]
    arrow = pa.table({"note": TEXTS * 2})
    there, here = (
        DerivationSources(
            HistoryRows.of_arrow(encode(arrow, backend, {"note": declare("text")}), arrow, "the table"), {}, backend
        )
        for backend in (device, host)
    )
    if is_read_there:
        codes = np.tile(np.append(np.int32(-1), np.arange(1, len(TEXTS), dtype=np.int32)), 2)
        values = pa.array(["no row has it", *TEXTS[1:]])
        there.main.raw_columns = {"note": DeviceDictionary(device.to_device(codes), values)}
    double.uncounted.clear()
    device.open_stage()
    found, _ = derive(ops, there)
    assert (device.close_stage().fallbacks, strayed()) == ((), [])
    assert_same(found, derive(ops, here)[0], device)


def test_components_of_texts_are_those_of_the_host_up_to_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_components, "MAX_DEVICE_CELLS", 3 * 1024)  # several blocks
    arrow, op = pa.table({"note": TEXTS * 2}), TextVectors.model_validate({"columns": "note", "size": 1024})
    found = []
    for backend in (DeviceDouble(), choose("cpu")):
        table = encode(arrow, backend, {"note": declare("text")})
        main = HistoryRows.of_arrow(table, arrow, "the table")
        table, derivation = derive([op], DerivationSources(main, {}, backend))
        features = fit_features([op], Statistics(table, backend, None, 0), "codes", derivation)
        served = features.transform(features.encode(arrow, backend), backend)
        found += [backend.to_host(matrix) for matrix in (features.transform(table, backend), served)]
    assert found[0].any()
    for matrix in found[:3]:
        np.testing.assert_allclose(matrix, found[3], rtol=1e-5, atol=1e-5)


def test_a_full_device_computes_keys_in_partitions_with_the_same_result() -> None:
    ops = ops_of("aggregate")[3:] + ops_of("rfm", "lag")
    device = SmallDevice(most=N)  # a tree of extremes takes twice as many numbers
    found, _ = derive(ops, little := sources(device, N))
    assert_same(found, derive(ops, sources(choose("cpu"), N))[0], device)
    assert little.engines == {"cuda": None}
    assert [line.partition(":")[0] for line in device.take_notes()] == ["the history of orders"]


def test_keys_read_on_a_device_are_encoded_there() -> None:
    device = DeviceDouble()
    customers, orders = (rows(N, seed)["customer"].to_numpy() for seed in (0, 1))

    def numbers(values: Any) -> DeviceColumn:
        there = device.to_device(values)
        return DeviceNumbers(there, there == there, pa.float64())

    times = device.to_device(np.arange(N)[::-1].copy())
    device.open_stage()
    double.uncounted.clear()
    mine, theirs, size = key_codes([numbers(customers)], [numbers(orders)], [("a", "b")], "orders", device)
    pairs, n_pairs = row_codes([numbers(orders), numbers(orders)], device)
    order = sort_by_key(theirs, times, device.xp)
    use = device.close_stage()
    assert use.bytes_to_host == 0
    assert {line.rpartition(" ")[2] for line in double.uncounted} == {"bool(array)"}  # whether floats are whole numbers
    mine, theirs, pairs, order = (device.to_host(array) for array in (mine, theirs, pairs, order))
    known = np.unique(orders[~np.isnan(orders)])
    assert size == n_pairs == len(known)
    np.testing.assert_array_equal(theirs, np.where(np.isnan(orders), -1, np.searchsorted(known, orders)))
    np.testing.assert_array_equal(pairs, theirs)
    np.testing.assert_array_equal(known[mine[mine >= 0]], customers[mine >= 0])
    assert order.tolist() == sorted(np.flatnonzero(theirs >= 0), key=lambda row: (theirs[row], -row))


def test_a_model_predicts_the_same_on_the_device_and_the_host() -> None:
    device, host = DeviceDouble(), choose("cpu")
    ops = ops_of("rfm", "lag")
    table, how = derive(ops, sources(host, N))
    features = fit_features(ops, Statistics(table, host, None, 0), "codes", how)
    arrow, events = rows(N, 3), {"orders": rows(N, 4)}
    here, there = (features.encode(arrow, backend, events, as_of=10**15 * 2) for backend in (host, device))
    assert isinstance(next(iter(there.blocks.values())), double.DeviceArray)
    assert_same(there, here, device)
    nothing = features.encode(arrow[:0], device, {"orders": rows(N, 4)})
    assert nothing.n_rows == 0 and nothing.schema == here.schema
