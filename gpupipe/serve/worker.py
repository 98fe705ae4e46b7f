"""One worker process: event loop, signals, and the reload of the model."""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import uvicorn

from gpupipe.errors import ArtifactError, ConfigError, GpupipeError
from gpupipe.model_parts.folder import model_folder
from gpupipe.report.text import printable
from gpupipe.serve.application import Application
from gpupipe.serve.metrics import Metrics
from gpupipe.serve.protocol import LimitedProtocol, close_overdue
from gpupipe.serve.served_model import ServedModel, identify
from gpupipe.serve.settings import BACKLOG, ServeSettings, token_digest
from gpupipe.serve.slot import ModelSlot
from gpupipe.serve.time_limit import time_limit, watch_event_loop

MOST_DELAY = 60.0  # seconds

LOAD_SECONDS = 0.5  # between updates of the gauges
DRAINED = 4  # times the body limit: what is read of longer bodies, so that clients receive the error

log = logging.getLogger("gpupipe.serve")


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: they are those of `run_worker`."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run_worker(
    model: ServedModel,
    settings: ServeSettings,
    listener: socket.socket,
    metrics: Metrics,
    on_ready: Callable[[], None],
    parent: socket.socket | None = None,
) -> int:
    """Serve until a signal, or until the connection to the parent process closes; return the number of the signal.

    `listener` is bound and listening. `on_ready` is called when requests are accepted. `parent` is the connection to
    the supervisor.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(model, settings, listener, metrics, on_ready, parent))


def _loop_factory() -> Any:
    if sys.platform == "win32":  # uvloop does not exist there
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


async def _serve(
    model: ServedModel,
    settings: ServeSettings,
    listener: socket.socket,
    metrics: Metrics,
    on_ready: Callable[[], None],
    parent: socket.socket | None,
) -> int:
    loop = asyncio.get_running_loop()

    def slot_of(served: ServedModel) -> ModelSlot:
        scorer = served.scorer
        metrics.set_model(served.name, served.version, scorer.goal.task, served.leveled_inputs, served.loaded_at)
        return ModelSlot.of(served, settings, metrics)

    application = Application(slot_of(model), settings, metrics, token_digest())
    limits: dict[str, Any] = {"read_seconds": settings.read_seconds, "max_connections": settings.max_connections}
    limits |= {"max_drained_bytes": DRAINED * settings.max_body_bytes, "metrics": metrics}
    protocol = type("Connection", (LimitedProtocol,), limits)
    server = _Server(
        uvicorn.Config(
            application,
            http=protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=settings.shutdown_seconds,
        )
    )
    stopped_by = 0

    def stop(number: int) -> None:
        nonlocal stopped_by
        if application.is_closing:
            server.force_exit = True
        stopped_by = stopped_by or number
        application.is_closing = server.should_exit = True

    def stop_with_parent(connection: socket.socket) -> None:
        loop.remove_reader(connection)
        stop(signal.SIGTERM)

    def install(new: ServedModel) -> None:
        application.slot = slot_of(new)

    watch = ModelWatch(settings, lambda: application.model, install, metrics)
    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = lambda number: watch.request()
    before = {
        number: signal.signal(number, lambda n, frame: loop.call_soon_threadsafe(handlers[signal.Signals(n)], n))
        for number in handlers
    }
    if parent is not None:
        parent.setblocking(False)
        loop.add_reader(parent, lambda: stop_with_parent(parent))
    background = [
        loop.create_task(watch.run()),
        loop.create_task(close_overdue(server.server_state)),
        loop.create_task(_measure(application, server, metrics)),
        loop.create_task(_announce(server, metrics, on_ready)),
    ]
    if settings.operation_seconds is not None:
        background.append(loop.create_task(watch_event_loop(settings.operation_seconds)))
    try:
        await server.serve(sockets=[listener])
    finally:
        for task in background:
            task.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
    return stopped_by


async def _announce(server: uvicorn.Server, metrics: Metrics, on_ready: Callable[[], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    metrics.set_ready()
    on_ready()


async def _measure(application: Application, server: uvicorn.Server, metrics: Metrics) -> None:
    while True:
        metrics.set_load(application.n_waiting, len(server.server_state.connections))
        if application.slot.drift is not None:
            application.slot.drift.start()  # the rows of a worker with little load, for the others to see
        await asyncio.sleep(LOAD_SECONDS)


class ModelWatch:
    """Watch on the path of the model.

    `current` returns the model in use, and `install` replaces it.
    """

    def __init__(
        self,
        settings: ServeSettings,
        current: Callable[[], ServedModel],
        install: Callable[[ServedModel], None],
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._current = current
        self._install = install
        self._metrics = metrics
        self._requested = asyncio.Event()
        self._seen = current().identity
        self._delay = 0.0  # seconds until the next attempt with a model that could not be read
        self._retry_at = math.inf

    def request(self) -> None:
        """Reload the model now, even if it has not changed."""
        self._requested.set()

    async def run(self) -> None:
        """Reload the model whenever it changes or `request` is called, until cancelled."""
        while True:
            interval = self._settings.poll_seconds or None
            try:
                await asyncio.wait_for(self._requested.wait(), interval)
            except TimeoutError:
                now = identify(self._settings.model)
                if now is None or (now == self._seen and monotonic() < self._retry_at):  # None: it is being replaced
                    continue
            self._requested.clear()
            found = identify(self._settings.model)
            self._delay = self._delay if found == self._seen else 0.0
            self._seen = found
            is_final = await self._reload()
            # Files may still be copied, so a model that cannot be read is tried again.
            self._delay = 0.0 if is_final else min(max(1.0, 2 * self._delay), MOST_DELAY)
            self._retry_at = math.inf if is_final else monotonic() + self._delay

    async def _reload(self) -> bool:
        """Load and install the model; return False if another attempt may succeed."""
        old, settings = self._current(), self._settings
        explains = settings.explain == "start" or old.scorer.has_explanations
        try:
            # In a thread, so that requests are answered in the meantime.
            new = await asyncio.to_thread(load_model, settings, old.name, explains)
            old.refuse_incompatible(new)
            self._install(new)
        except Exception as error:
            is_final = isinstance(error, ConfigError)
            if self._delay and not is_final:
                return False  # counted and logged before
            self._metrics.count_reload(False)
            if isinstance(error, GpupipeError):
                log.error("the new model was refused; version %s continues: %s", old.version, printable(str(error)))
            else:
                log.exception("the new model was refused; version %s continues", old.version)
            return is_final
        self._metrics.count_reload(True)
        log.warning("version %s replaces version %s", new.version, old.version)
        return True


def load_model(settings: ServeSettings, name: str, explains: bool) -> ServedModel:
    """Return the new model, with explanations prepared if `explains`.

    An untrusted one is opened in another process first, as it may end this one. Raise GpupipeError if it is refused.
    """
    tried = None
    if settings.limits is not None:
        from gpupipe.inference.untrusted.process import ModelProcess

        folder = model_folder(Path(settings.model).resolve())
        with closing(ModelProcess(folder, settings.allow_code, settings.limits, settings.trust)) as process:
            process.request({"request": "scorer", "explains": explains}, lambda *reply: None)
            tried = process.sha256
    load = time_limit(settings.operation_seconds)(ServedModel.load)
    new = load(settings.model, name, settings.allow_code, explains, settings.trust)
    if tried not in (None, new.scorer.manifest["manifest_sha256"]):
        raise ArtifactError("the model was replaced while it was loaded", where=settings.model)
    return new
