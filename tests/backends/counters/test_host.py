"""Hardware counters of the host, compared with psutil and with files of known content."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gpupipe.backends.counters.counter import CounterUnavailable, GrowthRate
from gpupipe.backends.counters.host import MachineCpu, ProcessTree, host_readers
from gpupipe.backends.counters.sampler import HardwareSampler

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc exists on Linux only")

BURN = "import time\nwhile time.process_time() < 0.2: pass\n"
# The middle process has the name of a field separator; its child waits for the end of its stdin.
CHILDREN = f"""
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(15, b"a ) R 1 (", 0, 0, 0)
child = subprocess.Popen([sys.executable, "-c", "data = b'x' * 50_000_000; print(flush=True); input()"])
{BURN}
child.wait()
"""


@pytest.fixture
def children() -> Iterator[subprocess.Popen[str]]:
    """Return a child process that has a child itself, which has started."""
    child = subprocess.Popen([sys.executable, "-c", CHILDREN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    child.communicate("\n")


@pytest.mark.process
def test_processor_time_and_memory_include_children_of_children(children: subprocess.Popen[str]) -> None:
    own, tree, now = psutil.Process(), ProcessTree(), [0.0]
    tree._cpu = GrowthRate(lambda: now[0])
    tree.find()
    tree.cpu_and_memory()
    family = [own, *own.children(recursive=True)]

    def cpu_seconds() -> float:
        return sum(sum(process.cpu_times()[:4]) for process in family)

    before = cpu_seconds()
    while cpu_seconds() - before < 0.2:
        sum(range(10_000))
    now[0] = 1000.0
    cpu, memory = tree.cpu_and_memory()
    used = cpu_seconds() - before
    assert cpu is not None and cpu * 10.0 == pytest.approx(used, abs=0.1)  # % of 1,000 s
    assert memory == pytest.approx(sum(process.memory_info().rss for process in family), rel=0.05)
    assert memory > own.memory_info().rss + 50_000_000


@pytest.mark.process
def test_the_time_of_an_ended_child_still_counts() -> None:
    tree, now = ProcessTree(), [0.0]
    tree._cpu = GrowthRate(lambda: now[0])
    tree.find()
    tree.cpu_and_memory()
    subprocess.run([sys.executable, "-c", BURN], check=True)  # never seen
    now[0] = 1000.0
    cpu, _ = tree.cpu_and_memory()
    assert cpu is not None and cpu * 10.0 > 0.19  # the kernel counts in ticks of 10 ms
    child = subprocess.Popen(
        [sys.executable, "-c", BURN + "print(flush=True); input()"], stdin=-1, stdout=-1, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    tree.find()
    tree.cpu_and_memory()
    child.communicate("\n")
    now[0] = 2000.0
    cpu, _ = tree.cpu_and_memory()
    assert cpu is not None and 0.0 <= cpu * 10.0 < 0.2  # neither negative nor counted twice
    tree.find()
    assert child.pid not in tree._started  # other tests may have left servers


def test_the_busy_fraction_of_the_machine_is_without_idle_and_disk_wait_and_counts_guests_once(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 0 50 800 50 0 0 0 30 0\ncpu0 1 1\n")
    cpu = MachineCpu(tmp_path)
    assert cpu.read() == (None,)
    (tmp_path / "stat").write_text("cpu  130 5 60 840 65 0 0 0 50 0\n")
    assert cpu.read() == (45.0,)
    assert cpu.read() == (None,)  # no time has passed


def test_bytes_read_from_and_written_to_the_disk_are_rates(tmp_path: Path) -> None:
    folder = tmp_path / str(os.getpid())
    folder.mkdir()

    def write(read: int, written: int) -> None:
        (folder / "io").write_text(f"rchar: 9\nread_bytes: {read}\nwrite_bytes: {written}\ncancelled_write_bytes: 3\n")

    write(1000, 500)
    tree, now = ProcessTree(tmp_path), [0.0]
    tree._disk = GrowthRate(lambda: now[0]), GrowthRate(lambda: now[0])
    assert list(tree.disk()) == [None, None]
    now[0] = 2.0
    write(5000, 700)
    assert list(tree.disk()) == [2000.0, 100.0]


def test_the_counters_of_this_machine_are_those_of_psutil() -> None:
    clock = [0.0]
    sampler = HardwareSampler(host_readers(), 1.0, lambda: clock[0])
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    clock[0] = 1.0
    values = sampler.sample().values
    assert sampler.samples.unavailable == {}
    assert set(values) | {"machine_cpu_percent"} == {
        "process_cpu_percent", "process_memory_bytes", "machine_cpu_percent", "machine_memory_bytes",
        "process_read_bytes_per_second", "process_write_bytes_per_second",
    }  # fmt: skip
    assert 0 < values["process_cpu_percent"] <= 100 * psutil.cpu_count()
    assert values["process_memory_bytes"] >= psutil.Process().memory_info().rss * 0.9
    assert 0 < values["machine_memory_bytes"] <= psutil.virtual_memory().total


def test_a_system_without_a_process_file_system_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CounterUnavailable, match="which this system does not have"):
        host_readers(tmp_path)


def test_a_kernel_that_does_not_list_children_still_counts_this_process(tmp_path: Path) -> None:
    own = tmp_path / str(os.getpid())
    (own / "task" / str(os.getpid())).mkdir(parents=True)
    (own / "stat").write_text(Path("/proc/self/stat").read_text())
    tree = ProcessTree(tmp_path)
    with pytest.raises(CounterUnavailable, match="child processes are not counted"):
        tree.find()
    assert tree.cpu_and_memory()[1] > 0
