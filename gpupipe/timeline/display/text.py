"""Stages and the leaderboard as text in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpupipe.config import Config
from gpupipe.names import count_noun
from gpupipe.report.data import LeaderboardRow
from gpupipe.report.text import metric, metric_names, metric_title, number
from gpupipe.units import format_duration, format_latency, format_rate, format_size

if TYPE_CHECKING:
    from gpupipe.timeline.timeline import Stage

MOST_METRICS = 5
FIGURES_WIDTH = 48  # characters of rows, rate, time and device
RATE_WIDTH = 14
WIDTH_WITH_RATE = 100  # narrower lines have no rate
MAX_NAME_WIDTH = 44  # of the column of names where there is room for more


def describe_pipeline(config: Config) -> str:
    """Return a line about a pipeline: its source, target, further tables, ops and models."""
    parts = [
        config.source.label,
        *([f"target {', '.join(map(repr, config.source.targets))}"] if config.source.target else []),
        *([count_noun(len(config.tables), "further table")] if config.tables else []),
        count_noun(len(config.features), "op"),
        ", ".join(entry.label for entry in config.models) or "models by task",
    ]
    return config.origin.redactor.hide(f"Pipeline({config.name!r}: {'; '.join(parts)})")


def stage_line(stage: Stage, mark: str, took: str, width: int) -> str:
    """Return one line of name, rows, rows per second, time and device.

    - `mark`: put before the name
    - `took`: the time
    - `width`: characters of the line; a longer name is cut. Without a row, rows and rate are left empty.
    """
    name = f"{'  ' * stage.depth}{mark} {stage.name}"
    rows = count_noun(stage.rows, "row") if stage.rows else ""
    rate = f"{format_rate(stage.rows_per_second) if stage.rows else '':>13} " if width >= WIDTH_WITH_RATE else ""
    room = width - FIGURES_WIDTH + (0 if rate else RATE_WIDTH)
    if len(name) > room:
        name = name[: max(0, room - 3)] + "..."
    return f"{name:<{min(MAX_NAME_WIDTH, room)}} {rows:>16} {rate}{took:>11}  {stage.device}"


def ended_line(stage: Stage, marks: tuple[str, str], width: int) -> str:
    """Return `stage_line` of an ended stage; `marks` are those of success and failure."""
    return stage_line(stage, marks[stage.status == "failed"], format_duration(stage.seconds), width)


def device_use(stage: Stage) -> str:
    """Return the bytes that a stage moved to and from the device, and its peak there."""
    moved = f"{format_size(stage.bytes_to_device)} to the device, {format_size(stage.bytes_to_host)} back"
    return f"{moved}; peak {format_size(stage.peak_device_bytes)} on the device"


def leaderboard_cells(
    rows: Sequence[LeaderboardRow], n_metrics: int = MOST_METRICS
) -> tuple[list[str], list[list[str]]]:
    """Return the headings of the leaderboard and the cells of its rows; the first column is the model.

    The validation metric that ranks the models comes next, then at most `n_metrics` metrics; metrics.json has all. The
    latency is a column if it was measured; that of a model over the limit is followed by ``> 2 ms``, the limit.
    """
    names = metric_names(rows[0].metrics)[:n_metrics] if rows else []
    validated = metric_names(rows[0].validation)[:1] if rows else []
    is_timed = any(row.p99_seconds is not None for row in rows)
    header = [
        "model",
        *(f"{metric_title(name)} (validation)" for name in validated),
        *map(metric_title, names),
        *(["one row p99"] if is_timed else []),
        "seconds",
    ]
    cells = [
        [
            row.model,
            *(metric(row.validation, name) for name in validated),
            *(metric(row.metrics, name) for name in names),
            *([_latency(row)] if is_timed else []),
            number(row.seconds),
        ]
        for row in rows
    ]
    return header, cells


def _latency(row: LeaderboardRow) -> str:
    limit = f" > {format_latency(row.limit_seconds)}" if row.is_over_limit else ""
    return f"{format_latency(row.p99_seconds)}{limit}"
