"""Guards, limits, documents and metrics of the application."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("starlette", reason="needs the extra serve")

import jsonschema

from gpupipe.serve.body_schemas import _choices
from gpupipe.serve.server import _LogFormatter
from tests.serve.conftest import AppClient

Rows = list[dict[str, Any]]
PATHS = ("/", "/schema", "/openapi.json", "/metrics", "/drift", "/v2", "/v2/health/live", "/v2/health/ready")
MODEL = "/v2/models/leavers"


@pytest.fixture(scope="module")
def guarded(run_folder: Path) -> Iterator[AppClient]:
    with AppClient(run_folder, token="s3cret", max_body_bytes=2000, max_rows=3, max_waiting=2) as found:
        yield found


BEARER = {"authorization": "Bearer s3cret"}


def test_without_the_token_only_health_checks_and_the_empty_page_answer(guarded: AppClient, rows: Rows) -> None:
    for path in (*PATHS, MODEL):
        is_open = path == "/" or "health" in path
        assert guarded(path).status == (200 if is_open else 401), path
        assert guarded(path, headers=BEARER).status == 200
    refused = guarded("/predict", rows[0], headers={"authorization": "Bearer s3cre"})
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert guarded("/predict", rows[0], headers=BEARER).status == 200
    assert b"leavers" not in guarded("/").body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.", "a,b"])
def test_other_host_names_are_refused_on_loopback(client: AppClient, host: str) -> None:
    assert client("/schema", headers={"host": host}).status == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "[::1]:8080", "127.0.0.1"])
def test_names_of_this_machine_are_accepted(client: AppClient, host: str) -> None:
    assert client("/schema", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 200),  # no browser
        ({"sec-fetch-site": "same-origin", "origin": "https://app.example"}, 200),  # by a proxy that changes Host
        ({"sec-fetch-site": "none"}, 200),  # the address bar
        ({"sec-fetch-site": "cross-site", "origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:3000"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "odd"}, 403),
        ({"origin": "http://127.0.0.1:8080"}, 200),  # of this server, in a browser that does not state the site
        ({"origin": "http://127.0.0.1:3000"}, 403),
        ({"origin": "http://127.0.0.1:8080.evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "https://front.example:444"}, 200),  # --allow-host
        ({"origin": "https://front.example"}, 200),
        ({"origin": "https://front.example.evil.example"}, 403),
    ],
)
def test_pages_of_other_sites_cannot_send_rows(run_folder: Path, rows: Rows, sent: dict[str, str], status: int) -> None:
    with AppClient(run_folder, allowed_hosts=("front.example",)) as client:
        inputs = [{"name": "age", "datatype": "INT64", "shape": [1], "data": [31]}]
        replies = [
            client("/predict", rows[2], headers=sent),
            client("/predict?explain=1", rows[2], headers=sent),
            client(f"{MODEL}/infer", {"inputs": inputs}, headers=sent | {"content-type": "text/plain"}),
        ]
        assert [reply.status for reply in replies] == [status, status, 422 if status == 200 else 403]
        assert status == 200 or {reply.json["code"] for reply in replies} == {"foreign_origin"}
        assert client("/schema", headers=sent).status == 200  # a link; the page cannot read it
        assert client("/predict", None, "OPTIONS", headers=sent).status == 405
        assert metric_of(client, "gpupipe_rows_total") == (2 if status == 200 else 0)


def metric_of(client: AppClient, name: str) -> int:
    lines = client("/metrics").body.decode().splitlines()
    return int(next(line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")))


def test_limits(guarded: AppClient, rows: Rows) -> None:
    assert guarded("/predict", rows[:4], headers=BEARER).json["code"] == "too_large"
    for n_chunks in (1, 7):
        assert guarded("/predict", b" " * 2001, headers=BEARER, n_chunks=n_chunks).status == 413
    declared = guarded("/predict", b" " * 9000, headers={**BEARER, "content-length": "9000"}, n_chunks=2)
    assert (declared.status, declared.headers["connection"]) == (413, "close")
    replies = guarded.together([("/predict", rows[0], "", {"headers": BEARER})] * 3)
    assert sorted(reply.status for reply in replies) == [200, 200, 429]
    assert [reply.headers["retry-after"] for reply in replies if reply.status == 429] == ["1"]
    assert guarded.app.n_waiting == 0


def test_a_request_that_waits_too_long_and_a_closing_server_answer_503(run_folder: Path, rows: Rows) -> None:
    with AppClient(run_folder, request_seconds=-1.0) as client:
        assert client("/predict", rows[0]).json["code"] == "unavailable"
        client.app.is_closing = True
        paths = ("/v2/health/live", "/v2/health/ready", f"{MODEL}/ready")
        assert [client(path).status for path in paths] == [200, 503, 503]
        assert client("/predict", rows[0]).status == 503


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/absent", "GET", 404),
        ("/schema/", "GET", 404),
        ("/v2/models/other", "GET", 404),
        ("/v2/models/other/infer", "POST", 404),
        (f"{MODEL}/versions/3/infer", "POST", 404),
        ("/predict", "GET", 405),
        (f"{MODEL}/infer", "DELETE", 405),
        ("/schema", "POST", 405),
    ],
)
def test_unknown_paths_and_methods(client: AppClient, path: str, method: str, status: int) -> None:
    reply = client(path, {} if method == "POST" else None, method)
    assert reply.status == status
    jsonschema.validate(reply.json, client("/openapi.json").json["components"]["schemas"]["Error"])
    assert status != 405 or reply.headers["allow"]


@pytest.mark.parametrize("headers", [{"content-type": "text/plain"}, {"content-encoding": "br"}])
def test_other_types_are_refused(client: AppClient, rows: Rows, headers: dict[str, str]) -> None:
    assert client("/predict", rows[0], headers=headers).status == 415


def test_an_internal_error_has_an_id_and_no_details(
    client: AppClient, rows: Rows, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client.app, "_predict", None)
    reply = client("/predict", rows[0])
    assert reply.status == 500
    assert "NoneType" not in reply.body.decode()
    assert reply.json["id"] in caplog.text and "NoneType" in caplog.text


def test_texts_of_clients_cannot_forge_lines_of_the_log() -> None:
    forged = "2026-01-01 00:00:00,000 ERROR the model was replaced"
    record = logging.LogRecord("a", logging.ERROR, "", 0, "to %s", (f"/\n{forged}\x1b[2J\u2028",), None)
    try:
        raise ValueError(f"\n{forged}\r\x1b[2J" + "x" * 10_000_000 + f"\n{forged}" * 1000)
    except ValueError:
        record.exc_info = sys.exc_info()
    first, *others = _LogFormatter("%(levelname)s %(message)s").format(record).splitlines()
    assert first == rf"ERROR to /\n{forged}\x1b[2J\u2028"
    assert len(others) == 60 and all(line.startswith("    ") and len(line) <= 2000 for line in others)
    assert "\x1b" not in "".join(others)


def test_the_page_loads_nothing_and_its_script_is_the_one_that_the_policy_allows(client: AppClient) -> None:
    page = client("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(rb"""(src|href)=["']https?:""", page.body)
    assert b"/*style*/" not in page.body and b"/*script*/" not in page.body


