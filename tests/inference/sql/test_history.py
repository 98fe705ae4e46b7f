"""History ops in SQL: each op on rows with ties and nulls, and a model whose rows are built from invoice lines."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sqlglot import exp

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.cli import main
from gpupipe.features import OPS
from gpupipe.features.history.derivation import Derivation, derive, derived_ops
from gpupipe.features.history.tables import DerivationSources, EventTable, HistoryRows
from gpupipe.inference.prediction.events import ServedEvents
from gpupipe.inference.sql.dialect import SqlDialect
from gpupipe.inference.sql.engines import ROW_COLUMN, ROWS_TABLE, open_engine
from gpupipe.inference.sql.history.figures import refused_ops
from gpupipe.inference.sql.history.rows import write_history
from gpupipe.inference.sql.history.tables import HistoryTables
from gpupipe.inference.sql.inputs import SqlInput, code_value, number_value
from gpupipe.inference.sql.query import SqlQuery
from gpupipe.io.settings import JoinedTable
from gpupipe.table.encode import encode
from tests.features.histories import OPS_BY_NAME, ORDERS, OWN, SINGLE_SERIES, rows
from tests.postgresql import PostgresqlServer

N = 120
SERIES = {"key": [], "time": "at"}
MORE: list[tuple[str, dict[str, Any]]] = [
    ("lag", SINGLE_SERIES),
    ("rolling", SERIES | {"columns": "spend", "windows": ["2h", "12h"], "current": True}),  # some exactly that old
    ("sessions", SERIES | {"gap": "3h"}),
    ("lag", ORDERS | {"columns": ["spend", "sent_back"], "periods": [1, 3, "2d"], "gap": "1d"}),
    ("lag", OWN | {"columns": "spend", "periods": [1, "2d"], "current": True, "prefix": "now_"}),
    ("difference", OWN | {"columns": "spend", "periods": [2], "gap": "12h", "prefix": "late_"}),
    ("rolling", ORDERS | {"columns": ["spend", "sent_back"], "functions": ["std", "min"], "windows": [2, "5d"]}),
    ("rolling", ORDERS | {"columns": "spend", "functions": "count", "windows": [2, "5d"]}),
    ("rolling", OWN | {"columns": "spend", "windows": ["3d", 2], "current": True, "prefix": "with_"}),
    ("decay", ORDERS | {"half_life": ["1h", "90d"], "as_of": "at"}),
    ("sessions", ORDERS | {"gap": "2d", "unit": "hours", "as_of": "at"}),
    ("time_since", ORDERS | {"columns": ["sent_back", "spend"], "of": ["first", "last"], "prefix": "bought_"}),
    ("rfm", OWN | {"amount": "spend", "gap": 0, "unit": "hours"}),
    ("aggregate", ORDERS | {"columns": {"sent_back": ["first", "count", "nunique", "std"], "kind": "nunique"}}),
    ("aggregate", ORDERS | {"columns": {"kind": "first"}}),
    ("aggregate", OWN | {"columns": {"kind": ["last", "count"]}, "gaps": ["min", "max"], "gap": "6h"}),
]  # fmt: skip
CASES = [*((name, each) for name, settings in OPS_BY_NAME.items() for each in settings), *MORE]


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    """Rows with ties in time, whose order is that of a column, and orders at distinct times."""
    orders = rows(4 * N, 1).to_pandas()
    orders["at"] += pd.to_timedelta(np.arange(len(orders)), unit="s")
    numbered = rows(N, 0).append_column(ROW_COLUMN, pa.array(range(N)))
    return {ROWS_TABLE: numbered, "orders": pa.Table.from_pandas(orders, preserve_index=False)}


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    server = PostgresqlServer()
    try:
        yield server.uri()
    finally:
        server.stop()


def derived(name: str, settings: dict[str, Any], tables: dict[str, pa.Table]) -> tuple[Any, Derivation]:
    """Return the table with the columns of an op, computed by NumPy, and its derivation."""
    backend = choose("cpu")
    read = {label: HistoryRows.of_arrow(encode(table, backend), table, label) for label, table in tables.items()}
    events = {"orders": EventTable(read["orders"], ("customer",), ("customer",))}
    sources = DerivationSources(read[ROWS_TABLE], events, backend)
    return derive(derived_ops([OPS.get(name).model_validate(settings)]), sources)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres"])
def test_each_op_is_the_same_in_a_database(dialect: str, tables: dict[str, pa.Table], uri: str) -> None:
    for name, settings in CASES:
        table, derivation = derived(name, settings, tables)
        joined = JoinedTable.model_validate({"path": "x", "on": "customer", "cardinality": "one_to_many"})
        events = ServedEvents({"orders": joined})
        own = HistoryTables(derivation, events, {"orders": exp.to_table("orders")}, keys=[ROW_COLUMN])
        written = SqlDialect(dialect)
        assert list(refused_ops(own, written)) == []
        before, source = write_history(written, exp.to_table(ROWS_TABLE), own, [ROW_COLUMN])
        query = SqlQuery(written)
        columns = {each: table.schema[each] for each in derivation.made}
        values = {
            f"x{i}": query.define(code_value(query, SqlInput.of(each)) if each.n_codes else number_value(query, each))
            for i, each in enumerate(columns.values())
        }
        text = query.select(source, [ROW_COLUMN], values, before).sql(dialect)
        main_rows = dict(zip(tables[ROWS_TABLE].column_names, tables[ROWS_TABLE].columns, strict=True))
        given = uri if dialect == "postgres" else None
        with open_engine(dialect, main_rows, given, "test", {"orders": tables["orders"]}) as engine:
            found = engine.run(text)
        for label, value in zip(columns, values, strict=True):
            np.testing.assert_allclose(
                found[value].astype(np.float64), table.column(label).astype(np.float64), rtol=1e-6, atol=1e-5,
                err_msg=f"{name} {settings} {label}",
            )  # fmt: skip


ORDERS_OF = {"path": "orders.csv", "on": "customer", "cardinality": "one_to_many", "time": "at"}
FEATURES: list[dict[str, Any]] = [
    {"aggregate": {"table": "orders", "as_of": "day", "columns": {"spend": ["sum", "std"], "kind": "last"}}},
    {"time_since": {"table": "orders", "as_of": "day"}},
    {"lag": {"key": "customer", "time": "day", "columns": "visits", "gap": "1d"}},
    {"encode": ["orders_kind_last"]},
    {"drop": "day"},
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on customers at several days, with the orders before each."""
    folder = tmp_path_factory.mktemp("shop")
    orders = rows(900, 3).to_pandas()
    orders["at"] += pd.to_timedelta(np.arange(len(orders)), unit="s")
    orders["sent_back"] = orders["sent_back"].map({True: "yes", False: "no"})
    orders.to_csv(folder / "orders.csv", index=False)
    rng = np.random.default_rng(4)
    customers = pd.DataFrame({"customer": rng.integers(1, 8, 400), "visits": rng.poisson(3, 400)})
    customers["day"] = pd.Timestamp("2024-01-05") + pd.to_timedelta(rng.permutation(400) * 90, unit="min")
    customers["back"] = np.where(rng.random(400) < customers["visits"] / 6, "p", "q")
    customers.to_csv(folder / "customers.csv", index=False)
    tables = {"orders": ORDERS_OF | {"path": str(folder / "orders.csv")}}
    settings: dict[str, Any] = {
        "features": FEATURES,
        "models": [{"xgboost": {"n_estimators": 20}}],
        "report": {"enabled": False},
    }
    pipeline = gp.Pipeline(str(folder / "customers.csv"), target="back", tables=tables, **settings)
    pipeline.run(folder / "run", quiet=True)
    return folder


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_a_query_of_history_predicts_what_the_model_predicts(shop: Path, dialect: str) -> None:
    model = gp.load_model(shop / "run", "cpu")
    new = pd.read_csv(shop / "customers.csv", parse_dates=["day"]).iloc[:200]
    orders = pd.read_csv(shop / "orders.csv", parse_dates=["at"])
    wanted = model.predict_proba(new, tables={"orders": orders})[:, 1]
    found = model.to_sql(dialect, "new_rows", tables={"orders": "shop_orders"}, keys=["row"])
    assert found.comparison is not None and found.events == ('shop_orders: "customer", "at", "spend", "kind"',)
    new["row"] = range(len(new))
    if dialect == "duckdb":
        with duckdb.connect() as connection:
            connection.register("new_rows", new)
            connection.register("shop_orders", orders)
            here = connection.execute(found.text).df()
    else:
        with sqlite3.connect(":memory:") as connection:
            new.astype({"day": str}).to_sql("new_rows", connection, index=False)
            orders.assign(at=orders["at"].astype(str).replace("NaT", None)).to_sql(
                "shop_orders", connection, index=False
            )
            here = pd.read_sql(found.text, connection)
    here = here.sort_values("row", ignore_index=True)
    np.testing.assert_allclose(here["probability_q"], wanted, rtol=0, atol=1e-6)
    assert len(np.unique(wanted)) > 50


