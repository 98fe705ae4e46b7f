"""Numba's simulator without polling: its main thread waits until each thread of a block has ended or is at a barrier.

`BlockManager.run` asks every thread in turn whether it lives, as fast as it can, and takes most of the GIL from them.
Kernels with 256 threads in a block run six times as fast by waiting.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numba.cuda.simulator import kernel


class Thread(kernel.BlockThread):
    """A thread of a block that says when it has ended or is at a barrier."""

    arrived: threading.Semaphore

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.arrived.release()

    def syncthreads(self) -> None:
        self.syncthreads_blocked = True
        self.arrived.release()
        self.syncthreads_event.wait()
        self.syncthreads_event.clear()
        if self.abort:
            raise RuntimeError("another thread of the block has failed")


class Block(kernel.BlockManager):
    """Runs the threads of a block, and raises the error of the first that has failed."""

    def run(self, grid_point: Any, *arguments: Any) -> None:
        arrived = threading.Semaphore(0)
        threads = []
        for point in np.ndindex(*self._block_dim):
            thread = Thread(lambda: self._f(*arguments), self, grid_point, point, self._debug)
            thread.arrived = arrived
            threads.append(thread)
        for thread in threads:
            thread.start()
        live = threads
        while live:
            for _ in live:
                arrived.acquire()
            live = [thread for thread in live if thread.syncthreads_blocked]
            failed = next((thread.exception for thread in threads if thread.exception), None)
            for thread in live:
                thread.abort = failed is not None
                thread.syncthreads_blocked = False
                thread.syncthreads_event.set()
            if failed is not None:
                raise failed[0].with_traceback(failed[1])
        for thread in threads:
            thread.join()


def install() -> None:
    """Let the simulator run the blocks of all kernels by waiting."""
    kernel.BlockManager = Block
