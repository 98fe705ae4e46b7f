"""Main module of a worker process, started by `gpupipe.serve.supervisor`."""

from __future__ import annotations

import json
import os
import socket
import sys

from gpupipe.errors import GpupipeError
from gpupipe.serve.metrics import Metrics
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.server import configure_log
from gpupipe.serve.settings import ServeSettings
from gpupipe.serve.worker import run_worker


def main() -> int:
    """Serve as told by the arguments, and return the exit code."""
    listener_fd, metrics_fd, parent_fd, position = map(int, sys.argv[1:5])
    settings = ServeSettings.from_text(sys.argv[5])
    for fd in (listener_fd, metrics_fd, parent_fd):
        os.set_inheritable(fd, False)
    configure_log()
    with socket.socket(fileno=listener_fd) as listener, socket.socket(fileno=parent_fd) as parent:
        try:
            model = ServedModel.load(settings.model, settings.name, settings.allow_code, settings.explain == "start")
        except GpupipeError as error:
            parts = {"what": error.what, "where": error.where, "fix": error.fix}
            found = {**parts, "exit_code": error.exit_code, "title": error.title}
            parent.sendall(json.dumps(found).encode())
            return error.exit_code
        metrics = Metrics(metrics_fd, settings.workers, position)
        run_worker(model, settings, listener, metrics, lambda: parent.sendall(b"ready"), parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