def test_the_command_takes_event_tables_and_refuses_others(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["export", str(shop / "run"), "--format", "sql", "--dialect", "duckdb", "-o", str(tmp_path / "q.sql")]
    assert main([*call, "--table", "customers", "--table", "orders=shop.orders"]) == 0
    said = capsys.readouterr().err
    assert 'events       shop.orders: "customer", "at", "spend", "kind"' in said and "inputs       visits" in said
    assert "-- 5 columns of history: those of the model in 150 generated rows" in (tmp_path / "q.sql").read_text()
    for more, what in (
        (["--table", "orders=a b; DROP"], "expected the name of a table"),
        (["--table", "sales=shop.orders"], "unknown further table 'sales'"),
        (["--table", "a", "--table", "b"], "two tables of rows"),
        (["--as-of", "soon"], "as_of"),
    ):
        assert main([*call, "--force", *more]) == 2
        assert what in capsys.readouterr().err


def test_an_engine_with_another_history_prevents_the_query(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpupipe.inference.sql.history import seen_events

    monkeypatch.setattr(seen_events.SqlHistory, "since", lambda self, which, unit, condition=None: seen_events.Figure(
        exp.Min(this=self.age())
    ))  # fmt: skip
    with pytest.raises(gp.ArtifactError, match="orders_time_since_last of generated events; the model computes"):
        gp.load_model(shop / "run", "cpu").to_sql("duckdb")


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"lag": {"key": "customer", "time": "day", "columns": "visits", "periods": -1}}, {}, "period -1 reads later rows"),
    ({"aggregate": {"table": "orders", "columns": {"kind": "last"}}}, {"time": None}, "events without a time have no"),
    ({"aggregate": {"table": "orders", "as_of": "day", "columns": {"spend": "sum"}}},
     {"group_by": {"keys": ["customer", "kind"], "columns": {"at": "min", "spend": "first"}}}, "group_by of table"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "table", "said"), REFUSED, ids=lambda part: part if isinstance(part, str) else "")
