"""A cluster of this machine's GPUs, compared with one process; the checks are those of CPU clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dask_cuda", reason="dask-cuda is not installed")


from benchmarks.device.cluster import compare
from gpupipe.config import Config, load_config
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.cuml_estimators import ESTIMATORS
from gpupipe.models import MODELS
from tests.dask.run_checks import Left, assert_same_features, run_on
from tests.gpu.learners import LEARNERS, PARAMS, TARGETS

pytestmark = pytest.mark.rapids
ROOT = Path(__file__).parents[2]
LOCAL = "cluster.scheduler=local"
CHURN_ROWS = 700_000  # more than two parts of the sums
METRIC_GAP = 0.003
XGBOOST_GAP = 0.002
TOGETHER = [
    (name, task)
    for name, task in LEARNERS
    if MODELS.get(name)().estimator_name(task) in ESTIMATORS and task not in ("ranking", "multioutput")
]


def alone_and_shared(config: Path, folder: Path, *overrides: str) -> tuple[Left, Left]:
    given = ["device=gpu", "fallback=forbid", "source.cache=false", *overrides]
    return run_on(config, folder / "alone", given), run_on(config, folder / "shared", [*given, LOCAL])


def gap(alone: Left, shared: Left) -> float:
    worst = 0.0
    for name, value in alone.run.metrics.items():
        worst = max(worst, abs(value - shared.run.metrics[name]) / max(1.0, abs(value)))
    return worst


def trained_on(found: Left) -> set[str]:
    return {stage.device for stage in found.run.timeline.stages if "train " in stage.name}


def test_the_features_of_generated_customers_are_the_same_bits() -> None:
    config = load_config(ROOT / "configs" / "churn.yaml", [f"source.rows={CHURN_ROWS}"])
    assert compare(config, "gpu", ClusterSettings(scheduler="local"))["differences"] == []


def test_a_run_on_generated_customers_has_the_features_and_the_metrics_of_one_process(tmp_path: Path) -> None:
    models = "models=[xgboost: {n_estimators: 50}]"
    alone, shared = alone_and_shared(ROOT / "configs" / "churn.yaml", tmp_path, f"source.rows={CHURN_ROWS}", models)
    assert_same_features(shared, alone)
    assert gap(alone, shared) <= XGBOOST_GAP


@pytest.mark.data
@pytest.mark.parametrize(("model", "task"), TOGETHER)
def test_models_gpus_train_together_are_as_good_as_on_one_gpu(
    telco: Path, tmp_path: Path, model: str, task: Any
) -> None:
    target = f"target: {TARGETS[task]}" if task in TARGETS else "target: null"
    if task == "quantile":
        target += "\n  task: quantile"
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(path=telco, target=target, model=model, params=PARAMS.get(model, {})))
    alone, shared = alone_and_shared(config, tmp_path)
    assert_same_features(shared, alone)
    assert trained_on(shared) == {"gpu"}
    assert gap(alone, shared) <= METRIC_GAP


CONFIG = """\
source:
  path: {path}
  {target}
  drop: [customerID]
  schema: {{TotalCharges: float}}
features:
  - impute: {{columns: [TotalCharges], strategy: median}}
  - standardize: "@numeric"
  - encode: "@categorical"
models:
  - {model}: {params}
"""


@pytest.mark.data
def test_models_they_cannot_train_together_fall_back_to_the_cpu_or_are_refused(
    config: Any, command: Any, tmp_path: Path
) -> None:
    telco: Config = config("telco")
    assert telco.source.target == TARGETS["binary"]
    given = ("run", str(ROOT / "configs" / "telco.yaml"), "--device", "gpu", "--set", LOCAL)
    models = ("--set", "models=[gaussian_nb]", "--set", "report.enabled=false")
    refused = command(*given, *models, "--set", "fallback=forbid", "--output", str(tmp_path / "refused"))
    assert refused.code == 4
    assert "no Gaussian naive Bayes" in refused.said and "fallback: allow" in refused.said
    allowed = run_on(ROOT / "configs" / "telco.yaml", tmp_path / "allowed", [
        "device=gpu", "fallback=allow", LOCAL, "models=[gaussian_nb]",
    ])  # fmt: skip
    assert trained_on(allowed) == {"cpu"}
