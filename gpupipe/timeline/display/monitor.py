"""Full-screen view of a run: charts of the hardware counters above the stages."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from gpupipe.report.hardware_text import count_gpus, counter_title, format_counter, main_counters
from gpupipe.timeline.display.counter_text import chart_lines
from gpupipe.timeline.display.lines import LineDisplay
from gpupipe.units import format_whole_seconds

if TYPE_CHECKING:
    import rich.console
    import rich.text

    from gpupipe.backends.counters.counter import HardwareCounter, HardwareSample

REFRESH_SECONDS = 0.5
MOST_VALUES = 512  # of a chart
GAP = 3  # characters between two charts
CHART_WIDTH = 24  # smallest, in characters
CHART_HEIGHTS = 3, 6  # smallest and largest number of lines, below a title
SHOWN_FRACTION = 0.25  # of its limit that memory must reach for the limit to be the top of its chart
KEYS = "q: stop at the next safe point"


class MonitorDisplay(LineDisplay):
    """Display on the whole terminal, which shows the lines of `LineDisplay` on the normal screen at its end.

    It also ends with the first request to stop the run: the next one ends the process at once, which would leave the
    terminal in the state of the full-screen view. `stream` is a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._clock = time.perf_counter()
        self._deferred: list[tuple[str, str, int]] = []  # line, style and indent
        self._counters: dict[str, HardwareCounter] = {}
        self._history: dict[str, deque[float | None]] = {}
        self._is_open = True
        self._ended = threading.Event()
        self._keyboard: _Keyboard | None = None
        self._streams: tuple[TextIO, TextIO] | None = None
        self._printed = _DeferredLines(self)

    def sampled(self, sample: HardwareSample) -> None:
        """Add a column to the charts."""
        super().sampled(sample)
        with self._lock:
            for name in sample.values:
                self._counters[name] = sample.counters[name]
                self._history.setdefault(name, deque(maxlen=MOST_VALUES))
            for name, history in self._history.items():
                history.append(sample.values.get(name))

    def announce(self, line: str) -> None:
        """Leave the full screen, and print a line."""
        with self._lock:
            self._leave()
            super().announce(line)
            if self._open:
                self._start()

    def stop(self) -> None:
        """Leave the full screen."""
        with self._lock:
            self._leave()
            super().stop()

    def _start(self) -> None:
        if not self._is_open:
            super()._start()
            return
        if self._live is not None:
            return
        from rich.live import Live

        self._live = Live(
            console=self._console(),
            get_renderable=self._view,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)
        self._streams = sys.stdout, sys.stderr
        printed: Any = self._printed
        sys.stdout, sys.stderr = (printed if stream.isatty() else stream for stream in self._streams)
        self._keyboard = _Keyboard.open()
        threading.Thread(target=self._refresh, name="gpupipe-monitor", daemon=True).start()

    def _end_of_stages(self) -> None:
        """Keep the view between two stages."""
        if not self._is_open:
            super()._end_of_stages()

    def _leave(self) -> None:
        """Return to the normal screen, and print the lines that were shown in the view."""
        if not self._is_open:
            return
        self._printed.end_line()
        self._is_open = False
        self._ended.set()
        if self._keyboard is not None:
            self._keyboard.close()
        if self._streams is not None:
            sys.stdout, sys.stderr = self._streams
        super().stop()
        for line in self._deferred:
            super()._print(*line)

    def _refresh(self) -> None:
        while not self._ended.wait(REFRESH_SECONDS):
            with self._lock:
                is_timing = any(stage.is_timing for stage in self._open)
                if self._live is not None and not self._ended.is_set() and not is_timing:
                    self._live.refresh()

    def _print(self, line: str, style: str = "", indent: int = 0) -> None:
        with self._lock:
            if self._is_open:
                self._deferred.append((line, style, indent))
            else:
                super()._print(line, style, indent)

    def _view(self) -> rich.console.RenderableType:
        """Return the lines of the whole screen; called at each refresh."""
        from rich.console import Group

        width, height = self._console().size
        with self._lock:
            heading = self._text(f"gpupipe run  {format_whole_seconds(time.perf_counter() - self._clock)}")
            heading.append(f"   {KEYS}", "dim")
            charts = self._charts(width, height // 2)
            running = self._running_lines(with_sample=not charts)
            n_shown = max(0, height - 1 - len(charts) - len(running))
            past = [self._deferred_line(*line) for line in self._deferred[-n_shown:]] if n_shown else []
        return Group(*map(self._cut, [heading, *charts, *past, *running]))

    def _deferred_line(self, line: str, style: str, indent: int) -> rich.text.Text:
        text = self._text(" " * indent + line)
        text.stylize(style)
        return text

    def _charts(self, width: int, room: int) -> list[rich.text.Text]:
        """Return the lines of as many charts as fit into `room` lines, in columns."""
        from rich.text import Text

        names = main_counters(self._history)
        most_columns = max(1, (width + GAP) // (CHART_WIDTH + GAP))
        n_rows = min(-(-len(names) // most_columns), room // (CHART_HEIGHTS[0] + 2))
        if not n_rows:
            return []
        names = names[: n_rows * most_columns]
        n_columns = -(-len(names) // n_rows)
        chart_width = (width + GAP) // n_columns - GAP
        chart_height = min(CHART_HEIGHTS[1], room // n_rows - 2)
        lines = [Text()]
        for first in range(0, len(names), n_columns):
            columns = [self._chart(name, chart_width, chart_height) for name in names[first : first + n_columns]]
            lines += [Text(" " * GAP).join(cells) for cells in zip(*columns, strict=True)]
            lines.append(Text())
        return lines

    def _chart(self, name: str, width: int, height: int) -> list[rich.text.Text]:
        """Return a title with the last value, and the chart below it."""
        from rich.text import Text

        counter, history = self._counters[name], self._history[name]
        last = next((value for value in reversed(history) if value is not None), 0.0)
        title = Text(counter_title(name, count_gpus(self._counters)), "bold")
        is_percentage = counter.unit == "%" and counter.limit == 100
        limit = f" of {format_counter(counter.limit, counter.unit)}" if counter.limit and not is_percentage else ""
        value = format_counter(last, counter.unit)
        if len(title) + len(value) + len(limit) < width:
            value += limit
        title.append(f" {value}".rjust(width - len(title)), "not bold")
        title.truncate(width)
        top = counter.limit
        if top and counter.unit == "B" and max(value or 0.0 for value in history) < SHOWN_FRACTION * top:
            top = None
        is_ascii = self._console().options.ascii_only
        color = "green" if name.startswith("gpu") else "cyan"
        lines = chart_lines(list(history), width, height, top, is_ascii=is_ascii)
        return [title, *(Text(line, color) for line in lines)]


class _DeferredLines:
    """Text stream whose lines are shown in the view, and printed at its end."""

    encoding = "utf-8"

    def __init__(self, display: MonitorDisplay) -> None:
        self._display, self._rest = display, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._display._print(line)
        return len(text)

    def flush(self) -> None:
        """Do nothing: a line is shown when it ends."""

    def end_line(self) -> None:
        """Show a line that has no end."""
        if self._rest:
            self.write("\n")

    def isatty(self) -> bool:
        """Return False: control characters would be shown as escapes."""
        return False


class _Keyboard:
    """Keys of the terminal, without waiting for the end of a line; ``q`` interrupts the process as Ctrl-C does."""

    def __init__(self, file: int, settings: list[Any]) -> None:
        self._file, self._settings = file, settings
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="gpupipe-keyboard", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls) -> _Keyboard | None:
        """Return the keyboard; None if stdin is not a terminal."""
        try:
            import termios
            import tty

            file = sys.stdin.fileno()
            settings = termios.tcgetattr(file)
            tty.setcbreak(file)
        except (ImportError, AttributeError, OSError, ValueError, termios.error):
            return None
        return cls(file, settings)

    def close(self) -> None:
        """Restore the terminal."""
        import termios

        os.write(self._wake_writer, b".")
        self._thread.join()
        os.close(self._wake_reader)
        os.close(self._wake_writer)
        with suppress(termios.error):
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._settings)

    def _listen(self) -> None:
        keys = b" "
        while keys:
            ready, _, _ = select.select([self._file, self._wake_reader], [], [])
            if self._wake_reader in ready:
                break
            try:
                keys = os.read(self._file, 64)
            except OSError:  # the terminal is gone
                break
            if b"q" in keys.lower():
                os.kill(os.getpid(), signal.SIGINT)
