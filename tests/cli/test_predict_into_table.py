"""Tests of ``gpupipe predict --to``: the scores of the file output, in a table, merged by key."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import gpupipe as gp
from gpupipe.config import parse_config
from gpupipe.errors import SchemaError
from gpupipe.inference.scoring import merged_scores
from gpupipe.io.chunks import chunk_stream
from gpupipe.pipeline.run import run_pipeline
from tests.io.external.conftest import postgresql as postgresql
from tests.postgresql import PASSWORD

N = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with tables and three runs: of rows, of rows with a history, and of events."""
    path, rng = tmp_path_factory.mktemp("into"), np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": [f"{i:04d}" for i in range(N)], "number": np.arange(N), "shop": rng.integers(0, 3, N),
            "age": rng.normal(40, 10, N), "plan": rng.choice(["a", "b"], N), "who": rng.integers(0, 20, N),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, N), unit="D"),
        }
    )  # fmt: skip
    before = frame.sort_values("day", kind="stable").groupby("who")["age"].shift().fillna(0)
    frame["left"] = np.where(frame["age"] + 9 * (frame["plan"] == "a") + 2 * before > 120, "yes", "no")
    frame.to_csv(path / "t.csv", index=False)
    frame.to_parquet(path / "t.parquet", row_group_size=70)
    orders = frame[["who", "day", "age"]].rename(columns={"day": "at", "age": "spend"})
    orders.to_parquet(path / "orders.parquet")
    common = {"report": {"enabled": False}, "device": "cpu", "evaluate": {"importance": False}}
    source = {"path": str(path / "t.parquet"), "id": "id", "target": "left", "drop": ["number", "shop"]}
    lag = {"lag": {"key": "who", "time": "day", "columns": "age", "periods": 1}}
    for name, features in {"rows": {}, "history": {"features": [lag]}}.items():
        model = {"xgboost": {"n_estimators": 4}}
        run_pipeline(parse_config({"source": source, **features, "models": [model], **common}), path / name)
    entities = {
        "table": "orders", "as_of": ["2024-02-01", "2024-03-01"], "label": {"none": "orders", "within": "15d"},
    }  # fmt: skip
    table = {"path": str(path / "orders.parquet"), "on": {"left": "customer", "right": "who"}, "time": "at"}
    events = {
        "source": {"entities": entities, "target": "left"}, "models": ["logistic_regression"],
        "tables": {"orders": {**table, "cardinality": "one_to_many"}},
        "features": [{"rfm": {"table": "orders", "amount": "spend"}}],
        "split": {"time": "as_of", "cutoff": "2024-03-01"},
    }  # fmt: skip
    run_pipeline(parse_config({**events, **common}), path / "events")
    return path


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_stream, "CHUNK_BYTES", 3000)
    monkeypatch.setattr(merged_scores, "SLICE_ROWS", 37)


