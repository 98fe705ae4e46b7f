"""A small model, and a client for the application in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest

from gpupipe import Model, Pipeline, load_model
from gpupipe.serve.settings import ServeSettings

N_ROWS = 200


def make_table(seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    age = random.integers(18, 90, N_ROWS)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.where(random.random(N_ROWS) < 0.1, np.nan, random.lognormal(8, 1, N_ROWS).round(2)),
            "plan": random.choice(["basic", "plus", "pro"], N_ROWS),
            "member": random.random(N_ROWS) < 0.5,
            "joined": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 500, N_ROWS), "D"),
            "left": np.where(age + random.normal(0, 10, N_ROWS) > 50, "yes", "no"),
        }
    )


def train(folder: Path, seed: int = 0, **settings: Any) -> Path:
    settings = {"models": ["logistic_regression"], "data": RULES, "name": "leavers"} | settings
    table = make_table(seed)
    Pipeline(table, target="left", seed=seed, **settings).run(folder, quiet=True)
    return folder


RULES = {"age": {"range": [0, 120], "nulls": False}, "plan": {"set": ["basic", "plus", "pro", "free"]}}


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("serve") / "run")


@pytest.fixture(scope="session")
def model(run_folder: Path) -> Model:
    return load_model(run_folder)


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    """Rows as a client sends them: nulls, an unseen level that the rules allow, times in ISO 8601."""
    table = make_table(1).drop(columns="left").head(40)
    found: list[dict[str, Any]] = [
        {str(name): value for name, value in row.items()} for row in table.to_dict("records")
    ]
    for row in found:
        row |= {"income": None if np.isnan(row["income"]) else row["income"], "joined": row["joined"].isoformat()}
    found[0] |= {"income": None, "member": None, "joined": None, "plan": None}
    found[1] |= {"plan": "free"}
    return found


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class AppClient:
    """Sends requests to an application without a socket; bodies arrive in `n_chunks` pieces."""

    def __init__(self, folder: Path, token: str = "", **settings: Any) -> None:
        from gpupipe.serve.application import Application
        from gpupipe.serve.metrics import Metrics, create_file
        from gpupipe.serve.served_model import ServedModel
        from gpupipe.serve.slot import ModelSlot

        self.settings = replace(ServeSettings(str(folder)), **settings)
        self.runner = asyncio.Runner()

        async def start() -> Application:
            metrics = Metrics(create_file(1), 1, 0)
            served = ServedModel.load(folder)
            metrics.set_model(served.name, served.version, "binary", served.leveled_inputs, served.loaded_at)
            header = sha256(f"Bearer {token}".encode()).hexdigest() if token else ""
            return Application(ModelSlot.of(served, self.settings, metrics), self.settings, metrics, header)

        self.app = self.runner.run(start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.runner.close()

    def __call__(self, path: str, body: Any = None, method: str = "", **options: Any) -> Reply:
        return self.together([(path, body, method, options)])[0]

    def together(self, requests: list[tuple[str, Any, str, dict[str, Any]]]) -> list[Reply]:
        """Send requests in one turn of the event loop."""

        async def gather() -> list[Reply]:
            return await asyncio.gather(*(self._send(*request) for request in requests))

        return self.runner.run(gather())

    async def _send(self, path: str, body: Any, method: str, options: dict[str, Any]) -> Reply:
        headers = {"host": "127.0.0.1:8080", "content-type": "application/json", **options.get("headers", {})}
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        n_chunks = options.get("n_chunks", 1)
        size = max(1, -(-len(content) // n_chunks))
        chunks = [content[i : i + size] for i in range(0, len(content), size)] or [b""]
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": chunks.pop(0), "more_body": bool(chunks)}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        path, _, query = path.partition("?")
        await self.app(
            {
                "type": "http",
                "method": method or ("GET" if body is None else "POST"),
                "path": path,
                "raw_path": path.encode(),
                "root_path": "",
                "query_string": query.encode(),
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            },
            receive,
            send,
        )
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Reply(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


@pytest.fixture(scope="module")
def client(run_folder: Path) -> Iterator[AppClient]:
    with AppClient(run_folder) as found:
        yield found
