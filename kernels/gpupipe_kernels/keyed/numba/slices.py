"""Events in slices for the threads of the host.

A key with more events than a slice is cut too, at multiples of the slice's size from its own first event: so what is
rounded for a key depends on nothing but its own earlier events. What runs along the events of a key does so in two
passes: over the slices that a key goes on behind, to learn what each leaves; then over all, each slice from what those
before it have left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import Array

SLICE_EVENTS = 65_536


@dataclass(frozen=True)
class EventSlices:
    """Slices of the events.

    Attributes
    ----------
    cuts : ndarray of int64, shape (slices + 1,)
        Slice c is ``cuts[c]:cuts[c + 1]``. It may be empty.
    first : ndarray of int64, shape (slices,)
        The slice in which the key begins that slice c begins with.
    """

    cuts: Array
    first: Array

    def run(self, walk: Callable[[Array, bool, int, int], None], n_threads: int) -> None:
        """Call ``walk(slices, is_last, start, stop)`` for ``slices[start:stop]``, in both passes."""
        every = np.arange(len(self.first))
        going_on = every[:-1][self.first[1:] < every[1:]]
        for some, is_last in ((going_on, False), (every, True)):
            run_blocks(partial(walk, some, is_last), len(some), 1, n_threads)


def slices_of(start: Array, size: int = SLICE_EVENTS) -> EventSlices:
    """Return slices of about `size` events, less than twice as many, of keys that begin at `start`."""
    n = int(start[-1])
    nominal = np.arange(0, n, size, dtype=np.int64)
    key = np.searchsorted(start, nominal, side="right") - 1
    begin, end = start[key].astype(np.int64), start[key + 1]
    cuts = np.append(np.minimum(begin + -(-(nominal - begin) // size) * size, end), n)
    begins = start[np.searchsorted(start, cuts[:-1], side="right") - 1]
    return EventSlices(cuts, np.searchsorted(cuts, begins, side="right") - 1)
