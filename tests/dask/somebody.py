"""A scheduler and workers started outside gpupipe, with Dask's command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from distributed import Client

DASK = [sys.executable, "-m", "dask"]
LOCAL = ["--host", "127.0.0.1"]


@dataclass
class Somebody:
    """The scheduler file and the processes of a cluster."""

    file: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]

    @property
    def address(self) -> str:
        return str(json.loads(self.file.read_text())["address"])


@contextmanager
def started(folder: Path, n_workers: int, *, paths: list[str] | None = None) -> Iterator[Somebody]:
    """Start a scheduler and workers without nannies, which import from `paths` (default: ours)."""
    file = folder / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths or sys.path))}

    def start(*command: str) -> subprocess.Popen[bytes]:
        output = (folder / "log.txt").open("ab")
        with output:
            return subprocess.Popen(
                [*DASK, *command, *LOCAL, "--scheduler-file", str(file)], stdout=output, stderr=output,
                env=environment, cwd=folder,
            )  # fmt: skip

    processes = [start("scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0")]
    try:
        for _ in range(n_workers):
            processes.append(
                start("worker", "--no-dashboard", "--no-nanny", "--nthreads", "2", "--local-directory", str(folder))
            )
        _wait_for(file)
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            if n_workers:
                client.wait_for_workers(n_workers, timeout=60)
        yield Somebody(file, processes[0], processes[1:])
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def _wait_for(file: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            json.loads(file.read_text())
            return
        except (OSError, ValueError):
            time.sleep(0.05)  # there is no event to wait for
    pytest.fail(f"no scheduler has written {file}")


def processes_below() -> set[psutil.Process]:
    """Return the processes below this one, without Python's own helper that outlives them."""
    below = psutil.Process().children(recursive=True)
    running = {child for child in below if child.status() != psutil.STATUS_ZOMBIE}
    return {child for child in running if "resource_tracker" not in " ".join(child.cmdline())}
