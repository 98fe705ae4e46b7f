"""Mini-batches from the host to a CUDA device while the device computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpupipe.tensors.prefetch import Tensors
from gpupipe.typing import Array


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
        """Return pinned memory for one mini-batch."""
        return tuple(
            torch.empty((self._batch_size, *part.shape[1:]), dtype=part.dtype, pin_memory=True) for part in self._parts
        )

    def send(self, filled: Tensors) -> tuple[Tensors, Any]:
        """Begin to copy on the side stream; the ticket is the event behind the copy."""
        with torch.cuda.stream(self._consumer):
            sent = tuple(torch.empty_like(part, device=self._device) for part in filled)
        self._copies.wait_stream(self._consumer)
        with torch.cuda.stream(self._copies):
            for target, part in zip(sent, filled, strict=True):
                target.copy_(part, non_blocking=True)
        return sent, self._copies.record_event()

    def receive(self, sent: Tensors, ticket: Any) -> Tensors:
        """Let the current stream wait for the copy."""
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(ticket)
        for tensor in sent:
            tensor.record_stream(stream)  # for who iterates on another stream than the one that it began on
        return sent

    def close(self) -> None:
        """Let the memory of what was not received be used again after its copy only."""
        self._consumer.wait_stream(self._copies)
