"""Actions in forked child processes with limits: libraries are imported once for thousands of cases.

Linux only: `os.memfd_create` holds the output of the child, `os.pidfd_open` waits for it with a time limit.
"""

from __future__ import annotations

import io
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

Action = Callable[[int], int]
ESCAPED = 99  # exit code of a child whose action raised


@dataclass(frozen=True)
class ForkLimits:
    """Limits of a child.

    Attributes
    ----------
    cpu_seconds : int
        A child that uses more is killed by the kernel and counts as hung.
    wall_seconds : float
        The same for a child that sleeps or waits.
    memory_bytes : int
        Address space in addition to the parent's.
    file_bytes : int
        Size of the largest file that it may write.
    """

    cpu_seconds: int = 20
    wall_seconds: float = 120.0
    memory_bytes: int = 3 << 30
    file_bytes: int = 256 << 20


@dataclass(frozen=True)
class ForkOutcome:
    """Outcome of a child.

    Attributes
    ----------
    code : int
        Its exit code; negative: the signal that killed it.
    hung : bool
        Whether it was killed because it exceeded its time limit.
    stdout, stderr : str
    verdict : str
        Text that the action wrote to its file descriptor.
    cpu_seconds : float
    """

    code: int
    hung: bool
    stdout: str
    stderr: str
    verdict: str
    cpu_seconds: float


def run_forked(actions: Sequence[Action], limits: ForkLimits) -> list[ForkOutcome]:
    """Call each action with a file descriptor for its verdict; its result is the exit code.

    The actions share a child, since a fork costs more than most of them. If one ends the child, the remaining ones get
    a new one.
    """
    outcomes: list[ForkOutcome] = []
    while len(outcomes) < len(actions):
        outcomes += _in_one_child(actions[len(outcomes) :], limits)
    return outcomes


def _in_one_child(actions: Sequence[Action], limits: ForkLimits) -> list[ForkOutcome]:
    """Return the outcomes of all actions, or those up to the one that ended the child."""
    files = [[os.memfd_create(name) for name in ("stdout", "stderr", "verdict")] for _ in actions]
    codes = os.memfd_create("codes")
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _be_the_child(actions, files, codes, limits)
        in_time = _wait(child, limits.wall_seconds + len(actions))
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # including its children
        _, status, usage = os.wait4(child, 0)
        ended = os.waitstatus_to_exitcode(status)
        done = [int(code) for code in _text(codes).split()]
        if len(done) < len(actions):
            done.append(ended)
        share = (usage.ru_utime + usage.ru_stime) / len(done)
        hung = [code < 0 and (not in_time or code == -signal.SIGXCPU) for code in done]
        ends = zip(done, hung, files, strict=False)
        return [
            ForkOutcome(code, late, _text(stdout), _text(stderr), _text(verdict), share)
            for code, late, (stdout, stderr, verdict) in ends
        ]
    finally:
        for file in [codes, *(file for own in files for file in own)]:
            os.close(file)


def _wait(child: int, seconds: float) -> bool:
    """Return whether the child ends in time; it is not reaped, so its process ID is not reused."""
    handle = os.pidfd_open(child)
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))
    finally:
        os.close(handle)


def _be_the_child(actions: Sequence[Action], files: Sequence[list[int]], codes: int, limits: ForkLimits) -> NoReturn:
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _limit(limits)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "surrogateescape")
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", line_buffering=True)
    for action, (stdout, stderr, verdict) in zip(actions, files, strict=True):
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        code = ESCAPED
        try:
            _limit_cpu(limits.cpu_seconds)
            code = action(verdict)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(codes, f"{code}\n".encode())
    os._exit(0)


def _limit(limits: ForkLimits) -> None:
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + limits.memory_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file_bytes,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_cpu(seconds: int) -> None:
    used = int(sum(os.times()[:2])) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used + seconds, resource.RLIM_INFINITY))


def _text(file: int) -> str:
    size = os.fstat(file).st_size
    return os.pread(file, min(size, 1 << 20), 0).decode("utf-8", "surrogateescape")
