"""Steps of a planned run that a GPU cannot do, found in settings, footers and the sample on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpupipe.backends.gpu.estimators import ESTIMATORS, NO_TWIN
from gpupipe.backends.gpu.translation import EstimatorRefusal
from gpupipe.config import Config, ModelEntry
from gpupipe.io.device.obstacles import UnsupportedOnDevice, require_plain
from gpupipe.models.fitted.device import MISSING_FIX, missing_columns, missing_text
from gpupipe.pipeline.plan.preview import Preview


def read_refusal(config: Config) -> EstimatorRefusal | None:
    """Return why a device cannot read the tables, or None where it can."""
    if config.has_frames:  # the host encodes them by design
        return None
    try:
        require_plain(config.source, config.tables)
        for table in config.tables.values():
            require_plain(table)
    except UnsupportedOnDevice as obstacle:
        return EstimatorRefusal(obstacle.what, obstacle.fix)
    return None


def estimator_refusal(
    entry: ModelEntry, name: str, params: Mapping[str, Any], seen: Preview
) -> EstimatorRefusal | None:
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
    return EstimatorRefusal(missing_text(missing), MISSING_FIX) if missing else None
