"""Prefetch of mini-batches: a thread fills pinned buffers, and a mover copies them to the device."""

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
    """An asynchronous copy."""

    def synchronize(self) -> None:
        """Wait until the copy is complete."""


class Mover(Protocol):
    """Copier of tensors from buffers on the host to other memory."""

    def buffers(self) -> Tensors:
        """Return new buffers, one for each part of a mini-batch."""

    def send(self, filled: Tensors) -> tuple[Tensors, Ticket]:
        """Start a copy; the buffers may be overwritten once the ticket has synchronized."""

    def receive(self, sent: Tensors, ticket: Ticket) -> Tensors:
        """Return the tensors, with all later work on the current stream ordered after the copy."""

    def close(self) -> None:
        """Finish: tensors that were sent and not received may be freed afterwards."""


def prefetch(items: Iterator[T], depth: int) -> Iterator[T]:
    """Yield `items`, produced up to `depth` ahead by a thread.

    An error in the thread is raised here. The thread has ended when the iteration ends, however it ends.
    """
    made: SimpleQueue[tuple[int, Any]] = SimpleQueue()
    free, stopped = threading.Semaphore(depth), threading.Event()

    def work() -> None:
        try:
            while free.acquire() and not stopped.is_set():
                made.put((ITEM, next(items)))
        except StopIteration:
            made.put((END, None))
        except BaseException as error:  # raised in the consumer, or it would wait for ever
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
        ``(job, buffers) -> the filled slices of the buffers``; runs in the thread.
    jobs : iterable
    mover : Mover
    depth : int
        Number of mini-batches in flight.
    """
    sent = prefetch(_send(fill, jobs, mover, depth), depth)
    try:
        for tensors, ticket in sent:
            yield mover.receive(tensors, ticket)
    finally:
        sent.close()  # type: ignore[attr-defined]  # a generator: closing it ends the thread, before the mover closes
        mover.close()


def _send(
    fill: Callable[[Job, Tensors], Tensors], jobs: Iterable[Job], mover: Mover, depth: int
) -> Iterator[tuple[Tensors, Ticket]]:
    """Fill the buffers in turn, each of them only after its previous copy is complete."""
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
    """Copies from pinned memory on a separate stream.

    Tensors are allocated on the consumer's stream: the one that was current when the mover was made. Freed memory is
    then reused in the order of that stream under any allocator; PyTorch's ``record_stream`` has no effect with RMM. For
    the same reason a copy starts after the work already queued on that stream.

    Parameters
    ----------
    device : torch.device
    parts : sequence of tensor
        Tensors whose rows are sent; they define the shapes and dtypes of the buffers.
    batch_size : int
        Maximum number of rows per batch.
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
            tensor.record_stream(stream)  # the consumer may have switched streams since
        return sent

    def close(self) -> None:
        self._consumer.wait_stream(self._copies)  # memory of tensors never received is reused only after their copies
