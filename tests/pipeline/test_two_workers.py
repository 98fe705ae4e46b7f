"""Runs of every kind of target on two worker processes, which score as runs on one machine.

The workers are started once: their imports take longer than all trainings of this file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import gpupipe as gp
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.connect import connect
from gpupipe.partitions.workers import Workers
from gpupipe.pipeline import run as run_module
from tests.pipeline import test_quantiles as quantiles
from tests.pipeline import test_rankings as rankings
from tests.pipeline import test_row_weights as row_weights
from tests.pipeline import test_slices as slices
from tests.pipeline import test_targets as targets


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Workers]:
    # Dask restarts a worker that is silent for a third of the deadline, and its imports can take long.
    with connect(ClusterSettings(scheduler="local", workers=2, deadline=180), "cpu") as workers:
        yield workers


@pytest.fixture
def cluster(two_workers: Workers, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the ``cluster`` section of runs on the two workers."""
    monkeypatch.setattr(run_module, "workers_of", lambda config: nullcontext(two_workers))
    return {"scheduler": "local", "workers": 2}


def scores(run: gp.Run) -> dict[str, dict[str, float]]:
    assert {use["address"] for stage in run.plan() for use in stage["workers"]} or run.config.cluster.scheduler is None
    found: dict[str, dict[str, float]] = json.loads((run.path / "metrics.json").read_text())["models"]
    return found


def test_quantiles(cluster: dict[str, Any], tmp_path: Path) -> None:
    alone = quantiles.pipeline().run(tmp_path / "alone")
    shared = quantiles.pipeline(cluster=cluster).run(tmp_path / "shared")
    expected = scores(alone)["xgboost"]["pinball_loss"]
    assert scores(shared)["xgboost"]["pinball_loss"] == pytest.approx(expected, rel=0.02)


def test_rankings(cluster: dict[str, Any], tmp_path: Path) -> None:
    rankings.FRAME.to_parquet(tmp_path / "pages.parquet")
    expected = rankings.pipeline(tmp_path / "pages.parquet").run(tmp_path / "alone").metrics
    shared = rankings.pipeline(tmp_path / "pages.parquet", cluster=cluster).run(tmp_path / "shared")
    assert shared.metrics == pytest.approx(expected, abs=1e-6)


def test_weights(cluster: dict[str, Any], tmp_path: Path) -> None:
    models = [{"ridge": {"alpha": 2.0}}, {"xgboost": {"n_estimators": 20}}]
    settings: dict[str, Any] = row_weights.LINEAR | {"models": models}
    trained, frame = row_weights.trained, row_weights.FRAME
    alone = trained(frame, tmp_path / "alone", "spend", **settings)
    shared = trained(frame, tmp_path / "shared", "spend", **settings, cluster=cluster, device="cpu")
    for label, expected in scores(alone).items():
        assert scores(shared)[label] == pytest.approx(expected, rel=1e-4), label


def test_several_targets(cluster: dict[str, Any], tmp_path: Path) -> None:
    names = list(targets.NUMBERS)
    models = ["ridge", targets.TREES, {"mlp": {"epochs": 15, "width": 16, "learning_rate": 0.01}}]
    alone = targets.pipeline(names, models=models[:2]).run(tmp_path / "alone")
    shared = targets.pipeline(names, models=models, cluster=cluster).run(tmp_path / "shared")
    first, second = scores(alone), scores(shared)
    for name in names:
        assert second["ridge"][f"r2[{name}]"] == pytest.approx(first["ridge"][f"r2[{name}]"], abs=1e-6)
        assert second["xgboost"][f"r2[{name}]"] == pytest.approx(first["xgboost"][f"r2[{name}]"], abs=0.02)
        assert second["mlp"][f"r2[{name}]"] > 0.1


def test_slices(cluster: dict[str, Any], tmp_path: Path) -> None:
    slices.FRAME.to_parquet(tmp_path / "sales.parquet")
    settings: dict[str, Any] = {"evaluate": {"by": ["shop", {"column": "spend", "bins": 3}]}}
    alone = slices.pipeline(tmp_path / "sales.parquet", **settings).run(tmp_path / "alone").slices
    shared = slices.pipeline(tmp_path / "sales.parquet", **settings, cluster=cluster, device="cpu")
    found = shared.run(tmp_path / "shared").slices
    assert found[["column", "level", "n_rows"]].equals(alone[["column", "level", "n_rows"]])
    assert found["roc_auc"].tolist() == pytest.approx(alone["roc_auc"].tolist(), abs=1e-3)
