"""Ranks spawned for one training: they end with it, whatever happens, and every wait has a limit."""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import IO

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.children import child_environment, python_command
from gpupipe.errors import GpupipeError, LimitError
from gpupipe.models.neural.ranks.collectives import DEADLINE, init_group
from gpupipe.models.neural.ranks.rendezvous import INTERFACE, bind_interface

START = timedelta(minutes=2)  # for all of them to import PyTorch
TO_END = 10.0  # seconds, for one that has been told to
HERE = "127.0.0.1"


class SpawnedRank:
    """A process of one rank, started by rank 0.

    Parameters
    ----------
    rank, size : int
    port : int
        The port at which rank 0 listens.
    device : str
    n_threads : int
    """

    def __init__(self, rank: int, size: int, port: int, device: str, n_threads: int) -> None:
        environment = child_environment(
            {INTERFACE: _loopback(), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": str(n_threads)}
        )
        command = python_command(
            "-m", "gpupipe.models.neural.ranks.rank_process", str(rank), str(size), str(port), device
        )
        self.rank, self.size = rank, size
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed in `end`
        # A process group of its own: Ctrl-C is for the driver.
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said, process_group=0
        )

    @property
    def code(self) -> int:
        """Exit code, negative if a signal ended the process; 0 while it runs."""
        return self._process.poll() or 0

    @property
    def has_failed(self) -> bool:
        """True if the process has ended with an error."""
        return self.code != 0

    def failure(self) -> GpupipeError:
        """Return the error that says why the process has failed."""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        last, code = lines[-1] if lines else "it said nothing", self.code
        ended = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        memory = is_out_of_memory(RuntimeError(last)) or code == -signal.SIGKILL  # what the kernel sends to make room
        return (LimitError if memory else GpupipeError)(
            f"process {self.rank} of the training {ended}: {last}",
            where=f"--nproc {self.size}",
            fix="use fewer processes: each holds the rows" if memory else "see what ended it, or leave --nproc out",
        )

    def end(self, well: bool) -> None:
        """Wait for it where all is well; it is ended by force if that takes too long, and where all is not."""
        try:
            if well:
                self._process.wait(TO_END)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()
            self._process.wait()
            self._said.close()


@contextmanager
def spawn_ranks(n: int, device: torch.device, n_threads: int) -> Iterator[None]:
    """Spawn `n` - 1 ranks and initialize the process group; on exit the ranks have ended.

    Raises
    ------
    GpupipeError
        If one of them fails, or does not start in time.
    """
    listener = socket.create_server((HERE, 0))  # PyTorch's own would listen to the whole network
    port = listener.getsockname()[1]
    store = TCPStore(
        HERE, port, n, is_master=True, wait_for_workers=False, timeout=DEADLINE, master_listen_fd=listener.detach()
    )
    others: list[SpawnedRank] = []
    well = False
    try:
        for rank in range(1, n):
            others.append(SpawnedRank(rank, n, port, device.type, n_threads))
        _await(others, store)
        with bind_interface(_loopback()):
            init_group(device, store, 0, n)
        yield
        well = True
    except RuntimeError as error:  # what PyTorch raises when another process is gone
        if not is_out_of_memory(error) and (failed := _failed(others)):
            raise failed[0].failure() from error
        raise
    finally:
        _end(others, well)


def report_ready(store: TCPStore, rank: int) -> None:
    """Report to rank 0 that this rank has started."""
    store.set(f"ready-{rank}", "yes")


def _await(others: list[SpawnedRank], store: TCPStore) -> None:
    deadline = time.monotonic() + START.total_seconds()
    while not store.check([f"ready-{other.rank}" for other in others]):
        for other in others:
            if other.has_failed:
                raise other.failure()
        if time.monotonic() > deadline:
            raise GpupipeError(f"the processes have not started within {START}", where=f"--nproc {len(others) + 1}")
        time.sleep(0.02)


def _failed(others: list[SpawnedRank]) -> list[SpawnedRank]:
    """Return those that have failed; first those that a signal ended: of the others each says that one was lost."""
    deadline = time.monotonic() + 2.0  # a process closes its connections some time before it has ended
    while time.monotonic() < deadline and not any(other.has_failed for other in others):
        time.sleep(0.02)
    return sorted((other for other in others if other.has_failed), key=lambda other: other.code)


def _end(others: list[SpawnedRank], well: bool) -> None:
    try:
        if dist.is_initialized():
            dist.destroy_process_group()
    finally:
        for other in others:
            other.end(well)


def _loopback() -> str:
    return next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
