"""Row order of an epoch, the rows of each rank, and the epoch counter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gpupipe.typing import HostArray

KEY_BITS = 31  # size of the iteration key in the cell that all processes of a `DataLoader` share


def permutation(n_rows: int, seed: int, epoch: int) -> HostArray:
    """Return the order of the rows in an epoch: int64, shape (n_rows,).

    It depends on these three numbers only. NumPy guarantees a stable bit stream for Philox across versions; it does not
    for ``Generator.permutation``, nor does PyTorch for ``randperm``. Rows are therefore sorted by the random bits, with
    the row number in the low bits: all keys differ, so every sorting algorithm agrees.
    """
    low = max(n_rows - 1, 1).bit_length()
    keys = np.random.Philox(key=[seed, epoch]).random_raw(n_rows)
    keys >>= np.uint64(low)
    keys <<= np.uint64(low)
    keys |= np.arange(n_rows, dtype=np.uint64)
    keys.sort()
    keys &= np.uint64((1 << low) - 1)
    return keys.view(np.int64)


@dataclass(frozen=True)
class RankBatches:
    """The bounds of one rank's mini-batches.

    In step s the ranks together take the rows ``order[s * n : (s + 1) * n]`` with ``n = batch_size * world_size``, one
    contiguous range each. The last step may have fewer rows: it is then split as evenly as possible, and dropped if
    there is less than one row per rank. All ranks therefore take the same number of steps.

    With `drop_last`, a last step with fewer than n rows is dropped.
    """

    n_rows: int
    batch_size: int
    rank: int
    world_size: int
    drop_last: bool

    def __len__(self) -> int:
        full, rest = divmod(self.n_rows, self.batch_size * self.world_size)
        return full + (not self.drop_last and rest >= self.world_size)

    def bounds(self, step: int) -> slice:
        """Return the slice of the row order that this rank takes in a step."""
        first = step * self.batch_size * self.world_size
        of_all = min(self.n_rows - first, self.batch_size * self.world_size)
        each, more = divmod(of_all, self.world_size)
        start = first + self.rank * each + min(self.rank, more)
        return slice(start, start + each + (self.rank < more))


class Epochs:
    """Epoch counter shared by all processes that iterate over the same `Batches`.

    The workers of a `DataLoader` are copies of the data set, recreated for each epoch or persistent, and must agree on
    the epoch. They share one 64-bit cell: the next epoch, and the key of the iteration that took the last one. A worker
    that finds its own key takes that last epoch; a worker that finds another key writes the same value as its siblings
    would. An aligned 8-byte store is atomic, so no lock is needed.
    """

    def __init__(self) -> None:
        self._cell = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._iterations = 0

    def set(self, epoch: int) -> None:
        """Make `epoch` the next one."""
        self._cell[0] = epoch

    def next(self, worker: Any | None) -> int:
        """Return the epoch of an iteration that starts now; `worker` is the result of ``get_worker_info()``."""
        self._iterations += 1
        # A DataLoader draws one base seed per set of workers; persistent workers count on from it in step.
        number = self._iterations + (0 if worker is None else worker.seed - worker.id)
        key = number % ((1 << KEY_BITS) - 1) + 1
        last, upcoming = divmod(int(self._cell[0]), 1 << 32)
        if worker is not None and key == last:
            return upcoming - 1
        self._cell[0] = (key << 32) + upcoming + 1
        return upcoming