def read(to: str, order: str = "id") -> pa.Table:
    """Return the rows of a table in DuckDB, SQLite or PostgreSQL, or of a Delta table."""
    uri, _, name = to.rpartition("#")
    if to.startswith("delta"):
        return DeltaTable(to.removeprefix("delta://")).to_pyarrow_table().sort_by(order)
    if to.startswith("sqlite"):
        with sqlite3.connect(uri.removeprefix("sqlite:///")) as lite:
            return pa.Table.from_pandas(pd.read_sql(f"SELECT * FROM {name} ORDER BY {order}", lite))
    if to.startswith("postgresql"):
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(uri) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {name} ORDER BY {order}")
            return cursor.fetch_arrow_table()
    with duckdb.connect(uri.removeprefix("duckdb:///")) as duck:
        return duck.sql(f"SELECT * FROM {name} ORDER BY {order}").to_arrow_table()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("kind", "model", "data"),
    [
        ("postgresql", "rows", "t.csv"),
        ("sqlite", "history", "t.csv"),
        ("duckdb", "rows", "t.parquet"),
        ("delta", "history", "t.parquet"),
    ],
)
def test_the_table_has_the_scores_of_the_file_and_a_repeated_command_changes_nothing(
    gpupipe, folder: Path, tmp_path: Path, request: pytest.FixtureRequest, kind: str, model: str, data: str
) -> None:
    to = {"sqlite": "sqlite:///shop.db#scores", "duckdb": "duckdb:///shop.duckdb#main.scores", "delta": "delta://lake"}
    target = to.get(kind) or f"{request.getfixturevalue('postgresql').uri()}#scores"
    command = ["predict", folder / model, folder / data, "--keep", "shop", "--explain", "1"]
    written = gpupipe(*command, "-o", "scores.parquet", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    command += ["--to", target, "--key", "id", "--model-version", "--run-time", "--as-of", "2024-06-30", "--json"]
    for counts in ([N, 0, 0], [0, 0, N]):
        done = gpupipe(*command, cwd=tmp_path)
        assert done.returncode == 0 and PASSWORD not in done.stderr, done.stderr
        summary = json.loads(done.stdout)
        assert list(summary["merged"].values()) == counts and (summary["rows"], summary["ids"]) == (N, ["id"])
    # All but the line of the output: the same report, and the same notes.
    assert done.stderr.splitlines()[:-1] == written.stderr.splitlines()[:-1]
    place = target.replace("///", f"///{tmp_path}/", 1) if kind != "postgresql" else target
    found = read(f"delta://{tmp_path}/lake" if kind == "delta" else place).to_pandas()
    expected = pq.read_table(tmp_path / "scores.parquet").to_pandas()
    assert found["id"].is_monotonic_increasing and len(found) == N
    pd.testing.assert_frame_equal(found[list(expected)], expected, check_dtype=False, check_exact=True)
    digits = json.loads((folder / model / "model" / "manifest.json").read_text())["manifest_sha256"][:12]
    assert set(found["model_version"]) == {digits}
    moment = pd.to_datetime(found["run_time"], utc=True).unique().tolist()
    assert moment == [datetime(2024, 6, 30, tzinfo=UTC)]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".", "tmp"))] == []


def test_versions_in_the_key_keep_a_row_for_each_model_and_times_do_not(gpupipe, folder: Path, tmp_path: Path) -> None:
    to = f"duckdb:///{tmp_path}/shop.duckdb#scores"
    keys = ["number", "model_version"]
    for model in ("rows", "history", "rows"):
        summary = gp.predict_into_table(
            folder / model, folder / "t.parquet", to, keys, model_version=True, run_time=True, ids=()
        )
    assert summary.merged is not None and summary.merged.updated == N  # a later time
    found = read(to, "number")
    assert len(found) == 2 * N and found.column_names[0] == "number" and "id" not in found.column_names
    assert len(found.column("run_time").unique()) == 2
    assert datetime.now(UTC) >= max(found.column("run_time").to_pylist())