def test_the_documents_describe_the_model(client: AppClient, rows: Rows) -> None:
    found = client("/openapi.json").json
    assert found["openapi"].startswith("3.1")
    row = found["components"]["schemas"]["Row"]
    for each in rows:
        jsonschema.validate(each, row)
    for bad in ({**rows[2], "age": 130}, {**rows[2], "plan": "gold"}, {**rows[2], "income": "x"}, {"age": 3}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, row)
    for path, item in found["paths"].items():
        (method,) = item
        reply = client(path, {} if method == "post" else None)
        assert str(reply.status) in item[method]["responses"], path
    columns = {column["name"]: column for column in client("/schema").json["columns"]}
    assert columns["plan"]["levels"] == ["basic", "plus", "pro"]
    assert columns["age"]["rules"][1] == {"rule": "nulls", "text": "nulls: false", "otherwise": "refuse"}
    assert columns["age"]["training"]["low"] >= 18 and not columns["age"]["nullable"]


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("2024-02-01T05:06:07Z", True),
        ("2024-02-01T05:06+03", True),
        (" 2024-02-01 05:06:07,25 ", True),
        ("20240201T050607.123456789-0330", True),
        ("20240201", False),
        ("03/06/2024", False),
        ("2024-02-01T24:00", False),
        ("2024-2-1", False),
    ],
)
def test_the_pattern_of_a_time_takes_what_the_server_reads(
    client: AppClient, rows: Rows, text: str, is_read: bool
) -> None:
    validator = jsonschema.Draft202012Validator(client("/openapi.json").json["components"]["schemas"]["Row"])
    row = {**rows[2], "joined": text}
    assert validator.is_valid(row) == (client("/predict", row).status == 200) == is_read


