"""Parameters, metrics and data identity of a run, as values for trackers."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from gpupipe.config import Config, resolved_yaml
from gpupipe.files.jsonfile import plain
from gpupipe.timeline.timeline import Stage
from gpupipe.trackers.tracker import MetricPoint, TrackedDataset
from gpupipe.training.checkpoints.keys import CheckpointKey
from gpupipe.training.job import Job
from gpupipe.training.selection.leaderboard import LeaderboardEntry, LeaderboardResult

NOT_PARAMETERS = ("name", "output", "output_mode", "monitor", "track")  # sections that change no result and no cost


def now_ms() -> int:
    """Return the milliseconds since 1970-01-01 UTC."""
    return time.time_ns() // 1_000_000


def config_params(config: Config) -> dict[str, str]:
    """Return every value of the resolved configuration by its path, without secrets; nulls are dropped.

    An op is one value: ``features.0.impute`` is the JSON of its settings. Parameters of a model are below its label:
    ``models.xgboost.max_depth``.
    """
    written = yaml.safe_load(resolved_yaml(config))
    for section in NOT_PARAMETERS:
        written.pop(section, None)
    ops, models = written.pop("features", []), written.pop("models", [])
    found = dict(_flat(written))
    for i, op in enumerate(ops):
        for name, settings in op.items() if isinstance(op, dict) else [(op, {})]:
            found[f"features.{i}.{name}"] = _text(settings)
    for entry, model in zip(config.models, models, strict=False):
        found |= {f"models.{entry.label}.{name}": value for name, value in model_params(model).items()}
    return found


def model_params(written: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a model entry of a resolved configuration, those of its search as ``tune.NAME``."""
    params = {"model": written["name"], **(written.get("params") or {})}
    return dict(_flat({**params, "tune": written.get("tune")}))


def _flat(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{name}.")
        elif value is not None and value != []:
            yield f"{path}{name}", _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


def points(values: Mapping[str, Any], prefix: str = "", step: int = 0) -> list[MetricPoint]:
    """Return the finite numbers of `values` as points; other values are dropped, such as undefined metrics."""
    now = now_ms()
    return [
        MetricPoint(f"{prefix}{name}", float(value), now, step)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    ]


def stage_points(stage: Stage, number: int) -> list[MetricPoint]:
    """Return rows, seconds and peak memory of a stage; `number` is 0 for the first stage of this name."""
    figures = {
        "seconds": stage.seconds,
        "rows": stage.rows,
        "peak_host_bytes": stage.peak_host_bytes,
        "peak_device_bytes": stage.peak_device_bytes,
    }
    return points(figures, f"stage/{stage.name.replace(': ', '/')}/", number)


def epoch_points(stage: Stage) -> list[MetricPoint]:
    """Return the losses of the epochs of a training, each with its number as the step."""
    found: list[MetricPoint] = []
    for i, epoch in enumerate(stage.epochs, 1):
        found += points({name: value for name, value in epoch.items() if name != "epoch"}, "epoch/", i)
    return found


def progress_points(stage: Stage) -> list[MetricPoint]:
    """Return the last metric of the progress of a stage: the loss of a round or epoch, or the best trial."""
    report = None if stage.progress is None else stage.progress.report
    if report is None or report.metric is None or not report.metric_name:
        return []
    return points({f"{report.unit}/{report.metric_name}": report.metric}, step=report.done)


def candidate_points(entry: LeaderboardEntry) -> list[MetricPoint]:
    """Return the metrics, seconds and latency of a candidate."""
    found = points(entry.metrics) + points(entry.validation, "validation/") + points({"train_seconds": entry.seconds})
    if entry.latency is not None:
        latency = {"p50_seconds": entry.latency.p50_seconds, "p99_seconds": entry.latency.p99_seconds}
        found += points(latency, "latency/")
    return found


def run_points(job: Job, outcome: LeaderboardResult, document: Mapping[str, Any]) -> list[MetricPoint]:
    """Return the metrics of the champion and of the run; `document` is the content of metrics.json."""
    found = candidate_points(outcome.leaderboard[0]) + points(outcome.selection, "selection/")
    found += points(document["tried"], "tried/") + points({"run_seconds": job.timeline.seconds})
    found += points({f"{limit['name']}_used": limit["used"] for limit in job.timeline.limits()}, "limits/")
    return found


def dataset_of(job: Job, key: CheckpointKey) -> TrackedDataset:
    """Return the identity of the data: `key` is that of the inputs of the run."""
    source = job.config.source
    columns = [(column.name, column.kind) for column in job.table.schema if not column.derived]
    name = source.generate or (job.config.name if source.frame is not None else source.label.rpartition("/")[2])
    digest = key.parts["the input"][:32]
    return TrackedDataset(name or source.label, digest, source.label, job.table.n_rows, columns)


def labels_of(entries: Sequence[Any]) -> list[str]:
    """Return the labels of model entries, the longest first."""
    return sorted((entry.label for entry in entries), key=len, reverse=True)
