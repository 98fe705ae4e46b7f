"""A server as its users run it: worker processes, Triton's client, reload, dead workers, slow clients, signals."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from gpupipe import Model, Pipeline, load_model
from gpupipe.children import child_environment, python_command
from gpupipe.inference.promotion import promote, rollback
from tests.serve.conftest import make_table, train

Rows = list[dict[str, Any]]
SECONDS = 60.0


@contextmanager
def served(path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = python_command("-m", "gpupipe", "serve", str(path), "--port", "0", *options)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=child_environment()
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)\n", line)
        try:
            assert found, line
            yield process, int(found[1])
        finally:
            process.kill()


def ask(port: int, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
    """Send a request on a new connection, so that any worker may answer; return the JSON or text of the answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
        content = None if body is None else json.dumps(body)
        given = {"Content-Type": "application/json", **(headers or {})}
        connection.request("GET" if body is None else "POST", path, content, given)
        text = connection.getresponse().read().decode()
        return text if path == "/metrics" else json.loads(text)


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children_of(process: subprocess.Popen[str]) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def has_replaced(process: subprocess.Popen[str], workers: list[int]) -> bool:
    return len(set(children_of(process)) - set(workers)) == len(workers)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the worker processes in /proc")
def test_a_server_survives_dead_workers_and_bad_models_and_takes_good_ones(
    run_folder: Path, model: Model, rows: Rows, tmp_path: Path
) -> None:
    triton = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
    newer = train(tmp_path / "newer", seed=3)
    link, next_link = tmp_path / "current", tmp_path / "next"
    link.symlink_to(run_folder)

    def switch_to(target: Path) -> None:
        next_link.symlink_to(target)
        next_link.replace(link)

    def result(name: str) -> int:
        return int(re.search(rf'reloads_total{{result="{name}"}} (\d+)', ask(port, "/metrics"))[1])  # type: ignore[index]

    expected = model.scorer().predict_proba(rows[2])[1]
    with served(link, "--workers", "2", "--reload-interval", "50ms", "--explain", "start") as (process, port):
        assert ask(port, "/predict", rows[2])["probability_yes"] == expected
        explained = model.explain([rows[2]])
        assert ask(port, "/predict?explain=5", rows[2])["explanation"]["margin"] == explained.margins[0]
        client = triton.InferenceServerClient(f"127.0.0.1:{port}")
        inputs = []
        for tensor in client.get_model_metadata("leavers")["inputs"]:
            kind = {"BYTES": object, "BOOL": bool}.get(tensor["datatype"], float)
            inputs.append(triton.InferInput(tensor["name"], [1], tensor["datatype"]))
            inputs[-1].set_data_from_numpy(np.array([rows[2][tensor["name"]]], kind))
        assert client.infer("leavers", inputs).as_numpy("probability_yes").tolist() == [expected]
        client.close()

        for _ in range(3):  # at first those that serve, then those that start
            workers = children_of(process)
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            wait_until(partial(has_replaced, process, workers))
        wait_until(lambda: "gpupipe_workers 2" in ask(port, "/metrics"))
        assert ask(port, "/predict", rows[2])["probability_yes"] == expected

        (tmp_path / "broken").mkdir()
        for file in (run_folder / "model").iterdir():
            (tmp_path / "broken" / file.name).write_bytes(file.read_bytes())
        (tmp_path / "broken" / "learned.json").write_text("{}")
        switch_to(tmp_path / "broken")
        wait_until(lambda: result("refused") == 2)
        assert ask(port, "/predict", rows[2])["probability_yes"] == expected
        switch_to(newer)
        wait_until(lambda: result("loaded") == 2)
        changed = load_model(newer).scorer().predict_proba(rows[2])[1]
        assert ask(port, "/predict", rows[2])["probability_yes"] == changed != expected

        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=SECONDS)
        assert process.returncode == 143
        assert log.count("ended and is restarted: signal 9") == 6 and "the new model was refused" in log


