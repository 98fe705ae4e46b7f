"""Program that serves MLflow with SQLite, as ``mlflow server`` does, but without its UI.

Each line on stdin is a port (0: any free one), and starts a server in a forked process; the answer is its port and its
process id. The imports, which take seconds, are made once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])
os.environ |= {
    "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{FOLDER}/mlflow.db",
    "_MLFLOW_SERVER_ARTIFACT_DESTINATION": str(FOLDER / "artifacts"),
    "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
    "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}

from mlflow.server import app  # noqa: E402
from mlflow.server.handlers import initialize_backend_stores  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402


def serve(port: int) -> None:
    """Serve until killed."""
    initialize_backend_stores(os.environ["_MLFLOW_SERVER_FILE_STORE"], default_artifact_root="mlflow-artifacts:/")
    server = make_server("127.0.0.1", port, app, threaded=True)
    print(server.port, os.getpid(), flush=True)
    server.serve_forever()


for line in sys.stdin:
    if not os.fork():
        try:
            serve(int(line))
        finally:
            print(flush=True)  # no server: an empty line, or the caller waits for its port forever
