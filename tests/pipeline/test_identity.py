"""Identifiers above 2^53, UUIDs and bytes as categories, ids and groups: one answer on every road."""

from __future__ import annotations

import json
import uuid
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import gpupipe as gp

WHOLE = pa.decimal128(38, 0)
SETTINGS: dict[str, Any] = {"report": {"enabled": False}}
N_ROWS = 240
UUIDS = [uuid.UUID(int=2**127 + i) for i in range(4)]
LEVELS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "unsigned": (pa.uint64(), [2**63 + i for i in range(4)]),
    "whole": (WHOLE, [2**60 + i for i in range(4)]),
    "uuid": (pa.uuid(), UUIDS),
    "raw": (pa.binary(16), [value.bytes for value in UUIDS]),
}


def made(n_rows: int) -> dict[str, Any]:
    """Return columns whose levels of number i have the target i == 1 more often."""
    rng = np.random.default_rng(11)
    columns: dict[str, Any] = {"cid": pa.array([2**63 + 7 * i for i in range(n_rows)], pa.uint64())}
    each = rng.integers(0, 4, (len(LEVELS), n_rows))
    for (name, (kind, levels)), codes in zip(LEVELS.items(), each, strict=True):
        values = [levels[code] for code in codes]
        columns[name] = pa.array(map(Decimal, values), kind) if kind == WHOLE else pa.array(values, kind)
    columns["y"] = (each == 1).sum(axis=0) + rng.random(n_rows) > 1.4
    return columns


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found: Path = tmp_path_factory.mktemp("identity")
    pq.write_table(pa.table(made(N_ROWS)), found / "rows.parquet")
    return found