def test_slow_clients_are_cut_off_and_requests_in_flight_are_answered(run_folder: Path, rows: Rows) -> None:
    with served(run_folder, "--read-timeout", "1s", "--batch-wait", "500ms") as (process, port):
        starts = (b"", b"POST /predict HT", b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        slow = [socket.create_connection(("127.0.0.1", port), timeout=SECONDS) for _ in starts]
        for connection, start in zip(slow, starts, strict=True):
            connection.sendall(start)
        for connection in slow:
            with connection, connection.makefile("rb") as stream:
                assert stream.read().startswith(b"HTTP/1.1 408 ")
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 300_000)
            with connection.makefile("rb") as stream:
                assert stream.readline().startswith(b"HTTP/1.1 431 ")

        live = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            connection.sendall(live * 1000)  # pipelined: the first one is answered
            with connection.makefile("rb") as stream:
                answers = stream.read()
        assert answers.startswith(b"HTTP/1.1 200 ") and answers.count(b"HTTP/1.1") == 1
        assert b"connection: close" in answers
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
            chunked = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
            connection.sendall(chunked + b"a: b\r\n" * 300_000)  # trailers
            with connection.makefile("rb") as stream:
                assert stream.readline().startswith(b"HTTP/1.1 431 ")

        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection_:
            connection_.request("POST", "/predict", json.dumps(rows[2]), {"Content-Type": "application/json"})
            wait_until(lambda: "gpupipe_waiting_requests 1" in ask(port, "/metrics"))
            process.send_signal(signal.SIGINT)
            assert connection_.getresponse().status == 200
        assert process.wait(SECONDS) == 130


def test_a_worker_imports_no_library_for_tables(run_folder: Path) -> None:
    code = """if True:
        import sys
        import gpupipe.serve.child
        from gpupipe.serve.documents import read_page
        from gpupipe.serve.served_model import ServedModel
        ServedModel.load(sys.argv[1]), read_page()
        print(*{"pyarrow", "pandas", "sklearn", "matplotlib", "torch", "jinja2"} & set(sys.modules))
    """
    command = python_command("-c", code, str(run_folder))
    found = subprocess.run(command, capture_output=True, text=True, env=child_environment(), check=True)
    assert found.stdout == "\n"


def test_a_model_that_does_not_load_ends_the_command(tmp_path: Path) -> None:
    command = python_command("-m", "gpupipe", "serve", str(tmp_path), "--port", "0")
    for workers in ("1", "2"):
        found = subprocess.run(
            [*command, "--workers", workers],
            capture_output=True,
            text=True,
            env=child_environment(),
            check=False,
            timeout=SECONDS,
        )
        assert (found.returncode, found.stdout) == (5, "")
        assert "manifest.json is missing" in found.stderr


def test_promotions_and_rollbacks_lose_no_request(run_folder: Path, rows: Rows, tmp_path: Path) -> None:
    """A client asks without a pause, on one connection, while the current generation changes."""
    folder = tmp_path / "production"
    newer = train(tmp_path / "newer", seed=3)
    odd = tmp_path / "odd"
    Pipeline(make_table().assign(extra=1.0), target="left", models=["logistic_regression"]).run(odd, quiet=True)
    promote(folder, run_folder)
    values = [load_model(path).scorer().predict_proba(rows[2])[1] for path in (run_folder, newer)]
    body = json.dumps(rows[2])
    answers: list[tuple[int, float | None]] = []
    is_done = threading.Event()

    def send_requests(port: int) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
            while not is_done.is_set():
                connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                answers.append((reply.status, json.loads(reply.read()).get("probability_yes")))

    with served(folder, "--reload-interval", "20ms") as (process, port), ThreadPoolExecutor() as pool:
        client = pool.submit(send_requests, port)
        try:
            for i in range(10):
                promote(folder, newer) if i % 2 == 0 else rollback(folder)
                wait_until(lambda expected=values[1 - i % 2]: answers[-1:] == [(200, expected)])  # type: ignore[misc]
            promote(folder, odd, force=True)
            wait_until(lambda: 'reloads_total{result="refused"} 1' in ask(port, "/metrics"))
        finally:
            is_done.set()
        client.result(SECONDS)
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=SECONDS)[1]
    assert {*answers} == {(200, value) for value in values}  # the incompatible model has not answered
    assert log.count(" replaces version ") == 10 and "the column 'extra' is not an input of the served model" in log
