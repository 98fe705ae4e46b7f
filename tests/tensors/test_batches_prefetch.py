"""The prefetch thread and its buffers: order, depth, errors, early stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.tensors import prefetch as prefetching
from gpupipe.tensors.prefetch import CudaMover, Ticket, move_batches, prefetch

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


class FakeStream:
    """A stream that records the names of the work before its next; an event is the work before it."""

    def __init__(self) -> None:
        self.done: frozenset[str] = frozenset()

    def run(self, name: str) -> frozenset[str]:
        self.done |= {name}
        return self.done

    def record_event(self) -> Any:
        return SimpleNamespace(done=self.done, synchronize=lambda: None)

    def wait_event(self, event: Any) -> None:
        self.done |= event.done

    def wait_stream(self, other: FakeStream) -> None:
        self.done |= other.done


class FakeCuda:
    """PyTorch with two streams, and tensors that hold the number of a mini-batch and the work that reads them."""

    def __init__(self) -> None:
        self.consumer, self.copies = FakeStream(), FakeStream()
        self.local = threading.local()
        self.cuda = SimpleNamespace(
            current_stream=lambda device: self.current(), Stream=lambda device: self.copies, stream=self.stream
        )
        self.copied: dict[int, frozenset[str]] = {}
        self.received: dict[int, frozenset[str]] = {}

    def current(self) -> FakeStream:
        return getattr(self.local, "stream", self.consumer)

    @contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before = self.current()
        self.local.stream = stream
        yield
        self.local.stream = before

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Any = None, pin_memory: bool = False) -> Any:
        return FakeTensor(self, shape[0])


class FakeTensor:
    """A tensor of one number, the mini-batch that it holds."""

    def __init__(self, torch: FakeCuda, size: int) -> None:
        self.torch, self.size, self.memory, self.read_by = torch, size, [-1], ["nothing"]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: slice) -> FakeTensor:
        part = FakeTensor(self.torch, min(rows.stop, self.size))
        part.memory, part.read_by = self.memory, self.read_by
        return part

    def copy_(self, other: FakeTensor, non_blocking: bool) -> None:
        (batch,) = self.memory[:] = other.memory
        self.torch.copied[batch] = needs = self.torch.current().run(f"copy {batch}")
        assert self.read_by[0] in needs | {"nothing"}  # what was in this memory has been read
        self.read_by[:] = [f"clone {batch}"]

    def clone(self) -> FakeTensor:
        made, (batch,) = FakeTensor(self.torch, self.size), self.memory
        made.memory = [batch]
        self.torch.received[batch] = self.torch.current().run(f"clone {batch}")
        return made


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_copies_to_a_device_overlap_with_the_steps_of_a_consumer(monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    torch = FakeCuda()
    monkeypatch.setattr(prefetching, "torch", torch)
    torch.consumer.run("work before")
    mover = CudaMover("cuda", [SimpleNamespace(shape=(100, 2), dtype="float32")], 8, depth)

    def number(job: int, buffers: tuple[Any, ...]) -> tuple[Any, ...]:
        buffers[0].memory[:] = [job]
        return (buffers[0][:5],)

    kept = []
    for k, (batch,) in enumerate(move_batches(number, range(20), mover, depth)):
        kept.append(batch)
        torch.consumer.run(f"step {k}")
    for k in range(20):
        assert f"copy {k}" in torch.received[k]  # a consumer waits for its own copy
        assert "work before" in torch.copied[k]  # whose memory the ring may have
        steps = {int(name.split()[1]) for name in torch.copied[k] if name.startswith("step")}
        assert max(steps, default=-1) <= max(-1, k - depth - 2)  # the copy overlaps with those from k - depth - 1 on
    assert [batch.memory for batch in kept] == [[k] for k in range(20)] and {len(batch) for batch in kept} == {5}
    assert {f"copy {k}" for k in range(20)} <= torch.consumer.done  # the ring is freed after its last use
