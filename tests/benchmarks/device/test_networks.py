"""The step of networks: its configurations, and the results that it saves."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.device import networks
from gpupipe.config import Config


def precision_of(config: Config) -> str:
    params: Any = config.models[0].params
    return str(params.precision)


def test_each_network_is_compared_and_timed_in_both_precisions(monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(config: Config, device: str) -> dict[str, float]:
        (model,) = config.models
        assert (device, config.source.rows) == ("gpu", networks.COMPARED_ROWS)
        return {"roc_auc": 0.7 if (model.name, precision_of(config)) == ("tabm", "bf16") else 0.8}

    def run(config: Config, device: str, output: Path) -> Any:
        (model,) = config.models
        assert (device, config.source.rows, config.report.enabled) == ("gpu", networks.TIMED_ROWS, False)
        if model.name == "ft_transformer":
            raise MemoryError("out of memory")
        stages = [{"name": "features", "seconds": 9.0}, {"name": f"train {model.name}", "seconds": 1.5}]
        return SimpleNamespace(plan=lambda: stages)

    monkeypatch.setattr(networks, "compute_metrics", compute)
    monkeypatch.setattr(networks, "recorded", lambda config: {"roc_auc": 0.8})
    monkeypatch.setattr(networks, "run_on", run)
    saved: list[Any] = []
    document = networks.compare_networks(lambda found: saved.append(json.loads(json.dumps(found))))
    n_compared, n_timed = len(networks.COMPARED_NETWORKS) * 2, len(networks.NETWORKS) * 2
    assert len(saved) == n_compared + n_timed and len(saved[0]["lines"]) == 1
    assert list(document["train_seconds"].values()) == [1.5] * (n_timed - 2)
    assert document["failed"] == [
        "tabm, bf16: ROC-AUC 0.7000 on the GPU, 0.8000 on the CPU in float32",
        "ft_transformer, float32, 1,000,000 rows: MemoryError: out of memory",
        "ft_transformer, bf16, 1,000,000 rows: MemoryError: out of memory",
    ]


def test_the_metrics_of_the_cpu_are_those_of_float32() -> None:
    found = dict(networks.compared_configurations())
    assert list(found) == [f"churn, {name}" for name in networks.COMPARED_NETWORKS]
    assert set(map(precision_of, found.values())) == {"float32"}
