"""Comparison of tables that both devices read."""

from __future__ import annotations

from benchmarks.device.parity import job_of
from gpupipe.config import Config
from gpupipe.table.blocks import Table
from tests.table.differences import table_difference


def assert_same_table(config: Config) -> None:
    host, device = (job_of(config, name) for name in ("cpu", "gpu"))
    assert isinstance(host.table, Table) and isinstance(device.table, Table)
    assert isinstance(next(iter(device.table.blocks.values())), device.backend.xp.ndarray)
    assert table_difference(host.table, device.table, device.backend) == ""
    assert (host.goal, host.y is None) == (device.goal, device.y is None)
    if host.y is not None and device.y is not None:
        assert (host.y == device.backend.to_host(device.y)).all()
