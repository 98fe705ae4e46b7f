"""Networks trained jointly by workers: as good as on one machine, and completed when a worker dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from distributed import Client
from sklearn.metrics import roc_auc_score

from gpupipe.backends import choose
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.boosting import fit_xgboost
from gpupipe.dask.connect import connect
from gpupipe.dask.gang import Gang, GangError
from gpupipe.dask.networks import fit_network
from gpupipe.dask.worker_process import run_task
from gpupipe.dask.workers import DaskWorkers
from gpupipe.errors import ConfigError, DataError, LimitError
from gpupipe.models import FitContext, FittedModel, Resources, fit
from gpupipe.models.context import ValidationRows
from gpupipe.models.neural.settings import Mlp
from gpupipe.models.progress import ProgressReport
from gpupipe.models.xgboost.settings import XGBoost
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.workers import Workers
from tests.dask import chores

SECONDS_AT_MOST = 120  # seconds that a test waits before it fails
TINY = {"width": 16, "depth": 1, "embedding_size": 4, "n_bins": 8, "learning_rate": 1e-2, "epochs": 4}


def context(task: str = "binary", **resources: Any) -> FitContext:
    names = [f"c{j}" for j in range(5)]
    classes = {"binary": 2, "multiclass": 3, "regression": 0}[task]
    return FitContext(choose("cpu"), task, 7, classes, {3: 6, 4: 6}, names, [], Resources(**resources))  # type: ignore[arg-type]


def rows(n: int = 3001, task: str = "binary") -> tuple[Any, Any]:
    """Three numbers, two categories (one with an unused id), and a target that depends on all of them."""
    draw = np.random.default_rng(1)
    numbers, ids = draw.normal(size=(n, 3)), draw.integers(0, 5, (n, 2))
    score = numbers[:, 0] - numbers[:, 1] ** 2 + 2 * (ids[:, 0] == 3) + 0.5 * draw.normal(size=n)
    y = {"binary": score > 0, "multiclass": np.digitize(score, [-1, 0.5]), "regression": score}[task]
    return np.asfortranarray(np.column_stack([numbers, ids]), np.float32), y.astype(float)


def divided(X: Any, cuts: list[int], workers: Workers) -> PartitionedMatrix:
    parts = [X[start:stop] for start, stop in pairwise([0, *cuts, len(X)])]
    return PartitionedMatrix(tuple(map(workers.put, parts)), workers, tuple(map(len, parts)), X.shape[1])


@pytest.fixture(scope="module")
def two() -> Iterator[DaskWorkers]:
    """Two processes that are restarted when they die."""
    # Dask restarts a worker that is silent for a third of the deadline, and importing PyTorch can take long.
    settings = ClusterSettings(scheduler="local", workers=2, threads=1, memory_limit=1 << 30, deadline=60)
    with connect(settings, "cpu") as workers:
        yield workers


@pytest.fixture
def both(two: DaskWorkers) -> DaskWorkers:
    """The same workers, once both are running."""
    end = time.monotonic() + SECONDS_AT_MOST
    while len(two.usage()) < 2:
        assert time.monotonic() < end, "a worker was not started again"
        time.sleep(0.05)  # Dask's nannies send no notification
    return two


def auc(model: FittedModel) -> float:
    X, y = rows(9001)
    return float(roc_auc_score(y[3001:], model.predict(X[3001:]).probability))


class Shown:
    """Recorder of the last report of a training."""

    def __init__(self) -> None:
        self.last: ProgressReport | None = None

    @contextmanager
    def __call__(self, read: Callable[[], ProgressReport | None]) -> Iterator[None]:
        yield
        self.last = read()


def test_the_rounds_of_xgboost_reach_the_driver_and_change_nothing(both: DaskWorkers) -> None:
    X, y = rows()
    shown, model = Shown(), XGBoost(n_estimators=5, early_stopping_rounds=5, eval_metric="auc")
    matrix = divided(X, [1400], both)
    held = ValidationRows(divided(X[:200], [90], both), y[:200])
    watched, alone = (
        fit_xgboost(model, matrix, y, replace(given, validation=held))
        for given in (context(show_progress=shown), context())
    )
    assert shown.last is not None and shown.last.metric is not None
    assert replace(shown.last, metric=None) == ProgressReport(5, 5, "round", True, "validation auc")
    np.testing.assert_array_equal(watched.predict(X).probability, alone.predict(X).probability)


def test_xgboost_is_trained_again_on_the_rows_of_all_workers(both: DaskWorkers) -> None:
    X, y = rows()
    model = XGBoost(n_estimators=20, early_stopping_rounds=3, learning_rate=1.0)
    found = fit_xgboost(model, divided(X, [1400], both), y, context())
    n = found.estimator.num_boosted_rounds()
    assert n < 20 and found.notes[-1].endswith(f"trained again on all {len(y):,} rows for {n} rounds")
    expected = fit_xgboost(XGBoost(n_estimators=n, learning_rate=1.0), divided(X, [1400], both), y, context())
    np.testing.assert_array_equal(found.predict(X).probability, expected.predict(X).probability)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_one_worker_learns_from_its_partition_the_bits_that_one_process_learns(task: str, both: DaskWorkers) -> None:
    X, y = rows(1500, task)
    model = Mlp(**TINY, class_weight=None if task == "regression" else "balanced")
    expected = fit(model, X, y, context(task), n_threads=1)
    found = fit_network(model, divided(X, [], both), y, context(task))
    assert list(found.history) == list(expected.history)
    for one, other in zip(expected.estimator.state_dict().items(), found.estimator.state_dict().items(), strict=True):
        assert one[0] == other[0] and one[1].equal(other[1])
    assert found.notes == expected.notes


def test_unsupported_training_is_reported_before_data_is_sent(both: DaskWorkers) -> None:
    X, y = rows(100)
    with pytest.raises(DataError, match="the same class"):
        fit_network(Mlp(**TINY), divided(X, [50], both), np.zeros(100), context())
    with pytest.raises(DataError, match="needs at least 16 training rows"):
        fit_network(Mlp(**TINY), divided(X[:10], [5], both), y[:10], context())
    with pytest.raises(ConfigError, match="one machine"):
        fit_network(Mlp(**TINY), divided(X, [50], both), y, context(n_processes=2))


def test_two_workers_learn_the_same_as_one_machine(both: DaskWorkers) -> None:
    X, y = rows()
    model = Mlp(**TINY, class_weight="balanced")
    alone = fit(model, X, y, context())
    shown = Shown()
    found = [fit_network(model, divided(X, cuts, both), y, context()) for cuts in ([1400], [2900, 2950])]
    found.append(fit_network(model, divided(X, [1400], both), y, context(show_progress=shown)))
    n_epochs = int(np.argmin([epoch["validation"] for epoch in found[0].history])) + 1
    assert shown.last == ProgressReport(n_epochs, n_epochs, "epoch")  # of the training on all rows
    assert auc(found[0]) == pytest.approx(auc(alone), abs=0.01)
    assert "shared by 2 workers" in found[0].notes[0]
    for one in found:
        assert one.history == found[0].history  # the result does not depend on the location or the partitions of rows
        # Results that depend on all rows match one machine, though no worker has all rows.
        for name in ("lower", "width"):
            assert getattr(one.estimator.network.numbers, name).equal(getattr(alone.estimator.network.numbers, name))
        table = one.estimator.network.categories.table.weight
        counts = np.bincount(X[:, 3].astype(int), minlength=6)
        np.testing.assert_allclose(table[5].detach(), counts @ table[:6].detach().numpy() / counts.sum(), atol=0.02)


def test_a_training_that_loses_a_worker_resumes_after_its_last_epoch(both: DaskWorkers, tmp_path: Path) -> None:
    X, y = rows()
    matrix, model = divided(X, [1000, 2000], both), Mlp(**TINY | {"epochs": 60}, patience=None)
    pids = list(both.client.run(os.getpid).values())

    def kill() -> None:
        end = time.monotonic() + SECONDS_AT_MOST
        while not list(tmp_path.glob("*.pt")) and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(pids[1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = fit_network(model, matrix, y, context(checkpoint=tmp_path / "state.pt"))
    killer.join()
    assert "was started 2 times; the last time it continued after epoch" in found.notes[-1]
    assert len(found.history) == 60
    assert auc(found) == pytest.approx(auc(fit(model, X, y, context())), abs=0.02)


def test_a_lost_worker_is_noticed_and_the_error_of_another_is_reported(both: DaskWorkers) -> None:
    with Gang(both, list(both.health.workers), "training") as gang:
        with pytest.raises(DataError, match="a field is missing"):
            handles: list[Any] = [gang.submit(0, chores.process), gang.submit(1, chores.unreadable, 3)]
            gang.gather(handles)
        with pytest.raises(GangError, match="1 workers were lost") as caught:
            handles = [gang.submit(0, chores.killed), gang.submit(1, chores.process)]
            gang.gather(handles)
    assert (caught.value.exit_code, caught.value.where) == (4, "training")


def test_tasks_of_a_disconnected_client_end(both: DaskWorkers) -> None:
    with Client(both.client.scheduler.address, set_as_default=False) as other:
        stubborn = cloudpickle.dumps(chores.wanted)
        begun = [
            other.submit(run_task, both.settings, stubborn, workers=[address], pure=False)
            for address in both.health.workers
        ]
        await_tasks(both, [1 for _ in begun])
    await_tasks(both, [0 for _ in begun])


def await_tasks(workers: DaskWorkers, counts: list[int]) -> None:
    end = time.monotonic() + SECONDS_AT_MOST
    while (found := list(workers.client.run(chores.at_work).values())) != counts:
        assert time.monotonic() < end, f"{found} tasks are at work"


def test_an_error_of_one_worker_is_reported_and_training_can_restart(both: DaskWorkers, tmp_path: Path) -> None:
    X, y = rows()
    matrix, before = divided(X, [1000], both), both.n_lost
    blocked = tmp_path / "state.pt"  # a folder has the name of the file
    blocked.mkdir()
    with pytest.raises(LimitError, match="cannot write the checkpoint"):
        fit_network(Mlp(**TINY), matrix, y, context(checkpoint=blocked))
    assert both.n_lost == before
    assert len(fit_network(Mlp(**TINY), matrix, y, context()).history) == 4
