"""`Child`: a reusable child process under limits, and its errors."""

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
from gpupipe.children.server import CHUNK, OUT_OF_MEMORY, READY, REPLY, REPLY_HEADER, REQUEST_HEADER
from gpupipe.errors import GpupipeError
from gpupipe.units import GIB, MIB

START_SECONDS = 120.0  # for the imports of a child on a busy machine
TAIL_BYTES = 8192  # of a child's output are stored, to be quoted in errors
EXIT_SECONDS = 5.0  # between the end of a connection and the end of its process
NO_MEMORY = re.compile(r"MemoryError|bad_alloc|out of memory|cannot allocate|unable to allocate", re.IGNORECASE)

Cause = Literal["start", "crash", "exit", "time", "memory", "reply"]


@dataclass(frozen=True)
class ChildLimits:
    """Limits of a child process.

    - `seconds`: default time limit of a request.
    - `memory_bytes`: memory that the child may allocate in addition to its imports. Counts private writable memory
      (``RLIMIT_DATA``), including thread stacks, but not memory-mapped files and libraries. None: unlimited. Linux
      only.
    - `reply_bytes`: maximum length of a reply.
    """

    seconds: float
    memory_bytes: int | None = None
    reply_bytes: int = 16 * MIB


class ChildError(GpupipeError):
    """A child process ended, or was killed, before it replied.

    Callers translate it into an error about their own input.

    - `cause`: ``start``: it never became ready, which is unrelated to the request. ``crash``: ended by a signal.
      ``exit``: exited by itself. ``time``, ``memory``: reached a limit, or was killed by the system for lack of memory.
      ``reply``: sent a malformed reply.
    - `how`: the cause as a clause: ``"crashed (SIGSEGV)"``, ``"did not finish within 60 s"``.
    - `output`: the end of its output.
    """

    def __init__(self, cause: Cause, how: str, output: str = "") -> None:
        self.cause = cause
        self.how = how
        self.output = output.strip()
        last = self.output.splitlines()[-1].strip() if self.output else ""
        super().__init__(f"a child process {how}" + (f": {last}" if last else ""))


class Child:
    """A child process that replies to requests; the first request starts it, and later ones reuse it.

    After a `ChildError`, and after `close`, the next request starts a new process. Requests from several threads are
    serialized. A forked copy of this process starts its own child.

    - `module`: main module of the child, which calls `serve` under ``if __name__ == "__main__":``.
    - `settings`: environment variables in addition to those of this process.
    - `private`: withhold environment variables that may contain secrets; see `gpupipe.children.private_environment`.
    - `outlives`: let the process finish its last work, the `at_end` of `serve`, when it is closed or this process ends.
    """

    def __init__(
        self,
        module: str,
        limits: ChildLimits,
        settings: Mapping[str, str] | None = None,
        private: bool = False,
        outlives: bool = False,
    ) -> None:
        self.module = module
        self.limits = limits
        self.settings = settings
        self.private = private
        self.outlives = outlives
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def request(self, message: bytes, seconds: float | None = None, reply_bytes: int | None = None) -> bytes:
        """Send a request and return the reply.

        `seconds` limits the time once the process has started, by default to `limits.seconds`; `reply_bytes` limits the
        length of the reply, by default to `limits.reply_bytes`. Raise ChildError if the process cannot be started,
        crashes, exits, reaches a limit or sends a malformed reply. The process has ended then.
        """
        seconds = self.limits.seconds if seconds is None else seconds
        reply_bytes = self.limits.reply_bytes if reply_bytes is None else reply_bytes
        with self._lock:
            try:
                running = self._start()
                return running.exchange(REQUEST_HEADER.pack(seconds, len(message)) + message, seconds, reply_bytes)
            except BaseException:  # Ctrl-C too: a late reply would be taken for the reply to the next request
                self._end()
                raise

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def kill(self) -> None:
        """Kill the process from any thread; a request that waits for it raises ChildError."""
        running = self._running
        if running is not None:
            _kill(running.process)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _start(self) -> _Running:
        if self._running is None or self._running.owner != os.getpid():
            environment = private_environment(self.settings) if self.private else child_environment(self.settings)
            self._running = _Running(self.module, self.limits, environment, self.outlives)
            self._running.await_ready()
        return self._running

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.end()


