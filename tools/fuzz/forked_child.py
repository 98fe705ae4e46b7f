"""Actions in forked child processes with limits: libraries are imported once for thousands of cases.

Linux alone: `os.memfd_create` holds what the child prints, `os.pidfd_open` waits for it with a limit.
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
ESCAPED = 99  # the exit code of a child whose action raised


@dataclass(frozen=True)
class ForkLimits:
    """The limits of a child.

    Attributes
    ----------
    cpu_seconds : int
        The kernel ends a child that uses more, as hung.
    wall_seconds : float
        Likewise for a child that sleeps or waits.
    memory_bytes : int
        Address space in addition to the parent's.
    file_bytes : int
        The largest file that it may write.
    """

    cpu_seconds: int = 20
    wall_seconds: float = 120.0
    memory_bytes: int = 3 << 30
    file_bytes: int = 256 << 20


@dataclass(frozen=True)
class ForkOutcome:
    """The end of a child.

    Attributes
    ----------
    code : int
        Its exit code; negative: the signal that ended it.
    hung : bool
        Whether it was ended because its time was up.
    stdout, stderr : str
    judgement : str
        The text that the action wrote to its file descriptor.
    cpu_seconds : float
    """

    code: int
    hung: bool
    stdout: str
    stderr: str
    judgement: str
    cpu_seconds: float


def run_forked(actions: Sequence[Action], limits: ForkLimits) -> list[ForkOutcome]:
    """Call each action with a file descriptor to write a judgement to; its result is the exit code.

    They share a child, since a fork costs more than most of them do. If one ends it, the remaining ones get another.
    """
    outcomes: list[ForkOutcome] = []
    while len(outcomes) < len(actions):
        outcomes += _in_one_child(actions[len(outcomes) :], limits)
    return outcomes


def _in_one_child(actions: Sequence[Action], limits: ForkLimits) -> list[ForkOutcome]:
    """Return the outcomes as far as the child came: of all actions, or up to the one that ended it."""
    files = [[os.memfd_create(name) for name in ("stdout", "stderr", "judgement")] for _ in actions]
    codes = os.memfd_create("codes")
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _be_the_child(actions, files, codes, limits)
        in_time = _wait(child, limits.wall_seconds + len(actions))
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and whatever it has started
        _, status, usage = os.wait4(child, 0)
        ended = os.waitstatus_to_exitcode(status)
        done = [int(code) for code in _text(codes).split()]
        if len(done) < len(actions):
            done.append(ended)
        share = (usage.ru_utime + usage.ru_stime) / len(done)
        hung = [code < 0 and (not in_time or code == -signal.SIGXCPU) for code in done]
        ends = zip(done, hung, files, strict=False)
        return [
            ForkOutcome(code, late, _text(stdout), _text(stderr), _text(judgement), share)
            for code, late, (stdout, stderr, judgement) in ends
        ]
    finally:
        for file in [codes, *(file for own in files for file in own)]:
            os.close(file)


def _wait(child: int, seconds: float) -> bool:
    """Return whether the child ends in time; it is not reaped, so that its number stays its own."""
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
    for action, (stdout, stderr, judgement) in zip(actions, files, strict=True):
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        code = ESCAPED
        try:
            _limit_cpu(limits.cpu_seconds)
            code = action(judgement)
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