def test_metrics_count_rows_errors_and_unseen_levels(run_folder: Path, rows: Rows) -> None:
    with AppClient(run_folder) as client:
        client("/predict", rows[:2])
        client("/predict", {"age": 3})
        client("/predict", b"{")
        text = client("/metrics").body.decode()
    for line in (
        'gpupipe_requests_total{endpoint="predict",status="200"} 1',
        'gpupipe_requests_total{endpoint="predict",status="422"} 1',
        'gpupipe_errors_total{code="not_json"} 1',
        "gpupipe_rows_total 2",
        'gpupipe_unseen_levels_total{column="plan"} 1',
        'gpupipe_request_duration_seconds_count{endpoint="predict"} 3',
        'gpupipe_batch_rows_bucket{le="2"} 1',
    ):
        assert line in text.splitlines(), line


def test_the_documents_of_triton_agree_with_the_metadata_and_the_metrics(run_folder: Path, rows: Rows) -> None:
    with AppClient(run_folder) as client:
        assert client("/v2/models/stats").json["model_stats"][0]["last_inference"] == 0
        client("/predict", rows[:3])
        client("/predict?explain=1", rows[2])
        client("/predict", {"age": 3})
        metadata, version = client(MODEL).json, client.app.model.version
        for path in (MODEL, f"{MODEL}/versions/{version}"):
            found = client(f"{path}/config").json
            assert [(each["name"], each["dims"]) for each in found["input"]] == [
                (each["name"], each["shape"]) for each in metadata["inputs"]
            ]
            assert {each["data_type"] for each in found["output"]} == {"TYPE_STRING", "TYPE_FP64"}
            assert client(f"{path}/stats").json == client("/v2/models/stats").json
        (stats,) = client("/v2/models/stats").json["model_stats"]
        lines = dict(line.rpartition(" ")[::2] for line in client("/metrics").body.decode().splitlines())
        index = client("/v2/repository/index", b"").json
    assert (stats["inference_count"], stats["execution_count"]) == (4, 2)
    of_requests, name = stats["inference_stats"], "gpupipe_request_duration_seconds_sum"
    assert (of_requests["success"]["count"], of_requests["fail"]["count"]) == (2, 1)
    total = sum(float(lines[f'{name}{{endpoint="{each}"}}']) for each in ("predict", "explain", "infer"))
    assert of_requests["success"]["ns"] + of_requests["fail"]["ns"] == pytest.approx(1e9 * total, rel=1e-6)
    assert stats["last_inference"] == pytest.approx(
        1e3 * float(lines["gpupipe_last_prediction_timestamp_seconds"]), abs=1
    )
    assert index == [{"name": "leavers", "version": version, "state": "READY", "reason": ""}]


def test_bodies_of_the_index_and_requests_to_load_models(client: AppClient) -> None:
    assert client("/v2/repository/index", {"ready": "yes"}).status == 400
    assert client("/v2/repository/index").status == 405
    reply = client("/v2/repository/models/leavers/unload", {})
    assert (reply.status, "cannot load or unload" in reply.json["error"]) == (404, True)
    assert {"model_configuration", "statistics"} <= set(client("/v2").json["extensions"])


def test_the_openapi_document_has_names_items_and_descriptions_for_generators(client: AppClient) -> None:
    document = client("/openapi.json").json
    nodes = list(walk(document))
    assert all({"items", "prefixItems"} & set(node) for node in nodes if node.get("type") == "array")
    assert all("properties" in node or "additionalProperties" in node for node in nodes if node.get("required"))
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert "JSON Schema cannot state this" in document["components"]["schemas"]["ColumnValues"]["description"]
    jsonschema.Draft202012Validator.check_schema(document["components"]["schemas"]["Row"])


def walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if not isinstance(node.get("required"), bool):  # else a parameter or a body
            yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)


def test_choices_that_are_one_name_in_a_program_are_a_pattern() -> None:
    assert _choices(["basic", "plus"]) == {"enum": ["basic", "plus"]} and _choices([1, -1]) == {"enum": [1, -1]}
    for values in (["a", "A"], ["", "b"], ["1.0", "10"], ["é", "è"], ["x|y", "x+y", "^$\\"]):
        pattern = re.compile(_choices(values)["pattern"])
        assert all(pattern.search(value) for value in values)
        assert not any(pattern.search(value) for value in ("c", "xy", "a b", "1x0", "e"))
    assert _choices([0.5, 1]) == _choices([True, False]) == {}