class _Running:
    """One process and the connection to it."""

    def __init__(self, module: str, limits: ChildLimits, environment: Mapping[str, str], outlives: bool) -> None:
        self.owner = os.getpid()
        self.limits = limits
        self.output = b""
        ours, theirs = socket.socketpair()
        # The child has the read end, so the kernel signals it when this process ends, whatever it is doing.
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
                process_group=0,  # Ctrl-C goes to this process only, which ends the child
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
        patience = EXIT_SECONDS if outlives else 0.0
        self.end = weakref.finalize(self, _end, self.owner, self.process, ours, lifeline, patience)
        self.end.atexit = not outlives  # it notices the end of this process, and needs no help

    def await_ready(self) -> None:
        """Wait until the child has finished its imports."""
        try:
            kind, _ = self._reply_to(b"", time.monotonic() + START_SECONDS, START_SECONDS, 0)
        except ChildError as error:
            how = f"could not start: it {error.how}"
            raise ChildError("memory" if error.cause == "memory" else "start", how, error.output) from error
        if kind != READY:
            raise ChildError("start", "could not start: it replied before the first request", self._output_tail())

    def exchange(self, request: bytes, seconds: float, reply_bytes: int) -> bytes:
        """Send a request and return the reply."""
        kind, reply = self._reply_to(request, time.monotonic() + seconds, seconds, reply_bytes)
        if kind == OUT_OF_MEMORY:
            raise ChildError("memory", self._out_of_memory(), self._output_tail())
        if kind != REPLY:
            raise ChildError("reply", f"sent a message of unknown kind {kind}", self._output_tail())
        return reply

    def _reply_to(self, request: bytes, deadline: float, seconds: float, reply_bytes: int) -> tuple[int, bytes]:
        """Send a request, if not empty, and return the kind and content of the next message."""
        received, outgoing = bytearray(), memoryview(request)
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if request else 0))
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ChildError("time", f"did not finish within {seconds:,.0f} s", self._output_tail())
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
                            raise ChildError("reply", "replied before it had read the request", self._output_tail())
                        if message is not None:
                            return message

    def _send(self, outgoing: memoryview) -> int:
        try:
            return self.socket.send(outgoing[:CHUNK])
        except BlockingIOError:
            return 0
        except OSError:
            raise self._exit_error() from None

    def _receive(self, received: bytearray, reply_bytes: int) -> tuple[int, bytes] | None:
        """Append available bytes to `received`; return the message once it is complete."""
        try:
            chunk = self.socket.recv(CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            chunk = b""
        if not chunk:
            raise self._exit_error()
        received += chunk
        if len(received) < REPLY_HEADER.size:
            return None
        kind, length = REPLY_HEADER.unpack_from(received)
        if length > reply_bytes:
            problem = f"sent a reply of {length:,} bytes; expected at most {reply_bytes:,}"
            raise ChildError("reply", problem, self._output_tail())
        if len(received) < REPLY_HEADER.size + length:
            return None
        if len(received) > REPLY_HEADER.size + length:
            raise ChildError("reply", "sent more than one reply", self._output_tail())
        return kind, bytes(received[REPLY_HEADER.size :])

    def _exit_error(self) -> ChildError:
        """Return the error for a process that has closed the connection."""
        try:
            code = self.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return ChildError("reply", "closed the connection", self._output_tail())
        output = self._output_tail()
        if code and NO_MEMORY.search(output):
            return ChildError("memory", self._out_of_memory(), output)
        return exit_error(code, output)

    def _out_of_memory(self) -> str:
        limit = self.limits.memory_bytes
        return "ran out of memory" + ("" if limit is None else f" (limit: {limit / GIB:,.1f} GiB)")

    def _drain(self) -> bool:
        """Read some of the child's output, storing its end; return whether there may be more."""
        assert self.process.stdout is not None
        chunk = self.process.stdout.read(CHUNK)
        self.output = (self.output + (chunk or b""))[-TAIL_BYTES:]
        return chunk != b""

    def _output_tail(self) -> str:
        """Return the end of the output so far; the process may still be printing."""
        for _ in range(16):
            if not self._drain():
                break
        return self.output.decode(errors="replace")


def exit_error(code: int, output: str = "") -> ChildError:
    """Return the error of a child process that ended with an exit code, or, if negative, by a signal."""
    if code == -signal.SIGKILL:
        return ChildError("memory", "was killed (SIGKILL), probably for lack of memory", output)
    if code == -signal.SIGALRM:
        return ChildError("time", "did not finish in time", output)
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return ChildError("crash", f"crashed ({name})", output)
    return ChildError("exit", f"exited with code {code}", output)


def _end(
    owner: int, process: subprocess.Popen[bytes], connection: socket.socket, lifeline: int, patience: float
) -> None:
    """Kill a process that does not exit within `patience` seconds, and wait for it, so that no zombie is left."""
    connection.close()
    os.close(lifeline)
    if process.stdout is not None:
        process.stdout.close()
    if owner != os.getpid():  # in a forked copy, which is not the parent of the process
        process.returncode = 0
        return
    if patience:
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    _kill(process)
    process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its process group."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