@pytest.fixture(scope="module")
def run(folder: Path) -> gp.Run:
    source = {"path": str(folder / "rows.parquet"), "id": "cid", "schema": dict.fromkeys(LEVELS, "categorical")}
    pipe = gp.Pipeline(
        source, target="y", features=[{"one_hot": list(LEVELS)}], models=["logistic_regression"], **SETTINGS
    )
    return pipe.run(folder / "run", quiet=True)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows of Python values, with decimals as integers."""
    rows: list[dict[str, Any]] = table.to_pylist()
    return [row | {"whole": int(row["whole"])} for row in rows]


def as_jsonl(table: pa.Table, folder: Path) -> str:
    texts = [
        {name: v if isinstance(v, int) else str(v) for name, v in row.items() if name != "raw"}
        for row in rows_of(table)
    ]
    raw = table.column("raw").to_pylist()
    lines = [json.dumps(row | {"raw": f"0x{value.hex()}"}) for row, value in zip(texts, raw, strict=True)]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return str(folder / "rows.jsonl")


def as_csv(table: pa.Table, folder: Path) -> str:
    frame = pd.DataFrame(rows_of(table))
    frame["raw"] = [f"0x{value.hex()}" for value in frame["raw"]]
    frame.to_csv(folder / "rows.csv", index=False)
    return str(folder / "rows.csv")


ROADS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "pandas": lambda table, folder: pd.DataFrame(rows_of(table)),
    "polars": lambda table, folder: pl.from_arrow(
        table.set_column(
            table.column_names.index("uuid"), "uuid", pa.array([str(v) for v in table["uuid"].to_pylist()])
        )
    ),
    "dicts": lambda table, folder: rows_of(table),
    "jsonl": as_jsonl,
    "csv": as_csv,
}


@pytest.mark.parametrize("road", ROADS)
def test_levels_have_the_same_answer_on_every_road(run: gp.Run, folder: Path, road: str) -> None:
    table = pa.table(made(N_ROWS)).slice(0, 40)
    expected = run.model.predict_proba(table)
    assert len(np.unique(expected[:, 1])) > 8
    assert np.array_equal(run.model.predict_proba(ROADS[road](table, folder)), expected)


def test_the_scorer_and_batches_have_the_answers_of_the_table(run: gp.Run) -> None:
    table, scorer = pa.table(made(N_ROWS)).slice(0, 20), run.model.scorer()
    expected = run.model.predict_proba(table)
    assert np.array_equal(np.array([scorer.predict_proba(row) for row in rows_of(table)]), expected)
    one_by_one = np.concatenate([run.model.predict_proba(table.slice(i, 1)) for i in range(20)])
    assert np.array_equal(one_by_one, expected)


def test_an_onnx_file_distinguishes_large_levels(run: gp.Run, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    table = pa.table(made(N_ROWS)).slice(0, 20)
    run.model.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    texts = {name: [str(v) for v in table[name].to_pylist()] for name in ("unsigned", "whole", "uuid")}
    texts["raw"] = [f"0x{value.hex()}" for value in table["raw"].to_pylist()]
    feed = {name: np.array(values, object).reshape(-1, 1) for name, values in texts.items()}
    labels, probabilities = session.run(["label", "probabilities"], feed)
    assert labels.dtype == bool
    assert np.allclose(probabilities, run.model.predict_proba(table), atol=1e-6)


def test_booleans_and_ids_of_predictions_have_the_types_of_the_input(run: gp.Run, folder: Path) -> None:
    written = pq.read_table(run.path / "predictions.parquet")
    assert [written.field(name).type for name in ("cid", "target", "prediction")] == [
        pa.uint64(),
        pa.bool_(),
        pa.bool_(),
    ]
    source = pq.read_table(folder / "rows.parquet")
    assert written["cid"].to_pylist() == source["cid"].take(written["row"]).to_pylist()
    assert written["target"].to_pylist() == source["y"].take(written["row"]).to_pylist()
    assert run.goal.labels == (False, True) and "probability_true" in written.column_names
    model = gp.load_model(run.path / "model")
    assert model.predict(folder / "rows.parquet").dtype == bool
    assert isinstance(model.scorer().predict(rows_of(source)[0]), bool)
    assert model.predict_table(folder / "rows.parquet").field("prediction").type == pa.bool_()


@pytest.mark.parametrize("form", ["parquet", "frame"])
def test_ids_of_predictions_are_those_of_the_input(tmp_path: Path, form: str) -> None:
    x = np.random.default_rng(11).normal(size=100)
    ids = {
        "u": pa.array([uuid.UUID(int=i) for i in range(100)], pa.uuid()),
        "t": pa.array(range(100), pa.timestamp("ns", "Europe/Berlin")),
        "d": pa.array(range(100), pa.date32()),
        "w": pa.array(["NA", " a "] * 50),
    }
    table = pa.table({"x": x, "y": (x > 0).astype(int), **ids})
    pq.write_table(table, tmp_path / "rows.parquet")
    data = {"path": str(tmp_path / "rows.parquet")} if form == "parquet" else {"frame": table}
    pipe = gp.Pipeline(data | {"id": list(ids), "where": "x < 0.5"}, target="y", models=["gaussian_nb"], **SETTINGS)
    written = pq.read_table(pipe.run(tmp_path / "run", quiet=True).path / "predictions.parquet")
    assert [written.field(name).type for name in ids] == [column.type for column in ids.values()]
    kept = table.filter(pc.less(table["x"], 0.5)).take(written["row"])
    assert written.select(list(ids)).to_pylist() == kept.select(list(ids)).to_pylist()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(pa.int8(), {}), (pa.int64(), {"positive": "1"}), (pa.uint64(), {"schema": {"y": "categorical"}}),
     (WHOLE, {"schema": {"y": "categorical"}}), (pa.bool_(), {"positive": 1})],
    ids=str,
)  # fmt: skip
def test_labels_have_the_type_of_the_target(tmp_path: Path, kind: pa.DataType, settings: dict[str, Any]) -> None:
    x = np.random.default_rng(11).normal(size=200)
    high = [int(v > 0) + (2**63 if kind == pa.uint64() else 0) for v in x]
    y = pa.array([Decimal(v) for v in high], WHOLE).cast(kind) if kind != pa.bool_() else pa.array(x > 0)
    pipe = gp.Pipeline(pa.table({"x": x, "y": y}), target="y", models=["gaussian_nb"], **settings, **SETTINGS)
    run = pipe.run(tmp_path / "run", quiet=True)
    table = run.model.predict_table({"x": x})
    assert (
        table.field("prediction").type == pq.read_schema(run.path / "predictions.parquet").field("target").type == kind
    )
    assert pc.mean(pc.equal(table.column("prediction"), y).cast(pa.float64())).as_py() > 0.9
    assert run.model.scorer().predict({"x": 3.0}) == y[int(np.argmax(x))].as_py()


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), WHOLE, pa.binary(16)], ids=str)
def test_groups_that_differ_in_the_last_digit_are_divided(tmp_path: Path, kind: pa.DataType) -> None:
    groups: list[Any] = [2**60 + i % 40 for i in range(120)]
    if pa.types.is_fixed_size_binary(kind):
        groups = [uuid.UUID(int=group << 64).bytes for group in groups]
    column = pa.array(map(Decimal, groups), kind) if kind == WHOLE else pa.array(groups, kind)
    x = np.random.default_rng(11).normal(size=120)
    table = pa.table({"x": x, "g": column, "y": (x > 0).astype(int)})
    run = gp.Pipeline(table, target="y", models=["gaussian_nb"], split={"group": "g"}, **SETTINGS).run(
        tmp_path / "run", quiet=True
    )
    tested = pq.read_table(run.path / "predictions.parquet")["row"].to_pylist()
    assert len(tested) == 24 and len({groups[row] for row in tested}) == 8


@pytest.mark.parametrize("form", ["frame", "csv"])
def test_rows_without_a_target_are_reported_with_the_reason(tmp_path: Path, form: str) -> None:
    x = np.random.default_rng(11).normal(size=200)
    rows = pd.DataFrame({"x": x, "y": np.select([x > 0.5, x < -0.5], ["None", "low"], "middle")})
    n_lost = int((rows["y"] == "None").sum())
    rows.to_csv(tmp_path / "rows.csv", index=False)
    data = rows if form == "frame" else str(tmp_path / "rows.csv")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp.Pipeline(data, target="y", models=["gaussian_nb"], **SETTINGS).run(tmp_path / "run", quiet=True)
    said = [str(each.message) for each in caught]
    assert any(
        text.startswith(f"{n_lost} rows without a target were dropped (y: 'None' read as missing)") for text in said
    )


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (["yes", "None", "yes", "None"], r"found only 'yes'; 2 rows have no value \('None' read as missing\)"),
        ([1e39, 2e39, np.inf, 1e38], r"null in every row; 4 rows have no value \(infinite values or values above 4e37"),
        ([2**63, 2**63 + 1] * 2, "found only 9223372036854775808"),
    ],
)
def test_a_target_that_is_lost_has_an_error_with_the_reason(values: list[Any], what: str) -> None:
    rows = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": values})
    with pytest.raises(gp.DataError, match=what) as caught:
        gp.Pipeline(rows, target="y", models=["gaussian_nb"]).run(quiet=True)
    assert caught.value.fix
