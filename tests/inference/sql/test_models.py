"""One query of a model: its predictions equal those of the scorer, for every family of models and hard rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sqlglot import exp

import gpupipe as gp
from gpupipe.inference.sql.dialect import SqlDialect
from gpupipe.inference.sql.dialect import column as sql_column
from gpupipe.inference.sql.engines import ROW_COLUMN, ROWS_TABLE, open_engine
from gpupipe.inference.sql.export import SqlExport
from gpupipe.inference.sql.inputs import write_inputs
from gpupipe.inference.sql.query import SqlQuery
from gpupipe.inference.targets.tree_splits import number_splits
from gpupipe.models.xgboost.fitted import FittedXGBoost
from gpupipe.rules.row_rules import RowRules
from gpupipe.table.schema import Column
from gpupipe_kernels.rows.records import TIME
from tests.inference.onnx.test_models import SMALL, hard_rows, train
from tests.postgresql import PostgresqlServer

TYPES = {"number": pa.float64(), "text": pa.string(), "boolean": pa.bool_(), "time": pa.timestamp("us")}
EMBEDDED = ("duckdb", "sqlite")


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    try:
        yield server
    finally:
        server.stop()


def predictions(
    model: gp.Model, dialect: str, rows: Sequence[dict[str, Any]], uri: str | None = None, **more: Any
) -> tuple[SqlExport, dict[str, Any]]:
    """Return the columns of a query for rows in a table of the database, by name."""
    found = model.to_sql(dialect, ROWS_TABLE, keys=[ROW_COLUMN], uri=uri, **more)
    assert found.comparison is not None and found.comparison.largest <= 1e-6
    table = {
        each.column.source: pa.chunked_array([pa.array([row[each.column.source] for row in rows], TYPES[each.type])])
        for each in found.inputs
    }
    table[ROW_COLUMN] = pa.chunked_array([pa.array(range(len(rows)), pa.int64())])
    with open_engine(dialect, table, uri, "test") as engine:
        return found, engine.run(found.text)


def assert_equal_to_scorer(model: gp.Model, found: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    scorer = model.scorer("numpy")
    wanted = scorer.predict(rows)
    if model.goal.labels:
        shares = np.stack([found[f"probability_{label}"] for label in model.goal.labels], axis=1)
        np.testing.assert_allclose(shares, scorer.predict_proba(rows), rtol=0, atol=1e-6)
        assert (found["prediction"] == wanted).all()
    else:
        values = np.stack([found[name] for name in found], axis=1).reshape(wanted.shape)
        np.testing.assert_allclose(values, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


CASES = [
    ("binary", "xgboost"), ("multiclass", "lightgbm"), ("regression", "catboost"), ("multiclass", "random_forest"),
    ("regression", "hist_gradient_boosting"), ("multiclass", "logistic_regression"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "name"), CASES, ids=lambda part: part)
def test_a_query_predicts_what_the_scorer_predicts(tmp_path: Path, target: str, name: str) -> None:
    model = train(tmp_path, target, [{name: SMALL.get(name, {})}])
    for dialect in EMBEDDED:
        rows = hard_rows()
        _, found = predictions(model, dialect, rows)
        assert_equal_to_scorer(model, found, rows)


def test_postgresql_computes_the_same(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    for target, name in (("multiclass", "xgboost"), ("binary", "logistic_regression")):
        model = train(tmp_path / name, target, [{name: SMALL.get(name, {})}])
        rows = hard_rows(60)
        _, found = predictions(model, "postgres", rows, postgresql.uri())
        assert_equal_to_scorer(model, found, rows)


def test_an_ensemble_a_calibration_and_a_threshold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpupipe.model_parts.decision.LARGEST_LOSS", np.inf)  # also if it does not help here
    best = {"best": {"folds": 2, "models": ["logistic_regression", "xgboost"], "members": 2}}
    for calibrate in ("sigmoid", "isotonic"):
        evaluate = {"calibrate": calibrate, "threshold": "best_f1"}
        model = train(tmp_path / calibrate, "binary", [best], evaluate=evaluate)
        assert model.estimator.library == "ensemble" and model.decision.calibration is not None
        rows = hard_rows(60)
        _, found = predictions(model, "duckdb", rows)
        assert_equal_to_scorer(model, found, rows)


@pytest.mark.parametrize("calibrate", ["temperature", "isotonic"])
def test_calibrations_of_several_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calibrate: str) -> None:
    monkeypatch.setattr("gpupipe.model_parts.decision.LARGEST_LOSS", np.inf)
    model = train(tmp_path, "multiclass", ["logistic_regression"], evaluate={"calibrate": calibrate})
    assert model.decision.calibration is not None
    rows = hard_rows(40)
    _, found = predictions(model, "sqlite", rows)
    assert_equal_to_scorer(model, found, rows)


def test_violated_rules_are_those_of_the_scorer(tmp_path: Path) -> None:
    """The reference is `RowRules`, by its warnings for each row; `regex` and `unique` are named as omitted."""
    data: dict[str, dict[str, Any]] = {
        "usage": {"range": [-1.5, 40], "nulls": False}, "age": {"dtype": "uint8"}, "store": {"set": [1, 3, 4]},
        "plan": {"set": ["A", "b c"], "nulls": False}, "city": {"regex": "city .*", "nulls": False, "unique": True},
        "since": {"range": ["1970-01-01", "2020-02-29"]}, "speed": {"set": [1.5, 2]}, "is_member": {"nulls": False},
    }  # fmt: skip
    rules = {name: {**each, "otherwise": "warn"} for name, each in data.items()}
    model = train(tmp_path, "binary", [{"xgboost": {"n_estimators": 2}}], data=rules)
    rows = hard_rows()
    wanted, checked = [], RowRules(model.rules)
    for row in rows:
        warned = [each.split(": row 0")[0].replace(" 1 row violates ", " ") for each in checked.check([row])]
        wanted.append({each for each in warned if "regex" not in each})
    assert len(set().union(*wanted)) == 10
    for dialect in EMBEDDED:
        exported, found = predictions(model, dialect, rows, rules=True)
        assert {"rule city: regex: city .*", "rule city: unique: true"} <= set(exported.omitted)
        own = [set() if each is None else set(each.split("; ")) for each in found["violated_rules"]]
        assert own == wanted
    for dialect in ("postgres", "snowflake", "bigquery", "spark"):  # parsed back
        assert "violated_rules" in model.to_sql(dialect, "shop.customers", rules=True).columns


def test_quantiles_are_in_order(tmp_path: Path) -> None:
    model = train(tmp_path, "regression", [{"lightgbm": {"n_estimators": 4}}], task="quantile")
    rows = hard_rows(40)
    exported, found = predictions(model, "sqlite", rows)
    assert exported.columns == (ROW_COLUMN, "quantile_0.1", "quantile_0.5", "quantile_0.9")
    assert_equal_to_scorer(model, found, rows)


def test_each_of_several_targets_has_columns(tmp_path: Path) -> None:
    model = train(tmp_path, ["binary", "multiclass"], [{"xgboost": {"n_estimators": 4}}])
    rows, scorer = hard_rows(40), model.scorer("numpy")
    _, found = predictions(model, "duckdb", rows)
    wanted, labels = scorer.predict_proba(rows), scorer.predict(rows)
    for i, target in enumerate(("binary", "multiclass")):
        assert (found[f"prediction_{target}"] == labels[:, i]).all()
        for j, label in enumerate(model.goal.targets[i].labels):
            np.testing.assert_allclose(found[f"probability_{target}_{label}"], wanted[i][:, j], rtol=0, atol=1e-6)


ODD = ['it"s', "tab\there", "semi;--colon", "Ä b", "`tick`", "back\\slash"]


def test_names_and_levels_may_have_any_characters(tmp_path: Path) -> None:
    """Quotes, comments and ends of lines stay names and texts, and are not SQL."""
    rng, n = np.random.default_rng(4), 160
    levels = ["o'neil", "a\\b", "x--y", "-- drop\ntable", '"q"', "ß", "%s", "{}"]
    frame = pd.DataFrame({name: rng.normal(size=n).round(2) for name in ODD})
    frame["le'vel"] = rng.choice(levels, n)
    frame["y"] = np.where((frame["le'vel"] < "h") ^ (frame[ODD[0]] > 0.3), "it's", 'no "way"\n--')
    pipeline = gp.Pipeline(frame, target="y", models=[{"xgboost": SMALL["xgboost"]}], report={"enabled": False})
    model = replace(gp.load_model(pipeline.run(tmp_path / "run", quiet=True).path, "cpu"), warns=False)
    rows: list[Any] = [*frame.drop(columns="y").to_dict("records"), {**frame.iloc[0].to_dict(), "le'vel": "' OR 1=1"}]
    for dialect in EMBEDDED:
        _, found = predictions(model, dialect, rows)
        assert_equal_to_scorer(model, found, rows)
    for dialect in ("postgres", "snowflake", "bigquery", "spark"):  # parsed back
        exported = model.to_sql(dialect, "shop.customers")
        assert exported.comparison is None and "not executed" in exported.text


def test_splits_decide_as_in_float32_at_their_limits(tmp_path: Path) -> None:
    """Numbers next to each threshold, and half-way between float32 numbers, go to the side of the model."""
    rng, n = np.random.default_rng(8), 400
    x = (rng.integers(0, 1 << 24, n) / 3.0).astype(np.float32).astype(np.float64)
    big = rng.integers(16_000_000, 17_500_000, n).astype(np.float64)
    frame = pd.DataFrame({"x": x, "big": big, "y": np.where((x > np.median(x)) ^ (big > 16_777_216), "a", "b")})
    model = gp.load_model(
        gp.Pipeline(
            frame, target="y", models=[{"xgboost": {"n_estimators": 6}}], report={"enabled": False},
            schema={"x": "float32", "big": "float32"},
        ).run(tmp_path / "run", quiet=True).path, "cpu",
    )  # fmt: skip
    assert isinstance(model.estimator, FittedXGBoost)
    trees = model.estimator.trees()
    assert trees is not None
    limits = np.unique(number_splits(trees.packed).limit.astype(np.float32))
    limits = limits[np.isfinite(limits) & (limits > 0)]
    after = np.nextafter(limits, np.float32(np.inf)).astype(np.float64)
    middle = (limits.astype(np.float64) + after) / 2
    edge = np.concatenate([limits, after, middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)])
    assert len(limits) > 5
    edges = [*edge.tolist(), None]
    rows = [{"x": each, "big": big[0]} for each in edges] + [{"x": x[0], "big": each} for each in edges]
    for dialect in EMBEDDED:
        _, found = predictions(model, dialect, rows)
        assert_equal_to_scorer(model, found, rows)


@pytest.mark.parametrize(("kind", "value", "said"), [("numeric", "3 apples", "number"), ("datetime", "1.5.24", "time")])
def test_a_text_that_is_not_of_its_column_is_an_error_of_sqlite(kind: Any, value: str, said: str) -> None:
    column = Column("at", kind, "double", storage="float64" if kind == "numeric" else "int64")
    query = SqlQuery(SqlDialect("sqlite"))
    place = (4, 0) if kind == "numeric" else (5, 0)
    _, cells = write_inputs(query, (column,), {place: 0}, {"at": (column.storage, 0)})
    outputs = {"x": sql_column(next(each for each in cells if each)[0].name)}
    text = query.select(exp.to_table(ROWS_TABLE), [ROW_COLUMN], outputs).sql("sqlite")
    for values in ([" 12 ", "NA", None, ""], [value, "", "", ""]):
        given = values if kind == "numeric" or value in values else [None] * 4
        rows = {"at": pa.chunked_array([pa.array(given)]), ROW_COLUMN: pa.chunked_array([pa.array(range(4))])}
        with open_engine("sqlite", rows, None, "test") as engine:
            if value in values:
                with pytest.raises(gp.ConfigError, match=said):
                    engine.run(text)
            elif kind == "numeric":
                np.testing.assert_array_equal(engine.run(text)["x"], [12.0, np.nan, np.nan, np.nan])


def test_sqlite_reads_times_as_texts_in_iso_8601() -> None:
    times = {
        "1969-12-31T23:59:59.999999": -1, "2024-02-29": 1_709_164_800_000_000,
        "1970-01-01 00:00:01.5Z": 1_500_000, "2262-01-01 00:00:00": 9_214_646_400_000_000, None: None,
    }  # fmt: skip
    column = Column("at", "datetime", "timestamp[us]", storage="int64")
    query = SqlQuery(SqlDialect("sqlite"))
    _, cells = write_inputs(query, (column,), {(5, 0): 0}, {"at": ("int64", 0)})
    outputs = {"us": sql_column(cells[TIME][0].name)}
    rows = {"at": pa.chunked_array([pa.array([*times])]), ROW_COLUMN: pa.chunked_array([pa.array(range(5))])}
    with open_engine("sqlite", rows, None, "test") as engine:
        found = engine.run(query.select(exp.to_table(ROWS_TABLE), [ROW_COLUMN], outputs).sql("sqlite"))
    np.testing.assert_array_equal(found["us"], np.array([*times.values()], np.float64))


@pytest.mark.parametrize(
    ("file", "target"),
    [
        ("telco-churn/Telco-Customer-Churn.csv", "Churn"), ("bike-sharing/bike.csv", "cnt"),
        ("diamonds/diamonds.csv", "price"),
    ],
)  # fmt: skip
def test_public_tables_as_duckdb_reads_them(tmp_path: Path, data_dir: Path, file: str, target: str) -> None:
    """The query runs on the types of numbers that DuckDB finds in a file; a text of another type is an error."""
    path = data_dir / file
    columns = {"TotalCharges": "float"} if "telco" in file else {}
    models = [{"xgboost": {"n_estimators": 20, "max_depth": 4, "early_stopping_rounds": None}}]
    pipeline = gp.Pipeline(
        str(path), target=target, models=models, features=[{"auto": "@all"}], schema=columns, report={"enabled": False}
    )
    model = replace(gp.load_model(pipeline.run(tmp_path / "run", quiet=True).path, "cpu"), warns=False)
    found = model.to_sql("duckdb", "given", keys=["n"])
    wanted = model.predict_table(str(path))
    with duckdb.connect() as connection:
        read = f"SELECT *, row_number() OVER () AS n FROM read_csv('{path}', nullstr=' '"
        if target != "price":  # it reads "Yes" and "1/1/2011" as other types than text
            connection.execute(f"CREATE TABLE given AS {read})")
            with pytest.raises(duckdb.BinderException, match="unicode"):
                connection.execute(found.text)
        texts = {each.column.source: "VARCHAR" for each in found.inputs if each.type == "text"}
        connection.execute(f"CREATE OR REPLACE TABLE given AS {read}, types={texts})")
        rows = connection.execute(found.text).fetchall()
    values = np.array([row[-1] for row in sorted(rows)], np.float64)
    expected = wanted.column(found.columns[-1]).to_numpy()
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)
