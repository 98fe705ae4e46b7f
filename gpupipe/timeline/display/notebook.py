"""Stages of a run in a notebook: one output that is updated in place.

IPython's display with an id needs no widgets, is stored once in the notebook file, and works in Jupyter, VS Code and
Colab. rich's live display is updated in place only if ipywidgets is installed.
"""

from __future__ import annotations

import contextvars
import html
import sys
import threading
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.report.data import LeaderboardRow
from gpupipe.report.sentences import search_lines
from gpupipe.report.text import printable
from gpupipe.timeline.display.counter_text import sample_line
from gpupipe.timeline.display.html import leaderboard_table, stages_table
from gpupipe.timeline.display.text import ended_line
from gpupipe.timeline.timeline import Note, Stage
from gpupipe.units import format_whole_seconds

if TYPE_CHECKING:
    from gpupipe.backends.counters.counter import HardwareSample

UPDATE_SECONDS = 0.5
MOST_STAGES = 15  # in the table during the run
WIDTH = 100  # characters of a stage in the plain-text output


def in_notebook() -> bool:
    """Return whether this process is a notebook kernel; nothing is imported for the check."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookDisplay:
    """Table of stages below the cell of the run; at the end it is folded, and the leaderboard is shown."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # of the thread of the run and the updating thread
        self._stages: list[Stage] = []
        self._began: dict[Stage, float] = {}
        self._notes: list[str] = []
        self._values: dict[str, float] = {}  # the last value of each hardware counter
        self._sample = ""
        self._closing = ""  # HTML of the leaderboard
        self._handle: Any = None
        self._shown = ""
        self._is_over: threading.Event | None = None
        self._has_stopped = False

    def started(self, stage: Stage) -> None:
        """Show the stage as running."""
        with self._lock:
            self._stages.append(stage)
            self._began[stage] = time.perf_counter()
            self._update()
            if self._is_over is None:
                self._is_over = threading.Event()
                # The context of this cell makes its output area the target of the updates.
                run = contextvars.copy_context().run
                arguments = (self._keep_updating, self._is_over)
                threading.Thread(target=run, args=arguments, name="gpupipe-progress", daemon=True).start()

    def noted(self, note: Note) -> None:
        """Show a warning that belongs to no stage."""
        if note.level != "info":
            self.announce(f"{note.level}: {note.text}")

    def ended(self, stage: Stage) -> None:
        """Show the stage as ended."""
        with self._lock:
            if stage.progress is not None:
                self._update()  # show the progress as complete
            del self._began[stage]
            self._update()

    def sampled(self, sample: HardwareSample) -> None:
        """Show the hardware counters below the stages, with the next update."""
        self._values |= sample.values
        self._sample = sample_line(self._values, sample.counters)

    def announce(self, line: str) -> None:
        """Show a line below the stages; may be called by any thread."""
        with self._lock:
            self._notes.append(line)
            self._update()

    def finished(self, rows: Sequence[LeaderboardRow], run_directory: Path | str) -> None:
        """Show the leaderboard and the run directory."""
        with self._lock:
            lines = [*search_lines(rows), str(run_directory)]
            self._closing = f"{leaderboard_table(rows)}{''.join(map(_line, lines))}"
            self._update()

    def stop(self) -> None:
        """Show the final state and stop updating."""
        with self._lock:
            if self._is_over is not None:
                self._is_over.set()
                self._is_over = None
            self._has_stopped = True
            if self._stages:
                self._update()

    def _keep_updating(self, is_over: threading.Event) -> None:
        while not is_over.wait(UPDATE_SECONDS):
            with self._lock:
                if not is_over.is_set() and self._began and not any(stage.is_timing for stage in self._began):
                    self._update()

    def _update(self) -> None:
        """Show the current state if it has changed."""
        now = time.perf_counter()
        running = {stage: now - began for stage, began in self._began.items()}
        for stage in running:
            if stage.progress is not None:
                stage.progress.update()
        content = self._content(running)
        if content == self._shown:
            return
        self._shown = content
        data = {"text/html": content, "text/plain": self._plain()}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)

    def _content(self, running: dict[Stage, float]) -> str:
        if not self._has_stopped:
            n_hidden = max(0, len(self._stages) - MOST_STAGES)
            hidden = _line(f"{n_hidden} earlier stages") if n_hidden else ""
            sample = _line(self._sample) if self._sample and running else ""
            found = hidden + stages_table(self._stages[n_hidden:], running) + sample
        else:
            seconds = sum(stage.seconds for stage in self._stages if not stage.depth)
            failed = any(stage.status == "failed" for stage in self._stages)
            n = len(self._stages)
            summary = f"{'✗' if failed else '✓'} {n} stage{'' if n == 1 else 's'}, {format_whole_seconds(seconds)}"
            fold = "" if self._closing else " open"
            shown = "" if fold else "".join(map(_line, self._warned()))  # not folded away with the stages
            found = f"<details{fold}><summary>{summary}</summary>{stages_table(self._stages)}</details>{shown}"
        return f"<div>{found}{''.join(map(_line, self._notes))}{self._closing}</div>"

    def _plain(self) -> str:
        ended = [stage for stage in self._stages if stage not in self._began]
        lines = [ended_line(stage, ("✓", "✗"), WIDTH) for stage in ended]
        return "\n".join(map(printable, (*lines, *self._warned(), *self._notes)))

    def _warned(self) -> list[str]:
        """Return the warnings of the stages, each once."""
        notes = chain.from_iterable(stage.notes for stage in self._stages)
        return list(dict.fromkeys(f"{note.level}: {note.text}" for note in notes if note.level != "info"))


def _line(text: str) -> str:
    return f'<div style="opacity:0.65">{html.escape(printable(text))}</div>'
