"""Steps that compare the GPU with the CPU: matrices by op, and metrics by model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.device.processes import ROOT
from benchmarks.device.results import attempt
from gpupipe.config import Config, ModelEntry, load_config

GENERATED_ROWS = 100_000
FEATURE_TOLERANCE = 2e-5  # largest error of a cell, relative to 1 + its value
METRIC_TOLERANCE = 0.003
PUBLIC = ("telco", "adult")
MODELS = ("logistic_regression", "random_forest", "xgboost", "knn", "gaussian_nb")

Save = Callable[[Mapping[str, Any]], None]


def compare_features(save: Save) -> dict[str, Any]:
    """Return op to the largest difference between the matrices of both devices.

    The CPU's matrices are not computed in advance: they take seconds and 60 MiB.
    """
    document: dict[str, Any] = {"lines": [], "failed": without_tables(), "ops": {}}
    for name, config in [("churn", _generated()), *_public()]:
        with attempt(name, document):
            _compare_features(name, config, document)
        save(document)
    return document


def compare_models(save: Save) -> dict[str, Any]:
    """Return the metrics of models on both devices; the CPU's are those computed in advance, if available."""
    from benchmarks.device.recorded_metrics import version_differences

    document: dict[str, Any] = {"lines": version_differences(), "failed": without_tables(), "models": {}}
    for title, config in model_configurations():
        with attempt(title, document):
            _compare_model(title, config, document)
        save(document)
    return document


def without_tables() -> list[str]:
    """Return the reason that the public tables are not compared, as failures; empty if they are available."""
    if not (folder := os.environ.get("GPUPIPE_DATA")):
        return ["GPUPIPE_DATA is not set: no public table was compared"]
    return [] if Path(folder).is_dir() else [f"GPUPIPE_DATA={folder} is not a folder: no public table was compared"]


def model_configurations() -> Iterator[tuple[str, Config]]:
    """Yield title and configuration of each model that `compare_models` compares."""
    for name, config in _public():
        for model in MODELS:
            entry = next((e for e in config.models if e.name == model), None) or ModelEntry(name=model)
            yield f"{name}, {model}", config.model_copy(update={"models": (entry,)})


def _public() -> list[tuple[str, Config]]:
    if without_tables():
        return []
    return [(name, load_config(ROOT / "configs" / f"{name}.yaml", ["source.cache=false"])) for name in PUBLIC]


def _generated() -> Config:
    return load_config(ROOT / "configs" / "churn.yaml", [f"source.rows={GENERATED_ROWS}"])


def _compare_features(name: str, config: Config, document: dict[str, Any]) -> None:
    from benchmarks.device.parity import DEVICES, errors_by_op, fit_matrices, job_of

    jobs = {device: job_of(config, device) for device in DEVICES}
    for view in ("codes", "dense"):
        errors = errors_by_op(*(fit_matrices(jobs[device], view) for device in DEVICES))
        document["ops"][f"{name}, {view}"] = errors
        for op, error in errors.items():
            document["lines"].append(f"{name}, {view}, {op}: largest error {error:.1e}")
            if error > FEATURE_TOLERANCE:
                document["failed"].append(f"{name}: the largest error of {op} is {error:.1e}")


def _compare_model(title: str, config: Config, document: dict[str, Any]) -> None:
    from benchmarks.device.parity import compute_metrics, metric_gap
    from benchmarks.device.recorded_metrics import recorded

    in_advance = recorded(config)
    gpu = compute_metrics(config, "gpu")
    found = {"gpu": gpu, "cpu": in_advance or compute_metrics(config, "cpu")}
    metric = next(iter(found["gpu"]))
    document["models"][title] = found
    origin = "computed in advance" if in_advance else "computed here"
    both = f"{metric} {found['gpu'][metric]:.5f} on the GPU, {found['cpu'][metric]:.5f} on the CPU ({origin})"
    document["lines"].append(f"{title}: {both}")
    if metric_gap(found, metric) > METRIC_TOLERANCE:
        document["failed"].append(f"{title}: {both}")
