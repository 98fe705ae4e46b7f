"""Hardware counters of the host on Linux: processor, memory and disk of the run's processes and of the machine.

psutil 7.2.2 reads every process of the machine to find descendants: its samples took more than twice the time on a
machine with 76 processes, and take longer with each further one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gpupipe.backends import machine
from gpupipe.backends.counters.counter import CounterReader, CounterUnavailable, GrowthRate, HardwareCounter

PROC = Path("/proc")
# Positions in /proc/PID/stat after the name, which may contain anything.
# User and system, also of children that were waited for
CPU_TICKS = slice(11, 15)
STARTED = 19
RESIDENT_PAGES = 21
IDLE = (3, 4)  # idle and waiting for the disk, in the first line of /proc/stat
GUEST = 8  # guest time is included in user time


class ProcessUse(NamedTuple):
    """Use of one process."""

    started: str  # start, which tells the process from a later one with the same number
    cpu_ticks: int  # processor time, with that of ended children
    resident_bytes: int


class ProcessTree:
    """This process and its descendants: workers, readers of untrusted files, processes of a network's training.

    `proc` is the folder of the process file system.
    """

    def __init__(self, proc: Path = PROC) -> None:
        self._proc, self._own = proc, os.getpid()
        self._started: dict[int, str] = {}
        self._cpu = GrowthRate()
        self._disk = GrowthRate(), GrowthRate()
        self._ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
        self._page_bytes = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

    def find(self) -> Sequence[float | None]:
        """Find the processes that the other methods read; return no value."""
        found, waiting = {self._own: ""}, [self._own]
        while waiting:
            for child in self._children(waiting.pop()):
                if child not in found:
                    found[child] = ""
                    waiting.append(child)
        self._started = {pid: self._started.get(pid, "") for pid in found}
        return ()

    def cpu_and_memory(self) -> tuple[float | None, float]:
        """Return the processor use in percent of one core, and the resident bytes."""
        ticks = resident = 0
        for pid, started in list(self._started.items() or [(self._own, "")]):
            try:
                use = self._use(pid)
            except OSError:
                if pid == self._own:
                    raise
                self._started.pop(pid, None)  # it has ended
                continue
            if started not in ("", use.started):
                self._started.pop(pid, None)  # another process has its number
                continue
            self._started[pid] = use.started
            ticks += use.cpu_ticks
            resident += use.resident_bytes
        rate = self._cpu.update(ticks / self._ticks)
        # A process that is found late adds the time of its whole life at once.
        return (None if rate is None else min(100.0 * rate, core_percent())), float(resident)

    def disk(self) -> Sequence[float | None]:
        """Return the bytes per second that were read from and written to disks."""
        read = written = 0
        for pid in list(self._started or [self._own]):
            try:
                text = (self._proc / str(pid) / "io").read_text(encoding="ascii")
            except OSError:
                if pid == self._own:
                    raise
                continue
            figures = dict(line.split(": ") for line in text.splitlines())
            read, written = read + int(figures["read_bytes"]), written + int(figures["write_bytes"])
        return self._disk[0].update(read), self._disk[1].update(written)

    def _children(self, pid: int) -> list[int]:
        """Return the children of all threads of a process; none if it has ended."""
        try:
            threads = os.listdir(self._proc / str(pid) / "task")
        except OSError:
            return []
        found: list[int] = []
        for thread in threads:
            file = self._proc / str(pid) / "task" / thread / "children"
            try:
                found += map(int, file.read_text(encoding="ascii").split())
            except OSError:
                if int(thread) == self._own:  # the others may have ended
                    raise CounterUnavailable(f"child processes are not counted: {file} cannot be read") from None
        return found

    def _use(self, pid: int) -> ProcessUse:
        text = (self._proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        ticks = sum(map(int, fields[CPU_TICKS]))
        return ProcessUse(fields[STARTED], ticks, int(fields[RESIDENT_PAGES]) * self._page_bytes)


class MachineCpu:
    """Processor use of the whole machine."""

    def __init__(self, proc: Path = PROC) -> None:
        self._file = proc / "stat"
        self._last = (0, 0)

    def read(self) -> Sequence[float | None]:
        """Return the percentage of all cores that was busy since the last reading."""
        with self._file.open(encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:]][:GUEST]
        total, busy = sum(ticks), sum(ticks) - sum(ticks[i] for i in IDLE)
        last, self._last = self._last, (total, busy)
        if not last[0] or total <= last[0]:
            return (None,)
        return (min(100.0, max(0.0, 100.0 * (busy - last[1]) / (total - last[0]))),)


def core_percent() -> float:
    """Return the processor use of a process that keeps every core of the machine busy."""
    return 100.0 * (os.cpu_count() or 1)


def host_readers(proc: Path = PROC) -> list[CounterReader]:
    """Return the readers of the host.

    Raise CounterUnavailable if this system has no process file system.
    """
    if not (proc / "self" / "stat").exists():
        raise CounterUnavailable(f"processor and memory are read from {proc}, which this system does not have")
    tree, total = ProcessTree(proc), machine.memory(proc=proc).total
    n_threads = machine.n_threads()

    def used_bytes() -> Sequence[float]:
        figures = machine.memory(proc=proc)
        return (float(figures.total - figures.available),)

    return [
        CounterReader((), tree.find, "child_processes"),
        CounterReader(
            (
                HardwareCounter("process_cpu_percent", "%", 100.0 * n_threads),
                HardwareCounter("process_memory_bytes", "B", total, is_peak=True),
            ),
            tree.cpu_and_memory,
        ),
        CounterReader(
            (
                HardwareCounter("process_read_bytes_per_second", "B/s"),
                HardwareCounter("process_write_bytes_per_second", "B/s"),
            ),
            tree.disk,
        ),
        CounterReader((HardwareCounter("machine_cpu_percent", "%", 100.0),), MachineCpu(proc).read),
        CounterReader((HardwareCounter("machine_memory_bytes", "B", total, is_peak=True),), used_bytes),
    ]
