"""What a GPU could not do in a run that is being planned: found in settings, footers and the sample, on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpupipe.backends.gpu_estimators import ESTIMATORS, NO_TWIN
from gpupipe.backends.gpu_translation import Refusal
from gpupipe.config import Config, ModelEntry
from gpupipe.models.fitted_device import MISSING_FIX, missing_columns, missing_text
from gpupipe.pipeline.plan.preview import Preview
from gpupipe.readers.on_device.obstacles import Obstacle, require_plain


def read_refusal(config: Config, n_derived: int) -> Refusal | None:
    """Return why a device cannot read the source, or None where it can, or the table is generated."""
    if n_derived:
        return Refusal("keys and texts of derived columns are read by Arrow", "leave those ops out")
    if config.source.generate:
        return None
    try:
        require_plain(config.source, config.tables)
    except Obstacle as obstacle:
        return Refusal(obstacle.what, obstacle.fix)
    return None


def estimator_refusal(entry: ModelEntry, name: str, params: Mapping[str, Any], seen: Preview) -> Refusal | None:
    """Return why a device cannot train an estimator: by its parameters, or by what is missing in the sample.

    Whether the XGBoost that is installed here knows CUDA is not asked: the GPU may be another machine's.

    Parameters
    ----------
    entry : ModelEntry
    name : str
        Class name of scikit-learn or XGBoost.
    params : mapping
        The keyword arguments for it.
    seen : Preview
    """
    if name in NO_TWIN:
        return NO_TWIN[name]
    if refused := ESTIMATORS[name].refusals(params):
        return refused[0]
    if not entry.params.accepts_missing or ESTIMATORS[name].takes_missing:
        return None
    view = entry.params.view
    missing = missing_columns(seen.matrices[view], tuple(seen.features[view].names), np)
    return Refusal(missing_text(missing), MISSING_FIX) if missing else None
