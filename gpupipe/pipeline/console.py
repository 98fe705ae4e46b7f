"""What a run prints: stages on stderr as they run, the leaderboard at the end, and with ``--json`` one document on
stdout. rich is imported when there is something to print.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from gpupipe.pipeline.jsonfile import plain
from gpupipe.pipeline.timeline import Note, Stage
from gpupipe.report.data import LeaderboardRow
from gpupipe.report.text import metric, metric_names, number, printable, rate, seconds, size

if TYPE_CHECKING:
    import rich.console
    import rich.live
    import rich.table
    import rich.text

MOST_METRICS = 5
PIPE_WIDTH = 120  # columns of a table where there is no terminal to ask
LEVEL_STYLES = {"info": "dim", "warning": "yellow", "error": "red"}


class Console:
    """A `Listener` that shows stages; on a terminal with a spinner, else as plain lines without control characters.

    Parameters
    ----------
    quiet : bool
        Print nothing: errors are shown by the command line itself.
    as_json : bool
        Print one JSON document on `out` at the end; stages still go to `err`, unless `quiet`.
    err, out : text streams
        stderr and stdout where not given.
    """

    def __init__(
        self, *, quiet: bool = False, as_json: bool = False, err: TextIO | None = None, out: TextIO | None = None
    ) -> None:
        self.quiet, self.as_json = quiet, as_json
        self._err, self._out = err or sys.stderr, out or sys.stdout
        self._rich: rich.console.Console | None = None
        self._live: rich.live.Live | None = None
        self._open: list[Stage] = []
        self._began: dict[Stage, float] = {}
        self._headed: set[Stage] = set()
        self._devices: set[tuple[str, str]] = set()

    def __enter__(self) -> Console:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def started(self, stage: Stage) -> None:
        """Show the stage as running; say where and why it runs if that is news."""
        if self.quiet:
            return
        for outer in self._open:
            if outer not in self._headed:
                self._headed.add(outer)
                self._print(f"{'  ' * outer.depth}{self._sign('▸', '>')} {outer.name}")
        if (stage.device, stage.reason) not in self._devices:
            self._devices.add((stage.device, stage.reason))
            self._print(f"{stage.device}: {stage.reason}" if stage.reason else stage.device, "dim")
        self._open.append(stage)
        self._began[stage] = time.perf_counter()
        self._start()

    def noted(self, note: Note) -> None:
        """Show a remark made outside of all stages; those of a stage are shown with it."""
        if not self.quiet and not note.stage:
            self._print(note.text, LEVEL_STYLES[note.level])

    def ended(self, stage: Stage) -> None:
        """Replace the spinner by a line that stays, with the stage's notes below."""
        if self.quiet:
            return
        self._open.remove(stage)
        if self._live is not None:
            self._live.refresh()  # or the spinner of this stage would be drawn once more below its line
        failed = stage.status == "failed"
        mark = self._sign("✗", "x") if failed else self._sign("✓", "+")
        self._print(self._line(stage, mark, stage.seconds, stage.rows_per_second), "red" if failed else "")
        if stage.peak_device_bytes is not None:
            self._print(f"{'  ' * stage.depth}    {_device_use(stage)}", "dim")
        for note in stage.notes:
            self._print(f"{'  ' * stage.depth}    {note.text}", LEVEL_STYLES[note.level])
        if not self._open:
            self._stop()

    def stopping(self) -> None:
        """Say that the run will stop, and when; called by another thread than the run's."""
        if not self.quiet:
            stage = (
                f"after {self._open[-1].name}, or an epoch or round of it" if self._open else "before the next stage"
            )
            self._print(f"stopping {stage}; again to stop now", "yellow")

    def finished(self, rows: Sequence[LeaderboardRow], metrics: Mapping[str, Any], run_directory: Path) -> None:
        """Show how the run ended.

        Parameters
        ----------
        rows : sequence of LeaderboardRow
            The table, in the order to be shown.
        metrics : mapping
            The values of metrics.json; with `as_json`, printed beside ``run_directory``.
        run_directory : Path
        """
        self._stop()
        if self.as_json:
            document = plain({"run_directory": str(run_directory), **metrics})
            self._out.write(json.dumps(document, indent=2) + "\n")  # ASCII, whatever the encoding of stdout
            self._out.flush()
        if not self.quiet:
            self._console().print()
            self._console().print(self._leaderboard(rows))
            self._print(f"{run_directory}")

    def _leaderboard(self, rows: Sequence[LeaderboardRow]) -> rich.table.Table:
        from rich import box
        from rich.table import Table

        # A table as wide as the screen: the leading metrics, and the one that chose; metrics.json has all of them.
        names = metric_names(rows[0].metrics)[:MOST_METRICS] if rows else []
        validated = metric_names(rows[0].validation)[:1] if rows else []
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("")
        table.add_column("model", no_wrap=True)
        for name in validated:
            table.add_column(self._text(f"validation {name}"), justify="right")
        for name in names:
            table.add_column(self._text(name), justify="right", min_width=6)
        table.add_column("seconds", justify="right")
        for row in rows:
            cells = [row.model, *(metric(row.validation, name) for name in validated)]
            cells += [*(metric(row.metrics, name) for name in names), number(row.seconds)]
            mark = self._sign("★", "*") if row.best else ""
            table.add_row(mark, *map(self._text, cells), style="bold green" if row.best else "")
        return table

    def _line(self, stage: Stage, mark: str, elapsed: float, speed: float | None) -> str:
        name = f"{'  ' * stage.depth}{mark} {stage.name}"
        rows = f"{stage.rows:,} rows" if stage.rows is not None else ""
        shown_rate = rate(speed) if speed is not None else ""
        return f"{name:<36} {rows:>16} {shown_rate:>13} {seconds(elapsed):>11}  {stage.device}"

    def _running(self) -> rich.console.RenderableType:
        """Return the lines of the open stages, the innermost last; called at each refresh of the terminal."""
        from rich.console import Group

        now = time.perf_counter()
        frame = self._sign("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\")
        mark = frame[int(now * 10) % len(frame)]
        lines = [self._text(self._line(s, mark, now - self._began[s], None)) for s in tuple(self._open)]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)

    def _start(self) -> None:
        if self._live is None and self._console().is_terminal:
            from rich.live import Live

            self._live = Live(
                console=self._console(), get_renderable=self._running, refresh_per_second=10, transient=True
            )
            self._live.start()

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, line: str, style: str = "") -> None:
        self._console().print(self._text(line), style=style or None, soft_wrap=True)

    def _text(self, line: str) -> rich.text.Text:
        """Return `line` as it is: no markup is read from it, and no control character gets through."""
        from rich.text import Text

        return Text(printable(line))

    def _sign(self, sign: str, plain: str) -> str:
        return plain if self._console().options.ascii_only else sign

    def _console(self) -> rich.console.Console:
        if self._rich is None:
            import rich.console

            terminal = self._err.isatty()
            self._rich = rich.console.Console(
                file=self._err,
                width=None if terminal else PIPE_WIDTH,
                force_terminal=terminal,
                force_jupyter=False,
                highlight=False,
            )
        return self._rich


def _device_use(stage: Stage) -> str:
    moved = f"{size(stage.bytes_to_device)} to the device, {size(stage.bytes_to_host)} back"
    return f"{moved}; at most {size(stage.peak_device_bytes)} held there"


def is_interactive() -> bool:
    """Return whether a person types at this process: in a notebook, in IPython, or at Python's prompt."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "ipykernel" in sys.modules
