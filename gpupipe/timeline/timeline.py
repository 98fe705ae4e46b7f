"""Timeline of a run: device, reason, rows, seconds and memory of each stage.

>>> from gpupipe.backends.stage import Place
>>> timeline = Timeline()
>>> with timeline.stage("read", Place("cpu", "no NVIDIA driver")) as stage:
...     stage.rows = 7043
...     stage.note("TotalCharges: 11 nulls")
>>> timeline.to_json()["stages"][0]["rows"]
7043
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from gpupipe.backends import machine
from gpupipe.backends.counters.statistics import CounterStatistics
from gpupipe.names import count_noun
from gpupipe.timeline.display.progress import ProgressMeter
from gpupipe.timeline.safe_points import StopSignal
from gpupipe.units import format_duration

if TYPE_CHECKING:
    from gpupipe.backends.counters.counter import HardwareSample
    from gpupipe.backends.counters.history import HardwareSamples
    from gpupipe.backends.stage import Place, StageUse
    from gpupipe.models.progress import ReadProgress

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Note:
    """Note of a run."""

    text: str
    level: Level = "info"
    stage: str = ""  # name of its stage, "" for a note that belongs to none
    traceback: str = ""  # that of the error, for an optional part of a run that failed; "" for other notes

    def __str__(self) -> str:
        return self.text


@dataclass(eq=False, repr=False)
class Stage:
    """One step of a run. The code of the stage sets `rows` and `interpreter`."""

    # name, device, reason: name of the step, "cpu" or "gpu", and the reason for that choice.
    name: str
    device: str
    reason: str = ""
    depth: int = 0  # 0 for a top-level stage, 1 for a stage inside it, and so on
    start_seconds: float = 0.0  # start, in seconds after the start of the timeline
    rows: int | None = None  # rows processed
    interpreter: str | None = None  # interpreter that ran the feature program (feature stages)
    engines: dict[str, str] = field(default_factory=dict)  # engine of each family of kernels that ran on the host
    # seconds, cpu_seconds: wall time, and processor time of all threads of this process.
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    # Peak memory of the process from its start to the end of the stage, as the system reports it. It never decreases.
    peak_host_bytes: int = 0
    peak_device_bytes: int | None = None  # peak memory on the device; None on the CPU
    # bytes_to_device, bytes_to_host: bytes that gpupipe moved between host and device.
    bytes_to_device: int = 0
    bytes_to_host: int = 0
    # Arrays handed over to another library: pointer, bytes, strides, device, and whether they were copied.
    receipts: list[dict[str, Any]] = field(default_factory=list)
    # Use of each worker of a cluster: rows, tasks, seconds, and bytes held, spilled and held at the peak.
    workers: list[dict[str, Any]] = field(default_factory=list)
    rows_held: dict[str, int] = field(default_factory=dict)  # rows of the stage that each worker holds, by its address
    epochs: list[dict[str, float]] = field(default_factory=list)  # losses of each epoch, for a training that has epochs
    # Mean and largest value of each hardware counter, over the sampling periods that are entirely in the stage.
    counters: CounterStatistics = field(default_factory=CounterStatistics)
    status: Literal["running", "done", "failed"] = "running"
    notes: list[Note] = field(default_factory=list)
    progress: ProgressMeter | None = None  # progress of a long step of the stage; kept when it ends
    # True if the stage times single calls: displays then redraw nothing while it runs, which would delay some calls.
    is_timing: bool = False
    _listeners: Sequence[Listener] = field(default=(), repr=False)
    _hide: Callable[[str], str] = field(default=str, repr=False)

    @property
    def rows_per_second(self) -> float | None:
        """Rows per wall second; None until both are known."""
        return self.rows / self.seconds if self.rows is not None and self.seconds > 0 else None

    def note(self, text: str, level: Level = "info", traceback: str = "") -> None:
        """Add a note to the stage, and pass it to the listeners."""
        note = Note(self._hide(text), level, self.name, self._hide(traceback))
        self.notes.append(note)
        for listener in self._listeners:
            listener.noted(note)

    def record_use(self, use: StageUse) -> None:
        """Record the use of device and workers; a stage that fell back to the host counts as run there."""
        self.bytes_to_device, self.bytes_to_host = use.bytes_to_device, use.bytes_to_host
        self.peak_device_bytes, self.engines = use.peak_bytes, dict(use.engines)
        for worker in use.workers:
            address = worker["address"]
            self.workers.append({"address": address, "rows": self.rows_held.get(address, 0), **worker})
        for text in use.fallbacks:
            self.device, self.reason = "cpu", self._hide(text)
            self.note(f"on the CPU: {text}", "warning")

    def __repr__(self) -> str:
        rows = [] if self.rows is None else [count_noun(self.rows, "row")]
        took = [] if self.status == "running" else [format_duration(self.seconds)]
        return f"Stage({self.name!r}: {', '.join([self.status, *rows, *took, self.device])})"

    def to_json(self) -> dict[str, Any]:
        """Return the record of the stage in timeline.json."""
        rate = self.rows_per_second
        return {
            "name": self.name,
            "device": self.device,
            "reason": self.reason,
            "depth": self.depth,
            "status": self.status,
            "interpreter": self.interpreter,
            "engines": self.engines,
            "rows": self.rows,
            "start_seconds": round(self.start_seconds, 6),
            "seconds": round(self.seconds, 6),
            "cpu_seconds": round(self.cpu_seconds, 6),
            "rows_per_second": None if rate is None else round(rate, 1),
            "peak_host_bytes": self.peak_host_bytes,
            "peak_device_bytes": self.peak_device_bytes,
            "bytes_to_device": self.bytes_to_device,
            "bytes_to_host": self.bytes_to_host,
            "receipts": self.receipts,
            "workers": self.workers,
            "epochs": self.epochs,
            "counters": self.counters.to_json(),
            "notes": [note.text for note in self.notes],
        }


class Listener(Protocol):
    """Observer notified of the start, the notes and the end of each stage, such as the console or the log."""

    def started(self, stage: Stage) -> None:
        """Handle the start of `stage`."""

    def noted(self, note: Note) -> None:
        """Handle a note."""

    def ended(self, stage: Stage) -> None:
        """Handle the end of `stage`; its `status` is "done" or "failed"."""


@runtime_checkable
class SampleListener(Protocol):
    """Listener that is also given each sample of the hardware counters: a `Listener` with this further method."""

    def sampled(self, sample: HardwareSample) -> None:
        """Handle a sample, in the sampling thread; the next one is taken after the return."""


class Timeline:
    """Stages of one run, in the order in which they began.

    One thread opens and closes stages; a stage opened inside another is one level deeper.

    - `listeners`: notified of each stage and note at once
    - `stop_signal`: checked before each top-level stage that is not in a `postpone_stop` block
    - `hide`: removes secrets from notes and reasons

    - `notes`: notes that belong to no stage
    - `limits`: returns the use of each limit up to now, as records of timeline.json
    - `tracked`: returns the tracked run of each tracker, as records of timeline.json
    - `imports`: library to the wall seconds of importing it, which no stage contains
    - `samples`: hardware counters over the run, also while it is running; None if they are not sampled
    """

    def __init__(
        self,
        listeners: Sequence[Listener] = (),
        stop_signal: StopSignal | None = None,
        hide: Callable[[str], str] = str,
    ) -> None:
        self.listeners, self.stop_signal = tuple(listeners), stop_signal or StopSignal()
        self._hide = hide
        self.stages: list[Stage] = []
        self.notes: list[Note] = []
        self.limits: Callable[[], list[dict[str, Any]]] = list
        self.tracked: Callable[[], list[dict[str, Any]]] = list
        self.imports: dict[str, float] = {}
        self.samples: HardwareSamples | None = None
        self._sampled_seconds = 0.0
        self._open: list[Stage] = []
        self._is_stop_postponed = False
        self._began = datetime.now(UTC)
        self._clock = time.perf_counter()

    @contextmanager
    def stage(self, name: str, where: Place, *, is_timing: bool = False) -> Iterator[Stage]:
        """Record the ``with`` block as one stage; a block that raises is recorded as failed.

        - `where`: device of the stage; its meter measures what the stage uses
        - `is_timing`: see `Stage`

        Raises
        ------
        BaseException
            The exception of `stop_signal`, if the run should end before this stage.
        """
        if not self._open and not self._is_stop_postponed:
            self.stop_signal.check(f"before {name}")
        meter = where.meter
        if meter is not None:
            meter.open_stage()
        start, cpu = time.perf_counter(), time.process_time()
        depth = len(self._open)
        began = start - self._clock
        reason = self._hide(where.reason)
        stage = Stage(name, where.device, reason, depth, began, is_timing=is_timing)
        stage._listeners, stage._hide = self.listeners, self._hide
        self.stages.append(stage)
        self._open.append(stage)
        for listener in self.listeners:
            listener.started(stage)
        try:
            with nullcontext() if where.progress is None else self.show_progress(where.progress):
                yield stage
            if meter is not None:
                meter.synchronize()
            stage.status = "done"
        except BaseException:
            stage.status = "failed"
            raise
        finally:
            self._open.remove(stage)
            stage.seconds, stage.cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
            stage.peak_host_bytes = machine.peak_bytes()
            if meter is not None:
                stage.record_use(meter.close_stage())
                for text in meter.take_notes():
                    stage.note(text, "warning")
            for listener in self.listeners:
                listener.ended(stage)

    @contextmanager
    def show_progress(self, read: ReadProgress) -> Iterator[None]:
        """Show the progress of the ``with`` block as that of the innermost open stage.

        `read`: returns the current `gpupipe.models.progress.ProgressReport`, or None. Displays call it from their
        threads.
        """
        if not self._open:
            yield
            return
        meter = self._open[-1].progress = ProgressMeter(read)
        try:
            yield
        finally:
            meter.close()

    @property
    def is_timing(self) -> bool:
        """True while a stage times single calls."""
        return any(stage.is_timing for stage in tuple(self._open))

    def record_sample(self, sample: HardwareSample) -> None:
        """Count a sample in the open stages that were open at the previous one, and pass it to the listeners.

        Called by the sampling thread.
        """
        for stage in tuple(self._open):
            if stage.start_seconds <= self._sampled_seconds:
                stage.counters.add(sample.values)
        self._sampled_seconds = sample.seconds
        for listener in self.listeners:
            if isinstance(listener, SampleListener):
                listener.sampled(sample)

    @contextmanager
    def postpone_stop(self) -> Iterator[None]:
        """Postpone a requested stop until after the ``with`` block: the stage before it has no checkpoint yet."""
        self._is_stop_postponed = True
        try:
            yield
        finally:
            self._is_stop_postponed = False

    def note_in_stage(self, text: str, level: Level = "info", traceback: str = "") -> None:
        """Add a note to the innermost open stage, or to no stage if none is open."""
        (self._open[-1] if self._open else self).note(text, level, traceback)

    def note(self, text: str, level: Level = "info", traceback: str = "") -> None:
        """Add a note that belongs to no stage, and pass it to the listeners."""
        note = Note(self._hide(text), level, "", self._hide(traceback))
        self.notes.append(note)
        for listener in self.listeners:
            listener.noted(note)

    def warn(self, text: str) -> None:
        """Add a warning to the innermost open stage, whose name is put before the text."""
        if self._open:
            stage = self._open[-1]
            stage.note(f"{stage.name.rpartition(': ')[2]}: {text}", "warning")
        else:
            self.note(text, "warning")

    def all_notes(self, *levels: Level) -> list[Note]:
        """Return the notes of the run and its stages, filtered by `levels` if any are given."""
        notes = chain(self.notes, *(stage.notes for stage in self.stages))
        return [note for note in notes if not levels or note.level in levels]

    @property
    def seconds(self) -> float:
        """Wall seconds since the timeline began."""
        return time.perf_counter() - self._clock

    def __repr__(self) -> str:
        n_failed = sum(stage.status == "failed" for stage in self.stages)
        failed = f", {n_failed} failed" if n_failed else ""
        n_stages = f"{len(self.stages)} stage{'' if len(self.stages) == 1 else 's'}"
        return f"Timeline({n_stages}{failed}, {format_duration(sum(s.seconds for s in self.stages if not s.depth))})"

    def _repr_html_(self) -> str:
        from gpupipe.timeline.display.html import stages_table

        return stages_table(self.stages)

    def to_json(self) -> dict[str, Any]:
        """Return the contents of timeline.json."""
        return {
            "started": self._began.isoformat(timespec="milliseconds"),
            "seconds": round(self.seconds, 6),
            "imports": {library: round(seconds, 6) for library, seconds in self.imports.items()},
            "stages": [stage.to_json() for stage in self.stages],
            "limits": self.limits(),
            "tracked": self.tracked(),
            "samples": None if self.samples is None else self.samples.to_json(),
            "notes": [asdict(note) for note in self.all_notes()],
        }
