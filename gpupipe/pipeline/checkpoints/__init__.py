"""Run checkpoints, used by --resume.

``keys``             hashes of everything that the result of a stage depends on
``store``            the folder of the checkpoints, ``.checkpoints`` beside the run directories
``contents``         features and trained models as files: those of a model directory, no pickle
``run_checkpoints``  the checkpoints of one run: which are loaded, and when they are saved
"""

from __future__ import annotations

from gpupipe.pipeline.checkpoints.contents import ModelCheckpoint
from gpupipe.pipeline.checkpoints.keys import inputs_key, table_key
from gpupipe.pipeline.checkpoints.run_checkpoints import NO_CHECKPOINTS, RESUMED, RunCheckpoints, TrainingCheckpoints
from gpupipe.pipeline.checkpoints.store import CheckpointStore

__all__ = [
    "NO_CHECKPOINTS",
    "RESUMED",
    "CheckpointStore",
    "ModelCheckpoint",
    "RunCheckpoints",
    "TrainingCheckpoints",
    "inputs_key",
    "table_key",
]