def test_what_has_no_order_in_a_database_is_refused(
    shop: Path, tmp_path: Path, op: dict[str, Any], table: dict[str, Any], said: str
) -> None:
    orders = ORDERS_OF | {"path": str(shop / "orders.csv")} | table
    pipeline = gp.Pipeline(
        str(shop / "customers.csv"), target="back", tables={"orders": orders}, features=[op, {"drop": "day"}],
        models=["logistic_regression"], report={"enabled": False},
    )  # fmt: skip
    model = gp.load_model(pipeline.run(tmp_path / "run", quiet=True).path, "cpu")
    with pytest.raises(gp.ConfigError, match=said):
        model.to_sql("duckdb")


DATA = os.environ.get("GPUPIPE_DATA")


@pytest.mark.skipif(DATA is None, reason="GPUPIPE_DATA is not set")
def test_customers_of_invoice_lines_are_scored_in_the_database(tmp_path: Path) -> None:
    """Filters, formulas, groups and the rows themselves are computed from the table of lines."""
    config = Path(gp.__file__).parents[1] / "configs/online_retail.yaml"
    run = gp.run(config, overrides=["models=[hist_gradient_boosting]", "split={test_size: 0.2}", f"output={tmp_path}"])
    model = gp.load_model(run.path, "cpu")
    file = f"{DATA}/online-retail/online_retail.csv.gz"
    wanted = model.predict_entities(tables={"orders": file, "lines": file}, as_of="2011-11-20").to_pandas()
    query = model.to_sql("duckdb", tables={"orders": "retail", "lines": "retail"}, as_of="2011-11-20")
    assert query.columns[0] == "CustomerID" and query.comparison is not None
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE retail AS SELECT * FROM read_csv('{file}', types={{'InvoiceNo': 'VARCHAR'}})")
        found = connection.execute(query.text).df().sort_values("CustomerID", ignore_index=True)
    assert found["CustomerID"].astype(int).tolist() == wanted["CustomerID"].astype(int).tolist()
    apart = (found["probability_true"] - wanted["probability_true"]).abs()
    assert (apart > 1e-6).mean() < 0.005  # the last digit of a logarithm moves a customer over a split
