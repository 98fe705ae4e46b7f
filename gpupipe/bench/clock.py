"""Wall and CPU seconds of named stages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StageClock:
    """Stopwatch: ``with clock("read"): ...`` adds to the seconds of a stage.

    `wall` and `cpu` are stage → seconds; CPU seconds are those of all threads of this process.
    """

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def add(self, name: str, wall: float, cpu: float) -> None:
        """Add seconds to a stage."""
        self.wall[name] = self.wall.get(name, 0.0) + wall
        self.cpu[name] = self.cpu.get(name, 0.0) + cpu

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add the time of the ``with`` block to a stage."""
        start, cpu = time.perf_counter(), time.process_time()
        yield
        self.add(name, time.perf_counter() - start, time.process_time() - cpu)
