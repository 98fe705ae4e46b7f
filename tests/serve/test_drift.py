"""Drift of predicted rows, compared with `Model.drift` on the same rows."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from gpupipe import Model, Pipeline
from gpupipe.artifact import ArtifactReader, ArtifactWriter
from gpupipe.serve.drift_window import DriftWindow, window_bytes
from tests.serve.conftest import AppClient
from tests.serve.test_processes import ask, children_of, served, wait_until

Rows = list[dict[str, Any]]
OWN_KEYS = {"format", "format_version", "created", "gpupipe", "libraries", "files", "manifest_sha256"}
PARTS = ("severity", "verdict", "weighted_psi", "n_rows", "has_importances", "columns", "scores", "notes")


def visitors(n: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    """Return rows with a column of each form of cells; `left` depends on `age` and `plan`."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n) + int(10 * shift),
            "income": (rng.lognormal(8, 1, n) * (1 + shift)).round(2),
            "ratio": rng.normal(1e6, 1e-3, n),  # float32 would merge all of them
            "plan": rng.choice(["basic", "plus", "pro"], n, p=[0.6, 0.3, 0.1]),
            "city": rng.choice([f"city {i}" for i in range(90)], n),
            "member": rng.random(n) < 0.5,
            "joined": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500 * 86_400, n), "s"),
            "note": rng.choice(["call back", "7 of 9", "paid"], n),
        }
    )
    frame["left"] = np.where(frame["age"] + 20 * (frame["plan"] == "pro") + rng.normal(0, 15, n) > 55, "yes", "no")
    frame = frame.astype({"member": "boolean", "income": "float64"})
    for i, name in enumerate(("income", "plan", "city", "member", "joined", "note")):
        frame.loc[rng.random(n) < 0.02 + shift * (i % 2) / 4, name] = None
    if shift:
        frame.loc[rng.random(n) < 0.1, "plan"] = "free"
    return frame


def sent(frame: pd.DataFrame) -> Rows:
    """Return rows as a client sends them."""
    found: Rows = json.loads(frame.drop(columns="left").to_json(orient="records", date_format="iso", date_unit="s"))
    for row in found:
        row["joined"] = None if row["joined"] is None else row["joined"][:19]
    return found


@pytest.fixture(scope="module")
def visitor_model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    ops = [
        {"hash_bucket": {"columns": "city", "buckets": 16}},
        {"text_counts": {"columns": "note", "counts": ["digits"]}},
    ]
    pipeline = Pipeline(
        visitors(4_000, 11), target="left", positive="yes", models=["logistic_regression"], device="cpu", features=ops,
        report={"enabled": False}, evaluate={"importance": {"repeats": 1}}, name="visitors",
        schema={"note": "text"},
    )  # fmt: skip
    return pipeline.run(tmp_path_factory.mktemp("drift") / "run", quiet=True).model


def expected(model: Model, frame: pd.DataFrame) -> dict[str, Any]:
    """Return the parts of the report on a table that a server knows."""
    report = model.drift(frame.drop(columns="left"))
    found = json.loads(json.dumps(report.to_json()))
    for each in (*found["columns"], *found["scores"]):
        del each["since"], each["periods"]
    return {name: found[name] for name in PARTS}


