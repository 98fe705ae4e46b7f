"""Training on the workers' GPUs, as far as it can be tested without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpupipe.backends.base import Backend, DeviceOptions
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.connect import connect
from gpupipe.dask.training import fit_on_cluster
from gpupipe.dask.worker_process import WorkerSettings
from gpupipe.dask.workers import DaskWorkers
from gpupipe.errors import DeviceError
from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.matrix import fit_matrix
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.training import fit_on_workers
from gpupipe.partitions.workers import Workers
from gpupipe.timeline.timeline import Timeline
from tests.inline_workers import InlineWorkers

HEIGHTS = (30, 50)


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPIPE_FORCE_CPU", "1")


class OnGpus(InlineWorkers):
    """Workers of this process that claim to have GPUs and may fall back."""

    device, reason = "gpu", "a claim"

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.fallen: list[str] = []

    def fall_back(self, what: str, where: str, fix: str) -> None:
        """See `Workers.fall_back`."""
        self.fallen.append(f"{what} ({where})")

    def take_fallbacks(self) -> tuple[str, ...]:
        """See `Workers.take_fallbacks`."""
        return tuple(self.fallen)


fit_on_workers.register(OnGpus, fit_on_cluster)


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.asfortranarray(rng.normal(size=(sum(HEIGHTS), 3)), np.float32)
    return X, (X[:, 0] + rng.normal(size=len(X)) > 0).astype(float)


def spread(X: np.ndarray, workers: Workers) -> PartitionedMatrix:
    parts = np.split(X, np.cumsum(HEIGHTS)[:-1])
    return PartitionedMatrix(tuple(workers.put(np.asfortranarray(part)) for part in parts), workers, HEIGHTS, 3)


def context(task: Any = "binary") -> FitContext:
    return FitContext(CpuBackend(), task, 0, 2, {}, ["a", "b", "c"])


FALLING = {
    "linear_svc": "calibrates them across folds",  # no GPU trains it
    "gaussian_nb": "no Gaussian naive Bayes",  # one does, several do not
    "logistic_regression": "cuml.dask needs a GPU on the driver",  # which has none here
}


@pytest.mark.parametrize("name", FALLING)
def test_models_gpus_cannot_train_together_are_trained_on_the_driver_with_a_note(name: str) -> None:
    (X, y), workers = rows(), OnGpus(CpuBackend())
    with Timeline().stage("train", workers.place) as stage:
        found = fit_matrix(spread(X, workers), MODELS.get(name)(), y, context())
    alone = fit(MODELS.get(name)(), X, y, context())
    ours, alike = (model.predict(X).probability for model in (found, alone))
    assert ours is not None and alike is not None
    assert ours.tobytes() == alike.tobytes()
    assert stage.device == "cpu"
    (note,) = stage.notes
    assert note.level == "warning"
    assert FALLING[name] in note.text
    assert note.text.endswith(f"(models: {name})")


def test_class_weights_are_applied_on_gpus() -> None:
    (X, y), workers = rows(), OnGpus(CpuBackend())
    model = MODELS.get("logistic_regression").model_validate({"class_weight": "balanced"})
    fit_matrix(spread(X, workers), model, y, context())
    assert "has no sample weights" in workers.fallen[0]


def test_a_forbidden_fallback_is_an_error_with_the_model_and_a_fix() -> None:
    X, y = rows()
    settings = ClusterSettings(scheduler="local", workers=1, threads=1, deadline=20)
    with connect(settings, "cpu") as started:
        there = WorkerSettings("gpu", DeviceOptions(fallback="forbid"))
        workers = DaskWorkers(started.client, there, 20, direct=True)
        with pytest.raises(
            DeviceError, match="no Gaussian naive Bayes, and fallback to the CPU is forbidden"
        ) as caught:
            fit_matrix(spread(X, workers), MODELS.get("gaussian_nb")(), y, context())
    assert caught.value.exit_code == 4
    assert caught.value.where == "models: gaussian_nb"
    assert caught.value.fix == "use the model logistic_regression, or set fallback: allow"


def test_a_fallback_of_workers_is_reported_once() -> None:
    settings = ClusterSettings(scheduler="local", workers=1, threads=1, deadline=20)
    with connect(settings, "cpu") as started:
        workers = DaskWorkers(started.client, WorkerSettings("gpu", DeviceOptions(fallback="allow")), 20, direct=True)
        workers.fall_back("it cannot do this", "models: x", "use y")
        assert workers.take_fallbacks() == ("it cannot do this (models: x)",)
        assert workers.take_fallbacks() == ()
