"""Row order of an epoch, the rows of each rank, and the count of epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gpupipe.typing import HostArray

KEY_BITS = 31  # of the two numbers in the cell that all processes of a `DataLoader` share


def permutation(n_rows: int, seed: int, epoch: int) -> HostArray:
    """Return the order of the rows in an epoch: int64, shape (n_rows,).

    It depends on these three numbers and on nothing else. NumPy promises that the bits of Philox stay as they are from
    version to version; it does not promise it of ``Generator.permutation``, nor PyTorch of ``randperm``. So rows are
    sorted by those bits, the number of the row in the low ones: no two are equal, and every sort gives the same order.
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

    In step s all ranks together take the rows ``order[s * n : (s + 1) * n]``, n being ``batch_size * world_size``, each
    of them one contiguous part: what one rank with the batches of all would take. The last of these may be
    ragged; then it is split as evenly as can be, and left out where there is not a row for each rank. So all ranks have
    the same number of steps.

    Attributes
    ----------
    n_rows, batch_size, rank, world_size : int
    drop_last : bool
        Leave out a ragged last step.
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
        """Return which part of the order this rank takes in a step."""
        first = step * self.batch_size * self.world_size
        of_all = min(self.n_rows - first, self.batch_size * self.world_size)
        each, more = divmod(of_all, self.world_size)
        start = first + self.rank * each + min(self.rank, more)
        return slice(start, start + each + (self.rank < more))


class Epochs:
    """Counts epochs, for all processes that iterate over the same `Batches`.

    Workers of a `DataLoader` are copies, new ones in each epoch or kept from one to the next, and have to agree on the
    epoch. They share one cell of 64 bits with the epoch that comes next and the key of the iteration that took the
    last one. Who finds its own key there takes the epoch that was taken; who finds another writes what any sibling
    would write. One store of 8 aligned bytes is never seen by halves, so no lock is needed.
    """

    def __init__(self) -> None:
        self._cell = torch.zeros(1, dtype=torch.int64).share_memory_()
        self._iterations = 0

    def set(self, epoch: int) -> None:
        """Make `epoch` the next one."""
        self._cell[0] = epoch

    def next(self, worker: Any | None) -> int:
        """Return the epoch of an iteration that begins now; `worker` is what ``get_worker_info()`` returned."""
        self._iterations += 1
        # A DataLoader draws one number for each set of workers; those that are kept count alike from there.
        number = self._iterations + (0 if worker is None else worker.seed - worker.id)
        key = number % ((1 << KEY_BITS) - 1) + 1
        last, upcoming = divmod(int(self._cell[0]), 1 << 32)
        if worker is not None and key == last:
            return upcoming - 1
        self._cell[0] = (key << 32) + upcoming + 1
        return upcoming
