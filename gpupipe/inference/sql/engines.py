"""Runs of a query on the recorded rows of a model: DuckDB and SQLite in this process, PostgreSQL on a server."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.inference.sql.dialect import TITLES
from gpupipe.io.external import sql as databases
from gpupipe.io.external.open_table import convert_errors, load_library
from gpupipe.io.files import reason_of

ROWS_TABLE = "gpupipe_rows"
ROW_COLUMN = "gpupipe_row"  # orders the rows
NEEDED = {"duckdb": ("duckdb",), "postgres": ("adbc_driver_postgresql", "adbc_driver_manager")}
SQLITE_TYPES = {pa.string(): "TEXT", pa.bool_(): "INTEGER", pa.int64(): "INTEGER", pa.float64(): "REAL"}
FIX = "export to another dialect, or serve the model with gpupipe serve; no file was written"


def require_libraries(dialect: str, executes: bool, where: str) -> None:
    """Raise ConfigError if sqlglot is not installed, or the library that executes a dialect."""
    needed = ("sqlglot", *(NEEDED.get(dialect, ()) if executes else ()))
    if missing := [name for name in needed if find_spec(name) is None]:
        what = f"SQL of {dialect} needs {' and '.join(missing)}, which {'are' if len(missing) > 1 else 'is'}"
        raise ConfigError(f"{what} not installed", where=where, fix="pip install 'gpupipe[sql]'")


@contextmanager
def open_engine(
    dialect: str,
    rows: Mapping[str, pa.ChunkedArray],
    uri: str | None,
    where: str,
    further: Mapping[str, pa.Table] | None = None,
) -> Iterator[Engine]:
    """Yield an engine with a table of `rows`, `ROWS_TABLE`, and `further` ones by name, which exist until the end.

    `uri` is that of PostgreSQL. Raise ConfigError if the engine refuses a query, DataError if no server answers.
    """
    with ENGINES[dialect]({ROWS_TABLE: pa.table(dict(rows)), **(further or {})}, uri) as engine:
        yield Engine(dialect, engine, where)


class Engine:
    """An open engine."""

    def __init__(self, dialect: str, connection: Any, where: str) -> None:
        self.dialect = dialect
        self._connection = connection
        self._where = where

    def __repr__(self) -> str:
        return f"Engine({self.dialect!r})"

    def run(self, text: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the columns of a query in the order of the rows, by name; texts and flags are objects."""
        try:
            found = self._connection(text)
        except (GpupipeError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            reason = reason_of(error)
            what = f"{TITLES[self.dialect]} refuses the query of {len(text):,} characters: {reason[:300]}"
            raise ConfigError(what, where=self._where, fix=FIX) from None
        order = np.argsort(np.asarray(found.pop(ROW_COLUMN), np.int64))
        return {name: _array(values)[order] for name, values in found.items()}


def _array(values: list[Any]) -> np.ndarray[Any, Any]:
    is_number = all(each is None or type(each) in (int, float) for each in values)
    return np.array(values, np.float64 if is_number else object)  # None is NaN


def _fetched(cursor: Any) -> dict[str, list[Any]]:
    names, found = [each[0] for each in cursor.description], cursor.fetchall()
    return {name: [row[i] for row in found] for i, name in enumerate(names)}


@contextmanager
def _duckdb(tables: Mapping[str, pa.Table], uri: str | None) -> Iterator[Any]:
    import duckdb

    with duckdb.connect(config=dict.fromkeys(databases.NOT_LOADED, False)) as connection:
        for name, rows in tables.items():
            connection.register("given", rows)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")

        yield lambda text: _fetched(connection.execute(text))


@contextmanager
def _sqlite(tables: Mapping[str, pa.Table], uri: str | None) -> Iterator[Any]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for name, rows in tables.items():
            _create_in_sqlite(connection, name, rows)

        yield lambda text: _fetched(connection.execute(text))


def _create_in_sqlite(connection: sqlite3.Connection, table: str, rows: pa.Table) -> None:
    kinds = [SQLITE_TYPES.get(kind, "TEXT") for kind in rows.schema.types]
    names = ['"{}"'.format(name.replace('"', '""')) for name in rows.column_names]
    declared = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    connection.execute(f"CREATE TABLE {table} ({declared})")
    places = ", ".join("?" * len(names))
    plain = [values.cast(pa.string()) if pa.types.is_timestamp(values.type) else values for values in rows.columns]
    each = zip(*(values.to_pylist() for values in plain), strict=True)
    connection.executemany(f"INSERT INTO {table} VALUES ({places})", each)


@contextmanager
def _postgres(tables: Mapping[str, pa.Table], uri: str | None) -> Iterator[Any]:
    assert uri is not None
    dbapi = load_library("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql", databases.EXTRA)
    label, secrets = "the database of --uri", databases.secrets_of(uri)
    failed = convert_errors("cannot connect to the database", label, databases.TO_CONNECT, secrets)
    with failed, databases.without_notices():
        connection = databases.wait_for(lambda: dbapi.connect(uri), databases.CONNECT_SECONDS)
    with databases.closed_quietly(connection), databases.closed_quietly(connection.cursor()) as cursor:
        with convert_errors("cannot write a temporary table", label, databases.TO_CONNECT, secrets):
            for name, rows in tables.items():
                cursor.adbc_ingest(name, rows, mode="create", temporary=True)

        def run(text: str) -> dict[str, list[Any]]:
            cursor.execute(text)
            return _fetched(cursor)

        yield run


ENGINES = {"duckdb": _duckdb, "sqlite": _sqlite, "postgres": _postgres}
