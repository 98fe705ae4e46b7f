"""A kept child process, seen from its parent."""

from __future__ import annotations

import os
import re
import selectors
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from gpupipe.children.commands import child_environment, private_environment, python_command
from gpupipe.children.server import ANSWER, CHUNK, OUT_OF_MEMORY, QUESTION, READY, REPLY
from gpupipe.errors import GpupipeError
from gpupipe.units import GIB, MIB

START_SECONDS = 120.0  # for a child to import what it needs, on a machine that is busy
TAIL_BYTES = 8192  # of a child's output: what an error can quote
EXIT_SECONDS = 5.0  # between the end of a connection and that of its process
NO_MEMORY = re.compile(r"MemoryError|bad_alloc|out of memory|cannot allocate|unable to allocate", re.IGNORECASE)

Cause = Literal["start", "crash", "exit", "time", "memory", "reply"]


@dataclass(frozen=True)
class ChildLimits:
    """Limits of a child process.

    Attributes
    ----------
    seconds : float
        For each answer, unless `Child.ask` says otherwise.
    memory_bytes : int, optional
        Memory that it may allocate beyond what its imports took. It counts private writable memory (``RLIMIT_DATA``):
        memory-mapped files and libraries are not in it, and thread stacks are. None: not limited. Linux only.
    reply_bytes : int
        The longest reply.
    """

    seconds: float
    memory_bytes: int | None = None
    reply_bytes: int = 16 * MIB


class ChildError(GpupipeError):
    """A child process ended, or was ended, before it had answered.

    Callers make the error of their own subject from it.

    Attributes
    ----------
    cause : {"start", "crash", "exit", "time", "memory", "reply"}
        ``start``: it never was ready, which is not the fault of a question. ``crash``: a signal. ``exit``: it exited by
        itself. ``time``, ``memory``: it reached a limit, or was killed as where memory runs out. ``reply``: what it
        sent is not a reply.
    how : str
        The same as a clause: ``"crashed (SIGSEGV)"``, ``"did not finish within 60 s"``.
    output : str
        The end of what it printed.
    """

    def __init__(self, cause: Cause, how: str, output: str = "") -> None:
        self.cause, self.how, self.output = cause, how, output.strip()
        last = self.output.splitlines()[-1].strip() if self.output else ""
        super().__init__(f"a child process {how}" + (f": {last}" if last else ""))


class Child:
    """A process that answers questions, started at the first one and kept for further ones.

    After a `ChildError`, and after `close`, the next question starts another process. Threads take turns. A forked copy
    of this process starts a child of its own.

    Parameters
    ----------
    module : str
        The module that the process runs: it calls `serve`, under ``if __name__ == "__main__":``.
    limits : ChildLimits
    settings : mapping of str to str, optional
        Environment variables, beside those of this process.
    private : bool
        Whether variables of this process that may hold secrets are withheld from the child: it gets
        `gpupipe.children.private_environment`.

    Examples
    --------
    >>> with Child("gpupipe.io.isolation", Limits(seconds=60)) as child:  # doctest: +SKIP
    ...     child.ask(b"...")
    """

    def __init__(
        self, module: str, limits: ChildLimits, settings: Mapping[str, str] | None = None, private: bool = False
    ) -> None:
        self.module, self.limits, self.settings, self.private = module, limits, settings, private
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def ask(self, message: bytes, seconds: float | None = None, reply_bytes: int | None = None) -> bytes:
        """Return the reply to a message.

        Parameters
        ----------
        message : bytes
        seconds : float, optional
            How long it may take, once the process has started; by default `limits.seconds`.
        reply_bytes : int, optional
            The longest reply; by default `limits.reply_bytes`.

        Raises
        ------
        ChildError
            If the process cannot be started, crashes, exits, reaches a limit or sends anything but a reply. It is gone
            then.
        """
        seconds = self.limits.seconds if seconds is None else seconds
        reply_bytes = self.limits.reply_bytes if reply_bytes is None else reply_bytes
        with self._lock:
            try:
                running = self._started()
                return running.exchange(QUESTION.pack(seconds, len(message)) + message, seconds, reply_bytes)
            except BaseException:  # Ctrl-C too: what it would answer later is to another question
                self._end()
                raise

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _started(self) -> _Running:
        if self._running is None or self._running.owner != os.getpid():
            environment = private_environment(self.settings) if self.private else child_environment(self.settings)
            self._running = _Running(self.module, self.limits, environment)
            self._running.await_ready()
        return self._running

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.end()


