"""Explanations of /predict?explain=K, compared with `Model.explain`."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("starlette", reason="needs the extra serve")

import gpupipe as gp
from gpupipe.serve.served_model import ServedModel
from tests.serve.conftest import AppClient, Reply, make_table, train

Rows = list[dict[str, Any]]
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def scorer(run_folder: Path) -> gp.Scorer:
    return gp.load_scorer(run_folder)


def assert_explains(found: dict[str, Any], row: dict[str, Any], columns: tuple[str, ...], values: Any, k: int) -> None:
    """Compare an explanation with the contributions of all columns, float64, shape (n_columns,)."""
    order = sorted(range(len(columns)), key=lambda j: -abs(values[j]))
    expected = [{"column": columns[j], "value": row[columns[j]], "contribution": values[j]} for j in order]
    assert found["columns"] == expected[:k]
    assert found["others"] == pytest.approx(sum(each["contribution"] for each in expected[k:]), abs=1e-12)
    total = found["base"] + sum(each["contribution"] for each in found["columns"]) + found["others"]
    assert found["margin"] == pytest.approx(total, rel=1e-12)


def test_each_json_form_has_the_strongest_columns_of_each_row(client: AppClient, rows: Rows, scorer: gp.Scorer) -> None:
    expected, predictions = scorer.explain(rows), client("/predict", rows).json
    assert len(expected.columns) == 5
    for k in (1, 3, 5):
        answers = client(f"/predict?explain={k}", rows).json
        for answer, row, values, prediction in zip(answers, rows, expected.values, predictions, strict=True):
            found = answer.pop("explanation")
            assert answer == prediction
            assert (found["label"], found["scale"], found["base"]) == ("yes", "log-odds", expected.base)
            assert_explains(found, row, expected.columns, values, k)
    path, (first, second) = "/predict?explain=2", client("/predict?explain=2", rows[:2]).json
    assert client(path, rows[0]).json == first
    columns = client(path, {"columns": {name: [row[name] for row in rows[:2]] for name in rows[0]}}).json["columns"]
    assert columns == {name: [first[name], second[name]] for name in first}
    lines = "\n".join(map(json.dumps, rows[:2])).encode()
    reply = client(path, lines, headers={"content-type": "application/x-ndjson"})
    assert [json.loads(line) for line in reply.body.splitlines()] == [first, second]
    assert client(path, []).json == []


def test_an_arrow_stream_has_structs(client: AppClient, rows: Rows) -> None:
    table = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    reply = client("/predict?explain=2", sink.getvalue().to_pybytes(), headers={"content-type": ARROW})
    expected = client("/predict?explain=2", rows).json
    for row in expected:
        for column in row["explanation"]["columns"]:
            del column["value"]
    assert pa.ipc.open_stream(reply.body).read_all().to_pylist() == expected


@pytest.mark.parametrize(
    ("target", "name", "settings"),
    [
        ("plan", "logistic_regression", {}),
        (["age", "income"], "ridge", {}),
        (["plan", "member"], "logistic_regression", {}),
        ("income", {"xgboost": {"n_estimators": 5}}, {"task": "quantile", "quantiles": [0.1, 0.9]}),
    ],
    ids=["classes", "numbers", "targets", "quantiles"],
)
def test_the_explained_margin_is_that_of_the_prediction(
    tmp_path: Path, target: Any, name: Any, settings: dict[str, Any]
) -> None:
    table = make_table()[["age", "income", "member", "plan"]].dropna()
    gp.Pipeline(table, target=target, models=[name], **settings).run(tmp_path / "run", quiet=True)
    rows = table.head(12).drop(columns=target).to_dict("records")
    expected = gp.load_model(tmp_path / "run").explain(table.head(12))
    with AppClient(tmp_path / "run") as client:
        answers = client("/predict?explain=1", rows).json
        document = client("/openapi.json").json
        assert client("/schema").json["explanations"]["names"] == [key for key in answers[0] if "explanation" in key]
    jsonschema.validate(answers, {**document, "$ref": "#/components/schemas/Predictions"})
    seen = set()
    for i, (answer, row) in enumerate(zip(answers, rows, strict=True)):
        for key, found in answer.items():
            kind, _, output = key.partition("_")
            if kind != "explanation":
                continue
            if "label" in found:
                prediction = answer[f"prediction_{output}" if output else "prediction"]
                assert found["label"] == (True if output == "member" else prediction)  # the second class of two
            names = [output, str(found.get("label")), f"{output}_{found.get('label')}"]
            (margin,) = {expected.outputs.index(each) for each in names if each in expected.outputs}
            assert_explains(found, row, expected.columns, expected.values[i, :, margin], 1)
            assert found["base"] == expected.base[margin]
            seen.add(margin)
    assert len(seen) > 1


def test_reason_codes_are_part_of_each_explanation(tmp_path: Path, rows: Rows) -> None:
    codes = {"columns": {"age": {"code": "R1", "text": "Age"}}, "exclude": ["plan"], "adverse": "no", "top": 3}
    folder = train(tmp_path / "run", evaluate={"reason_codes": codes, "importance": False})
    expected = [[each._asdict() for each in row] for row in gp.load_scorer(folder).explain(rows).reasons()]
    with AppClient(folder) as client:
        answers, document = client("/predict?explain=1", rows).json, client("/openapi.json").json
        assert client("/predict?explain=1", rows[5]).json == answers[5]
        table = pa.Table.from_pylist(rows)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        reply = client("/predict?explain=1", sink.getvalue().to_pybytes(), headers={"content-type": ARROW})
    assert [answer["explanation"]["reasons"] for answer in answers] == expected
    assert {each["code"] for row in expected for each in row} == {"R1", None}
    of_arrow = pa.ipc.open_stream(reply.body).read_all().to_pylist()
    assert [answer["explanation"]["reasons"] for answer in of_arrow] == expected
    jsonschema.validate(answers, {**document, "$ref": "#/components/schemas/Predictions"})
    next(filter(None, (answer["explanation"]["reasons"] for answer in answers)))[0]["code"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answers, {**document, "$ref": "#/components/schemas/Predictions"})


@pytest.mark.parametrize("value", ["0", "6", "x", "", "1.0", "-1", "1&explain=1", "%D9%A3", "9" * 5000])
def test_other_numbers_of_columns_are_refused(client: AppClient, rows: Rows, value: str) -> None:
    reply = client(f"/predict?explain={value}", rows[2])
    assert (reply.status, reply.json["code"]) == (400, "invalid_request")
    assert len(reply.body) < 300


def test_bad_rows_and_too_many_are_refused(run_folder: Path, rows: Rows) -> None:
    with AppClient(run_folder, max_explained_rows=3) as client:
        assert client("/predict?explain=1", rows[:4]).json["code"] == "too_large"
        assert client("/predict", rows[:4]).status == 200
        assert client("/predict?explain=1", {**rows[2], "age": 130}).json["code"] == "invalid_rows"
        assert client("/v2/models/leavers/infer?explain=1", {"inputs": []}).status == 400
        client("/predict?explain=1", rows[:3])
        lines = client("/metrics").body.decode().splitlines()
    assert "gpupipe_explained_rows_total 3" in lines
    assert 'gpupipe_requests_total{endpoint="explain",status="200"} 1' in lines
    assert 'gpupipe_request_duration_seconds_count{endpoint="predict"} 1' in lines


def test_without_explanations_the_request_is_refused_and_the_documents_have_none(
    run_folder: Path, rows: Rows, tmp_path: Path
) -> None:
    table = make_table()[["age", "income"]]
    gp.Pipeline(table, target=None, models=["kmeans"]).run(tmp_path / "run", quiet=True)
    with pytest.raises(gp.DataError):
        ServedModel.load(tmp_path / "run", prepare_explanations=True)
    for folder, settings, row in ((tmp_path / "run", {}, {"age": 3, "income": 2}), (run_folder, OFF, rows[2])):
        with AppClient(folder, **settings) as client:
            reply = client("/predict?explain=1", row)
            assert (reply.status, reply.json["code"]) == (422, "not_explainable")
            assert client("/predict", row).status == 200
            assert client("/schema").json["explanations"] is None
            document = client("/openapi.json").json
        assert "parameters" not in document["paths"]["/predict"]["post"]
        assert "explanation" not in document["components"]["schemas"]["Prediction"]["properties"]


OFF = {"explain": "off"}


def test_predictions_do_not_wait_for_explanations(
    run_folder: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AppClient(run_folder) as client:
        queue = client.app.slot.explanations
        is_allowed, explain, sizes = threading.Event(), queue._explain, []

        def explain_when_allowed(cells: Any) -> Any:
            assert is_allowed.wait(60)
            sizes.append(cells.n_rows)
            return explain(cells)

        monkeypatch.setattr(queue, "_explain", explain_when_allowed)

        async def send(path: str, body: Any) -> Reply:
            return await client._send(path, body, "", {})

        async def both() -> list[Reply]:
            explained = [asyncio.create_task(send("/predict?explain=2", body)) for body in (rows, *rows[:3])]
            assert (await send("/predict", rows[0])).status == 200
            assert not any(task.done() for task in explained)
            is_allowed.set()
            return await asyncio.gather(*explained)

        long, *short = client.runner.run(both())
    assert [reply.json for reply in short] == long.json[:3]
    assert sizes == [32, 3, 8]  # the long request has its next turn after the others


def test_a_failure_of_the_model_to_be_explained_is_an_answer(
    run_folder: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AppClient(run_folder) as client:

        def fail(cells: Any) -> Any:
            raise gp.ArtifactError("the model has no recorded rows", where="/secret/path")

        monkeypatch.setattr(client.app.slot.explanations, "_explain", fail)
        reply = client("/predict?explain=1", rows[2])
        assert (reply.status, reply.json["code"], b"secret" in reply.body) == (422, "not_explainable", False)
