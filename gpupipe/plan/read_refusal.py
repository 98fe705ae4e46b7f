"""Reasons why a device cannot read the tables of a run."""

from __future__ import annotations

from collections.abc import Callable

from gpupipe.backends.gpu.translation import EstimatorRefusal
from gpupipe.backends.probe import lacks_nothing
from gpupipe.config import Config
from gpupipe.io.device.obstacles import UnsupportedOnDevice, require_plain
from gpupipe.io.input_files import InputFiles


def read_refusal(
    config: Config, files: InputFiles, lacks: Callable[[str], bool] = lacks_nothing
) -> EstimatorRefusal | None:
    """Return the reason why a device cannot read the tables, or None."""
    if config.has_frames:  # always encoded on the host
        return None
    has_reader = not lacks("cudf")
    try:
        require_plain(config.source, config.tables, files, has_reader)
        for name, table in config.tables.items():
            require_plain(table, None, InputFiles(files.tables[name], {}), has_reader)
    except UnsupportedOnDevice as obstacle:
        return EstimatorRefusal(obstacle.what, obstacle.fix)
    return None
