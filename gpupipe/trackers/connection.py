"""State of one tracker during a run: its process, the tracked run, and the notes for the user."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpupipe.timeline.timeline import Level
from gpupipe.trackers.process import TrackerProcess
from gpupipe.units import format_duration


class TrackerConnection:
    """One tracker of a run. At most one warning is given, however often it fails.

    `module` is the module of its library, and `name` its name in messages. `hide` removes secrets from messages.
    `timeout` is the number of seconds to wait for an answer at the end.
    """

    def __init__(self, module: str, name: str, hide: Callable[[str], str], timeout: float) -> None:
        self._module, self._name, self._hide, self._timeout = module, name, hide, timeout
        self._process: TrackerProcess | None = None
        self._run: dict[str, str] = {}
        self._notes: list[tuple[str, Level]] = []
        self._problem = ""
        self._is_complete = False

    def connect(self, settings: Mapping[str, Any], ids_path: Path | None) -> None:
        """Start the process; see `gpupipe.trackers.worker.TrackerWorker`."""
        first = {
            "tracker": self._module, "settings": dict(settings), "timeout": self._timeout,
            "ids_path": None if ids_path is None else str(ids_path.absolute()),
        }  # fmt: skip
        # MLflow waits minutes for a server that hangs: 7 retries of 120 s. The worker tries again instead; two attempts
        # fit into the timeout.
        request_seconds = max(1, math.floor(self._timeout / 3))
        environment = {
            "MLFLOW_HTTP_REQUEST_TIMEOUT": str(request_seconds), "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
            "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1", "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
            "MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false",
        }  # fmt: skip
        try:
            self._process = TrackerProcess(first, environment, self._timeout)
        except OSError as error:
            self.fail(f"the process that logs to {self._name} cannot be started: {error}")

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message."""
        if self._process is not None:
            self._process.send(message)

    def fail(self, text: str) -> None:
        """Record a problem; the first one is a warning."""
        if not self._problem:
            self._problem = self._hide(text)
            self._notes.append((text, "warning"))

    def take_notes(self) -> list[tuple[str, Level]]:
        """Return the new notes for the user, with their levels."""
        for answer in [] if self._process is None else self._process.take_answers():
            self._read(answer)
        found, self._notes = self._notes, []
        return found

    def wait_until_sent(self) -> None:
        """Wait until the tracker has everything, or has given up."""
        if self._process is not None and not self._process.wait_until_sent():
            self._fail_by_timeout()

    def close(self) -> None:
        """End the process."""
        if self._process is not None and not self._process.close():
            self._fail_by_timeout()

    def abandon(self) -> None:
        """End the process without waiting for it."""
        if self._process is not None:
            self._process.abandon()

    def to_json(self) -> dict[str, Any]:
        """Return the tracked run for timeline.json."""
        run = {name: self._hide(value) for name, value in self._run.items()}
        return {"tracker": self._module, **run, "complete": self._is_complete, "problem": self._problem or None}

    def _fail_by_timeout(self) -> None:
        seconds = format_duration(self._timeout)
        self.fail(f"{self._name} did not answer within {seconds} (track.timeout), so the tracked run is incomplete")

    def _read(self, answer: Mapping[str, Any]) -> None:
        if "started" in answer:
            self._run = dict(answer["started"])
            where = self._run.get("url") or self._run.get("folder") or f"run {self._run['id']}"
            self._notes.append((f"tracked by {self._name}: {where}", "info"))
        if "trouble" in answer:
            self.fail(f"{self._name} does not answer, so the tracked run may be incomplete: {answer['trouble']}")
        if "recovered" in answer:
            self._notes.append((f"{self._name} answers again, and has got what it had missed", "info"))
        if "failure" in answer:
            self.fail(f"{self._name} does not accept the run, or a part of it: {answer['failure']}")
        if "sent" in answer:
            self._is_complete = bool(answer["sent"])
        if answer.get("exit"):
            self._is_complete = False
            self.fail(f"the process that logs to {self._name} ended early (exit code {answer['exit']})")
