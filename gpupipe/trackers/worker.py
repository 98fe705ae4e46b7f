"""Main module of the child process of a tracker: it alone imports the library of the tracker."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpupipe.children import serve
from gpupipe.errors import GpupipeError
from gpupipe.files.file import write_text
from gpupipe.trackers.tracker import ExperimentTracker, MetricPoint, TrackedDataset

NICENESS = 5  # the training has precedence
LAST_ATTEMPTS = 2  # to end a run as killed: the connection to the server may have been idle for too long
MOST_TEXT = 500  # characters of an error


class TrackerWorker:
    """Handler of the messages to one tracker; `gpupipe.trackers.connection` sends them."""

    def __init__(self) -> None:
        self._tracker: ExperimentTracker | None = None
        self._timeout = 0.0
        self._ids: dict[str, str] = {}
        self._ids_path: Path | None = None  # of the ids of an interrupted run
        self._open: list[str] = []
        self._ended: set[str] = set()  # nested runs that an interrupted run has finished

    def handle(self, message: bytes) -> bytes:
        """Return the reply to a message: ``started`` with the tracked run, or ``error`` and ``is_temporary``."""
        try:
            reply = self._do(**json.loads(message))
        except Exception as error:
            is_temporary = self._tracker is not None and self._tracker.is_temporary(error)
            reply = {"error": _described(error), "is_temporary": is_temporary}
        return json.dumps(reply).encode()

    def end_runs(self) -> None:
        """End the runs that are still open as killed, since the process of the run is gone."""
        if self._tracker is None:
            return
        signal.setitimer(signal.ITIMER_REAL, self._timeout)  # otherwise a server that hangs would keep this process
        for run in reversed(self._open):
            for _ in range(LAST_ATTEMPTS):
                with suppress(Exception):
                    self._tracker.end(run, "KILLED", time.time_ns() // 1_000_000)
                    break

    def _do(self, do: str, run: str = "", **values: Any) -> dict[str, Any]:
        if do == "connect":
            self._connect(**values)
            return {}
        assert self._tracker is not None
        if run in self._ended:
            return {}
        if do == "start":
            found = self._tracker.start(run, **values)
            self._open.append(run)
            self._save_ids()
            return {} if run else {"started": found}
        if run not in self._open:  # its start was refused
            return {}
        if do == "log":
            values["metrics"] = [MetricPoint(*each) for each in values["metrics"]]
        if do == "dataset":
            values["found"] = TrackedDataset(**values["found"])
        getattr(self._tracker, do)(run, **values)
        if do == "end":
            self._open.remove(run)
            if run and values["status"] == "FINISHED":
                self._ended.add(run)
                self._save_ids()
        return {}

    def _connect(self, tracker: str, settings: dict[str, Any], timeout: float, ids_path: str | None) -> None:
        """Read the ids of an interrupted run, and make the tracker; without a valid file, all runs are new."""
        self._timeout = timeout
        if ids_path is not None:
            self._ids_path = Path(ids_path)
            with suppress(OSError, ValueError, KeyError, TypeError):
                found = json.loads(self._ids_path.read_text(encoding="utf-8"))
                self._ids.update({str(run): str(id_) for run, id_ in found["ids"].items()})
                self._ended.update(map(str, found["ended"]))
        if tracker == "mlflow":
            from gpupipe.trackers.mlflow_tracker import MlflowTracker

            self._tracker = MlflowTracker(settings, self._ids)
        else:
            from gpupipe.trackers.wandb_tracker import WandbTracker

            self._tracker = WandbTracker(settings, self._ids)

    def _save_ids(self) -> None:
        if self._ids_path is not None:
            with suppress(OSError, GpupipeError):  # then --resume starts a new run
                self._ids_path.parent.mkdir(0o700, parents=True, exist_ok=True)
                write_text(self._ids_path, json.dumps({"ids": self._ids, "ended": sorted(self._ended)}))


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


def main() -> None:
    """Run the child process."""
    with suppress(OSError):
        os.nice(NICENESS)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # libraries print
    os.dup2(nowhere, 2)
    worker = TrackerWorker()
    serve(worker.handle, worker.end_runs)


if __name__ == "__main__":
    main()
