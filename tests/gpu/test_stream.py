"""Parquet files read by cuDF in row groups: bit-identical to the host's table."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gpupipe.backends import choose
from gpupipe.backends.gpu.backend import GpuBackend
from gpupipe.config import parse_config
from gpupipe.datasets.churn import write
from gpupipe.table.blocks import Table
from gpupipe.training.preparation.read_stage import read_table
from tests.table.differences import table_difference


class LittleRoom(GpuBackend):
    """The GPU backend with almost all of its memory in use."""

    def free_bytes(self) -> int:
        return 1


@pytest.mark.rapids("cudf", "rmm")
@pytest.mark.parametrize("where", [None, "tenure > 60 and Contract == 'Two year'"])
def test_row_groups_one_by_one(tmp_path: Path, where: str | None) -> None:
    write(tmp_path / "whole.parquet", 60_000)
    path = tmp_path / "churn.parquet"
    pq.write_table(pq.read_table(tmp_path / "whole.parquet"), path, row_group_size=7_000)
    source = {"path": str(path), "target": "Churn", "cache": False}
    config = parse_config({"source": source if where is None else {**source, "where": where}})
    device, host = LittleRoom("a test"), choose("cpu")
    found = read_table(config, device)
    assert [note.split(":")[0] for note in device.take_notes()] == ["read in 9 parts"]
    expected = read_table(config, host).table
    assert isinstance(expected, Table) and isinstance(found.table, Table)
    assert table_difference(expected, found.table, device) == ""


def test_the_free_bytes_match_the_device() -> None:
    assert 0 < GpuBackend("a test").free_bytes() <= 1 << 40
