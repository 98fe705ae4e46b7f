"""Main module of the child process of a tracker: messages in, as lines of JSON, and answers out.

Messages that fail for a temporary reason are sent again in their order until the run ends, so that a server may be
restarted during the run. At the end each message has two more attempts, until the first that fails.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

from gpupipe.trackers.tracker import ExperimentTracker, MetricPoint, TrackedDataset
from gpupipe.units import MIB

RETRY_SECONDS = 3.0
WARNED_AFTER = 2  # failures of one message
LAST_ATTEMPTS, LAST_PAUSE_SECONDS = 2, 0.2
NICENESS = 5  # the training has precedence
MOST_TOGETHER = 200  # messages that are joined into one request
MOST_TEXT = 500  # characters of an error

Message = dict[str, Any]


class TrackerWorker:
    """Loop of the child process.

    `first` has the settings: ``tracker``, ``settings``, ``timeout``, and ``ids_path``, the file of the ids of the runs.
    """

    def __init__(self, first: Message, answers: TextIO) -> None:
        self._first, self._answers = first, answers
        self._answer_lock = threading.Lock()
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._waiting: Message | None = None
        self._is_over = False
        self._closing, self._is_complete = threading.Event(), False
        self._is_in_trouble = self._has_given_up = self._has_lost = False
        self._open: list[str] = []
        self._ended: set[str] = set()  # nested runs that an interrupted run has finished
        path = first["ids_path"]
        self._ids_path = None if path is None else Path(path)
        self._ids: dict[str, str] = {}
        self._tracker: ExperimentTracker

    def run(self) -> None:
        """Send all messages."""
        threading.Thread(target=self._receive, daemon=True).start()
        self._load_ids()
        try:
            self._tracker = _make_tracker(self._first, self._ids, self._announce_upload)
        except Exception as error:
            self._answer(failure=_described(error))
            return
        while (message := self._next()) is not None and not self._has_given_up:
            if message["do"] == "flush":
                self._answer(sent=not self._has_lost)
            else:
                self._handle(message)
        if not self._is_complete:  # the process of the run is gone
            for run in reversed(list(self._open)):
                self._handle({"do": "end", "run": run, "status": "KILLED", "time_ms": _now_ms()})
        if self._has_given_up:
            self._answer(sent=False)

    def _receive(self) -> None:
        """Read messages until the end of the run, or of its process."""
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message["do"] == "close":
                self._is_complete = True
                break
            if message["do"] == "flush":
                self._closing.set()
            self._messages.put(message)
        if not self._is_complete:  # without a timer, a server that hangs would keep this process
            deadline = threading.Timer(self._first["timeout"], os._exit, (1,))
            deadline.daemon = True
            deadline.start()
        self._closing.set()
        self._messages.put(None)

    def _next(self) -> Message | None:
        """Return the next message, joined with those after it of the same kind."""
        if self._waiting is not None:
            message, self._waiting = self._waiting, None
        elif self._is_over or (found := self._messages.get()) is None:
            return None
        else:
            message = found
        for _ in range(MOST_TOGETHER):
            if message["do"] != "log" or self._messages.empty():
                break
            after = self._messages.get()
            if after is None:
                self._is_over = True
                break
            if (after["do"], after.get("run")) != ("log", message["run"]):
                self._waiting = after
                break
            message["metrics"] += after["metrics"]
            message["params"] |= after["params"]
            message["tags"] |= after["tags"]
        return message

    def _handle(self, message: Message) -> None:
        """Send a message, again after temporary failures."""
        if message["run"] in self._ended:
            return
        n_failed = n_last = 0  # failed attempts, and attempts after the end of the run
        while True:
            n_last += self._closing.is_set()
            try:
                self._send(message)
            except Exception as error:
                if not self._tracker.is_temporary(error):
                    self._has_lost = True
                    self._answer(failure=_described(error))
                    self._has_given_up |= (message["do"], message["run"]) == ("start", "")
                    return
                n_failed += 1
                if n_failed >= WARNED_AFTER and not self._is_in_trouble:
                    self._is_in_trouble = True
                    self._answer(trouble=_described(error))
                if n_last >= LAST_ATTEMPTS:
                    self._has_given_up = True
                    return
                if not self._closing.wait(RETRY_SECONDS):
                    continue
                time.sleep(LAST_PAUSE_SECONDS)
            else:
                was_in_trouble, self._is_in_trouble = self._is_in_trouble, False
                self._answer(**({"recovered": True} if was_in_trouble else {}))
                return

    def _send(self, message: Message) -> None:
        do, run = message["do"], message["run"]
        arguments = {name: value for name, value in message.items() if name != "do"}
        if do == "start":
            found = self._tracker.start(**arguments)
            self._open.append(run)
            self._save_ids()
            if not run:
                self._answer(started=found)
        elif run not in self._open:  # its start was refused
            return
        elif do == "log":
            metrics = [MetricPoint(*each) for each in message["metrics"]]
            self._tracker.log(run, message["params"], metrics, message["tags"])
        elif do == "dataset":
            self._tracker.dataset(run, TrackedDataset(**message["found"]))
        else:
            getattr(self._tracker, do)(**arguments)
        if do == "end":
            self._open.remove(run)
            if run and message["status"] == "FINISHED":
                self._ended.add(run)
                self._save_ids()

    def _load_ids(self) -> None:
        """Read the ids of an interrupted run; without a valid file, all runs are new."""
        if self._ids_path is None:
            return
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._ids_path.read_text(encoding="utf-8"))
            self._ids.update({str(run): str(id_) for run, id_ in found["ids"].items()})
            self._ended.update(map(str, found["ended"]))

    def _save_ids(self) -> None:
        if self._ids_path is None:
            return
        with suppress(OSError):  # then --resume starts a new run
            self._ids_path.parent.mkdir(0o700, parents=True, exist_ok=True)
            text = json.dumps({"ids": self._ids, "ended": sorted(self._ended)})
            draft = self._ids_path.with_suffix(f".{os.getpid()}.tmp")
            draft.unlink(missing_ok=True)  # of an earlier process; "x" follows no link
            with draft.open("x", encoding="utf-8") as file:
                file.write(text)
            draft.replace(self._ids_path)

    def _announce_upload(self, n_bytes: int) -> None:
        self._answer(seconds=n_bytes / MIB)

    def _answer(self, **values: Any) -> None:
        with self._answer_lock, suppress(OSError, ValueError):  # the process of the run is gone
            self._answers.write(json.dumps(values) + "\n")
            self._answers.flush()


def _make_tracker(first: Message, ids: dict[str, str], uploading: Any) -> ExperimentTracker:
    if first["tracker"] == "mlflow":
        from gpupipe.trackers.mlflow_tracker import MlflowTracker

        return MlflowTracker(first["settings"], ids, uploading)
    from gpupipe.trackers.wandb_tracker import WandbTracker

    return WandbTracker(first["settings"], ids, uploading)


def _described(error: Exception) -> str:
    """Return an error in one line; of a connection, only the cause, which libraries wrap up to four times."""
    found: BaseException = error
    while (inner := _cause_of(found)) is not None:
        found = inner
    text = (found.strerror or str(found)) if isinstance(found, OSError) else str(error)
    text = " ".join(text.split()) or type(error).__name__
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"


def _cause_of(error: BaseException) -> BaseException | None:
    """Return the error that another one wraps; urllib3 has some of them as arguments only."""
    inner = error.__cause__ or error.__context__
    return inner or next((each for each in error.args if isinstance(each, BaseException)), None)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main() -> None:
    """Run the child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(NICENESS)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # libraries print
    os.dup2(nowhere, 2)
    line = sys.stdin.buffer.readline()
    if line:
        TrackerWorker(cast(Message, json.loads(line)), answers).run()
    os._exit(0)  # do not wait for threads of libraries


if __name__ == "__main__":
    main()
