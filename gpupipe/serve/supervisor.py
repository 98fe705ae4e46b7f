"""Worker processes that share one listening socket, and the supervisor that restarts dead ones.

Connections that arrive while a worker is dead wait in the queue of the shared socket, so only the requests in flight on
that worker are lost. A worker that was ready or killed is restarted at once; starts that fail are delayed.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from gpupipe.children import child_environment, exit_error, private_environment, python_command
from gpupipe.errors import GpupipeError
from gpupipe.inference.untrusted.limits import SETTINGS, process_error
from gpupipe.report.text import printable
from gpupipe.serve.metrics import Metrics, create_file
from gpupipe.serve.settings import TOKEN_DIGEST, ServeSettings, token_digest

CHILD = "gpupipe.serve.child"
MIN_DELAY_SECONDS, MAX_DELAY_SECONDS = 0.1, 4.0  # before a start that follows a failed one
KILLS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # by other processes
KILL_SECONDS = 5.0  # added to the time limit of the shutdown

log = logging.getLogger("gpupipe.serve")


@dataclass(eq=False)
class Worker:
    """A worker process and the connection to it; `position` is its slot in the metrics."""

    position: int
    process: subprocess.Popen[bytes]
    connection: socket.socket
    is_ready: bool = False
    received: bytes = b""


class Supervisor:
    """Supervisor of the workers: starts them, restarts those that end, and forwards signals.

    `listener` is bound and listening. `on_ready` is called once, when all workers accept requests.
    """

    def __init__(self, settings: ServeSettings, listener: socket.socket, on_ready: Callable[[], None]) -> None:
        self._settings = settings
        self._listener = listener
        self._on_ready = on_ready
        self._metrics_fd = create_file(settings.workers)
        self._metrics = Metrics(self._metrics_fd, settings.workers, 0)
        self._selector = selectors.DefaultSelector()
        self._workers: dict[int, Worker] = {}
        self._restarts: dict[int, float] = {}  # time of the next start, by position
        self._delay = 0.0  # after the last failed start, until a worker is ready
        self._was_ready = False
        self._stopped_by = 0
        self._kill_at = float("inf")

    def run(self) -> int:
        """Serve until a signal; return its number; raise GpupipeError if a worker cannot start for the first time."""
        ear, mouth = socket.socketpair()
        ear.setblocking(False)
        mouth.setblocking(False)
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, lambda *_: None) for number in numbers}
        wakeup = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
        self._selector.register(ear, selectors.EVENT_READ)
        try:
            for position in range(self._settings.workers):
                self._start(position)
            while self._workers or not self._stopped_by:
                self._turn(ear)
            return self._stopped_by
        finally:
            for worker in self._workers.values():
                worker.process.kill()
                worker.process.wait()
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._selector.close()
            ear.close()
            mouth.close()
            os.close(self._metrics_fd)

    def _start(self, position: int) -> None:
        ours, theirs = socket.socketpair()
        fds = (self._listener.fileno(), self._metrics_fd, theirs.fileno())
        own = {**SETTINGS, TOKEN_DIGEST: token_digest()}
        arguments = [*map(str, fds), str(position), self._settings.to_text()]
        try:
            process = subprocess.Popen(
                python_command("-m", CHILD, *arguments),
                env=child_environment() if self._settings.limits is None else private_environment(own),
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C reaches the supervisor only, which then stops the workers
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._workers[position] = worker = Worker(position, process, ours)
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _turn(self, ear: socket.socket) -> None:
        """Wait for the next event, and handle it."""
        next_time = min([*self._restarts.values(), self._kill_at])
        timeout = None if next_time == float("inf") else max(0.0, next_time - monotonic())
        for key, _ in self._selector.select(timeout):
            if key.fileobj is ear:
                for number in ear.recv(64):
                    self._handle_signal(number)
            else:
                self._read(key.data)
        now = monotonic()
        for position in [p for p, at in self._restarts.items() if at <= now]:
            del self._restarts[position]
            try:
                self._start(position)
            except OSError as error:  # no memory or process at the moment: the other workers continue
                log.error("worker %d cannot be started and is tried again: %s", position, error.strerror)
                self._restarts[position] = now + self._next_delay()
        if now >= self._kill_at:
            self._kill_at = float("inf")
            for worker in self._workers.values():
                worker.process.kill()

    def _handle_signal(self, number: int) -> None:
        if number == signal.SIGHUP:
            for worker in self._workers.values():
                if worker.is_ready:  # it has its own handler by now
                    worker.process.send_signal(number)
        elif number in (signal.SIGINT, signal.SIGTERM):
            is_first = not self._stopped_by
            self._stopped_by = self._stopped_by or number
            self._restarts.clear()
            self._listener.close()  # refuses connections that no worker would accept
            self._kill_at = monotonic() + self._settings.shutdown_seconds + KILL_SECONDS if is_first else 0.0
            for worker in self._workers.values():
                worker.process.send_signal(signal.SIGTERM)

    def _read(self, worker: Worker) -> None:
        try:
            received = worker.connection.recv(65536)
        except ConnectionResetError:
            received = b""
        worker.received += received
        if not received:
            self._end(worker)
        elif worker.received.startswith(b"ready") and not worker.is_ready:
            worker.is_ready = True
            self._delay = 0.0
            if not self._was_ready and all(w.is_ready for w in self._workers.values()):
                self._was_ready = True
                self._on_ready()

    def _end(self, worker: Worker) -> None:
        """Handle a closed connection: the process has ended, or is about to."""
        self._selector.unregister(worker.connection)
        worker.connection.close()
        try:
            code = worker.process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            code = worker.process.wait()
        del self._workers[worker.position]
        self._metrics.reset_gauges(worker.position)
        if self._stopped_by:
            return
        if not self._was_ready:
            raise self._start_error(worker, code)
        delay = 0.0 if worker.is_ready or -code in KILLS else self._next_delay()
        self._restarts[worker.position] = monotonic() + delay
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
        if not worker.is_ready and worker.received:
            reason = printable(str(self._start_error(worker, code)))
        elif self._settings.limits is not None:
            reason = exit_error(code).how
        when = f" in {delay:g} s" if delay else ""
        log.error(
            "worker %d (process %d) ended and is restarted%s: %s", worker.position, worker.process.pid, when, reason
        )

    def _next_delay(self) -> float:
        self._delay = min(max(MIN_DELAY_SECONDS, 2 * self._delay), MAX_DELAY_SECONDS)
        return self._delay

    def _start_error(self, worker: Worker, code: int) -> GpupipeError:
        where, limits = self._settings.model, self._settings.limits
        try:
            found = json.loads(worker.received)
        except ValueError:
            if limits is not None:
                return process_error(exit_error(code), where, limits, limits.seconds_for(0))
            return GpupipeError(f"a worker process ended with exit code {code} before it was ready")
        error = GpupipeError(found["what"], where=found["where"], fix=found["fix"])
        error.exit_code, error.title = found["exit_code"], found["title"]
        return error
