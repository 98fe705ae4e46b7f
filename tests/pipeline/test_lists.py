"""Columns of lists on every road: files, frames, single rows, the server, exports, drift and `gpupipe init`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.cli import main
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.io.table_files import read_table, write_table
from gpupipe.table.encode import encode
from gpupipe.table.encode_chunks import encode_chunks
from gpupipe.table.schema import declare
from tests.serve.conftest import AppClient

N = 160
FEATURES: list[Any] = [
    {"multi_hot": ["tags", "ids"]},
    {"list_stats": ["tags", "ids"]},
    {"list_hash": {"columns": "tags", "buckets": 4}},
    {"list_columns": "vector"},
    {"target_encode": {"columns": ["tags_first"], "folds": 2}},
]


def make_table() -> pa.Table:
    rng = np.random.default_rng(5)
    words = ["a", "b", "ü", "d,e"]

    def lists(make: Any, least: int, most: int) -> list[Any]:
        return [None if rng.random() < 0.1 else make(rng.integers(least, most)) for _ in range(N)]

    tags = lists(lambda n: rng.choice(words, n).tolist(), 0, 5)
    return pa.table(
        {
            "x": rng.normal(size=N),
            "tags": pa.array(tags),
            "ids": pa.array(lists(lambda n: rng.integers(0, 5, n).tolist(), 0, 4)),
            "vector": pa.array(lists(lambda _: rng.normal(size=3).tolist(), 3, 4), pa.list_(pa.float64(), 3)),
            "unread": pa.array([[i] * (1 + i % 3) for i in range(N)]),
            "pair": pa.array([{"a": i} for i in range(N)]),
            "y": [int(bool(each) and "a" in each) for each in tags],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    pq.write_table(make_table(), folder / "table.parquet")
    settings: dict[str, Any] = {"report": {"enabled": False}, "evaluate": {"importance": False}}
    source = {"path": str(folder / "table.parquet"), "target": "y"}
    config = {"source": source, "features": FEATURES, "models": ["logistic_regression"], **settings}
    (folder / "run.yaml").write_text(json.dumps(config))
    assert main(["run", str(folder / "run.yaml"), "--output", str(folder / "run"), "--quiet"]) == 0
    return folder


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return make_table().drop_columns(["unread", "pair", "y"])


def test_lists_that_no_op_reads_are_dropped_with_a_warning(folder: Path) -> None:
    notes = json.loads((folder / "run" / "timeline.json").read_text())
    text = json.dumps(notes)
    assert "column 'unread' is dropped: no op reads its lists" in text
    assert "column 'pair' is dropped: struct values are not supported" in text


def test_every_road_gives_the_same_features(folder: Path, rows: pa.Table, tmp_path: Path) -> None:
    model, scorer = gp.load_model(folder / "run", "cpu"), gp.load_scorer(folder / "run")
    dicts = rows.to_pylist()
    expected = np.asarray(model.transform(rows))
    for given in (rows.to_pandas(), dicts, rows.slice(7)):
        np.testing.assert_array_equal(np.asarray(model.transform(given)), expected[-len(given) :])
    np.testing.assert_array_equal(scorer.features(dicts), expected)
    for i in range(0, N, 40):
        np.testing.assert_array_equal(np.asarray(scorer.features(dicts[i])).ravel(), expected[i])
        np.testing.assert_array_equal(np.asarray(model.transform(dicts[i])).ravel(), expected[i])
    texts = [{name: json.dumps(v) if isinstance(v, list) else v for name, v in row.items()} for row in dicts]
    np.testing.assert_array_equal(scorer.features(texts), expected)
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=30)
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, dicts)))
    pd.DataFrame(texts).to_csv(tmp_path / "rows.csv", index=False)
    probabilities = model.predict_proba(rows)
    for name in ("rows.parquet", "rows.jsonl", "rows.csv"):
        np.testing.assert_array_equal(model.predict_proba(tmp_path / name), probabilities)
    output = tmp_path / "out.parquet"
    assert main(["predict", str(folder / "run"), str(tmp_path / "rows.parquet"), "-o", str(output)]) == 0
    assert pq.read_table(output).num_rows == N


def test_the_server_takes_arrays_and_refuses_single_values(folder: Path, rows: pa.Table) -> None:
    model, dicts = gp.load_model(folder / "run", "cpu"), rows.to_pylist()
    with AppClient(folder / "run") as client:
        document = client("/openapi.json").json
        cells = document["components"]["schemas"]["Row"]["properties"]
        assert cells["tags"] == {"type": ["array", "null"], "items": {"type": ["string", "null"]}}
        assert cells["vector"]["items"] == {"type": ["number", "null"]}
        found = client("/predict", dicts[:5])
        expected = model.predict_proba(rows)[:5, 1]
        assert [each["probability_1"] for each in found.json] == pytest.approx(expected.tolist(), abs=0)
        for name, value in (("tags", 3), ("tags", [1]), ("ids", "one"), ("vector", [1.0])):
            refused = client("/predict", [{**dicts[0], name: value}])
            assert 400 <= refused.status < 500, (name, value)
            assert name in refused.json["error"]


def test_exports_name_ops_and_columns(folder: Path, tmp_path: Path) -> None:
    model = gp.load_model(folder / "run", "cpu")
    for export in (model.to_onnx, lambda _: model.to_sql("duckdb")):
        with pytest.raises(gp.ConfigError, match="multi_hot of tags, ids, which reads lists"):
            export(tmp_path / "model.onnx")


def test_drift_compares_null_lists(folder: Path, rows: pa.Table, capsys: pytest.CaptureFixture[str]) -> None:
    model = gp.load_model(folder / "run", "cpu")
    drift = {each.name: each for each in model.drift(rows).columns}
    assert drift["tags"].kind == "list"
    assert drift["tags"].severity == "none"
    nulls = rows.set_column(1, "tags", pa.nulls(N, rows.schema.field("tags").type))
    assert {each.name: each for each in model.drift(nulls).columns}["tags"].severity != "none"


def test_init_proposes_ops_for_lists(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "made.yaml"
    assert main(["init", str(folder / "table.parquet"), "--target", "y", "-o", str(output)]) == 0
    text = output.read_text()
    assert "- multi_hot: [tags, ids]" in text
    assert "- list_columns: [vector]" in text
    assert "- list_stats: [unread]" in text
    assert main(["check", str(output)]) == 0


def test_chunks_encode_as_the_whole_table(tmp_path: Path) -> None:
    table = make_table().select(["x", "tags", "vector"])
    declared, backend = {"tags": declare("list"), "vector": declare("list")}, choose("cpu")
    whole = encode(table, backend, declared)
    chunks = [table.slice(i, 50) for i in range(0, N, 50)]
    parts = encode_chunks(lambda: chunks, backend, N, declared)
    assert parts.schema == whole.schema
    for name in ("tags", "vector"):
        assert parts.texts[name].to_pylist() == whole.texts[name].to_pylist() == table[name].to_pylist()


def test_files_with_empty_lists_and_a_stored_table_keep_their_lists(tmp_path: Path) -> None:
    pq.write_table(pa.table({"tags": pa.array([[], None, [None]])}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"tags": pa.array([["x", "y"], ["x"]])}), tmp_path / "b.parquet")
    source = TableSource.model_validate({"path": str(tmp_path), "schema": {"tags": "list"}})
    loaded = read_arrow(source).table
    expected = [[], None, [None], ["x", "y"], ["x"]]
    assert loaded["tags"].to_pylist() == expected
    table = encode(loaded, choose("cpu"), source.declarations())
    (tmp_path / "stored").mkdir()
    write_table(table, tmp_path / "stored")
    stored = read_table(tmp_path / "stored")
    assert stored.schema == table.schema
    assert stored.texts["tags"].to_pylist() == expected
    taken = stored.take(np.array([True, False, False, False, True]), choose("cpu"))
    assert taken.texts["tags"].to_pylist() == [[], ["x"]]
