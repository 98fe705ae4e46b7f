"""One worker process: event loop, signals, and the reload of the model."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from gpupipe.serve.application import Application
from gpupipe.serve.metrics import Metrics
from gpupipe.serve.protocol import LimitedProtocol, close_overdue
from gpupipe.serve.reload import ModelWatch
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import BACKLOG, ServeSettings, token_digest
from gpupipe.serve.slot import ModelSlot
from gpupipe.serve.time_limit import watch_event_loop

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
