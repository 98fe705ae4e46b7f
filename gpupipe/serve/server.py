"""`serve_model`: bind the address, then serve in this process or in several."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from gpupipe.errors import ConfigError
from gpupipe.report.text import printable
from gpupipe.serve.settings import BACKLOG, TOKEN, ServeSettings

PACKAGES = ("starlette", "uvicorn", "httptools", "orjson")
MAX_LOG_LINES, MAX_LOG_LINE = 60, 2000  # lines of a traceback; characters

log = logging.getLogger("gpupipe.serve")


def require_packages() -> None:
    """Raise ConfigError if a package of the extra ``serve`` is not installed."""
    packages = PACKAGES if os.name == "nt" else (*PACKAGES, "uvloop")
    if missing := [name for name in packages if find_spec(name) is None]:
        raise ConfigError(f"serving requires {', '.join(missing)}", fix='pip install "gpupipe[serve]"')


def serve_model(settings: ServeSettings, announce: Callable[[str], None]) -> int:
    """Serve a model until a signal; return the number of the signal.

    `announce` is called with the URL when the server accepts requests. Raise ArtifactError if the model cannot be
    loaded, and ConfigError if the address cannot be used, or packages are missing.
    """
    require_packages()
    has_children = settings.workers > 1 or settings.limits is not None  # then, this process never opens the model
    if has_children and os.name != "posix":
        raise ConfigError("--workers above 1 and --untrusted require Linux or macOS", fix="remove them")
    with bind(settings) as listener:
        if not settings.is_loopback and not os.environ.get(TOKEN):
            log.warning("other machines can reach %s without a token; set %s to require one", settings.host, TOKEN)

        def on_ready() -> None:
            announce(url_of(listener))

        if has_children:
            from gpupipe.serve.supervisor import Supervisor

            return Supervisor(settings, listener, on_ready).run()
        from gpupipe.serve.metrics import Metrics, create_file
        from gpupipe.serve.served_model import ServedModel
        from gpupipe.serve.worker import run_worker

        explains = settings.explain == "start"
        model = ServedModel.load(settings.model, settings.name, settings.allow_code, explains, settings.trust)
        return run_worker(model, settings, listener, Metrics(create_file(1), 1, 0), on_ready)


def bind(settings: ServeSettings) -> socket.socket:
    """Return a listening socket. Raise ConfigError if the address is unknown, in use, or not allowed."""
    where = f"--host {settings.host} --port {settings.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"the host is not an address of this machine: {error.strerror}", where=where) from None
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        fix = "choose another address, or --port 0 for a free port"
        raise ConfigError(f"cannot listen: {error.strerror}", where=where, fix=fix) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _LogFormatter(logging.Formatter):
    """Formatter of one line per record and indented tracebacks, whatever texts of clients they have."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))[:MAX_LOG_LINE]

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).splitlines()[-MAX_LOG_LINES:]
        return "\n".join(f"    {printable(line)}"[:MAX_LOG_LINE] for line in lines)


def configure_log() -> None:
    """Write the log to stderr, one line per event."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LogFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("gpupipe.serve").setLevel(logging.INFO)
    # uvicorn warns about each malformed request, which clients control; the metrics count them.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
