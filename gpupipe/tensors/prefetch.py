"""Mini-batches made ahead of who takes them: a thread fills buffers, a mover sends them to where they are used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import torch

from gpupipe.typing import Array

T = TypeVar("T")
Job = TypeVar("Job")
Tensors = tuple[Any, ...]

ITEM, END, ERROR = range(3)


class Ticket(Protocol):
    """A copy that was begun."""

    def synchronize(self) -> None:
        """Return when the copy is done."""


class Mover(Protocol):
    """Sends tensors from buffers on the host to another memory."""

    def buffers(self) -> Tensors:
        """Return new buffers, one for each part of a mini-batch."""

    def send(self, filled: Tensors) -> tuple[Tensors, Ticket]:
        """Begin to copy; the buffers may be written again when the ticket says so."""

    def receive(self, sent: Tensors, ticket: Ticket) -> Tensors:
        """Return the tensors so that whatever uses them next comes after the copy."""

    def close(self) -> None:
        """Called in the end: what was sent and not received may be given up after it."""


def prefetch(items: Iterator[T], depth: int) -> Iterator[T]:
    """Yield `items`, which a thread makes up to `depth` ahead.

    An error in the thread is raised here. However the iteration ends, the thread has ended with it.
    """
    made: SimpleQueue[tuple[int, Any]] = SimpleQueue()
    free, stopped = threading.Semaphore(depth), threading.Event()

    def work() -> None:
        try:
            while free.acquire() and not stopped.is_set():
                made.put((ITEM, next(items)))
        except StopIteration:
            made.put((END, None))
        except BaseException as error:  # whatever it is, who waits must hear of it
            made.put((ERROR, error))

    thread = threading.Thread(target=work, name="gpupipe batches", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = made.get()
            if kind == END:
                return
            if kind == ERROR:
                raise value
            free.release()
            yield value
    finally:
        stopped.set()
        free.release()
        thread.join()


def move_batches(
    fill: Callable[[Job, Tensors], Tensors], jobs: Iterable[Job], mover: Mover, depth: int
) -> Iterator[Tensors]:
    """Yield the tensors of each job, moved by `mover`, in order.

    Parameters
    ----------
    fill : callable
        ``(job, buffers) -> the parts of the buffers that it filled``; runs in the thread.
    jobs : iterable
    mover : Mover
    depth : int
        How many mini-batches may be under way.
    """
    sent = prefetch(_send(fill, jobs, mover, depth), depth)
    try:
        for tensors, ticket in sent:
            yield mover.receive(tensors, ticket)
    finally:
        sent.close()  # type: ignore[attr-defined]  # a generator: the thread ends before the mover does
        mover.close()


def _send(
    fill: Callable[[Job, Tensors], Tensors], jobs: Iterable[Job], mover: Mover, depth: int
) -> Iterator[tuple[Tensors, Ticket]]:
    """Fill the buffers in turn, each of them only when its last copy is done."""
    ring = [mover.buffers() for _ in range(depth)]
    tickets: list[Ticket | None] = [None] * depth
    for i, job in enumerate(jobs):
        ticket = tickets[i % depth]
        if ticket is not None:
            ticket.synchronize()
        sent = mover.send(fill(job, ring[i % depth]))
        tickets[i % depth] = sent[1]
        yield sent


class CudaMover:
    """Copies from pinned memory on a stream of its own.

    What it hands over was allocated on the stream that was current when the mover was made, that of who iterates. So
    memory that is given back is used again in the order of that stream, with any allocator; PyTorch's ``record_stream``
    does nothing in RMM's. For the same reason a copy begins after what that stream had been given by then.

    Parameters
    ----------
    device : torch.device
    parts : sequence of tensor
        Whose rows are sent.
    batch_size : int
        Most rows at a time.
    """

    def __init__(self, device: Any, parts: Sequence[Array], batch_size: int) -> None:
        self._device, self._parts, self._batch_size = device, parts, batch_size
        self._consumer = torch.cuda.current_stream(device)
        self._copies = torch.cuda.Stream(device)

    def buffers(self) -> Tensors:
        return tuple(
            torch.empty((self._batch_size, *part.shape[1:]), dtype=part.dtype, pin_memory=True) for part in self._parts
        )

    def send(self, filled: Tensors) -> tuple[Tensors, Any]:
        with torch.cuda.stream(self._consumer):
            sent = tuple(torch.empty_like(part, device=self._device) for part in filled)
        self._copies.wait_stream(self._consumer)
        with torch.cuda.stream(self._copies):
            for target, part in zip(sent, filled, strict=True):
                target.copy_(part, non_blocking=True)
        return sent, self._copies.record_event()

    def receive(self, sent: Tensors, ticket: Any) -> Tensors:
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(ticket)
        for tensor in sent:
            tensor.record_stream(stream)  # for who iterates on another stream than the one that it began on
        return sent

    def close(self) -> None:
        self._consumer.wait_stream(self._copies)  # memory of what was not received is used again after its copy only
