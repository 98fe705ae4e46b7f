"""Checks of customers and lookups on the device double, run by `test_churn_on_device` in Numba's simulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpupipe.backends import choose
from gpupipe.io.device import datasets
from gpupipe.io.device.source_reader import read_frame
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow
from gpupipe.table.device.encode import encode_frame
from gpupipe.table.encode import encode
from tests.backends.double import DeviceDouble, uncounted
from tests.io.device.test_source_reader import assert_same_table

# of integers that are to wrap, where Python computes: the simulator
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize(
    "source",
    [
        {"rows": 70, "target": "Churn", "drop": ["customerID"]},
        {"rows": 20, "seed": 2**64 - 1, "columns": ["customerID", "City"], "where": "City != 'city_0001'"},
        {"rows": 30, "generate": "churn_events"},
    ],
    ids=str,
)
def test_the_table_is_the_hosts_to_the_last_bit(monkeypatch: pytest.MonkeyPatch, source: dict[str, Any]) -> None:
    monkeypatch.setattr(datasets, "BLOCK_ROWS", 35)
    made, device = Source(**{"generate": "churn", **source}), DeviceDouble()
    table = encode_frame(read_frame(made, device).columns, device)
    there = replace(table, blocks={name: device.to_host(block) for name, block in table.blocks.items()})
    assert_same_table(there, encode(read_arrow(made).table, choose("cpu")))


def test_nothing_is_copied_to_the_host_while_customers_are_drawn() -> None:
    device = DeviceDouble()
    uncounted.clear()
    device.open_stage()
    read_frame(Source(generate="churn", rows=20, target="Churn", drop=["customerID"]), device)
    use = device.close_stage()
    assert uncounted == [] and use.bytes_to_host == 0
    assert use.bytes_to_device < 10 << 20  # the tables of the population, whatever the rows
