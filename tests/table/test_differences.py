"""Detection of differences between tables, without false alarms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.backends import Backend
from gpupipe.table.blocks import Table
from gpupipe.table.device.encode import encode_frame
from tests.backends.pandas_double import PandasBackend
from tests.table.differences import table_difference

COLUMNS: dict[str, Any] = {"a": [1.5, None, 2.5], "c": ["x", None, "y"]}
TEXTS = ["one", None, "three"]


@pytest.fixture
def table(encoded: Callable[..., Table]) -> Table:
    return encoded({**COLUMNS, "t": TEXTS}, t="text")


def test_equal_tables_have_no_difference(table: Table, backend: PandasBackend) -> None:
    assert table_difference(table, table, backend) == ""


def test_of_texts_on_a_device_it_is_known_which_are_missing(encoded: Any, backend: PandasBackend) -> None:
    for texts, difference in (
        (TEXTS, ""),
        (["one", None, None], "t: 2 texts are missing on the device, 1 on the host"),
    ):
        host, there = (encoded({"t": values}, t="text") for values in (TEXTS, texts))
        device = encode_frame(pd.DataFrame({"t": texts}), backend, {"t": host.schema["t"]})
        assert table_difference(host, device, backend) == difference
        assert table_difference(host, there, backend) == difference


def test_a_value_of_another_kind_or_storage_is_named_with_its_row(table: Table, backend: PandasBackend) -> None:
    blocks = {name: block.copy() for name, block in table.blocks.items()}
    block, row = table.places["a"]
    blocks[block][row, 2] = -1.0
    other = Table(table.schema, table.n_rows, blocks, table.places, table.texts)
    assert table_difference(table, other, backend).startswith("a: row 2 is -1.0")
    narrow = {name: np.asarray(rows, "float32") if name == block else rows for name, rows in table.blocks.items()}
    other = Table(table.schema, table.n_rows, narrow, table.places, table.texts)
    assert "(float32) on the device" in table_difference(table, other, backend)


def test_other_columns_or_rows_are_another_schema(table: Table, backend: Backend, encoded: Any) -> None:
    fewer = Table(table.schema.without(["a"]), table.n_rows, table.blocks, table.places)
    assert table_difference(table, fewer, backend).startswith("the schemas differ: None on the device")
    shorter = encoded({**{name: rows[:2] for name, rows in COLUMNS.items()}, "t": TEXTS[:2]}, t="text")
    assert table_difference(table, shorter, backend) == "the schemas differ: 2 rows on the device, 3 on the host"
