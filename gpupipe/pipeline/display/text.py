"""Stages and the leaderboard as text, laid out in columns."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.pipeline.timeline import Stage
from gpupipe.report.data import LeaderboardRow
from gpupipe.report.text import metric, metric_names, number
from gpupipe.units import format_duration, format_rate, format_size

MOST_METRICS = 5
FIGURES_WIDTH = 48  # columns of rows, rate, time and device
NAME_WIDTHS = 24, 44


def stage_line(stage: Stage, mark: str, took: str, width: int) -> str:
    """Return one line of name, rows, rows per second, time and device.

    Parameters
    ----------
    stage : Stage
    mark : str
        Put before the name.
    took : str
        The time.
    width : int
        Columns to fit into; a long name still takes what it needs.
    """
    least, most = NAME_WIDTHS
    name = f"{'  ' * stage.depth}{mark} {stage.name}"
    rows = f"{stage.rows:,} rows" if stage.rows is not None else ""
    speed = stage.rows_per_second
    return (
        f"{name:<{min(most, max(least, width - FIGURES_WIDTH))}} {rows:>16} "
        f"{format_rate(speed) if speed is not None else '':>13} {took:>11}  {stage.device}"
    )


def ended_line(stage: Stage, marks: tuple[str, str], width: int) -> str:
    """Return `stage_line` of a stage that has ended; `marks` are those of success and failure."""
    return stage_line(stage, marks[stage.status == "failed"], format_duration(stage.seconds), width)


def device_use(stage: Stage) -> str:
    """Return the bytes that a stage moved to and from its device, and held there."""
    moved = f"{format_size(stage.bytes_to_device)} to the device, {format_size(stage.bytes_to_host)} back"
    return f"{moved}; at most {format_size(stage.peak_device_bytes)} held there"


def leaderboard_cells(
    rows: Sequence[LeaderboardRow], n_metrics: int = MOST_METRICS
) -> tuple[list[str], list[list[str]]]:
    """Return the headings of the leaderboard and the cells of its rows; the first column is the model.

    The others are the leading metrics, at most `n_metrics`, after the one that chose; metrics.json has all of them.
    """
    names = metric_names(rows[0].metrics)[:n_metrics] if rows else []
    validated = metric_names(rows[0].validation)[:1] if rows else []
    header = ["model", *(f"validation {name}" for name in validated), *names, "seconds"]
    cells = [
        [
            row.model,
            *(metric(row.validation, name) for name in validated),
            *(metric(row.metrics, name) for name in names),
            number(row.seconds),
        ]
        for row in rows
    ]
    return header, cells
