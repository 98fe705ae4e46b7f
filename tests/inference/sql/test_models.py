"""One query of a model: its predictions equal those of the scorer, for every family of models and hard rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpupipe as gp
from gpupipe.inference.sql.engines import ROW_COLUMN, ROWS_TABLE, open_engine
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
) -> tuple[gp.Model, dict[str, Any]]:
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
    ("regression", "hist_gradient_boosting"), ("multiclass", "logistic_regression"), ("regression", "ridge"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "name"), CASES, ids=lambda part: part)
def test_a_query_predicts_what_the_scorer_predicts(tmp_path: Path, target: str, name: str) -> None:
    model = train(tmp_path, target, [{name: SMALL.get(name, {})}])
    for dialect in EMBEDDED:
        rows = hard_rows()
        _, found = predictions(model, dialect, rows)
        assert_equal_to_scorer(model, found, rows)
