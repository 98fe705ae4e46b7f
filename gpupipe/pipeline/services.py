"""Objects that the steps of a run share."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from gpupipe.models import Resources
from gpupipe.pipeline.records.rundir import RunDirectory
from gpupipe.trackers.run_tracker import RunTracker
from gpupipe.training.checkpoints.keys import CheckpointKey
from gpupipe.training.checkpoints.store import CheckpointStore


@dataclass(frozen=True)
class RunServices:
    """Resources, checkpoints, directory and trackers of a run; `stack` closes what its steps open."""

    resources: Resources
    store: CheckpointStore
    key: CheckpointKey
    directory: RunDirectory
    tracker: RunTracker
    stack: ExitStack
