"""Choice between memory and out-of-core partitions for the rows of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.backends.base import Backend
from gpupipe.config import Config
from gpupipe.errors import ConfigError, DataError
from gpupipe.io.chunks.splittable_files import ROW_BYTES
from gpupipe.io.source_reader import input_files
from gpupipe.units import GIB

if TYPE_CHECKING:
    from gpupipe.pipeline.plan.run_plan import RunPlan

# Libraries and models of any run, and so many times its bytes on the disk, are more than it takes: no plan is needed.
ENOUGH, MANY_TIMES = GIB, 64


def plan_out_of_core(config: Config, backend: Backend) -> RunPlan | None:
    """Return the plan of a run whose rows are not to be kept in memory; None where they are.

    On a device they are: what does not fit there is worked on in parts.

    Raises
    ------
    LimitError
        If the run would not fit even so.
    GpupipeError
        As the run itself would, as far as some rows tell.
    """
    if backend.name != "cpu" or ENOUGH + MANY_TIMES * _input_bytes(config) < backend.memory().available:
        return None
    from gpupipe.pipeline.plan.run_plan import make_plan

    try:
        plan = make_plan(config.model_copy(update={"device": "cpu"}))
    except (ConfigError, DataError):
        if config.source.entities is None:
            raise
        return None  # some events may lack what all have, such as a second value of the label
    if not plan.on_disk:
        return None
    if plan.error is not None:
        raise plan.error
    return plan


def _input_bytes(config: Config) -> int:
    """Return the bytes of all files of a configuration; about those of what is generated."""
    files = [file for source in (config.source, *config.tables.values()) for file in input_files(source)]
    return sum(file.size * (ROW_BYTES if file.format == "generator" else 1) for file in files)
