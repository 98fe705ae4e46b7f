"""Ranks that a process starts on its own machine for one training, in which it is rank 0.

Each runs ``python -m gpupipe.models.neural.ranks.local RENDEZVOUS DEVICE``, started by `subprocess`: PyTorch's
launchers (2.13) do not suit a process that is a rank itself. `torch.distributed` replaces its handlers of SIGINT
and SIGTERM by ones that end all ranks at once, where a run stops at its next safe point; `torch.multiprocessing` runs
the user's script again in each rank.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import IO, Any

import torch

from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.children import child_environment, python_command
from gpupipe.errors import GpupipeError, LimitError
from gpupipe.models.neural.ranks.collectives import Communicator
from gpupipe.models.neural.ranks.rendezvous import Rendezvous, join_group, listen, open_store, require_no_group
from gpupipe.models.neural.shard_training import serve_trainings

HERE = "127.0.0.1"
DEADLINE = 600.0  # seconds, for one collective
START = 120.0  # seconds, for all ranks to import PyTorch
TO_END = 10.0  # seconds, for a rank that has no more trainings
TO_FAIL = 2.0  # seconds: a process closes its connections some time before it has ended


@dataclass(frozen=True)
class LocalRank:
    """A started rank: its process, and what it prints."""

    rank: int
    size: int
    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def failure(self) -> GpupipeError | None:
        """Return the error that says why the process has failed; None while it runs, and if it ended well."""
        code = self.process.poll()
        if not code:
            return None
        self.output.seek(0)
        lines = self.output.read().decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "it printed nothing"
        ended = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        memory = is_out_of_memory(RuntimeError(last)) or code == -signal.SIGKILL  # what the kernel sends to make room
        return (LimitError if memory else GpupipeError)(
            f"process {self.rank} of the training {ended}: {last}",
            where=f"--nproc {self.size}",
            fix="use fewer processes: each holds the rows" if memory else "see what ended it, or leave --nproc out",
        )


@contextmanager
def open_local_group(n: int, n_threads: int, device: torch.device) -> Iterator[Communicator]:
    """Start `n` - 1 ranks, which serve trainings, and yield the communicator of all; on exit they have ended.

    Parameters
    ----------
    n : int
    n_threads : int
        Of each rank.
    device : torch.device
        A rank that is started uses one of the same type.

    Raises
    ------
    GpupipeError
        If a rank fails, does not start in time, or exceeds the time limit of a collective.
    """
    require_no_group()
    interface = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    port = listen(HERE)  # by itself, PyTorch would listen to the whole network
    mine, *others = (Rendezvous(rank, n, HERE, port, interface, DEADLINE) for rank in range(n))
    store = open_store(mine)
    with ExitStack() as stack:
        ranks = [stack.enter_context(_start(rendezvous, n_threads, device)) for rendezvous in others]
        started = _await(lambda: store.check([f"rank-{r.rank}" for r in others]) or _failure(ranks), START)
        if started is not True:
            raise started or GpupipeError(f"not all processes started within {START:.0f} s", where=f"--nproc {n}")
        with ExitStack() as group:
            with _explain_failure(ranks, mine):
                processes = group.enter_context(join_group(mine, device, store))
            with _explain_failure(ranks, mine):  # while the group is whole: leaving it makes the other ranks fail
                yield processes
                processes.broadcast(None)
        for rank in ranks:
            with suppress(subprocess.TimeoutExpired):
                rank.process.wait(TO_END)


@contextmanager
def _start(rendezvous: Rendezvous, n_threads: int, device: torch.device) -> Iterator[LocalRank]:
    """Start one rank; on exit its process is killed."""
    command = python_command("-m", "gpupipe.models.neural.ranks.local", json.dumps(asdict(rendezvous)), device.type)
    environment = child_environment({"LOCAL_RANK": str(rendezvous.rank), "OMP_NUM_THREADS": str(n_threads)})
    with tempfile.TemporaryFile() as output:
        # A process group of its own: Ctrl-C is for the driver.
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
        )
        try:
            yield LocalRank(rendezvous.rank, rendezvous.size, process, output)
        finally:
            process.kill()
            process.wait()


def _failure(ranks: list[LocalRank]) -> GpupipeError | None:
    """Return the failure of a rank, first of one that a signal ended: of the others each says that one was lost."""
    failed = sorted((rank for rank in ranks if rank.process.poll()), key=lambda rank: rank.process.returncode)
    return failed[0].failure() if failed else None


@contextmanager
def _explain_failure(ranks: list[LocalRank], mine: Rendezvous) -> Iterator[None]:
    """Raise the error of a rank that failed or does not answer instead of the RuntimeError of PyTorch here."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error) and (failure := _await(lambda: _failure(ranks), TO_FAIL)):
            raise failure from error
        if "imed out" in str(error):  # the message of Gloo or NCCL, which raise no class of their own for it
            raise GpupipeError(
                f"a process of the training did not answer within {mine.seconds:.0f} s",
                where=f"--nproc {mine.size}",
                fix="see what holds it up, or leave --nproc out",
            ) from error
        raise


def _await(condition: Callable[[], Any], seconds: float) -> Any:
    """Return what a condition returns once it is true, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def main(rendezvous: str, device: str) -> None:
    """Join the group of a rendezvous, given as JSON, and serve the trainings of rank 0."""
    with join_group(Rendezvous(**json.loads(rendezvous)), torch.device(device)) as processes:
        serve_trainings(processes)


if __name__ == "__main__":
    main(*sys.argv[1:])
