"""Stages of a run as lines on a text stream; rich is imported with the first line."""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gpupipe.report.data import LeaderboardRow
from gpupipe.report.sentences import search_lines
from gpupipe.report.text import printable
from gpupipe.timeline.display.counter_text import sample_line
from gpupipe.timeline.display.progress import describe
from gpupipe.timeline.display.text import MOST_METRICS, device_use, ended_line, leaderboard_cells, stage_line
from gpupipe.timeline.timeline import Note, Stage
from gpupipe.units import format_whole_seconds

if TYPE_CHECKING:
    import rich.console
    import rich.live
    import rich.table
    import rich.text

    from gpupipe.backends.counters.counter import HardwareSample

UNLIMITED = 10_000  # columns
PIPE_WIDTH = 120  # characters, without a terminal
HEADING_WIDTH = 12  # of the leaderboard; longer headings take two lines
BAR_WIDTH = 24
WIDTH_WITH_BAR = 100  # narrower terminals show the progress in words only
LEVEL_STYLES = {"info": "dim", "warning": "yellow", "error": "red"}
SAMPLE_SECONDS = 1.0  # between two readings of the progress, without a terminal
REPORT_SECONDS = 30.0  # between two lines about a running stage, without a terminal


class LineDisplay:
    """Display of a line for each ended stage; on a terminal the running stages are redrawn below.

    Without a terminal no control characters are written, and a long stage prints a line every `report_seconds`, so that
    a log shows that the run is alive. The progress is read every `sample_seconds`.
    """

    def __init__(
        self, stream: TextIO, *, report_seconds: float = REPORT_SECONDS, sample_seconds: float = SAMPLE_SECONDS
    ) -> None:
        self._stream = stream
        self._report_seconds, self._sample_seconds = report_seconds, sample_seconds
        self._rich: rich.console.Console | None = None
        self._live: rich.live.Live | None = None
        self._watch_over: threading.Event | None = None  # ends the reporting thread, which runs without a terminal
        self._lock = threading.RLock()  # of that thread and the thread of the run
        self._open: list[Stage] = []
        self._began: dict[Stage, float] = {}
        self._headed: set[Stage] = set()
        self._devices: set[tuple[str, str]] = set()
        self._values: dict[str, float] = {}  # the last value of each hardware counter
        self._sample = ""

    def started(self, stage: Stage) -> None:
        """Show the stage as running; print its device and the reason the first time."""
        with self._lock:
            for outer in self._open:
                if outer not in self._headed:
                    self._headed.add(outer)
                    self._print(f"{'  ' * outer.depth}{self._sign('▸', '>')} {outer.name}")
            if (stage.device, stage.reason) not in self._devices:
                self._devices.add((stage.device, stage.reason))
                self._print(f"{stage.device}: {stage.reason}" if stage.reason else stage.device, "dim")
            self._began[stage] = time.perf_counter()
            self._open.append(stage)
            self._start()

    def noted(self, note: Note) -> None:
        """Print a note that belongs to no stage."""
        with self._lock:
            self._print(note.text, LEVEL_STYLES[note.level])

    def ended(self, stage: Stage) -> None:
        """Replace the running stage with its final line, and print its notes below."""
        with self._lock:
            if self._live is not None and stage.progress is not None:
                self._live.refresh()  # show the progress as complete
            self._open.remove(stage)
            if self._live is not None:
                self._live.refresh()  # otherwise the spinner of this stage is drawn once more below its line
            marks = self._sign("✓", "+"), self._sign("✗", "x")
            width = self._console().width
            self._print(ended_line(stage, marks, width), "red" if stage.status == "failed" else "")
            indent = 2 * stage.depth + 4
            if stage.peak_device_bytes is not None:
                self._print(device_use(stage), "dim", indent)
            for note in stage.notes:
                self._print(note.text, LEVEL_STYLES[note.level], indent)
            if not self._open:
                self._end_of_stages()

    def sampled(self, sample: HardwareSample) -> None:
        """Show the hardware counters below the running stages, on a terminal."""
        self._values |= sample.values
        self._sample = sample_line(self._values, sample.counters)

    def announce(self, line: str) -> None:
        """Print a line at once; may be called by any thread."""
        self._print(line, "yellow")

    def finished(self, rows: Sequence[LeaderboardRow], run_directory: Path | str) -> None:
        """Print the leaderboard and the run directory."""
        self._console().print()
        self._console().print(self._leaderboard(rows))
        for line in search_lines(rows):
            self._print(line)
        self._print(f"{run_directory}")

    def stop(self) -> None:
        """Stop redrawing."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._watch_over is not None:
            self._watch_over.set()
            self._watch_over = None

    def _leaderboard(self, rows: Sequence[LeaderboardRow]) -> rich.table.Table:
        """Return the table with as many metrics as fit into the width, at least one."""
        from rich.measure import Measurement

        console = self._console()
        for n_metrics in range(MOST_METRICS, 0, -1):
            table = self._leaderboard_of(rows, n_metrics)
            if Measurement.get(console, console.options.update(max_width=UNLIMITED), table).maximum <= console.width:
                break
        return table

    def _leaderboard_of(self, rows: Sequence[LeaderboardRow], n_metrics: int) -> rich.table.Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        header, lines = leaderboard_cells(rows, n_metrics)
        table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False, show_edge=False)
        table.add_column("", min_width=1, no_wrap=True)
        for name in header:
            if name == "model":
                table.add_column(name, min_width=6, overflow="fold")
                continue
            lines_of_name = textwrap.wrap(
                self._sign(name, name.replace("²", "2")), HEADING_WIDTH, break_long_words=False
            )
            heading = Text("\n").join(map(self._text, lines_of_name))
            table.add_column(heading, justify="right", min_width=6, no_wrap=True)
        for row, cells in zip(rows, lines, strict=True):
            mark = self._sign("★", "*") if row.best else ""
            table.add_row(mark, *map(self._text, cells), style="bold green" if row.best else "")
        return table

    def _running(self) -> rich.console.RenderableType:
        """Return the lines of the open stages and the hardware counters; called at each refresh of the terminal."""
        from rich.console import Group

        return Group(*self._running_lines())

    def _running_lines(self, *, with_sample: bool = True) -> list[rich.text.Text]:
        """Return a line for each open stage, innermost last, each with its progress below, and the last sample."""
        now, width = time.perf_counter(), self._console().width
        frame = self._sign("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\")
        mark = frame[int(now * 10) % len(frame)]
        lines = []
        for stage in tuple(self._open):
            lines.append(self._text(stage_line(stage, mark, format_whole_seconds(now - self._began[stage]), width)))
            if stage.progress is not None and stage.progress.update() is not None:
                lines.append(self._progress_line(stage, width))
        if with_sample and self._sample and lines:
            line = self._text(f"  {self._sign(self._sample, self._sample.replace(' · ', ', ').replace('°', ''))}")
            line.stylize("dim")
            lines.append(line)
        return [self._cut(line) for line in lines]

    def _cut(self, line: rich.text.Text) -> rich.text.Text:
        """Return `line`, which is cut at the width of the terminal."""
        line.no_wrap, line.overflow = True, "crop" if self._console().options.ascii_only else "ellipsis"
        return line

    def _progress_line(self, stage: Stage, width: int) -> rich.text.Text:
        assert stage.progress is not None
        report = stage.progress.report
        line = self._text("  " * (stage.depth + 1))
        if report is not None and report.total and width >= WIDTH_WITH_BAR:
            n_filled = min(BAR_WIDTH, int(BAR_WIDTH * report.position / report.total))
            line.append(self._sign("━", "=") * n_filled, "green")
            line.append(self._sign("━", "-") * (BAR_WIDTH - n_filled) + "  ", "dim")
        line.append_text(self._text(describe(stage.progress)))
        return line

    def _end_of_stages(self) -> None:
        """Stop redrawing until the next stage."""
        self.stop()

    def _start(self) -> None:
        """Start showing the running stages."""
        if self._console().is_terminal and not self._console().is_dumb_terminal:
            if self._live is None:
                from rich.live import Live

                is_timing = any(stage.is_timing for stage in self._open)
                self._live = Live(
                    console=self._console(),
                    get_renderable=self._running,
                    refresh_per_second=10,
                    transient=True,
                    auto_refresh=not is_timing,
                )
                self._live.start(refresh=is_timing)
        elif self._watch_over is None:
            self._watch_over = threading.Event()
            threading.Thread(target=self._watch, args=(self._watch_over,), name="gpupipe-progress", daemon=True).start()

    def _watch(self, is_over: threading.Event) -> None:
        """Print a line about the running stage every `report_seconds`."""
        reported = 0.0
        while not is_over.wait(self._sample_seconds):
            with self._lock:
                if is_over.is_set() or not self._open:
                    continue
                stage, now = self._open[-1], time.perf_counter()
                if stage.progress is not None:
                    stage.progress.update()
                if now - max(reported, self._began[stage]) >= self._report_seconds:
                    reported = now
                    words = "" if stage.progress is None else describe(stage.progress)
                    running = (
                        f"{'  ' * stage.depth}  {stage.name}, {format_whole_seconds(now - self._began[stage])} so far"
                    )
                    self._print(f"{running}: {words}" if words else running, "dim")

    def _print(self, line: str, style: str = "", indent: int = 0) -> None:
        """Print one line; on a terminal, a line with an indent is wrapped at that indent."""
        from rich.padding import Padding

        if indent and self._console().is_terminal:
            self._console().print(Padding(self._text(line), (0, 0, 0, indent), expand=False), style=style or None)
        else:
            self._console().print(self._text(" " * indent + line), style=style or None, soft_wrap=True)

    def _text(self, line: str) -> rich.text.Text:
        """Return `line` without interpreting markup, with control characters as escapes."""
        from rich.text import Text

        return Text(printable(line))

    def _sign(self, sign: str, plain: str) -> str:
        return plain if self._console().options.ascii_only else sign

    def _console(self) -> rich.console.Console:
        if self._rich is None:
            import rich.console

            terminal = self._stream.isatty()
            self._rich = rich.console.Console(
                file=self._stream,
                width=None if terminal else PIPE_WIDTH,
                force_terminal=terminal,
                force_jupyter=False,
                highlight=False,
            )
        return self._rich
