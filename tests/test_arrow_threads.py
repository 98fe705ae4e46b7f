"""Tests of Arrow's threads at the end of the process."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyarrow import csv

from gpupipe import arrow_threads
from gpupipe.arrow_threads import await_arrow_threads, count_arrow_tasks

# A reader is dropped in the middle of its stream, whose next block arrives while the process ends.
DROPPED = """
import atexit, threading
import gpupipe
import pyarrow as pa
from pyarrow import csv

class LateStream:
    closed, n_read = False, 0
    def readable(self):
        return True
    def close(self):
        pass
    def read(self, size):
        self.n_read += 1
        if self.n_read > 3:
            waiting.set()
            ending.wait()
            return b""
        return b"1,2\\n" * (size // 4)

waiting, ending = threading.Event(), threading.Event()
reader = csv.open_csv(pa.PythonFile(LateStream(), "r"), csv.ReadOptions(block_size=16))
print(reader.read_next_batch().num_rows)
waiting.wait()
del reader
atexit.register(ending.set)
"""


class BlockedStream:
    """Stream of CSV text whose fourth block arrives when `allowed` is set."""

    closed = False

    def __init__(self) -> None:
        self.waiting, self.allowed, self.n_read = threading.Event(), threading.Event(), 0

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def read(self, size: int) -> bytes:
        self.n_read += 1
        if self.n_read > 3:
            self.waiting.set()
            self.allowed.wait()
            return b""
        return b"1,2\n" * (size // 4)


@pytest.fixture
def blocked() -> Iterator[BlockedStream]:
    """Yield a stream whose reader was dropped while Arrow reads from it."""
    stream = BlockedStream()
    csv.open_csv(pa.PythonFile(stream, "r"), csv.ReadOptions(block_size=16)).read_next_batch()
    stream.waiting.wait()
    yield stream
    stream.allowed.set()
    await_arrow_threads()


def test_a_process_that_dropped_a_reader_ends_normally() -> None:
    end = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True, timeout=60)
    assert (end.returncode, end.stdout, end.stderr) == (0, "3\n", "")


def test_reads_of_a_dropped_reader_are_awaited(blocked: BlockedStream) -> None:
    assert count_arrow_tasks() > 0
    threading.Timer(0, blocked.allowed.set).start()
    await_arrow_threads()
    assert count_arrow_tasks() == 0


def test_a_thread_that_hangs_does_not_keep_the_process(blocked: BlockedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_threads, "MOST_SECONDS", 0.0)
    await_arrow_threads()
    assert count_arrow_tasks() > 0


def test_another_pyarrow_without_these_functions_is_tolerated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_threads, "N_TASKS", "absent")
    with pytest.raises(AttributeError):
        count_arrow_tasks()
    await_arrow_threads()
