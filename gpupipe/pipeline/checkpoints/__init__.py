"""What a run keeps of its stages while it goes on, for the run that takes its place if it is interrupted.

``keys``      what the result of a stage depends on, and how that is told apart
``store``     the folder of the results, ``.checkpoints`` beside the run directories
``contents``  features and trained models as entries of it: the files of a model directory, no pickle
``kept``      the stages of one run: which are taken up, which are kept
"""

from __future__ import annotations

from gpupipe.pipeline.checkpoints.contents import KeptModel
from gpupipe.pipeline.checkpoints.keys import inputs_key, table_key
from gpupipe.pipeline.checkpoints.run_checkpoints import NOTHING_KEPT, TAKEN_UP, Round, Stages
from gpupipe.pipeline.checkpoints.store import Store

__all__ = ["NOTHING_KEPT", "TAKEN_UP", "KeptModel", "Round", "Stages", "Store", "inputs_key", "table_key"]
