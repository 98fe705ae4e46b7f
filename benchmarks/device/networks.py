"""Neural networks on a GPU in float32 and bfloat16: metrics compared with the CPU's, and seconds of a training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.device.parity import compute_metrics, metric_gap, run_on
from benchmarks.device.processes import ROOT
from benchmarks.device.recorded_metrics import recorded
from benchmarks.device.results import attempt
from gpupipe.config import Config, load_config

Save = Callable[[Mapping[str, Any]], None]

NETWORKS = ("mlp", "tabm", "ft_transformer")
COMPARED_NETWORKS = NETWORKS[:2]  # a transformer takes many minutes on a CPU
PRECISIONS = ("float32", "bf16")
COMPARED_ROWS, TIMED_ROWS = 20_000, 1_000_000
COMPARED = "epochs: 4, patience: null"
TIMED = "epochs: 2, patience: null, batch_size: 4096"
TOLERANCE = 0.01  # of ROC-AUC, after few epochs: other orders of additions lead to another network


def compare_networks(save: Save) -> dict[str, Any]:
    """Return ROC-AUC by network, precision and device, then the seconds of longer trainings; save after each."""
    document: dict[str, Any] = {"lines": [], "failed": [], "metrics": {}, "train_seconds": {}}
    for network, precision in product(COMPARED_NETWORKS, PRECISIONS):
        with attempt(f"{network}, {precision}", document):
            _compare(network, precision, document)
        save(document)
    for network, precision in product(NETWORKS, PRECISIONS):
        with attempt(f"{network}, {precision}, {TIMED_ROWS:,} rows", document):
            _time(network, precision, document)
        save(document)
    return document


def compared_configurations() -> Iterator[tuple[str, Config]]:
    """Yield title and configuration of each network in float32, whose CPU metrics are compared."""
    for network in COMPARED_NETWORKS:
        yield f"churn, {network}", _config(network, "float32", COMPARED_ROWS, COMPARED)


def _config(network: str, precision: str, n_rows: int, settings: str) -> Config:
    models = f"models=[{{{network}: {{precision: {precision}, {settings}}}}}]"
    overrides = [f"source.rows={n_rows}", models, "report.enabled=false"]
    return load_config(ROOT / "configs" / "churn.yaml", overrides)


def _compare(network: str, precision: str, document: dict[str, Any]) -> None:
    on_cpu = _config(network, "float32", COMPARED_ROWS, COMPARED)
    gpu = compute_metrics(_config(network, precision, COMPARED_ROWS, COMPARED), "gpu")
    found = {"gpu": gpu, "cpu": recorded(on_cpu) or compute_metrics(on_cpu, "cpu")}
    document["metrics"][f"{network}, {precision}"] = found
    scores = f"ROC-AUC {gpu['roc_auc']:.4f} on the GPU, {found['cpu']['roc_auc']:.4f} on the CPU in float32"
    document["lines"].append(f"{network}, {precision}, {COMPARED_ROWS:,} rows: {scores}")
    if metric_gap(found, "roc_auc") > TOLERANCE:
        document["failed"].append(f"{network}, {precision}: {scores}")


def _time(network: str, precision: str, document: dict[str, Any]) -> None:
    config = _config(network, precision, TIMED_ROWS, TIMED)
    with TemporaryDirectory() as folder:
        stages = run_on(config, "gpu", Path(folder) / "run").plan()
    seconds = sum(stage["seconds"] for stage in stages if stage["name"].startswith("train"))
    document["train_seconds"][f"{network}, {precision}"] = seconds
    document["lines"].append(f"{network}, {precision}, {TIMED_ROWS:,} rows: trained in {seconds:.1f} s ({TIMED})")
