"""``python -m benchmarks.planted``: what is planted is found, and nothing in the table as it is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.planted.__main__ import N_LEAKS, measure, render
from benchmarks.planted.leaks import LEAKS
from benchmarks.planted.sentinels import SENTINELS
from benchmarks.planted.tables import NamedTable, event_of


@pytest.fixture(scope="module")
def table() -> NamedTable:
    rng = np.random.default_rng(51)
    frame = pd.DataFrame(rng.normal(size=(600, 3)).round(3), columns=["a", "b", "c"])
    noisy = frame["a"] + rng.normal(size=600)
    return NamedTable("made", frame.assign(y=np.select([noisy > 1, noisy > 0], ["high", "mid"], "low")), "y")


def test_a_round_plants_each_way_once_and_the_result_is_a_table(table: NamedTable) -> None:
    rows = [measure(table, number) for number in (0, 1)]
    assert len({way for row in rows for way in row["leaks"]}) == 2 * N_LEAKS
    assert all(row["alarms"]["leaks"] == row["alarms"]["sentinels"] == [] for row in rows)
    assert not any(missed for row in rows for missed in row["sentinels"].values())
    assert render(rows).count("| 1 of 1 |") >= 10


def test_the_ways_plant_what_they_say(table: NamedTable) -> None:
    y = table.frame["y"]
    event = event_of(y, True)
    assert (len(LEAKS), len(SENTINELS)) == (20, 10)
    for way in LEAKS:
        columns, names = way(event, y.to_numpy(), np.random.default_rng(1))
        assert set(names) <= set(columns)
        assert {len(values) for values in columns.values()} == {len(y)}
