"""Output of a run: stages while they run, the leaderboard at the end, and with ``--json`` one document on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from gpupipe.files.jsonfile import plain
from gpupipe.report.data import LeaderboardRow
from gpupipe.system_errors import translate
from gpupipe.timeline.display.lines import LineDisplay
from gpupipe.timeline.display.monitor import MonitorDisplay
from gpupipe.timeline.display.notebook import NotebookDisplay, in_notebook
from gpupipe.timeline.timeline import Note, Stage

if TYPE_CHECKING:
    from gpupipe.backends.counters.counter import HardwareSample


def is_interactive() -> bool:
    """Return whether the process is interactive: a notebook, IPython, or Python's prompt."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or in_notebook()


class Console:
    """Listener that shows stages as they run.

    A notebook shows one table that is updated in place. A terminal shows a line per stage, with the running stage
    below. Elsewhere the output is plain lines without control characters: one when a stage ends, and one every 30
    seconds while it runs.

    If `quiet`, nothing is printed; the command line prints errors. With `as_json`, one JSON document is printed on
    `out` at the end; stages are still shown, unless `quiet`. With `is_full_screen`, the whole terminal is used during
    the run. By default, `err` is stderr, or the output of the notebook's cell, and `out` is stdout.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        as_json: bool = False,
        is_full_screen: bool = False,
        err: TextIO | None = None,
        out: TextIO | None = None,
    ) -> None:
        self.as_json = as_json
        self._out = out or sys.stdout
        self._open: list[Stage] = []
        self._display: LineDisplay | NotebookDisplay | None = None
        if not quiet and err is None and in_notebook():
            self._display = NotebookDisplay()
        elif not quiet and (stream := err or sys.stderr) is not None:  # None in a program without streams
            self._display = MonitorDisplay(stream) if is_full_screen else LineDisplay(stream)

    def __enter__(self) -> Console:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._display is not None:
            self._display.stop()

    def started(self, stage: Stage) -> None:
        """Show the stage as running."""
        self._open.append(stage)
        if self._display is not None:
            self._display.started(stage)

    def noted(self, note: Note) -> None:
        """Show a note that belongs to no stage; notes of a stage are shown when it ends."""
        if self._display is not None and not note.stage:
            self._display.noted(note)

    def ended(self, stage: Stage) -> None:
        """Show the stage as ended, with its notes."""
        self._open.remove(stage)
        if self._display is not None:
            self._display.ended(stage)

    def sampled(self, sample: HardwareSample) -> None:
        """Show the hardware counters; called by the sampling thread."""
        if self._display is not None:
            self._display.sampled(sample)

    def stopping(self) -> None:
        """Announce when the run will stop; called from another thread than that of the run."""
        if self._display is not None:
            innermost = self._open[-1:]
            step = f"after {innermost[0].name} or its current epoch or round" if innermost else "before the next stage"
            self._display.announce(f"stopping {step}; interrupt again to stop now")

    def finished(self, rows: Sequence[LeaderboardRow], metrics: Mapping[str, Any], run_directory: Path | str) -> None:
        """Show the leaderboard and the run directory, and print the JSON document.

        `rows` are in the order to be shown. `metrics` has the contents of metrics.json, which are printed with
        `as_json`, together with ``run_directory``.
        """
        if self._display is not None:
            self._display.stop()
            self._display.finished(rows, run_directory)
        if self.as_json:  # last, so that the user sees the run directory even if stdout fails
            document = plain({"run_directory": str(run_directory), **metrics})
            try:
                self._out.write(json.dumps(document, indent=2) + "\n")  # ASCII, whatever the encoding of stdout
                self._out.flush()
            except OSError as error:
                if (found := translate(error)) is None:
                    raise
                found.advise(f"the run itself is complete: {run_directory}")
                raise found from error