class _Running:
    """One process and the connection to it."""

    def __init__(self, module: str, limits: ChildLimits, environment: Mapping[str, str]) -> None:
        self.owner, self.limits, self.output = os.getpid(), limits, b""
        ours, theirs = socket.socketpair()
        # The child holds the read end: the kernel tells it when this process is gone, whatever it is doing.
        watched, lifeline = os.pipe()
        numbers = (theirs.fileno(), watched, -1 if limits.memory_bytes is None else limits.memory_bytes)
        try:
            self.process = subprocess.Popen(
                python_command("-m", module, *map(str, numbers)),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                pass_fds=(theirs.fileno(), watched),
                process_group=0,  # Ctrl-C is for this process, which ends the child
            )
        except OSError as error:
            ours.close()
            os.close(lifeline)
            raise ChildError("start", f"could not be started: {error}") from error
        finally:
            theirs.close()
            os.close(watched)
        assert self.process.stdout is not None
        self.socket = ours
        for fd in (ours.fileno(), self.process.stdout.fileno()):
            os.set_blocking(fd, False)
        self.end = weakref.finalize(self, _end, self.owner, self.process, ours, lifeline)

    def await_ready(self) -> None:
        """Wait until its imports are done."""
        try:
            kind, _ = self._answer(time.monotonic() + START_SECONDS, START_SECONDS, 0)
        except ChildError as error:
            how = f"could not start: it {error.how}"
            raise ChildError("memory" if error.cause == "memory" else "start", how, error.output) from error
        if kind != READY:
            raise ChildError("start", "could not start: it answered before it was asked", self._printed())

    def exchange(self, question: bytes, seconds: float, reply_bytes: int) -> bytes:
        """Send a question and return the reply."""
        kind, reply = self._answer(time.monotonic() + seconds, seconds, reply_bytes, question)
        if kind == OUT_OF_MEMORY:
            raise ChildError("memory", self._out_of_memory(), self._printed())
        if kind != REPLY:
            raise ChildError("reply", f"sent a message of unknown kind {kind}", self._printed())
        return reply

    def _answer(self, deadline: float, seconds: float, reply_bytes: int, question: bytes = b"") -> tuple[int, bytes]:
        """Send a question, if any, and return kind and content of the message that comes back."""
        received, outgoing = bytearray(), memoryview(question)
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if question else 0))
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ChildError("time", f"did not finish within {seconds:,.0f} s", self._printed())
                for key, events in selector.select(left):
                    if key.fileobj is self.process.stdout:
                        if not self._drain():
                            selector.unregister(self.process.stdout)
                        continue
                    if events & selectors.EVENT_WRITE:
                        outgoing = outgoing[self._send(outgoing) :]
                        if not outgoing:
                            selector.modify(self.socket, selectors.EVENT_READ)
                    if events & selectors.EVENT_READ:
                        message = self._receive(received, reply_bytes)
                        if message is not None and outgoing:
                            raise ChildError("reply", "answered before it had the question", self._printed())
                        if message is not None:
                            return message

    def _send(self, outgoing: memoryview) -> int:
        try:
            return self.socket.send(outgoing[:CHUNK])
        except BlockingIOError:
            return 0
        except OSError:
            raise self._ended() from None

    def _receive(self, received: bytearray, reply_bytes: int) -> tuple[int, bytes] | None:
        """Add what has come to `received`; return the message once it is complete."""
        try:
            chunk = self.socket.recv(CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            chunk = b""
        if not chunk:
            raise self._ended()
        received += chunk
        if len(received) < ANSWER.size:
            return None
        kind, length = ANSWER.unpack_from(received)
        if length > reply_bytes:
            raise ChildError("reply", f"sent a reply of {length:,} bytes", self._printed())
        if len(received) < ANSWER.size + length:
            return None
        if len(received) > ANSWER.size + length:
            raise ChildError("reply", "sent more than one reply", self._printed())
        return kind, bytes(received[ANSWER.size :])

    def _ended(self) -> ChildError:
        """Return why the process has closed the connection."""
        try:
            code = self.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return ChildError("reply", "closed the connection", self._printed())
        output = self._printed()
        if code == -signal.SIGKILL:
            return ChildError("memory", "was killed (SIGKILL), as the system does where memory runs out", output)
        if code and NO_MEMORY.search(output):
            return ChildError("memory", self._out_of_memory(), output)
        if code < 0:
            return ChildError("crash", f"crashed ({_signal_name(-code)})", output)
        return ChildError("exit", f"ended with exit code {code}", output)

    def _out_of_memory(self) -> str:
        limit = self.limits.memory_bytes
        return "ran out of memory" + ("" if limit is None else f" (limit: {limit / GIB:,.1f} GiB)")

    def _drain(self) -> bool:
        """Take some of what was printed, of which the end is kept; return whether there may be more."""
        assert self.process.stdout is not None
        chunk = self.process.stdout.read(CHUNK)
        self.output = (self.output + (chunk or b""))[-TAIL_BYTES:]
        return chunk != b""

    def _printed(self) -> str:
        """Return the end of what was printed up to now, by a process that may go on printing."""
        for _ in range(16):
            if not self._drain():
                break
        return self.output.decode(errors="replace")


def _end(owner: int, process: subprocess.Popen[bytes], connection: socket.socket, lifeline: int) -> None:
    """End a process and what it has started, and wait for it: no zombie stays."""
    connection.close()
    os.close(lifeline)
    if process.stdout is not None:
        process.stdout.close()
    if owner != os.getpid():  # a forked copy: the process is not its own
        process.returncode = 0
        return
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
