"""Rows of a configuration as tensors, for custom training loops."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gpupipe.backends import choose
from gpupipe.backends.cpu.memory import copy_of
from gpupipe.config import Config
from gpupipe.features.program.fitted import FittedFeatures, write_matrix
from gpupipe.pipeline.api.arguments import WarningListener
from gpupipe.tensors.batch import Metadata, TensorBatch
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import fit_view
from gpupipe.training.job import Job
from gpupipe.training.preparation.preparation import folds_of, open_job
from gpupipe.typing import Array

TensorView = Literal["dense", "embedding"]


def make_tensors(
    config: Config, view: TensorView, codes: str = "int64"
) -> tuple[TensorBatch[Array], TensorBatch[Array]]:
    """Return the training and test rows of the split; features are fitted to the training rows only.

    With cross-validation, the first fold is used. Each batch is one allocation on the backend, and its target another;
    class codes have the dtype `codes`.
    """
    backend = choose(config.device, config.device_options)
    listener = WarningListener(config)
    job = open_job(config, backend, Timeline([listener]))
    fold = folds_of(job)[0]
    features, X = fit_view(job.rows(fold.train), view, config.features, backend)
    for text in features.warnings:
        listener.warn(text)
    X_test = write_matrix(job.table.take(fold.test, backend), features, backend)
    train = _batch(X, features, job, fold.train, view, codes)
    return train, _batch(X_test, features, job, fold.test, view, codes)


def _batch(
    X: Array, features: FittedFeatures, job: Job, mask: Array, view: TensorView, codes: str
) -> TensorBatch[Array]:
    ids = {f.name: f.n_codes for f in features.features if f.n_codes} if view == "embedding" else {}
    levels = {state["column"]: tuple(state["levels"]) for state in features.states if state["op"] == "Categorify"}
    metadata = Metadata(
        names=tuple(name for name in features.names if name not in ids),
        vocabularies={name: levels[name] for name in ids if name in levels},
        labels=tuple(own.labels for own in job.goal.targets if own.labels) or job.goal.labels,
        task=job.goal.task,
        targets=job.goal.names if job.goal.targets else (),
    )
    weight = None if job.weights is None else job.backend.to_device(job.weights[mask].astype(np.float32))
    return TensorBatch.of_matrix(X, ids, target=_target(job, mask, codes), weight=weight, metadata=metadata)


def _target(job: Job, mask: Array, codes: str) -> Array | None:
    y = job.target(mask)
    if y is None:
        return None
    return job.backend.to_device(copy_of(np.asarray(y, codes if job.goal.has_classes else np.float32)))
