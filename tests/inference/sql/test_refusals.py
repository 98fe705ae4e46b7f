"""Refusals of models and settings, and the output of ``gpupipe export --format sql``."""

from __future__ import annotations

import importlib.util
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpupipe as gp
from gpupipe.cli import main
from gpupipe.inference.sql import engines, export
from tests.inference.onnx.test_refusals import run


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("usual"), [{"encode": ["city"]}], data={"usage": {"range": [0, 1e9]}})


def test_everything_that_cannot_be_expressed_is_named_at_once(tmp_path: Path) -> None:
    features = [{"text_counts": "note"}, {"hash_bucket": {"columns": ["city"], "buckets": 4}}]
    model = gp.load_model(run(tmp_path, features, "knn"), "cpu")
    with pytest.raises(gp.ConfigError) as refused:
        model.to_sql("duckdb")
    for name in ("text_counts of note, which reads texts", "hash_bucket of city", "KNeighborsClassifier"):
        assert name in str(refused.value)


def test_trees_with_too_many_leaves_are_refused_before_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run(tmp_path, [{"encode": ["city"]}], "random_forest")
    monkeypatch.setattr("gpupipe.inference.sql.estimators.MOST_LEAVES", 50)
    with pytest.raises(gp.ConfigError, match=r"leaves; databases take minutes .* more than 50\n  where: .*model"):
        gp.load_model(folder, "cpu").to_sql("duckdb")


def test_the_command_writes_a_query_that_sqlite_runs(
    usual: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.sql"
    call = ["export", str(usual), "--format", "sql", "--dialect", "sqlite", "--table", "people", "--key", "id"]
    assert main([*call, "--features", "-o", str(path)]) == 0
    said = capsys.readouterr().err
    assert "rows differ by at most" in said and "not included the rules of data:" in said
    text = path.read_text()
    assert '-- input "city": text' in text and gp.load_model(usual).manifest["manifest_sha256"] in text
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE people (id INTEGER, usage REAL, city TEXT, note TEXT)")
        connection.execute("INSERT INTO people VALUES (7, 2.5, 'Rome', '')")
        cursor = connection.execute(text)
        names, rows = [each[0] for each in cursor.description], cursor.fetchall()
    assert names[:4] == ["id", "prediction", "probability_no", "probability_yes"]
    assert names[4].startswith("feature_") and rows[0][0] == 7
    assert main([*call, "-o", str(path), "--quiet"]) == 2  # without --force


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "sql"], "--dialect"),
        (["--format", "onnx", "--dialect", "duckdb"], "--dialect is for --format sql"),
        (["--key", "id"], "--key is for --format sql"),
        (["--format", "sql", "--dialect", "duckdb", "--uri", "postgresql://x/y"], "duckdb needs no server"),
        (["--format", "sql", "--dialect", "duckdb", "--table", "a b; DROP"], "expected the name of a table"),
        (["--format", "sql", "--dialect", "duckdb", "--key", "prediction"], "already has a column"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    usual: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert main(["export", str(usual), "-o", str(tmp_path / "out"), *options]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named_with_its_extra(usual: Path, monkeypatch: Any) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(engines, "find_spec", lambda name: None if name == "duckdb" else real(name))
    model = gp.load_model(usual)
    with pytest.raises(gp.ConfigError) as refused:
        model.to_sql("duckdb")
    assert "duckdb" in refused.value.what and "gpupipe[sql]" in refused.value.fix
    assert model.to_sql("sqlite").comparison is not None  # needs no DuckDB


def test_an_engine_that_computes_something_else_prevents_the_query(usual: Path, monkeypatch: Any) -> None:
    real = engines.Engine.run

    def run_wrongly(self: engines.Engine, text: str) -> Any:
        found = real(self, text)
        return found | {name: values + 2e-6 for name, values in found.items() if name == "probability_yes"}

    monkeypatch.setattr(engines.Engine, "run", run_wrongly)
    with pytest.raises(gp.ArtifactError, match="2e-06"):
        gp.load_model(usual).to_sql("duckdb")


def test_a_query_that_an_engine_refuses_is_not_written(usual: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(export, "ROWS_TABLE", "another")
    path = tmp_path / "model.sql"
    with pytest.raises(gp.ConfigError, match="SQLite refuses the query") as refused:
        gp.load_model(usual).to_sql("sqlite").write(path)
    assert "another" in str(refused.value) and not path.exists()


def test_names_that_differ_by_case_only_are_refused_where_the_database_has_one(tmp_path: Path) -> None:
    import pandas as pd

    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"A": rng.normal(size=80), "a": rng.normal(size=80)})
    frame["y"] = np.where(frame["A"] > frame["a"], "p", "q")
    pipeline = gp.Pipeline(frame, target="y", models=["logistic_regression"], report={"enabled": False})
    model = gp.load_model(pipeline.run(tmp_path / "run", quiet=True).path, "cpu")
    with pytest.raises(gp.ConfigError, match="differ only by case: A"):
        model.to_sql("duckdb")
    assert '"A"' in model.to_sql("postgres").text


def test_the_guide_lists_each_op_with_its_targets() -> None:
    """The table "Which target?": ops that derive columns are not in a program of one row; SQL has those of events."""
    from gpupipe.features.history.derivation import DerivedOp
    from gpupipe.features.ops.base import OPS
    from gpupipe.features.ops.distinct_text_op import TextOp
    from gpupipe.features.ops.items_op import ListOp
    from gpupipe.features.ops.last_events import LastEvents

    found: dict[str, list[str]] = {"ops": [], "text ops": [], "list ops": [], "history ops": [], "other ops": []}
    for name in sorted(set(OPS.builtin_names()) - {"bag_ids"}):  # the models of a run do not read it
        op = OPS.get(name)
        kinds = {TextOp: "text ops", ListOp: "list ops", LastEvents: "list ops", DerivedOp: "history ops"}
        kind = next((kinds[base] for base in kinds if issubclass(op, base)), "ops")
        found["other ops" if name in ("hash_bucket", "kernel") else kind].append(f"`{name}`")
    guide = (Path(gp.__file__).parents[1] / "docs/guide/exports.md").read_text()
    for kind, names in found.items():
        is_written = {"ops": "yes | yes", "history ops": "no | yes"}.get(kind, "no | no")
        assert f"| {kind.removeprefix('other ')} {', '.join(names)} | yes | {is_written} |" in guide
