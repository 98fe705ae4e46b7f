"""Choice between an in-memory and an out-of-core run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.backends.base import Backend
from gpupipe.config import Config
from gpupipe.errors import ConfigError, DataError
from gpupipe.io.chunks.splittable_files import ROW_BYTES
from gpupipe.io.input_files import InputFiles
from gpupipe.units import GIB

if TYPE_CHECKING:
    from gpupipe.plan.run_plan import RunPlan

# Memory that is certainly enough, so that no plan is needed: a constant plus a multiple of the bytes on disk.
ENOUGH, MANY_TIMES = GIB, 64


def plan_out_of_core(config: Config, backend: Backend, files: InputFiles) -> RunPlan | None:
    """Return the plan of a run that must be out of core; None if it fits into memory or runs on a device.

    Raise LimitError if the run does not fit even out of core, and the GpupipeErrors of the run that occur on a sample
    of the rows.
    """
    if backend.name != "cpu" or ENOUGH + MANY_TIMES * _input_bytes(files) < backend.memory().available:
        return None
    from gpupipe.plan.run_plan import make_plan

    try:
        plan = make_plan(config.model_copy(update={"device": "cpu"}), files=files)
    except (ConfigError, DataError):
        if config.source.entities is None:
            raise
        return None  # a sample of events may lack what all have, such as a second value of the label
    if not plan.on_disk:
        return None
    if plan.error is not None:
        raise plan.error
    return plan


def _input_bytes(files: InputFiles) -> int:
    """Return the bytes of all files; estimated for generated tables."""
    return sum(file.size * (ROW_BYTES if file.format == "generator" else 1) for file in files.all)
