"""Results of one configuration on the CPU and on the GPU: both matrices and both sets of metrics.

The caller applies the tolerances.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.device import recorded_metrics
from gpupipe.backends import Backend, choose, probe
from gpupipe.config import Config
from gpupipe.errors import GpupipeError
from gpupipe.features.program.fitted import FittedFeatures, write_matrix
from gpupipe.metrics.clustering import ON_THE_HOST
from gpupipe.metrics.ranked_groups import ON_THE_HOST as GROUPS_ON_THE_HOST
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.tasks import View
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import learn_features, training_matrix
from gpupipe.training.job import Job
from gpupipe.training.preparation.preparation import folds_of, open_job
from gpupipe.typing import Array

DEVICES = ("cpu", "gpu")
# Stages that run on the host for every device; reading does if the configuration allows it.
OF_THE_HOST = ("read", "split", "export", "report")
MEASURED_ON_THE_HOST = (ON_THE_HOST, GROUPS_ON_THE_HOST)  # reasons


@dataclass(frozen=True)
class FeatureMatrices:
    """Matrices that one device computed for a configuration, copied to the host.

    Attributes
    ----------
    features : FittedFeatures
    training, served : array of float32, shape (rows, columns)
        Matrices of the training rows and of the test rows.
    """

    features: FittedFeatures
    training: Array
    served: Array


def config_for(config: Config, device: str) -> Config:
    """Return the configuration for a device; nothing falls back unless the configuration allows it.

    Without cuDF, files are read on the host.
    """
    fallback = config.fallback or ("allow" if probe.lacks_package("cudf") else "forbid")
    return config.model_copy(update={"device": device, "fallback": fallback})


def job_of(config: Config, device: str) -> Job:
    """Return the prepared job of `config` on a device."""
    there = config_for(config, device)
    return open_job(there, choose(device, there.device_options), Timeline())


def fit_matrices(job: Job, view: View) -> FeatureMatrices:
    """Fit the features of one view to the training rows of the first split, and write both matrices."""
    fold, backend = folds_of(job)[0], job.backend
    rows = job.rows(fold.train)
    features = learn_features(rows, view, job.config.features)
    training = training_matrix(rows, view, backend)
    served = write_matrix(job.table.take(fold.test, backend), features, backend)
    return FeatureMatrices(features, on_host(training, backend), on_host(served, backend))


def on_host(matrix: Array | PartitionedMatrix, backend: Backend) -> Array:
    """Copy a column-major or partitioned matrix to the host."""
    return matrix.gather() if isinstance(matrix, PartitionedMatrix) else backend.to_host(matrix.T).T


def column_errors(host: FeatureMatrices, device: FeatureMatrices) -> dict[str, float]:
    """Return the largest error of each column, relative to 1 + its value on the host."""
    import numpy as np

    worst = {name: 0.0 for name in host.features.names}
    for a, b in ((host.training, device.training), (host.served, device.served)):
        with np.errstate(invalid="ignore"):
            error = np.abs(a - b) / (1 + np.abs(a))
        error[(a == b) | ((a != a) & (b != b))] = 0.0
        error[np.isnan(error)] = np.inf
        for name, value in zip(worst, error.max(axis=0, initial=0.0), strict=True):
            worst[name] = max(worst[name], float(value))
    return worst


def errors_by_op(host: FeatureMatrices, device: FeatureMatrices) -> dict[str, float]:
    """Return the largest of `column_errors` for each op."""
    errors = column_errors(host, device)
    worst: dict[str, float] = {}
    for feature in host.features.features:
        worst[feature.op] = max(worst.get(feature.op, 0.0), errors[feature.name])
    return worst


def metrics_of(config: Config, devices: Sequence[str] = DEVICES) -> dict[str, Mapping[str, float]]:
    """Return the metrics of the best model of `config`, on each device.

    Those of the CPU are read from the file that ``GPUPIPE_CPU_METRICS`` names (`recorded_metrics`). If the variable is
    set and the file lacks them, they are computed, with a warning.

    Raises
    ------
    GpupipeError
        If a stage ran on the wrong device.
    """
    found: dict[str, Mapping[str, float]] = {}
    for device in devices:
        in_advance = recorded_metrics.recorded(config) if device == "cpu" else None
        if in_advance is None and device == "cpu" and os.environ.get(recorded_metrics.VARIABLE):
            warnings.warn(
                f"{config.name}: no CPU metrics in the file named by {recorded_metrics.VARIABLE}",
                stacklevel=2,
            )
        found[device] = compute_metrics(config, device) if in_advance is None else in_advance
    return found


def compute_metrics(config: Config, device: str) -> Mapping[str, float]:
    """Run `config` on a device and return the metrics of its best model.

    Raises
    ------
    GpupipeError
        If a stage that is not in `OF_THE_HOST` ran on another device.
    """
    with TemporaryDirectory() as folder:
        run = run_on(config, device, Path(folder) / device)
        if elsewhere := stages_elsewhere(run.plan(), device):
            raise GpupipeError(f"not on the {device}: {', '.join(elsewhere)}", where=config.name)
        return run.metrics


def stages_elsewhere(stages: Sequence[Mapping[str, Any]], device: str) -> list[str]:
    """Return the names of the stages of timeline.json that should have run on `device` but did not.

    Without a target, and for rankings, metrics are computed on the host.
    """
    elsewhere = [stage for stage in stages if stage["device"] != device and stage["name"] not in OF_THE_HOST]
    return [stage["name"] for stage in elsewhere if stage["reason"] not in MEASURED_ON_THE_HOST]


def run_on(config: Config, device: str, output: Path) -> Run:
    """Run `config` on a device, without plots; the run directory is `output`."""
    report = config.report.model_copy(update={"plots": False})
    return run_pipeline(config_for(config, device).model_copy(update={"report": report}), output)


def metric_gap(metrics: Mapping[str, Mapping[str, float]], name: str) -> float:
    """Return the difference of a metric between the devices, relative to the host's if that exceeds 1."""
    host, device = metrics["cpu"][name], metrics["gpu"][name]
    return abs(host - device) / max(1.0, abs(host))
