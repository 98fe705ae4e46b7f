"""Outputs of models of each task, compared with `Model.predict_table`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("orjson", reason="needs the extra serve")
pytest.importorskip("starlette", reason="needs the extra serve")

from gpupipe import Pipeline, load_model
from tests.serve.conftest import AppClient, make_table

ARROW = "application/vnd.apache.arrow.stream"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("income", "ridge"), ("plan", "logistic_regression"), (None, "kmeans"), (None, "pca"),
        (["age", "income"], "ridge"), (["plan", "member"], "logistic_regression"),
    ],
)  # fmt: skip
def test_outputs_have_the_names_types_and_values_of_the_batch_path(tmp_path: Path, target: Any, name: str) -> None:
    table = make_table()[["age", "income", "member", "plan"]]
    Pipeline(table, target=target, models=[name], name="m").run(tmp_path / "run", quiet=True)
    model = load_model(tmp_path / "run")
    rows = pa.Table.from_pandas(table.head(20).drop(columns=target or []), preserve_index=False)
    expected = model.predict_table(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    with AppClient(tmp_path / "run") as client:
        reply = client("/predict", sink.getvalue().to_pybytes(), headers={"content-type": ARROW})
        assert pa.ipc.open_stream(reply.body).read_all().equals(expected)
        given: list[dict[str, Any]] = rows.to_pylist()
        assert client("/predict", given).json == expected.to_pylist()
        drift, report = client("/drift").json, model.drift(pa.concat_tables([rows, rows]))
        described = {output["name"]: output["type"] for output in client("/schema").json["outputs"]}
        tensors = client("/v2/models/m").json["outputs"]
    assert {each["name"]: each["current"] for each in (*drift["columns"], *drift["scores"])} == {
        each.name: list(each.current) for each in (*report.columns, *report.scores)
    }
    assert list(described) == expected.column_names == [tensor["name"] for tensor in tensors]
    kinds = {"text": "string", "boolean": "bool", "integer": "int32", "number": "float" if name == "pca" else "double"}
    assert [kinds[kind] for kind in described.values()] == [str(field.type) for field in expected.schema]
