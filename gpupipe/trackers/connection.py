"""Connection of a run to one tracker: messages are sent by a thread, in their order, so that the run never waits."""

from __future__ import annotations

import json
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpupipe.children import Child, ChildError, ChildLimits
from gpupipe.timeline.timeline import Level
from gpupipe.units import MIB, format_duration

WORKER = "gpupipe.trackers.worker"
RETRY_SECONDS = 3.0
WARNED_AFTER = 2  # failures of one message
LAST_ATTEMPTS, LAST_PAUSE_SECONDS = 2, 0.2  # of a message at the end of the run
MOST_TOGETHER = 200  # messages that are joined into one
REQUEST_TIMEOUTS = 10  # time limit of one message while the run has other work

Message = dict[str, Any]


class TrackerConnection:
    """One tracker of a run, whose library is in a child process. At most one warning is given, however often it fails.

    Messages that fail for a temporary reason are sent again in their order until the run ends, so that a server may be
    restarted during the run. At the end each message has two more attempts, until the first that fails.

    `module` is the module of its library, and `name` its name in messages. `hide` removes secrets from messages.
    `timeout` is the number of seconds to wait for an answer at the end.
    """

    def __init__(self, module: str, name: str, hide: Callable[[str], str], timeout: float) -> None:
        self._module = module
        self._name = name
        self._hide = hide
        self._timeout = timeout
        self._thread: threading.Thread | None = None
        self._child: Child
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._waiting: list[Message | None] = []  # taken from the queue, and not handled yet
        self._closing = threading.Event()
        self._flushed = threading.Event()
        self._ended = threading.Event()
        self._wait_until = 0.0
        self._run: dict[str, str] = {}
        self._notes: list[tuple[str, Level]] = []
        self._problem = ""
        self._is_sent = self._has_lost = self._is_in_trouble = False

    def connect(self, settings: Mapping[str, Any], ids_path: Path | None) -> None:
        """Start the thread, which starts the process; `ids_path` is the file of the ids of an interrupted run."""
        # MLflow waits minutes for a server that hangs: 7 retries of 120 s. This class tries again instead; two attempts
        # fit into the timeout.
        request_seconds = max(1, math.floor(self._timeout / 3))
        environment = {
            "MLFLOW_HTTP_REQUEST_TIMEOUT": str(request_seconds), "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
            "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1", "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
            "MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false",
        }  # fmt: skip
        unset = {name: value for name, value in environment.items() if name not in os.environ}
        self._child = Child(WORKER, ChildLimits(REQUEST_TIMEOUTS * self._timeout), unset, outlives=True)
        # Not as arguments of the process, which other users can see.
        first = {
            "do": "connect", "tracker": self._module, "settings": dict(settings), "timeout": self._timeout,
            "ids_path": None if ids_path is None else str(ids_path.absolute()),
        }  # fmt: skip
        self._messages.put(first)
        self._thread = threading.Thread(target=self._send_all, name="gpupipe-tracker", daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Queue a message of JSON values."""
        if message["do"] == "files" and self._module == "mlflow":  # one by one, each with its own time
            for path in message["paths"]:
                self._messages.put({**message, "paths": [path]})
        else:
            self._messages.put(message)

    def fail(self, text: str) -> None:
        """Record a problem; the first one is a warning."""
        if not self._problem:
            self._problem = self._hide(text)
            self._notes.append((text, "warning"))

    def take_notes(self) -> list[tuple[str, Level]]:
        """Return the new notes for the user, with their levels."""
        return [self._notes.pop(0) for _ in range(len(self._notes))]

    def wait_until_sent(self) -> None:
        """Wait until the tracker has everything, or has given up."""
        self._wait({"do": "flush"}, self._flushed)

    def close(self) -> None:
        """Wait until all messages are handled, and end the process."""
        self._wait(None, self._ended)

    def abandon(self) -> None:
        """End the connection without waiting: the process ends the tracked run as killed."""
        self._messages.put(None)

    def to_json(self) -> dict[str, Any]:
        """Return the tracked run for timeline.json."""
        run = {name: self._hide(value) for name, value in self._run.items()}
        is_complete = self._is_sent and not self._has_lost
        return {"tracker": self._module, **run, "complete": is_complete, "problem": self._problem or None}

    def _wait(self, last: Message | None, event: threading.Event) -> None:
        if self._thread is None:
            return
        self._closing.set()
        self._messages.put(last)
        self._extend(self._timeout)
        while not event.wait(max(0.0, self._wait_until - time.monotonic())):
            if time.monotonic() >= self._wait_until:
                seconds = format_duration(self._timeout)
                self._lose(
                    f"{self._name} did not answer within {seconds} (track.timeout), so the tracked run is incomplete"
                )
                self._child.kill()
                self._ended.wait(1.0)
                return

    def _extend(self, seconds: float) -> None:
        self._wait_until = max(self._wait_until, time.monotonic() + seconds)

    def _lose(self, text: str) -> None:
        self._has_lost = True
        self.fail(text)

    def _send_all(self) -> None:
        """Thread that sends the messages."""
        is_open = True
        try:
            while is_open and (message := self._next()) is not None:
                if message["do"] == "flush":
                    self._is_sent = True
                    self._flushed.set()
                else:
                    is_open = self._deliver(message)
        except ChildError as error:
            is_open = False
            self._lose(f"the process that logs to {self._name} {error.how}")
        finally:
            if not is_open:
                self._child.kill()
            self._child.close()
            self._flushed.set()
            self._ended.set()

    def _next(self) -> Message | None:
        """Return the next message, joined with those after it of the same kind."""
        message = self._waiting.pop() if self._waiting else self._messages.get()
        for _ in range(MOST_TOGETHER):
            if message is None or message["do"] != "log" or self._messages.empty():
                break
            after = self._messages.get()
            if after is None or (after["do"], after.get("run")) != ("log", message["run"]):
                self._waiting.append(after)
                break
            message = {
                **message,
                "metrics": message["metrics"] + after["metrics"],
                "params": message["params"] | after["params"],
                "tags": message["tags"] | after["tags"],
            }
        return message

    def _deliver(self, message: Message) -> bool:
        """Send a message, again after temporary failures; return whether further messages may succeed."""
        n_failed = n_last = 0  # failed attempts, and attempts after the end of the run
        while True:
            n_last += self._closing.is_set()
            reply = self._request(message)
            if "error" not in reply:
                self._read(reply)
                return True
            if not reply["is_temporary"]:
                self._lose(f"{self._name} does not accept the run, or a part of it: {reply['error']}")
                return message["do"] != "connect" and (message["do"], message["run"]) != ("start", "")
            n_failed += 1
            if n_failed >= WARNED_AFTER and not self._is_in_trouble:
                self._is_in_trouble = True
                self.fail(f"{self._name} does not answer, so the tracked run may be incomplete: {reply['error']}")
            if n_last >= LAST_ATTEMPTS:
                self._has_lost = True
                return False
            if self._closing.wait(RETRY_SECONDS):
                time.sleep(LAST_PAUSE_SECONDS)

    def _request(self, message: Message) -> Message:
        """Return the reply of the process; uploads get one more second per MiB."""
        uploads = [Path(message["folder"], path) for path in message.get("paths", ())]
        seconds = self._timeout + sum(path.stat().st_size for path in uploads if path.is_file()) / MIB
        if uploads:
            self._extend(seconds)
        raw = self._child.request(json.dumps(message).encode(), REQUEST_TIMEOUTS * seconds)
        reply: Message = json.loads(raw)
        return reply

    def _read(self, reply: Message) -> None:
        """Note the success of a message."""
        self._extend(self._timeout)
        if self._is_in_trouble:
            self._is_in_trouble = False
            self._notes.append((f"{self._name} answers again, and has got what it had missed", "info"))
        if "started" in reply:
            self._run = reply["started"]
            where = self._run.get("url") or self._run.get("folder") or f"run {self._run['id']}"
            self._notes.append((f"tracked by {self._name}: {where}", "info"))
