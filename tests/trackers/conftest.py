"""A real server of MLflow, and its REST interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

LONG = 120.0  # seconds after which something that never comes fails a test
PAUSE = 0.05


def await_true(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition that another process fulfils is true."""
    never = threading.Event()
    for _ in range(round(LONG / PAUSE)):
        if condition():
            return
        never.wait(PAUSE)
    pytest.fail(f"not within {LONG:.0f} s: {what}")


@dataclass
class MlflowServer:
    """One process that serves the store; `user` and `password` are ignored by it."""

    port: int
    pid: int
    folder: Path

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def call(self, path: str, **values: Any) -> dict[str, Any]:
        """Return the answer to a POST request."""
        request = urllib.request.Request(
            f"{self.uri}/api/2.0/mlflow/{path}", json.dumps(values).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=LONG) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def runs(self, experiment: str) -> dict[str, StoredRun]:
        """Return the runs of an experiment by name."""
        with urllib.request.urlopen(
            f"{self.uri}/api/2.0/mlflow/experiments/get-by-name?experiment_name={experiment}", timeout=LONG
        ) as answer:
            id_ = json.load(answer)["experiment"]["experiment_id"]
        found = self.call("runs/search", experiment_ids=[id_], max_results=1000).get("runs", [])
        runs = [StoredRun(each) for each in found]
        assert len({run.name for run in runs}) == len(runs)
        return {run.name: run for run in runs}


@dataclass
class StoredRun:
    """A run as the server returns it."""

    answer: Mapping[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        return str(self.answer["info"]["run_id"])

    @property
    def name(self) -> str:
        return str(self.answer["info"]["run_name"])

    @property
    def status(self) -> str:
        return str(self.answer["info"]["status"])

    @property
    def parent(self) -> str | None:
        return self.tags.get("mlflow.parentRunId")

    @property
    def params(self) -> dict[str, str]:
        return {each["key"]: each["value"] for each in self.answer["data"].get("params", [])}

    @property
    def tags(self) -> dict[str, str]:
        return {each["key"]: each["value"] for each in self.answer["data"].get("tags", [])}

    @property
    def metrics(self) -> dict[str, float]:
        return {each["key"]: float(each["value"]) for each in self.answer["data"].get("metrics", [])}

    @property
    def datasets(self) -> list[dict[str, Any]]:
        return [each["dataset"] for each in self.answer.get("inputs", {}).get("dataset_inputs", [])]


@pytest.fixture(scope="session")
def serve_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., MlflowServer]]:
    """Return a function that starts a server; all servers have the same store."""
    if find_spec("mlflow") is None:  # imported by the server only: that takes seconds
        pytest.skip("MLflow is not installed")
    folder = tmp_path_factory.mktemp("mlflow")
    command = [sys.executable, str(Path(__file__).with_name("mlflow_server.py")), str(folder)]
    errors = (folder / "errors.txt").open("wb")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as starter:
        started: list[MlflowServer] = []

        def serve(port: int = 0) -> MlflowServer:
            assert starter.stdin is not None
            assert starter.stdout is not None
            starter.stdin.write(f"{port}\n")
            starter.stdin.flush()
            answer = starter.stdout.readline().split()
            assert answer, (folder / "errors.txt").read_text()
            started.append(MlflowServer(int(answer[0]), int(answer[1]), folder))
            return started[-1]

        yield serve
        starter.kill()
        for server in started:
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGKILL)
    errors.close()


@pytest.fixture(scope="session")
def server(serve_mlflow: Callable[..., MlflowServer]) -> MlflowServer:
    """A server that no test disturbs."""
    return serve_mlflow()
