"""Order, retries and end of the messages to a tracker, with a scripted process."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpupipe.children import ChildError
from gpupipe.trackers import connection as connection_module
from gpupipe.trackers.connection import TrackerConnection
from gpupipe.trackers.worker import TrackerWorker

BUSY = {"error": "busy", "is_temporary": True}
REFUSED = {"error": "no such experiment", "is_temporary": False}
START = {"do": "start", "run": ""}
END = {"do": "end", "run": ""}


def log(step: int, run: str = "") -> dict[str, Any]:
    return {"do": "log", "run": run, "metrics": [["loss", 0.5, 1, step]], "params": {f"p{step}": "1"}, "tags": {}}


class ScriptedChild:
    """A process that gives the replies of a script, then accepts everything; it hangs at a reply of None."""

    def __init__(self, replies: Iterable[dict[str, Any] | ChildError | None]) -> None:
        self.replies = iter(replies)
        self.got: list[dict[str, Any]] = []
        self.is_closed = False
        self.killed, self.may_go_on = threading.Event(), threading.Event()

    def request(self, message: bytes, seconds: float) -> bytes:
        self.may_go_on.wait(30)
        self.got.append(json.loads(message))
        reply = next(self.replies, {})
        if reply is None:
            self.killed.wait(30)
            reply = ChildError("memory", "was killed (SIGKILL)")
        if isinstance(reply, ChildError):
            raise reply
        return json.dumps(reply).encode()

    def kill(self) -> None:
        self.killed.set()

    def close(self) -> None:
        self.is_closed = True


Sent = tuple[TrackerConnection, ScriptedChild]


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sent]:
    """Return a function that sends messages to a scripted process, and waits until they are sent."""
    monkeypatch.setattr(connection_module, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(connection_module, "LAST_PAUSE_SECONDS", 0.0)

    def send(replies: Iterable[Any], messages: Iterable[dict[str, Any]], timeout: float = 30.0) -> Sent:
        child = ScriptedChild(replies)
        monkeypatch.setattr(connection_module, "Child", lambda *arguments, **named: child)
        tracker = TrackerConnection("mlflow", "MLflow", lambda text: text.replace("s3cret", "***"), timeout)
        tracker.connect({}, None)
        for message in messages:
            tracker.send(message)
        child.may_go_on.set()
        tracker.wait_until_sent()
        tracker.close()
        assert child.is_closed
        return tracker, child

    return send


def test_messages_arrive_once_in_their_order_and_those_of_one_kind_are_joined(send: Callable[..., Sent]) -> None:
    messages = [START, log(1), log(2), log(3, "other"), log(4), END]
    tracker, child = send([{}, {"started": {"id": "7", "url": "http://h/7"}}], messages)
    assert [(each["do"], each.get("run", "")) for each in child.got] == [
        ("connect", ""), ("start", ""), ("log", ""), ("log", "other"), ("log", ""), ("end", ""),
    ]  # fmt: skip
    assert [point[3] for point in child.got[2]["metrics"]] == [1, 2]
    assert child.got[2]["params"] == {"p1": "1", "p2": "1"}
    assert messages[1] == log(1)  # other trackers get the same objects
    assert tracker.to_json() == {
        "tracker": "mlflow", "id": "7", "url": "http://h/7", "complete": True, "problem": None,
    }  # fmt: skip
    assert tracker.take_notes() == [("tracked by MLflow: http://h/7", "info")]
    assert tracker.take_notes() == []


def test_files_are_sent_to_mlflow_one_by_one(send: Callable[..., Sent], tmp_path: Path) -> None:
    files = {"do": "files", "run": "", "kind": "model", "folder": str(tmp_path), "paths": ["a", "b"]}
    _, child = send([], [START, files])
    assert [each["paths"] for each in child.got if each["do"] == "files"] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("replies", "n_got", "is_complete", "problem", "n_notes"),
    [
        ([{}, BUSY], 4, True, None, 0),  # one failure is not worth a warning
        ([{}, REFUSED], 2, False, "does not accept the run", 1),  # without the run, nothing else is sent
        ([REFUSED], 1, False, "does not accept the run", 1),
        ([{}, {}, REFUSED], 3, False, "does not accept the run, or a part of it: no such", 1),
        ([{}, *[BUSY] * 9], 3, False, "does not answer, so the tracked run may be incomplete: busy", 1),
        ([{}, ChildError("crash", "crashed (SIGSEGV)")], 2, False, "that logs to MLflow crashed (SIGSEGV)", 1),
    ],
    ids=["busy once", "refused", "not connected", "a part refused", "down at the end", "crash"],
)
def test_a_failure_costs_at_most_one_warning(
    send: Callable[..., Sent], replies: list[Any], n_got: int, is_complete: bool, problem: str | None, n_notes: int
) -> None:
    tracker, child = send(replies, [START, END])
    found = tracker.to_json()
    notes = tracker.take_notes()
    assert (found["complete"], len(notes)) == (is_complete, n_notes)
    assert found["problem"] is None if problem is None else problem in found["problem"]
    if problem is None or "does not answer" not in problem:
        assert len(child.got) == n_got
    else:  # attempts while the run goes on, and at most two after its end
        assert {each["do"] for each in child.got} == {"connect", "start"}


def test_a_process_that_hangs_is_killed_after_the_timeout(send: Callable[..., Sent]) -> None:
    tracker, child = send([{}, None], [START, END], 0.05)
    assert child.killed.is_set()
    assert tracker.to_json()["complete"] is False
    assert [text for text, _ in tracker.take_notes()] == [
        "MLflow did not answer within 50 ms (track.timeout), so the tracked run is incomplete"
    ]


def test_a_problem_has_no_secret(send: Callable[..., Sent]) -> None:
    tracker, _ = send([{"error": "no user s3cret", "is_temporary": False}], [])
    assert tracker.to_json()["problem"].endswith("no user ***")


class RecordingTracker:
    """A tracker that records its calls, of which some fail."""

    def __init__(self, settings: dict[str, Any], ids: dict[str, str]) -> None:
        self.ids = ids
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(run: str, *values: Any, **named: Any) -> dict[str, str]:
            self.calls.append((name, run, *values[:1], *(named[key] for key in ("status",) if key in named)))
            self.ids.setdefault(run, f"id of {run}")
            return {"id": self.ids[run]}

        return call

    def is_temporary(self, error: Exception) -> bool:
        return isinstance(error, OSError)


def test_a_worker_ends_open_runs_as_killed_and_repeats_no_finished_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = SimpleNamespace(WandbTracker=RecordingTracker)
    monkeypatch.setitem(sys.modules, "gpupipe.trackers.wandb_tracker", library)
    monkeypatch.setattr("gpupipe.trackers.worker.signal.setitimer", lambda *_: None)

    def connected() -> tuple[TrackerWorker, Callable[..., Any]]:
        worker = TrackerWorker()

        def do(**message: Any) -> Any:
            return json.loads(worker.handle(json.dumps(message).encode()))

        ids_path = str(tmp_path / "new" / "ids.json")
        assert do(do="connect", tracker="wandb", settings={}, timeout=5.0, ids_path=ids_path) == {}
        return worker, do

    worker, do = connected()
    assert do(do="start", run="") == {"started": {"id": "id of "}}
    assert do(do="start", run="a") == do(do="end", run="a", status="FINISHED") == {}
    assert do(do="start", run="b") == do(do="text", run="no start") == {}
    worker.end_runs()
    assert worker._tracker.calls[-2:] == [("end", "b", "KILLED"), ("end", "", "KILLED")]  # type: ignore[union-attr]

    again, do = connected()
    assert do(do="start", run="") == {"started": {"id": "id of "}}
    assert do(do="start", run="a") == do(do="log", run="a", metrics=[], params={}, tags={}) == {}
    assert again._tracker.calls == [("start", "")]  # type: ignore[union-attr]
    monkeypatch.setattr(
        RecordingTracker, "text", lambda *_: (_ for _ in ()).throw(OSError(5, "no route")), raising=False
    )
    assert do(do="text", run="") == {"error": "no route", "is_temporary": True}
