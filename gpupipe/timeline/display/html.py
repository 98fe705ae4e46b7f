"""Stages and the leaderboard as HTML for notebooks, in the colours of the notebook's theme."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from gpupipe.names import count_noun
from gpupipe.report.data import LeaderboardRow
from gpupipe.report.text import printable
from gpupipe.timeline.display.progress import describe
from gpupipe.timeline.display.text import leaderboard_cells
from gpupipe.units import format_duration, format_rate, format_whole_seconds

if TYPE_CHECKING:
    from gpupipe.timeline.timeline import Stage

LEFT, RIGHT = "text-align:left;", "text-align:right;font-variant-numeric:tabular-nums;"
CELL = "padding:1px 12px 1px 0;white-space:nowrap;"
FAINT = "opacity:0.65;"


def stages_table(stages: Sequence[Stage], running: Mapping[Stage, float] | None = None) -> str:
    """Return a table with one line per stage.

    `running` has the seconds so far of the stages that have not ended; their progress has a separate line.
    """
    found = running or {}
    lines = "".join(chain.from_iterable(_lines(stage, found.get(stage)) for stage in stages))
    return f'<table style="border:none;margin:0">{lines}</table>'


def leaderboard_table(rows: Sequence[LeaderboardRow]) -> str:
    """Return the leaderboard as a table; the best model is in bold and marked with a star."""
    header, lines = leaderboard_cells(rows)
    head = "".join(_cell(name, LEFT if name == "model" else RIGHT, "th") for name in ["", *header])
    body = ""
    for row, cells in zip(rows, lines, strict=True):
        weight = "font-weight:bold;" if row.best else ""
        values = [_cell("★" if row.best else "", LEFT), _cell(cells[0], LEFT + weight)]
        body += f"<tr>{''.join([*values, *(_cell(value, RIGHT + weight) for value in cells[1:])])}</tr>"
    return f'<table style="border:none;margin:0.5em 0"><tr>{head}</tr>{body}</table>'


def _lines(stage: Stage, running_seconds: float | None) -> Iterator[str]:
    is_running = running_seconds is not None
    mark = {"running": "▸", "done": "✓", "failed": "✗"}[stage.status]
    rows = count_noun(stage.rows, "row") if stage.rows else ""
    speed = format_rate(stage.rows_per_second) if stage.rows else ""
    took = format_whole_seconds(running_seconds) if running_seconds is not None else format_duration(stage.seconds)
    weight = "font-weight:bold;" if is_running else ""
    cells = [
        _cell(mark, LEFT),
        _cell(stage.name, f"{LEFT}{weight}padding-left:{stage.depth}em;"),
        *(_cell(text, RIGHT) for text in (rows, speed, took)),
        _cell(stage.device, LEFT + FAINT),
    ]
    yield f"<tr>{''.join(cells)}</tr>"
    if is_running and stage.progress is not None and stage.progress.report is not None:
        yield _spanning(_bar(stage) + _escape(describe(stage.progress)))
    for note in stage.notes:
        if note.level != "info":
            yield _spanning(f"<b>{note.level}:</b> {_escape(note.text)}")


def _bar(stage: Stage) -> str:
    report = None if stage.progress is None else stage.progress.report
    if report is None or not report.total:
        return ""
    style = "width:12em;vertical-align:middle;margin-right:1em"
    return f'<progress max="{report.total}" value="{report.position:g}" style="{style}"></progress>'


def _spanning(content: str) -> str:
    style = f"{LEFT}padding:1px 12px 4px 0;white-space:normal"
    return f'<tr><td></td><td colspan="5" style="{style}">{content}</td></tr>'


def _cell(text: str, style: str, tag: str = "td") -> str:
    return f'<{tag} style="{CELL}{style}">{_escape(text)}</{tag}>'


def _escape(text: str) -> str:
    return html.escape(printable(text))
