"""The prefetch thread and its buffers: order, depth, errors, early stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.tensors.prefetch import Ticket, move_batches, prefetch

PATIENCE = 60.0  # seconds until a thread that should have done something counts as hanging


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "gpupipe batches"]


@settings(deadline=None)
@given(n=st.integers(0, 30), depth=st.integers(1, 5))
def test_all_items_come_in_their_order(n: int, depth: int) -> None:
    assert list(prefetch(iter(range(n)), depth)) == list(range(n))
    assert not threads()


def test_the_thread_works_ahead_up_to_the_given_depth() -> None:
    taken, furthest = 0, []
    third = threading.Event()

    def items() -> Iterator[int]:
        for i in range(20):
            furthest.append(i - taken)
            if i == 3:
                third.set()
            yield i

    for item in prefetch(items(), depth=3):
        if item == 0:
            assert third.wait(PATIENCE)  # items 1, 2 and 3 are made while 0 is in use
        taken += 1
    assert max(furthest) == 3


def test_an_error_of_the_thread_is_raised_after_the_finished_items() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise LookupError("no third row")

    got = []
    with pytest.raises(LookupError, match="no third row"):
        for item in prefetch(items(), 2):
            got.append(item)
    assert got == [1]
    assert not threads()


def test_an_early_end_stops_the_thread() -> None:
    for item in prefetch(iter(range(10**9)), 2):
        if item == 3:
            break
    assert not threads()


def test_an_error_of_the_consumer_stops_the_thread() -> None:
    def consume() -> None:
        for _ in prefetch(iter(range(10**9)), 2):
            raise KeyError

    with pytest.raises(KeyError):
        consume()
    assert not threads()


class LateTicket:
    """A copy that happens only when a consumer waits for it: as late as possible."""

    def __init__(self, copy: Any) -> None:
        self._copy, self._lock, self.done = copy, threading.Lock(), False

    def synchronize(self) -> None:
        with self._lock:
            if not self.done:
                self._copy()
            self.done = True


class LateMover:
    """Moves on the host, as late as can be: a buffer that is written too early spoils what was sent from it."""

    def __init__(self, size: int) -> None:
        self.size, self.made, self.closed = size, 0, 0
        self.threads: set[str] = set()

    def buffers(self) -> tuple[Any, ...]:
        self.made += 1
        return (torch.empty(self.size, 2), torch.empty(self.size, dtype=torch.int64))

    def send(self, filled: tuple[Any, ...]) -> tuple[tuple[Any, ...], LateTicket]:
        self.threads.add(threading.current_thread().name)
        sent = tuple(torch.full_like(part, -1) for part in filled)
        return sent, LateTicket(lambda: [to.copy_(part) for to, part in zip(sent, filled, strict=True)])

    def receive(self, sent: tuple[Any, ...], ticket: Ticket) -> tuple[Any, ...]:
        ticket.synchronize()
        return sent

    def close(self) -> None:
        self.closed += 1


def fill(job: range, buffers: tuple[Any, ...]) -> tuple[Any, ...]:
    filled = tuple(buffer[: len(job)] for buffer in buffers)
    filled[0].copy_(torch.tensor(job)[:, None].expand(-1, 2))
    filled[1].copy_(torch.tensor(job))
    return filled


@settings(deadline=None)
@given(n=st.integers(0, 40), size=st.integers(1, 8), depth=st.integers(1, 4))
def test_a_buffer_is_not_written_again_before_its_copy_is_done(n: int, size: int, depth: int) -> None:
    jobs = [range(start, min(n, start + size)) for start in range(0, n, size)]
    mover = LateMover(size)
    got = list(move_batches(fill, jobs, mover, depth))
    assert [codes.tolist() for _, codes in got] == [list(job) for job in jobs]  # kept in a list, none has changed
    assert all((numbers == codes[:, None]).all() for numbers, codes in got)
    assert (mover.made, mover.closed) == (depth, 1)
    assert mover.threads <= {"gpupipe batches"}


def test_the_mover_is_closed_after_the_thread_has_ended() -> None:
    class Mover(LateMover):
        def close(self) -> None:
            assert not threads()
            super().close()

    mover = Mover(2)
    batches = move_batches(fill, [range(i, i + 2) for i in range(1000)], mover, 2)
    assert len(list(islice(batches, 3))) == 3
    batches.close()  # type: ignore[attr-defined]
    assert mover.closed == 1


def test_an_error_while_a_buffer_is_filled_reaches_the_consumer() -> None:
    def fails(job: range, buffers: tuple[Any, ...]) -> tuple[Any, ...]:
        if job.start == 4:
            raise OSError("the file is gone")
        return fill(job, buffers)

    mover = LateMover(2)
    with pytest.raises(OSError, match="the file is gone"):
        list(move_batches(fails, [range(i, i + 2) for i in range(0, 8, 2)], mover, 2))
    assert mover.closed == 1
    assert not threads()
