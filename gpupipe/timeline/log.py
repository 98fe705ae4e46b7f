"""Log of a run, log.jsonl: one JSON object per line for each start of a stage, note and end of a stage."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from gpupipe.files.jsonfile import dumps
from gpupipe.timeline.timeline import Level, Note, Stage


class JsonLog:
    """Listener that appends to a file; each line is written at once, so that a killed run keeps its log.

    `path`: the file; lines are appended to an existing one.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)

    def __enter__(self) -> JsonLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; later events are dropped."""
        self._file.close()

    def started(self, stage: Stage) -> None:
        """Write the device of the stage and the reason for it."""
        self._write("info", "stage started", stage=stage.name, device=stage.device, reason=stage.reason)

    def noted(self, note: Note) -> None:
        """Write the note, with the traceback of a failure."""
        traceback = {"traceback": note.traceback} if note.traceback else {}
        self._write(note.level, "note", stage=note.stage or None, message=note.text, **traceback)

    def ended(self, stage: Stage) -> None:
        """Write the rows, seconds and memory of the stage."""
        record = stage.to_json()
        figures = {key: record[key] for key in ("rows", "seconds", "cpu_seconds", "rows_per_second", "peak_host_bytes")}
        level: Level = "error" if stage.status == "failed" else "info"
        self._write(level, f"stage {stage.status}", stage=stage.name, device=stage.device, **figures)

    def _write(self, level: Level, event: str, **values: Any) -> None:
        if self._file.closed:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = dumps({"time": now, "level": level, "event": event, **values})
        # Text from data must not control the terminal that shows the log: JSON escapes only some control characters.
        self._file.write("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line) + "\n")
