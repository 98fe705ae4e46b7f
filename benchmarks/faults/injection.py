"""Injected faults: a SIGKILL at a random moment, a full disk, a read-only folder, concurrent runs."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.faults.runs import (
    MOST_SECONDS,
    RIGHT,
    WRONG,
    FaultOutcome,
    ReferenceRun,
    names,
    problems_of_error,
    start,
    until_begun,
)
from gpupipe.units import KIB, MIB

Told = Callable[[str], None]
ROOM_TO_RESUME = 64 * MIB
FULL_AT_LEAST = 16 * KIB  # bytes: room for only the first lines of the log


def kills(reference: ReferenceRun, n: int, seed: int, folder: Path, told: Told) -> list[FaultOutcome]:
    """Kill `n` runs at random moments of an undisturbed run's duration; every second one replaces an old run."""
    draw, ended = random.Random(seed), []
    for i in range(n):
        here, moment = folder / f"kill {i}", draw.uniform(0.0, reference.seconds)
        here.mkdir()
        final = here / "run"
        old = reference.place_old(final) if i % 2 else ""
        process = start(reference.config, final)
        until_begun(process, here)
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=MOST_SECONDS)
        left, problems = reference.left(final, old)
        taken, more = reference.resumed(final)
        ended.append(_ended(f"killed after {moment:.2f} s", process.returncode, left, taken, problems + more))
        told(f"kill {i + 1} of {n}: {ended[-1].outcome}, {left}, {taken} stages resumed")
    return ended


def full_disks(reference: ReferenceRun, n: int, seed: int, folder: Path, told: Told) -> list[FaultOutcome]:
    """Fill the disk in `n` runs: a tmpfs of random size, or a file size limit if mounting is not permitted."""
    draw, ended = random.Random(seed), []
    needed = 3 * sum((reference.run / name).stat().st_size for name in names(reference.run))
    for i in range(n):
        here, n_bytes = folder / f"full {i}", draw.randrange(FULL_AT_LEAST, needed)
        here.mkdir()
        with _tmpfs(here) as resize:
            final = here / "run"
            old = reference.place_old(final) if i % 2 else ""
            used = 2 * sum((final / name).stat().st_size for name in names(final)) if old else 0
            most = n_bytes if resize is None else None
            if resize is not None:
                resize(used + n_bytes)
            process = start(reference.config, final, most_bytes=most)
            said = process.communicate(timeout=MOST_SECONDS)[1]
            problems = problems_of_error(process.returncode, said, (0, 3))
            left, more = reference.left(final, old)
            problems += more + (["a new result of a failed run"] if process.returncode and left == "new" else [])
            if resize is not None:
                resize(ROOM_TO_RESUME)
            taken, again = reference.resumed(final)
        ended.append(_ended(f"{n_bytes:,} bytes free", process.returncode, left, taken, problems + again))
        told(f"full {i + 1} of {n}: {ended[-1].outcome}, exit {process.returncode}, {left}, {taken} stages resumed")
    return ended


def read_only(reference: ReferenceRun, folder: Path, told: Told) -> list[FaultOutcome]:
    """Run into a read-only folder, which must be rejected before any input is read; requires mount permission."""
    here = folder / "read-only"
    here.mkdir()
    with _tmpfs(here) as resize:
        if resize is None:
            told("read-only: skipped, mounting is not permitted")
            return []
        old = reference.place_old(here / "run")
        subprocess.run(["mount", "-o", "remount,ro", str(here)], check=True)
        process = start(reference.config, here / "run")
        said = process.communicate(timeout=MOST_SECONDS)[1]
        problems = problems_of_error(process.returncode, said, (2, 3))
        left, more = reference.left(here / "run", old)
    told(f"read-only: exit {process.returncode}")
    return [_ended("a read-only folder", process.returncode, left, 0, problems + more)]


def concurrent(reference: ReferenceRun, n: int, folder: Path, told: Told) -> list[FaultOutcome]:
    """Run `n` times concurrently in one folder, every second run under the same name."""
    here = folder / "concurrent"
    here.mkdir()
    finals = [here / ("shared" if i % 2 else f"own {i}") for i in range(n)]
    processes = [start(reference.config, final) for final in finals]
    ended = []
    for i, (final, process) in enumerate(zip(finals, processes, strict=True)):
        said = process.communicate(timeout=MOST_SECONDS)[1]
        problems = problems_of_error(process.returncode, said, (0,))
        left, more = reference.left(final, "")
        ended.append(_ended(f"one of {n} concurrent runs", process.returncode, left, 0, problems + more))
        told(f"concurrent {i + 1} of {n}: {ended[-1].outcome}")
    extra = sorted({path.name for path in here.iterdir()} - {final.name for final in finals})
    return [*ended, _ended("leftover files", 0, "new", 0, [f"unexpected files: {', '.join(extra)}"] if extra else [])]


def _ended(what: str, code: int, left: str, taken: int, problems: list[str]) -> FaultOutcome:
    return FaultOutcome(what, WRONG if problems else RIGHT, code, left, taken, tuple(problems))


@contextmanager
def _tmpfs(folder: Path) -> Iterator[Callable[[int], None] | None]:
    """Mount a tmpfs at `folder` and yield a function that resizes it; yield None if mounting is not permitted."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={ROOM_TO_RESUME}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        yield None
        return

    def resize(n_bytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={n_bytes}", str(folder)], check=True)

    try:
        yield resize
    finally:
        subprocess.run(["umount", str(folder)], check=True)
