"""Restarts of worker processes, with processes that are killed and that fail."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from gpupipe.children import python_command
from gpupipe.serve.settings import ServeSettings
from gpupipe.serve.supervisor import MAX_DELAY_SECONDS, Supervisor, Worker

End = Callable[[bool, str], float]


@pytest.fixture
def end() -> Iterator[End]:
    """Run a worker that becomes ready or not, and ends by a signal or exit code; return the delay of its restart."""
    with socket.socket() as listener:
        supervisor: Any = Supervisor(ServeSettings("model", workers=2), listener, lambda: None)
        supervisor._was_ready = True

        def run(is_ready: bool, how: str) -> float:
            command = (
                f"import os, signal; os.kill(os.getpid(), signal.{how})" if how.startswith("SIG") else f"exit({how})"
            )
            process = subprocess.Popen(python_command("-c", command))
            ours, theirs = socket.socketpair()
            worker = supervisor._workers[0] = Worker(0, process, ours)
            supervisor._selector.register(ours, 1, worker)
            with theirs:
                if is_ready:
                    theirs.sendall(b"ready")
                    supervisor._read(worker)
            process.wait()
            before = monotonic()
            supervisor._read(worker)
            return float(round(max(0.0, supervisor._restarts.pop(0) - before), 1))

        yield run
        supervisor._selector.close()
        os.close(supervisor._metrics_fd)


def test_workers_that_are_killed_or_were_ready_are_restarted_at_once(end: End) -> None:
    for _ in range(6):
        assert [end(False, "SIGKILL"), end(False, "SIGTERM"), end(True, "SIGKILL"), end(True, "SIGABRT")] == [0.0] * 4
    assert end(True, "3") == 0.0


def test_starts_that_fail_by_themselves_are_delayed_until_one_succeeds(end: End) -> None:
    delays = [end(False, how) for how in ("5", "SIGSEGV", "1", "5", "5", "5", "5", "5")]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 4.0, 4.0] and MAX_DELAY_SECONDS < 5
    assert [end(False, "SIGKILL"), end(False, "5")] == [0.0, 4.0]  # a kill says nothing about the model
    assert [end(True, "5"), end(False, "5")] == [0.0, 0.1]
