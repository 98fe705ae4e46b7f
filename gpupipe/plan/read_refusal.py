"""Reasons why a device cannot read the tables of a run."""

from __future__ import annotations

from collections.abc import Callable

from gpupipe.backends.gpu.translation import EstimatorRefusal
from gpupipe.backends.probe import lacks_nothing
from gpupipe.config import Config
from gpupipe.io.device.obstacles import UnsupportedOnDevice, is_read_on_host, require_plain
from gpupipe.io.input_files import InputFiles


def read_refusal(
    config: Config, files: InputFiles, lacks: Callable[[str], bool] = lacks_nothing
) -> EstimatorRefusal | None:
    """Return the reason why a device cannot read the tables that are not read on the host by design, or None."""
    has_reader = not lacks("cudf")
    try:
        if not is_read_on_host(files, config.tables):
            require_plain(config.source, config.tables, files, has_reader)
        for name, table in config.tables.items():
            events = InputFiles(files.tables[name], {})
            if not table.is_joined and not is_read_on_host(events, {}):
                require_plain(table, None, events, has_reader)
    except UnsupportedOnDevice as obstacle:
        return EstimatorRefusal(obstacle.what, obstacle.fix)
    return None
