"""Local ranks: processes started on this machine for one training, in which this process is rank 0.

Each runs ``python -m gpupipe.models.neural.ranks.local RENDEZVOUS DEVICE``, started with `subprocess`. PyTorch's
launchers (checked in 2.13) do not suit a process that is a rank itself: `torch.distributed` replaces its SIGINT and
SIGTERM handlers by ones that end all ranks at once, while a run must stop at its next safe point, and
`torch.multiprocessing` runs the user's script again in each rank.
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
DEADLINE = 600.0  # seconds for one collective
START = 120.0  # seconds for all ranks to import PyTorch
TO_END = 10.0  # seconds for a released rank to exit
TO_FAIL = 2.0  # seconds from the loss of a connection to the exit of its process


@dataclass(frozen=True)
class LocalRank:
    """A started rank: its process and its output."""

    rank: int
    size: int
    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def failure(self) -> GpupipeError | None:
        """Return the error of a failed process; None while it runs or if it succeeded."""
        code = self.process.poll()
        if not code:
            return None
        self.output.seek(0)
        lines = self.output.read().decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "no output"
        ended = f"ended with exit code {code}" if code > 0 else f"was killed by signal {-code}"
        memory = is_out_of_memory(RuntimeError(last)) or code == -signal.SIGKILL  # sent by the kernel's OOM killer
        return (LimitError if memory else GpupipeError)(
            f"process {self.rank} of the training {ended}: {last}",
            where=f"--nproc {self.size}",
            fix="use fewer processes: each holds all rows" if memory else "fix the cause, or remove --nproc",
        )


@contextmanager
def open_local_group(n: int, n_threads: int, device: torch.device) -> Iterator[Communicator]:
    """Start `n` - 1 ranks that serve trainings, and yield the communicator of all ranks; on exit they have ended.

    Each rank has `n_threads` threads; the started ranks use devices of the same type as `device`. Raise GpupipeError if
    a rank fails, does not start in time, or exceeds the time limit of a collective.
    """
    require_no_group()
    interface = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    port = listen(HERE)  # PyTorch's default is to listen on all interfaces
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
            with _explain_failure(ranks, mine):  # inside the group: leaving it makes the other ranks fail
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
        # A separate process group: Ctrl-C is for the driver only.
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
        )
        try:
            yield LocalRank(rendezvous.rank, rendezvous.size, process, output)
        finally:
            process.kill()
            process.wait()


def _failure(ranks: list[LocalRank]) -> GpupipeError | None:
    """Return the failure of a rank; one killed by a signal comes first, since the others only report a lost rank."""
    failed = sorted((rank for rank in ranks if rank.process.poll()), key=lambda rank: rank.process.returncode)
    return failed[0].failure() if failed else None


@contextmanager
def _explain_failure(ranks: list[LocalRank], mine: Rendezvous) -> Iterator[None]:
    """Replace PyTorch's RuntimeError by the error of the rank that failed or does not answer."""
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error) and (failure := _await(lambda: _failure(ranks), TO_FAIL)):
            raise failure from error
        if "imed out" in str(error):  # a message of Gloo or NCCL, which have no error class for timeouts
            raise GpupipeError(
                f"a process of the training did not answer within {mine.seconds:.0f} s",
                where=f"--nproc {mine.size}",
                fix="check the load of the machine, or remove --nproc",
            ) from error
        raise


def _await(condition: Callable[[], Any], seconds: float) -> Any:
    """Wait until a condition is true, or for `seconds`; return its last value."""
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
