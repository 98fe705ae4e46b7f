"""Answers of /predict and of the Open Inference Protocol, compared with `Model.predict_table`."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("starlette", reason="needs the extra serve")

import gpupipe as gp
from gpupipe import Model
from tests.serve.conftest import AppClient

Rows = list[dict[str, Any]]
HEADER = "inference-header-content-length"
pytestmark = pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")  # a row has a level that training lacks


@pytest.fixture(scope="module")
def expected(model: Model, rows: Rows) -> Rows:
    table = pd.DataFrame(rows).astype({"member": "boolean"})
    return model.predict_table(table.assign(joined=pd.to_datetime(table["joined"]))).to_pylist()


def columns_of(rows: Rows) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_every_json_form_gives_the_digits_of_the_batch_path(client: AppClient, rows: Rows, expected: Rows) -> None:
    assert client("/predict", rows).json == expected
    assert client("/predict", rows[0]).json == expected[0]
    assert client("/predict", {"columns": columns_of(rows)}).json == {"columns": columns_of(expected)}
    lines = "\n".join(map(json.dumps, rows)).encode() + b"\n"
    reply = client("/predict", lines, headers={"content-type": "application/x-ndjson; charset=utf-8"})
    assert [json.loads(line) for line in reply.body.splitlines()] == expected
    assert client("/predict", []).json == []


def test_an_arrow_stream_is_answered_with_the_table_of_the_batch_path(
    client: AppClient, model: Model, rows: Rows
) -> None:
    table = pa.table(
        {
            **columns_of(rows),
            "plan": pa.array([row["plan"] for row in rows]).dictionary_encode(),
            "joined": pa.array(pd.to_datetime([row["joined"] for row in rows]), pa.timestamp("ns")),
            "ignored": [{"a": 1}] * len(rows),
        }
    )
    reply = client("/predict", to_stream(table), headers={"content-type": ARROW})
    assert reply.headers["content-type"] == ARROW
    assert pa.ipc.open_stream(reply.body).read_all().equals(model.predict_table(table))


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ([2**62, -(2**62), 0, None], pa.timestamp("s")),  # out of range: missing, not 1970
        ([2**62, 2**63 - 1, -(2**63), 1], pa.timestamp("us")),  # years that Python has not; the smallest is missing
        ([2**31 - 1, -(2**31), 19_723, None], pa.date32()),
        ([0, 1, 2, 3], pa.timestamp("ms", "Nope/Zone")),  # stored in UTC, whatever the name of the zone
        ([-1, -999, 1, 10**15], pa.timestamp("ns")),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_times_of_arrow_streams_at_the_limits_are_those_of_the_batch_path(
    client: AppClient, model: Model, rows: Rows, times: list[int | None], kind: pa.DataType
) -> None:
    table = pa.table(columns_of(rows[:4])).drop_columns(["joined"]).append_column("joined", pa.array(times, kind))
    reply = client("/predict", to_stream(table), headers={"content-type": ARROW})
    assert pa.ipc.open_stream(reply.body).read_all().equals(model.predict_table(table))


ARROW = "application/vnd.apache.arrow.stream"


def to_stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "body",
    [
        to_stream(pa.table({"age": [1] * 100}), "zstd"),
        to_stream(pa.table({"age": [[1, 2]]})),
        to_stream(pa.table({"age": pa.array(["a"] * 9, pa.string_view())})),
        to_stream(pa.table({"age": [1, 2]}))[:-40],
        b"ARROW1",
        to_stream(pa.table({"age": pa.chunked_array([[1]] * 10_001)})),
    ],
    ids=["compressed", "nested", "views", "cut off", "not Arrow", "tiny batches"],
)
def test_arrow_streams_that_could_expand_or_are_damaged_are_refused(client: AppClient, body: bytes) -> None:
    reply = client("/predict", body, headers={"content-type": ARROW})
    assert (reply.status, reply.json["code"]) == (400, "invalid_request")


def test_requests_of_one_turn_are_predicted_by_one_call_and_a_bad_one_fails_alone(
    client: AppClient, rows: Rows, expected: Rows
) -> None:
    before = metric(client, "gpupipe_batch_rows_count")
    good: list[tuple[str, Any, str, dict[str, Any]]] = [("/predict", row, "", {}) for row in rows[:10]]
    replies = client.together([*good[:5], ("/predict", {**rows[0], "age": -1}, "", {}), *good[5:]])
    bad = replies.pop(5)
    assert [reply.json for reply in replies] == expected[:10]
    assert bad.status == 422
    assert metric(client, "gpupipe_batch_rows_count") == before + 1


def metric(client: AppClient, name: str) -> float:
    lines = client("/metrics").body.decode().splitlines()
    return float(next(line.rpartition(" ")[2] for line in lines if line.startswith(name)))


def test_large_requests_are_predicted_in_slices(run_folder: Path, rows: Rows, expected: Rows) -> None:
    with AppClient(run_folder, max_batch=7, batch_wait_seconds=0.001) as client:
        assert client("/predict", rows, n_chunks=9).json == expected
        bad = [*rows[:30], {**rows[30], "age": None}, *rows[31:39], {"plan": 3}]
        problems = client("/predict", bad).json["problems"]
        assert {problem["row"] for problem in problems} == {30, 39}
        assert metric(client, 'gpupipe_batch_rows_bucket{le="8"}') >= 6


@pytest.mark.parametrize(("quick_seconds", "n_small"), [(0.0, 20), (1e9, 1)])  # of 1, 2, 4 … rows if they are quick
def test_rows_with_very_large_integers_are_predicted_in_small_slices(
    run_folder: Path, model: Model, rows: Rows, monkeypatch: pytest.MonkeyPatch, quick_seconds: float, n_small: int
) -> None:
    monkeypatch.setattr("gpupipe.serve.slot.QUICK_SECONDS", quick_seconds)
    large = [{**row, "income": (-3) ** number << 60} for number, row in enumerate(rows[2:22], 1)]
    table = pd.DataFrame(large).astype({"member": "boolean"})
    expected = model.predict_table(table.assign(joined=pd.to_datetime(table["joined"]))).to_pylist()
    with AppClient(run_folder) as client:
        assert client("/predict", large).json == expected
        assert metric(client, 'gpupipe_batch_rows_bucket{le="1"}') == n_small
        problems = client("/predict", [*large, {**large[0], "age": 121}]).json["problems"]
        assert [(problem["row"], problem["column"]) for problem in problems] == [(20, "age")]


def test_each_wrong_cell_is_named_with_its_rule(client: AppClient, rows: Rows) -> None:
    reply = client("/predict", [rows[2], {**rows[3], "age": 130, "plan": "gold"}])
    assert reply.status == 422
    assert [(p["row"], p["column"], p["value"]) for p in reply.json["problems"]] == [
        (1, "age", "130"),
        (1, "plan", "'gold'"),
    ]
    assert [p["rule"] for p in reply.json["problems"]] == ["range: [0, 120]", "set: [basic, plus, pro, free]"]
    kinds = client("/predict", {"age": "old", "member": {}, "plan": [], "joined": "soon"}).json["problems"]
    assert {p["column"]: p["value"] for p in kinds} == {
        "age": "'old'", "income": "absent", "member": "{}", "plan": "[]", "joined": "'soon'"
    }  # fmt: skip


def test_infinite_numbers_are_missing_values(client: AppClient, rows: Rows) -> None:
    missing = client("/predict", {**rows[5], "income": None}).json
    assert client("/predict", {**rows[5], "income": -1e308}).json == missing
    inputs = [
        {**tensor, "datatype": "FP32", "data": None} if tensor["name"] == "income" else tensor
        for tensor in tensors(rows[5:6])
    ]
    for value in (np.inf, np.nan):
        data = np.array([value], "<f4").tobytes()
        given = [{**t, "parameters": {"binary_data_size": 4}} if t["name"] == "income" else t for t in inputs]
        head = json.dumps({"inputs": given}).encode()
        reply = client("/v2/models/leavers/infer", head + data, headers={HEADER: str(len(head))})
        assert reply.json["outputs"][1]["data"] == [missing["probability_no"]]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "not_json"),
        (b'{"age": NaNs}', "not_json"),
        (b'{"age": -NaN, "plan": "\\', "not_json"),
        (b'{"age": 1e999}', "not_json"),
        (b"[" * 5000, "not_json"),
        (b'{"age": "\xff"}', "not_json"),
        (b"3", "invalid_request"),
        (b"[1]", "invalid_request"),
        (b'{"columns": {"age": 3}}', "invalid_request"),
        (b'{"columns": {"age": [3], "plan": []}}', "unequal_lengths"),
    ],
)
def test_malformed_bodies_are_refused(client: AppClient, body: bytes, code: str) -> None:
    reply = client("/predict", body)
    assert (reply.status, reply.json["code"]) == (400, code)


def tensors(rows: Rows, is_nested: bool = False) -> Rows:
    kinds = {"age": "INT64", "income": "FP64", "plan": "BYTES", "member": "BOOL", "joined": "BYTES"}
    n = len(rows)
    return [
        {
            "name": name,
            "datatype": kinds[name],
            "shape": [n, 1] if is_nested else [n],
            "data": [[value] for value in values] if is_nested else values,
        }
        for name, values in columns_of(rows).items()
    ]


@pytest.mark.parametrize("is_nested", [False, True])
def test_tensors_are_answered_as_tensors(client: AppClient, rows: Rows, expected: Rows, is_nested: bool) -> None:
    reply = client("/v2/models/leavers/infer", {"id": "a", "inputs": tensors(rows, is_nested)}).json
    assert (reply["id"], reply["model_name"]) == ("a", "leavers")
    assert {output["name"]: output["data"] for output in reply["outputs"]} == columns_of(expected)
    wanted = {"inputs": tensors(rows), "outputs": [{"name": "probability_yes"}]}
    version = reply["model_version"]
    (output,) = client(f"/v2/models/leavers/versions/{version}/infer", wanted).json["outputs"]
    assert output == {
        "name": "probability_yes",
        "datatype": "FP64",
        "shape": [len(rows)],
        "data": columns_of(expected)["probability_yes"],
    }


def as_binary(tensor: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    if tensor["datatype"] == "BYTES":
        data = b"".join(struct.pack("<I", len(text)) + text for text in map(str.encode, tensor["data"]))
    else:
        data = np.array(tensor["data"], {"INT64": "<i8", "FP64": "<f8", "BOOL": "?"}[tensor["datatype"]]).tobytes()
    head = {name: value for name, value in tensor.items() if name != "data"}
    return head | {"parameters": {"binary_data_size": len(data)}}, data


def test_binary_tensors_in_both_directions(client: AppClient, rows: Rows, expected: Rows) -> None:
    rows, expected = rows[2:], expected[2:]
    inputs, chunks = zip(*map(as_binary, tensors(rows)), strict=True)
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    headers = {HEADER: str(len(head))}
    reply = client("/v2/models/leavers/infer", head + b"".join(chunks), headers=headers)
    size = int(reply.headers[HEADER])
    prediction, *probabilities = json.loads(reply.body[:size])["outputs"]
    at = size + prediction["parameters"]["binary_data_size"]
    texts = b"".join(struct.pack("<I", len(row["prediction"])) + row["prediction"].encode() for row in expected)
    assert reply.body[size:at] == texts
    assert [output["parameters"]["binary_data_size"] for output in probabilities] == [8 * len(rows)] * 2
    found = np.frombuffer(reply.body[at:]).reshape(2, -1)
    assert found.tolist() == [[row[name] for row in expected] for name in ("probability_no", "probability_yes")]
    for damaged in (head + b"".join(chunks)[:-1], head + b"".join(chunks) + b"x", head[:-3]):
        assert client("/v2/models/leavers/infer", damaged, headers=headers).status == 400


@pytest.mark.parametrize(
    "change",
    [
        {"datatype": "FP99"},
        {"shape": [39]},
        {"shape": [-1]},
        {"shape": [40, 2]},
        {"shape": [True]},
        {"data": "x"},
        {"data": ["a"] * 40},
        {"name": 3},
        {"name": "plan"},
        {"parameters": {"shared_memory_region": "a"}},
        {"parameters": {"binary_data_size": -1}},
        {"parameters": {"binary_data_size": 320}},
    ],
    ids=str,
)
def test_malformed_tensors_are_refused(client: AppClient, rows: Rows, change: dict[str, Any]) -> None:
    first, *others = tensors(rows)
    reply = client("/v2/models/leavers/infer", {"inputs": [{**first, **change}, *others]})
    is_length = change in ({"shape": [39]}, {"parameters": {"binary_data_size": 320}})
    assert (reply.status, reply.json["code"]) == (400, "unequal_lengths" if is_length else "invalid_request")
    assert client("/v2/models/leavers/infer", {"inputs": others}).status == 422  # an absent column


def test_an_output_is_given_once(client: AppClient, rows: Rows) -> None:
    inputs = [{"name": "age", "datatype": "INT64", "shape": [1], "data": [31]}]
    body = {"inputs": inputs, "outputs": [{"name": "prediction"}] * 2}
    reply = client("/v2/models/leavers/infer", body)
    assert (reply.status, "more than once" in reply.json["error"]) == (400, True)


@pytest.mark.parametrize("absent", ["income", "member"])
def test_no_rows_are_checked_like_one(client: AppClient, model: Model, rows: Rows, absent: str) -> None:
    names = [name for name in rows[2] if name != absent]
    table = pa.table({name: pa.array([], pa.string()) for name in names})
    tensors_ = [{"name": name, "datatype": "BYTES", "shape": [0], "data": []} for name in names]
    replies = [
        client("/predict", {"columns": {name: [] for name in names}}),
        client("/predict", to_stream(table), headers={"content-type": ARROW}),
        client("/v2/models/leavers/infer", {"inputs": tensors_}),
    ]
    one = client("/predict", {"columns": {name: [rows[2][name]] for name in names}})
    assert [(reply.status, reply.json["problems"]) for reply in replies] == [(422, one.json["problems"])] * 3
    assert [problem["column"] for problem in one.json["problems"]] == [absent]
    with pytest.raises(gp.SchemaError, match=absent):
        model.predict(pd.DataFrame({name: [] for name in names}))
    bodies: list[Any] = [{"columns": {}}, to_stream(pa.table({}))]
    for body in bodies:
        headers = {"content-type": ARROW if isinstance(body, bytes) else "application/json"}
        assert len(client("/predict", body, headers=headers).json["problems"]) == len(rows[2])
    nothing: dict[str, list[Any]] = {name: [] for name in rows[2]}
    assert client("/predict", {"columns": nothing}).json["columns"]["prediction"] == []
    assert client("/predict", []).json == []  # each of no rows is complete


def test_literals_that_json_does_not_have_are_missing_values(client: AppClient, rows: Rows) -> None:
    missing = client("/predict", {**rows[5], "income": None}).json
    inputs = [{**tensor, "data": [None]} if tensor["name"] == "income" else tensor for tensor in tensors(rows[5:6])]
    expected = client("/v2/models/leavers/infer", {"inputs": inputs}).json
    for value in (float("nan"), float("inf"), float("-inf")):
        assert client("/predict", {**rows[5], "income": value}).json == missing
        given = [{**each, "data": [value]} if each["name"] == "income" else each for each in inputs]
        assert client("/v2/models/leavers/infer", {"inputs": given}).json == expected
    assert client("/predict", {**rows[5], "income": float("nan"), "plan": 'NaN" \\ Infinity'}).json["problems"][0][
        "value"
    ] == repr('NaN" \\ Infinity')


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"instances": [{"age": 3}]}, '"instances"'),
        ({"dataframe_split": {"columns": ["age"], "data": [[3]]}}, '"dataframe_split"'),
        ({"inputs": [{"name": "age"}], "id": "a"}, '"inputs", "id"'),
        ({"rows": []}, '"rows"'),
        ({"columns": ["age"]}, '"columns"'),
        ("age", "a string"),
    ],
    ids=str,
)
def test_the_body_of_another_server_is_answered_with_the_forms(client: AppClient, body: Any, shown: str) -> None:
    reply = client("/predict", body)
    assert (reply.status, reply.json["code"]) == (400, "invalid_request")
    assert (
        'a row {"age": VALUE, "income": VALUE, ...}, a list of rows, or {"columns": {"age": [VALUE'
        in reply.json["error"]
    )
    assert shown in reply.json["error"]
    assert client("/predict", {"Age": 3}).status == 422  # a row with a wrong name
