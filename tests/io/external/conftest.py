"""Fixtures: a PostgreSQL server, and the same table in every kind of external table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.datasets.churn import customers
from tests.postgresql import PostgresqlServer

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def churn() -> pa.Table:
    """Return customers in one chunk: the writer of deltalake may reorder chunks."""
    table = customers(1500, 7)
    plain = [column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column for column in table]
    return pa.table(plain, names=table.column_names).combine_chunks()


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    """Return the properties of a new Iceberg catalog in SQLite."""
    return {
        "name": "tests", "type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/ice",
    }  # fmt: skip


@pytest.fixture
def catalog(properties: dict[str, str]) -> Catalog:
    from pyiceberg.catalog import load_catalog

    found = load_catalog(**properties)
    found.create_namespace("shop")
    return found


@pytest.fixture
def external_churn(
    churn: pa.Table, tmp_path: Path, postgresql: PostgresqlServer, catalog: Catalog, properties: dict[str, str]
) -> dict[str, dict[str, object]]:
    """Return the settings of the origins of one table, by kind; `parquet` is the reference."""
    from deltalake import write_deltalake

    pq.write_table(churn, tmp_path / "churn.parquet")
    with duckdb.connect(str(tmp_path / "churn.duckdb")) as connection:
        connection.execute(f"CREATE TABLE churn AS FROM '{tmp_path}/churn.parquet'")
    with postgresql.connect() as connection, connection.cursor() as cursor:
        numbered = churn.append_column("position", pa.array(range(len(churn))))
        cursor.adbc_ingest("churn", numbered, mode="replace")
    write_deltalake(tmp_path / "churn", churn)
    catalog.create_table("shop.churn", schema=churn.schema).append(churn)
    names = ", ".join(f'"{name}"' for name in churn.column_names)
    query = f"SELECT {names} FROM churn"
    return {
        "parquet": {"path": str(tmp_path / "churn.parquet")},
        "postgresql": {"sql": f"{query} ORDER BY position", "uri": postgresql.uri()},
        "duckdb": {"sql": query, "uri": f"duckdb:///{tmp_path}/churn.duckdb"},
        "delta": {"delta": str(tmp_path / "churn")},
        "iceberg": {"iceberg": "shop.churn", "catalog": properties},
    }
