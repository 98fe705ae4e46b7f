"""Processes of the servers that are compared. Linux only: they are pinned to cores and observed in /proc."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.request import Request, urlopen

from gpupipe.children import child_environment, python_command
from gpupipe.errors import ConfigError

GPUPIPE = "gpupipe serve"
FASTAPI = "FastAPI, scikit-learn"
FLOOR = "uvicorn, no work"
START_SECONDS = 120.0
FOLDER, ANSWER = "BENCHMARK_FOLDER", "BENCHMARK_ANSWER"  # environment variables of the other applications
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class RunningServer:
    """A server that accepts connections.

    Attributes
    ----------
    url : str
        Without a slash at the end.
    pid : int
        The process that was started.
    """

    url: str
    pid: int

    @property
    def pids(self) -> list[int]:
        """The process and its descendants."""
        return [self.pid, *descendants(self.pid)]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes."""
        total = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf8").rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def post(self, path: str, body: bytes) -> bytes:
        """Return the answer to a request.

        Raises
        ------
        ConfigError
            If it is an error.
        """
        request = Request(self.url + path, body, {"content-type": "application/json"})
        try:
            with urlopen(request, timeout=30) as response:
                answer: bytes = response.read()
        except URLError as error:
            text = error.read().decode() if hasattr(error, "read") else str(error)
            raise ConfigError(f"the server refused a request: {text}", where=self.url + path) from None
        return answer


def descendants(pid: int) -> list[int]:
    """Return the process ids of all running descendants of a process."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return []
    return [found for child in children for found in (child, *descendants(child))]


def command_of(name: str, folder: Path, port: int, workers: int = 1) -> list[str]:
    """Return the command of a server for a folder that `benchmarks.single_row.workloads.prepare` filled."""
    if name == GPUPIPE:
        return python_command(
            "-m", "gpupipe", "serve", str(folder / "run"), "--port", str(port), "--workers", str(workers)
        )
    app = "benchmarks.peers.serve_fastapi:app" if name == FASTAPI else "benchmarks.serving.constant_app:app"
    return python_command(
        "-m",
        "uvicorn",
        app,
        "--port",
        str(port),
        "--workers",
        str(workers),
        "--loop",
        "uvloop",
        "--http",
        "httptools",
        "--no-access-log",
        "--log-level",
        "warning",
    )


@contextmanager
def running(
    command: Sequence[str], port: int, cores: set[int], settings: Mapping[str, str] | None = None
) -> Iterator[RunningServer]:
    """Run a server on the given cores, with one thread per library, until the context ends.

    Raises
    ------
    ConfigError
        If it ends, or does not accept connections within `START_SECONDS`.
    """
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = child_environment({**threads, **(settings or {})})
    pinned = ["taskset", "--cpu-list", ",".join(map(str, sorted(cores))), *command]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(pinned, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_for(process, port, log)
            yield RunningServer(f"http://127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(process: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
                continue
        else:
            return
        log.seek(0)
        text = log.read().decode(errors="replace")
        raise ConfigError(f"the server did not start:\n{text}", where=f"process {process.pid}")


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
