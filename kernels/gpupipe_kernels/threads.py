"""Dynamic scheduling of blocks of rows on threads, for work that releases the interpreter lock.

Threads live as long as the call. Numba's own pool would be shared by the whole process: its portable variant ends the
process when two threads call it at once, and its OpenMP variant does so after a fork.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def run_blocks(function: Callable[[int, int], None], n_rows: int, block_rows: int, n_threads: int) -> None:
    """Call ``function(start, stop)`` for each block of rows on `n_threads` threads.

    When all blocks are done, the first exception in row order is raised.
    """
    starts = range(0, n_rows, block_rows)
    if n_threads == 1 or len(starts) <= 1:
        for start in starts:
            function(start, min(start + block_rows, n_rows))
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="gpupipe-features") as pool:
        list(pool.map(lambda start: function(start, min(start + block_rows, n_rows)), starts))
