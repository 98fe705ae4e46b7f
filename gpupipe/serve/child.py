"""Main module of a worker process, started by `gpupipe.serve.supervisor`."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

from gpupipe.children import limit_memory
from gpupipe.entry_points import forbid_plugins
from gpupipe.errors import GpupipeError
from gpupipe.serve.metrics import Metrics
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.server import configure_log
from gpupipe.serve.settings import ServeSettings
from gpupipe.serve.time_limit import time_limit
from gpupipe.serve.worker import run_worker


def main() -> int:
    """Serve as told by the arguments, and return the exit code."""
    listener_fd, metrics_fd, parent_fd, position = map(int, sys.argv[1:5])
    settings = ServeSettings.from_text(sys.argv[5])
    for fd in (listener_fd, metrics_fd, parent_fd):
        os.set_inheritable(fd, False)
    configure_log()
    if settings.limits is not None:
        from gpupipe.inference.untrusted.limits import NO_PLUGINS
        from gpupipe.inference.untrusted.replies import read_error, write_error  # before memory is limited

        forbid_plugins(NO_PLUGINS)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends this process without Python, even if native code hangs
        limit_memory(settings.limits.memory_bytes)
    with socket.socket(fileno=listener_fd) as listener, socket.socket(fileno=parent_fd) as parent:
        try:
            load = time_limit(settings.operation_seconds)(ServedModel.load)
            explains = settings.explain == "start"
            model = load(settings.model, settings.name, settings.allow_code, explains, settings.trust)
        except Exception as error:
            if settings.limits is not None:
                error = read_error(write_error(error)["error"], settings.model, settings.limits.memory_bytes)
            elif not isinstance(error, GpupipeError):
                raise
            parts = {"what": error.what, "where": error.where, "fix": error.fix}
            found = {**parts, "exit_code": error.exit_code, "title": error.title}
            parent.sendall(json.dumps(found).encode())
            return error.exit_code
        metrics = Metrics(metrics_fd, settings.workers, position)
        run_worker(model, settings, listener, metrics, lambda: parent.sendall(b"ready"), parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
