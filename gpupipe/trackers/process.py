"""Connection of a run to the child process of a tracker; sending never blocks."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gpupipe.children import child_environment, python_command

MODULE = "gpupipe.trackers.worker"


class TrackerProcess:
    """Child process of one tracker.

    It is in its own session: Ctrl-C does not reach it, and it outlives a killed run to end the tracked run.

    For `first`, see `gpupipe.trackers.worker.TrackerWorker`. It is sent over the pipe, since other users can
    see arguments. `environment` has variables to set, unless the user has set them. After `timeout` seconds without an
    answer, `close` kills the process. OSError is raised if the process cannot be started.
    """

    def __init__(self, first: Mapping[str, Any], environment: Mapping[str, str], timeout: float) -> None:
        unset = {name: value for name, value in environment.items() if name not in os.environ}
        self._timeout = timeout
        self._process = subprocess.Popen(
            python_command("-m", MODULE),
            env=child_environment(unset),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._sent, self._ended = threading.Event(), threading.Event()
        self._wait_until = 0.0
        for target in (self._write, self._read):
            threading.Thread(target=target, name="gpupipe-tracker", daemon=True).start()
        self.send(first)

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message of JSON values."""
        self._outgoing.put(json.dumps(message).encode() + b"\n")

    def take_answers(self) -> list[dict[str, Any]]:
        """Return the answers since the last call; the last of all is ``{"exit": code}``."""
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._answers.get_nowait())
        return found

    def wait_until_sent(self) -> bool:
        """Wait until the messages so far are handled; return False if the process had to be killed."""
        self.send({"do": "flush"})
        return self._wait(self._sent)

    def close(self) -> bool:
        """Wait until all messages are handled and the process has ended; return False if it had to be killed."""
        self.send({"do": "close"})
        self._outgoing.put(None)
        return self._wait(self._ended)

    def _wait(self, event: threading.Event) -> bool:
        self._wait_until = time.monotonic() + self._timeout
        while not event.wait(max(0.0, self._wait_until - time.monotonic())):
            if time.monotonic() >= self._wait_until:
                self.kill()
                return False
        return True

    def abandon(self) -> None:
        """Close the connection without waiting: the child ends the tracked run as killed."""
        self._outgoing.put(None)

    def kill(self) -> None:
        """Kill the child and the processes that it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._ended.wait(1.0)

    def _write(self) -> None:
        """Thread that writes messages to the pipe, which is full while the child does not read."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # the child has ended
            while (line := self._outgoing.get()) is not None:
                self._process.stdin.write(line)
                if self._outgoing.empty():
                    self._process.stdin.flush()
        with suppress(OSError, ValueError):
            self._process.stdin.close()

    def _read(self) -> None:
        """Thread that reads answers until the child ends."""
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            for line in answers:
                with suppress(ValueError):  # cut by a kill
                    answer = json.loads(line)
                    self._wait_until = time.monotonic() + self._timeout + answer.pop("seconds", 0.0)
                    if answer:
                        self._answers.put(answer)
                    if "sent" in answer:
                        self._sent.set()
        self._answers.put({"exit": self._process.wait()})
        self._sent.set()
        self._ended.set()
