"""A server as generated clients, Triton's client, HTTP/1.0 clients and schemathesis use it."""

from __future__ import annotations

import importlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from gpupipe import Model, Pipeline
from tests.serve.conftest import make_table
from tests.serve.test_processes import ask, served

Rows = list[dict[str, Any]]
SECONDS = 60.0


@pytest.fixture(scope="module")
def port(run_folder: Path) -> Iterator[int]:
    with served(run_folder) as (_, found):
        yield found


def test_a_generated_client_is_complete_and_works(
    port: int, rows: Rows, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = pytest.importorskip("openapi_python_client", reason="needs openapi-python-client")
    from openapi_python_client.config import Config, ConfigFile, MetaType

    url = f"http://127.0.0.1:{port}"
    (tmp_path / "openapi.json").write_text(json.dumps(ask(port, "/openapi.json")))
    config = Config.from_sources(
        ConfigFile(post_hooks=[]), MetaType.NONE, tmp_path / "openapi.json", "utf-8", True, tmp_path / "leavers_client"
    )
    problems = generator.generate(config=config)
    assert [str(problem.detail) for problem in problems] == [
        f"Unsupported content type application/{kind}" for kind in ("x-ndjson", "vnd.apache.arrow.stream")
    ]
    monkeypatch.syspath_prepend(str(tmp_path))

    def call(name: str, *path: Any, **arguments: Any) -> Any:
        endpoint = importlib.import_module(f"leavers_client.api.default.{name}")
        found = endpoint.sync(*path, client=client, **arguments)
        return found if isinstance(found, str | list) else found.to_dict()

    models = importlib.import_module("leavers_client.models")
    client = importlib.import_module("leavers_client").Client(base_url=url)
    with client:
        expected = model.scorer().predict_proba(rows[2:4])[:, 1].tolist()
        given = [models.Row.from_dict(row) for row in rows[2:4]]
        assert call("predict", body=given[0])["probability_yes"] == expected[0]
        assert [each.probability_yes for each in call("predict", body=given)] == expected
        columns = {"columns": {name: [row[name] for row in rows[2:4]] for name in rows[2]}}
        assert call("predict", body=models.Columns.from_dict(columns))["columns"]["probability_yes"] == expected
        assert len(call("predict", body=given[0], explain=2)["explanation"]["columns"]) == 2
        refused = call("predict", body=models.Row.from_dict({**rows[2], "age": 130}))
        assert (refused["code"], refused["problems"][0]["column"]) == ("invalid_rows", "age")
        metadata = call("get_model_metadata")
        inputs = [
            {"name": each["name"], "datatype": each["datatype"], "shape": [1], "data": [rows[2][each["name"]]]}
            for each in metadata["inputs"]
        ]
        request = models.InferenceRequest.from_dict({"inputs": inputs})
        outputs = {each["name"]: each["data"] for each in call("infer", body=request)["outputs"]}
        assert outputs["probability_yes"] == expected[:1]
        version = metadata["versions"][0]
        assert call("infer_of_version", version, body=request)["model_version"] == version
        assert [column["name"] for column in call("get_schema")["columns"]] == list(rows[2])
        assert call("get_live") == {"live": True} and call("get_ready") == {"ready": True}
        assert "gpupipe_rows_total" in call("get_metrics")
        assert call("get_model_statistics")["model_stats"][0]["inference_count"] >= 7
        assert call("get_model_configuration")["input"][0]["name"] == "age"
        assert call("get_drift")["severity"] == "none"
        assert call("get_repository_index", body=models.IndexRequest())[0].state == "READY"


def test_triton_s_client_has_its_documents_compression_and_missing_numbers(port: int, rows: Rows, model: Model) -> None:
    triton = pytest.importorskip("tritonclient.http", reason="needs tritonclient[http]")
    client = triton.InferenceServerClient(f"127.0.0.1:{port}")
    assert client.get_model_config("leavers")["max_batch_size"] == 0
    before = client.get_inference_statistics("leavers")["model_stats"][0]["inference_count"]
    version = client.get_model_repository_index()[0]["version"]
    expected = model.scorer().predict_proba({**rows[2], "income": None})[1]
    for is_binary in (True, False):
        inputs = []
        for tensor in client.get_model_metadata("leavers", version)["inputs"]:
            kind: Any = {"BYTES": object, "BOOL": bool}.get(tensor["datatype"], float)
            value = np.nan if tensor["name"] == "income" else rows[2][tensor["name"]]
            inputs.append(triton.InferInput(tensor["name"], [1], tensor["datatype"]))
            inputs[-1].set_data_from_numpy(np.array([value], kind), binary_data=is_binary)
        for encoding in (None, "gzip", "deflate"):
            found = client.infer(
                "leavers", inputs, request_compression_algorithm=encoding, response_compression_algorithm=encoding
            )
            assert found.as_numpy("probability_yes").tolist() == [expected]
    assert client.get_inference_statistics()["model_stats"][0]["inference_count"] == before + 6
    client.close()


@pytest.mark.parametrize("asks", [True, False])
def test_http_1_0_connections_are_kept_if_asked(port: int, asks: bool) -> None:
    head = "GET /v2/health/live HTTP/1.0\r\nHost: localhost\r\n" + "Connection: Keep-Alive\r\n" * asks + "\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        for _ in range(3 if asks else 1):
            connection.sendall(head.encode())
            with connection.makefile("rb") as stream:
                answer = [stream.readline() for _ in range(7)]
                headers = dict(line.lower().strip().split(b": ", 1) for line in answer[1:] if b": " in line)
                assert headers[b"connection"] == (b"keep-alive" if asks else b"close")
                if asks:
                    stream.read(int(headers[b"content-length"]))
                else:
                    assert stream.read().endswith(b"}")  # until the end of the connection


def test_schemathesis_finds_nothing(port: int) -> None:
    pytest.importorskip("schemathesis", reason="needs schemathesis")
    from tools.openapi_campaign import run_campaign

    assert run_campaign(f"http://127.0.0.1:{port}", 60, 1) == []


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["classes", "targets", "quantiles"])
def test_schemathesis_finds_nothing_in_2000_requests(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("schemathesis", reason="needs schemathesis")
    from tools.openapi_campaign import run_campaign

    table = make_table().assign(day=lambda t: t["joined"].dt.strftime("%d.%m.%Y"), größe=lambda t: t["age"] * 2.5)
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "classes": ("left", {}),
        "targets": (["income", "age"], {}),
        "quantiles": ("age", {"task": "quantile", "quantiles": [0.1, 0.9]}),
    }
    target, settings = kinds[kind]
    table = table.dropna().rename(columns={"plan": 'the "plan" {a/b}'})
    name: Any = "ridge" if kind == "targets" else {"xgboost": {"n_estimators": 5}}
    Pipeline(table, target=target, models=[name], **settings).run(tmp_path / "run", quiet=True)
    with served(tmp_path / "run") as (_, port):
        assert run_campaign(f"http://127.0.0.1:{port}", 2000, 1) == []
