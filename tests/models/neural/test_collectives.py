"""Training on several processes: results, errors, and the end of the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from gpupipe.errors import ConfigError, DataError, GpupipeError, LimitError
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.ranks.group import open_group
from tests.nightly import nightly_unless

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[3]
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def _followers(of: int) -> list[int]:
    """Return the processes that a process has started for its training."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == of and "gpupipe.models.neural.ranks.local" in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except (OSError, ValueError):  # no process, or one that has just ended
            continue
    return found


def _until(condition: Callable[[], Any], seconds: float = 120) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)
    return found


def test_two_processes_learn_the_same_as_one_with_both_batches(small, curve, tmp_path: Path) -> None:
    weight = torch.rand(300, generator=torch.Generator().manual_seed(0))
    jobs = [small.but(kind=kind, epochs=4) for kind in ("mlp", "tabm", "ft_transformer")]
    jobs.append(small.but(kind="realmlp", schedule="coslog4", epochs=4))
    jobs.append(small.but(batch_size=48).on(rows=replace(small.rows, weight=weight)))  # a ragged last step
    jobs.append(small.on(validation=torch.arange(299, 300)))  # fewer rows than processes
    steady = small.but(kind="mlp", dropout=0.2, schedule="constant", warmup=0.0)
    kept = Checkpoint(tmp_path / "name.pt", resume=True)
    with open_group(2, 1, CPU) as processes:
        shared = [job.run(processes) for job in jobs]
        whole, _ = steady.but(epochs=4).run(processes)
        steady.but(epochs=2).run(processes, kept)
        resumed, on = steady.but(epochs=4).run(processes, kept)  # rank 0 broadcasts the checkpoint
    for job, (network, progress) in zip(jobs, shared, strict=True):
        alone, expected = job.run()
        assert curve(progress) == pytest.approx(curve(expected), rel=1e-4)
        torch.testing.assert_close(network.state_dict(), alone.state_dict(), atol=2e-3, rtol=1e-2)
    assert on.resumed == 2 and on.micro_batch == 16
    assert torch.equal(resumed.head.weight, whole.head.weight)
    assert not dist.is_initialized()


@linux
@pytest.mark.parametrize(
    "error",
    nightly_unless(
        lambda error: isinstance(error, KeyboardInterrupt),
        [DataError("a damaged file"), KeyboardInterrupt(), RuntimeError("a bug")],
    ),
)
def test_an_error_on_rank_0_is_raised_and_ends_the_other_ranks(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, open_group(2, 1, CPU):
        both = [os.getpid(), *_followers(os.getpid())]
        assert len(both) == 2
        # Nothing that the network could reach: 0100007F is 127.0.0.1 as the kernel writes it.
        assert {address.partition(":")[0] for pid in both for address in _listening(pid)} == {"0100007F"}
        raise error
    assert raised.value is error
    assert not _followers(os.getpid()) and not dist.is_initialized()


@linux
def test_a_process_that_is_killed_ends_the_training_with_its_name(small) -> None:
    endless = small.but(epochs=10**6)

    def kill() -> None:
        os.kill(_followers(os.getpid())[0], signal.SIGKILL)

    killer = threading.Timer(0.5, kill)
    with (
        pytest.raises(LimitError, match="process 1 of the training was killed by signal 9"),
        open_group(2, 1, CPU) as both,
    ):
        killer.start()
        endless.run(both)
    assert not _followers(os.getpid()) and not dist.is_initialized()


@linux
def test_a_process_that_hangs_ends_the_training_at_the_deadline(small, monkeypatch: Any) -> None:
    monkeypatch.setattr("gpupipe.models.neural.ranks.local.DEADLINE", 3.0)
    with pytest.raises(GpupipeError, match="did not answer within 3 s"), open_group(2, 1, CPU) as both:
        os.kill(_followers(os.getpid())[0], signal.SIGSTOP)
        small.run(both)
    assert not _followers(os.getpid()) and not dist.is_initialized()


@linux
def test_a_process_that_cannot_start_ends_the_training_with_its_words(monkeypatch: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('this machine is broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    words = "process 1 of the training ended with exit code 1: .*this machine is broken"
    with pytest.raises(GpupipeError, match=words), open_group(2, 1, CPU):
        pass
    assert not _followers(os.getpid()) and not dist.is_initialized()


@linux
def test_the_other_ranks_end_when_rank_0_is_killed(tmp_path: Path) -> None:
    script = (
        "import torch; from gpupipe.models.neural.ranks.group import open_group\n"
        "with open_group(2, 1, torch.device('cpu')): print('together', flush=True); input()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "kernels")])}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], env=environment, stdin=pipe, stdout=pipe, text=True) as lead:
        assert lead.stdout is not None and lead.stdout.readline() == "together\n"
        (other,) = _followers(lead.pid)
        lead.kill()
    _until(lambda: not Path(f"/proc/{other}").exists() or "State:\tZ" in Path(f"/proc/{other}/status").read_text())


def _listening(pid: int) -> list[str]:
    """Return the addresses and ports at which a process listens."""
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    sockets = {link[len("socket:[") : -1] for link in links if link.startswith("socket:[")}
    lines = [
        line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()
    ]
    return [line[1] for line in lines if line[3] == "0A" and line[9] in sockets]


def test_a_process_group_of_the_user_is_kept() -> None:
    store = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with pytest.raises(ConfigError, match=r"torch\.distributed"), open_group(2, 1, CPU):
            pass
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()


def test_another_number_than_torchrun_started_is_refused(monkeypatch: Any) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="torchrun started 2"), open_group(3, 1, CPU):
        pass