def known(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in PARTS}


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_report_is_that_of_the_command_on_the_same_rows(visitor_model: Model, shift: float) -> None:
    frame = visitors(1_500, 5, shift)
    rows = sent(frame)
    with AppClient(visitor_model.folder, max_batch=200) as client:
        assert client("/drift").json["n_rows"] == 0
        for row in rows[:20]:
            assert client("/predict", row).status == 200
        client.together([("/predict", [row], "", {}) for row in rows[20:60]])
        assert client("/predict", [rows[0], {"age": 3}]).status == 422
        assert client("/predict?explain=1", rows[60:70]).status == 200
        columns = {"columns": {name: [row[name] for row in rows[70:300]] for name in rows[0]}}
        assert client("/predict", columns).status == 200
        assert client("/predict", rows[300:]).status == 200
        found, lines = client("/drift").json, client("/metrics").body.decode().splitlines()
        document = client("/openapi.json").json
    described = document["paths"]["/drift"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(found, {**document, **described})
    assert known(found) == expected(visitor_model, frame)
    assert {column["name"]: len(column["current"]) for column in found["columns"]}["note"] == 2
    levels = ["none", "low", "moderate", "high"]
    assert (levels.index(found["severity"]) >= 2) == (shift > 0)
    assert f"gpupipe_drift_severity_overall {levels.index(found['severity'])}" in lines
    assert "gpupipe_drift_rows 1500" in lines
    for label, each in [("column", c) for c in found["columns"]] + [("score", s) for s in found["scores"]]:
        assert f'gpupipe_drift_severity{{{label}="{each["name"]}"}} {levels.index(each["severity"])}' in lines
        assert f'gpupipe_drift_psi{{{label}="{each["name"]}"}} {each["psi"]:.6g}' in lines


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the worker processes in /proc")
def test_workers_count_together_and_a_new_model_starts_again(visitor_model: Model, tmp_path: Path) -> None:
    frame = visitors(1_200, 6, 0.5)
    rows = sent(frame)
    other = copied(visitor_model, tmp_path / "other", without=("README.md",))
    link, next_link = tmp_path / "current", tmp_path / "next"
    link.symlink_to(visitor_model.folder)
    with served(link, "--workers", "2", "--reload-interval", "50ms") as (process, port):

        def wait_for(n_rows: int) -> None:
            wait_until(lambda: all(ask(port, "/drift")["n_rows"] == n_rows for _ in range(4)))

        for start in range(0, 1_200, 30):
            ask(port, "/predict", rows[start : start + 30])
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:  # one worker sees the rows of both

            def report() -> dict[str, Any]:
                connection.request("GET", "/drift")
                document: dict[str, Any] = json.load(connection.getresponse())
                return document

            wait_until(lambda: report()["n_rows"] == 1_200)
            assert known(report()) == expected(visitor_model, frame)
        wait_for(1_200)
        killed, version = children_of(process)[0], ask(port, "/drift")["version"]
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: killed not in children_of(process))
        wait_until(lambda: "gpupipe_workers 2" in ask(port, "/metrics"))
        wait_for(1_200)
        next_link.symlink_to(other)
        next_link.replace(link)
        wait_until(lambda: version not in ask(port, "/metrics"))
        wait_for(0)
        ask(port, "/predict", rows[:30])
        wait_for(30)


def copied(model: Model, folder: Path, without: tuple[str, ...]) -> Path:
    """Return a copy of a model directory without some files, which is another version."""
    reader, writer = ArtifactReader(model.folder), ArtifactWriter(folder)
    for name in reader.names():
        if not name.startswith(without):
            writer.file(name).write_bytes(reader.read(name))
    writer.finish({key: value for key, value in reader.manifest.items() if key not in OWN_KEYS} | {"name": "other"})
    return folder


def test_without_a_reference_or_with_drift_off_there_is_no_report(visitor_model: Model, tmp_path: Path) -> None:
    old = copied(visitor_model, tmp_path / "old", without=("drift",))
    rows = sent(visitors(3, 0))
    for client_of in (AppClient(old), AppClient(visitor_model.folder, drift="off")):
        with client_of as client:
            assert client("/predict", rows).status == 200
            assert client("/drift").json["code"] == "not_found"
            assert b"gpupipe_drift" not in client("/metrics").body
            assert "/drift" not in client("/openapi.json").json["paths"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 40), st.integers(0, 3)), max_size=60),
    st.integers(20, 200),
)
def test_the_window_has_the_last_rows_of_all_workers(added: list[tuple[int, int, int]], max_rows: int) -> None:
    memory = memoryview(bytearray(window_bytes(3)))
    windows = [DriftWindow(memory, 3, worker) for worker in range(3)]
    for window in windows:
        window.open(7)
    last: deque[tuple[int, int]] = deque()
    for worker, n_rows, cell in added:
        counts = np.zeros(4, np.int64)
        counts[cell] = n_rows
        windows[worker].add(7, n_rows, counts, max_rows)
        last.append((n_rows, cell))
        n_rows, cells = windows[0].total(7, 4)
        for window in windows:
            assert window.total(7, 4)[1].tolist() == cells.tolist() and cells.sum() == n_rows
        while sum(n for n, _ in last) > n_rows:
            last.popleft()
        newest = np.bincount([cell for _, cell in last], [n for n, _ in last], minlength=4)
        assert newest.tolist() == cells.tolist()
        assert n_rows < max_rows + 2 * 40
        assert len(last) == len(added[: len(last)]) or n_rows >= max_rows / 2
    windows[0].open(8)
    windows[0].add(7, 1, np.ones(4, np.int64), max_rows)  # a request that began before the reload
    assert windows[1].total(8, 4)[0] == 0
    windows[1].open(7)
    assert windows[1].total(7, 4)[0] == sum(n for n, _ in last) - counted_by(0, added, len(last))


def counted_by(worker: int, added: list[tuple[int, int, int]], n_last: int) -> int:
    return sum(n for own, n, _ in added[len(added) - n_last :] if own == worker)