def test_missing_and_repeated_keys_are_named_before_anything_is_written(gpupipe, folder: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(folder / "t.parquet").assign(number=lambda rows: rows["number"].astype("Int64"))
    frame.loc[[7, 9], "number"] = None
    frame.to_parquet(tmp_path / "nulls.parquet")
    command = ["predict", folder / "rows", "--to", "sqlite:///shop.db#scores"]
    for data, keys, words in (
        ("nulls.parquet", ["number"], "key column 'number' has no value in 2 data rows: 7, 9"),
        (folder / "t.csv", ["plan", "shop"], "6 keys are not unique; nothing was written"),
    ):
        for more in ([], ["--on-error", "null", "--errors-to", "bad.csv"]):
            done = gpupipe(*command, data, *[word for key in keys for word in ("--key", key)], *more, cwd=tmp_path)
            assert (done.returncode, words in done.stderr) == (5, True), done.stderr
    assert "plan='a', shop=" in done.stderr.replace('"', "'").replace("'0'", "0")
    assert [path.name for path in tmp_path.iterdir()] == ["nulls.parquet"]
    with pytest.raises(SchemaError, match="'k' has no value in data row 1"):
        merged_scores.require_unique(pa.table({"k": [1.0, float("nan")]}), "rows")


def test_rejected_rows_are_those_of_the_file_output_and_the_others_are_merged(gpupipe, folder: Path, tmp_path) -> None:
    text = (folder / "t.csv").read_text().splitlines()
    (tmp_path / "bad.csv").write_text("\n".join([*text[:20], "x,1,0,old,a,1,2024-01-01,no", "y,1,2", *text[20:]]))
    for how in (["-o", "s.parquet"], ["--to", "duckdb:///shop.duckdb#scores", "--key", "id", "--errors-to", "bad"]):
        if how[0] == "--to":
            how[-1] = "rejected.parquet"
        done = gpupipe("predict", folder / "rows", "bad.csv", "--on-error", "reject", *how, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    names = [tmp_path / name for name in ("s.rejected.parquet", "rejected.parquet")]
    assert pq.read_table(names[0]).equals(pq.read_table(names[1])) and pq.read_metadata(names[0]).num_rows == 2
    found, expected = read(f"duckdb:///{tmp_path}/shop.duckdb#scores"), pq.read_table(tmp_path / "s.parquet")
    assert found.column_names == expected.column_names[1:] and found.to_pydict() == {
        name: values for name, values in expected.to_pydict().items() if name != "row"
    }


def test_entities_are_merged_without_an_input(gpupipe, folder: Path, tmp_path: Path) -> None:
    given = ["--table", f"orders={folder / 'orders.parquet'}", "--as-of", "2024-04-01"]
    to = ["--to", "duckdb:///shop.duckdb#scores", "--key", "customer", "--key", "as_of"]
    for counts in ("inserted", "unchanged"):
        done = gpupipe("predict", folder / "events", *given, *to, cwd=tmp_path)
        assert done.returncode == 0 and f" 20 {counts}" in done.stderr, done.stderr
    assert read(f"duckdb:///{tmp_path}/shop.duckdb#scores", "customer").column_names[:3] == [
        "customer", "as_of", "prediction",
    ]  # fmt: skip


def test_an_untrusted_model_of_an_empty_table_makes_the_table(gpupipe, folder: Path, tmp_path: Path) -> None:
    pq.write_table(pq.read_table(folder / "t.parquet").slice(0, 0), tmp_path / "none.parquet")
    command = ["predict", folder / "rows", "--to", "sqlite:///shop.db#scores", "--key", "id", "--untrusted"]
    for data in ("none.parquet", folder / "t.parquet"):
        done = gpupipe(*command, data, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len(read(f"sqlite:///{tmp_path}/shop.db#scores")) == N


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ([], 2, "expected one output: -o PATH or --to TABLE"),
        (["-o", "s.csv", "--to", "delta://lake", "--key", "id"], 2, "expected one output"),
        (["-o", "s.csv", "--key", "id"], 2, "require --to"),
        (["-o", "s.csv", "--errors-to", "bad.csv"], 2, "requires --on-error"),
        (["--to", "delta://lake"], 2, "--to needs --key"),
        (["--to", "delta://lake", "--key", "model_version", "--model-version"], 2, "--to needs --key"),
        (["--to", "delta://lake", "--key", "id", "--key", "run_time"], 2, "add --run-time"),
        (["--to", "delta://lake", "--key", "idd"], 2, "did you mean 'id'?"),
        (["--to", "delta://lake", "--key", "id", "--cluster", "local"], 2, "cannot be combined with --cluster"),
        (["--to", "delta://lake", "--key", "id", "--safe-csv"], 2, "--safe-csv requires a CSV output"),
        (["--to", "delta://lake", "--key", "id", "--on-error", "reject"], 2, "add --errors-to"),
        (["--to", "sqlite:///t.csv#scores", "--key", "id"], 2, "the output would overwrite the input"),
        (["--to", "mysql://ada:s3cret@host/shop#scores", "--key", "id"], 2, "expected a URI"),
        (["--to", "postgresql://ada:s3cret@127.0.0.1:1/shop#scores", "--key", "id"], 5, "cannot connect"),
    ],
)
def test_invalid_options_are_named_and_nothing_is_written(
    gpupipe, folder: Path, tmp_path: Path, options: list[str], code: int, words: str
) -> None:
    (tmp_path / "t.csv").write_bytes((folder / "t.csv").read_bytes())
    done = gpupipe("predict", folder / "rows", "t.csv", *options, cwd=tmp_path)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert "s3cret" not in done.stderr and [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_column_that_the_table_does_not_have_is_an_error(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = f"sqlite:///{tmp_path}/shop.db#scores"
    gp.predict_into_table(folder / "rows", folder / "t.parquet", to, "id")
    with pytest.raises(SchemaError, match="model_version: string here, absent in the table"):
        gp.predict_into_table(folder / "rows", folder / "t.parquet", to, "id", model_version=True)
    assert "model_version" not in read(to).column_names
