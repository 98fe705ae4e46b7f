"""Results of SQL queries: PostgreSQL and SQLite through ADBC, DuckDB through its Arrow reader.

Queries are sent as they are, because a query inside another one need not keep its order. Transactions and databases are
opened read-only where the database has that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.external.open_table import OpenTable, convert_errors, guard_batches, load_library
from gpupipe.io.origin_settings import DATABASE_FILE
from gpupipe.io.settings import TableSource

BATCH_ROWS = 65_536
EXTRA = "sql"
BLANKS = "; \t\r\n"
TO_CONNECT = "check user, password, host and name of the database in uri"
TO_QUERY = "correct the query"
TO_READ = "check that the server is running and that the query ends without errors, then run the same command again"
Reader = Iterator[pa.RecordBatchReader]


@contextmanager
def open_query(source: TableSource) -> Iterator[OpenTable]:
    """Run the query of a source and yield its result; the connection is closed on exit.

    Raise ConfigError if the driver is not installed; DataError if the database cannot be reached, or refuses the query.
    """
    assert source.sql is not None
    assert source.uri is not None
    label, secrets = source.label, _secrets(source.uri)
    # Drivers put the query into parentheses, where a semicolon is an error and a comment at its end must be closed.
    sql = f"{source.sql.rstrip(BLANKS)}\n"
    with DRIVERS[source.uri.partition("://")[0]](sql, source.uri, label, secrets) as reader:
        batches = guard_batches(iter(reader), "the query failed while its rows were read", label, TO_READ, secrets)
        yield OpenTable(label, reader.schema, batches)


@contextmanager
def _postgresql(sql: str, uri: str, label: str, secrets: tuple[str, ...]) -> Reader:
    dbapi = load_library("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql", EXTRA)
    with convert_errors("cannot connect to the database", label, TO_CONNECT, secrets):
        connection = dbapi.connect(uri)
    with _closed_quietly(connection), connection.cursor() as cursor:
        with convert_errors("the query failed", label, TO_QUERY, secrets):
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute(sql)
            reader = cursor.fetch_record_batch()
        yield reader


@contextmanager
def _sqlite(sql: str, uri: str, label: str, secrets: tuple[str, ...]) -> Reader:
    dbapi = load_library("adbc_driver_sqlite.dbapi", "adbc-driver-sqlite", EXTRA)
    path = _existing_file(uri, label)
    with convert_errors("cannot open the database", label, "check the file", secrets):
        connection = dbapi.connect(f"file:{quote(str(path))}?mode=ro")
    with _closed_quietly(connection), connection.cursor() as cursor:
        # SQLite has no column types: the driver infers them from the first batch.
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": BATCH_ROWS})
        with convert_errors("the query failed", label, TO_QUERY, secrets):
            cursor.execute(sql)
            reader = cursor.fetch_record_batch()
        yield reader


@contextmanager
def _duckdb(sql: str, uri: str, label: str, secrets: tuple[str, ...]) -> Reader:
    duckdb = load_library("duckdb", "duckdb", EXTRA)
    is_file = DATABASE_FILE.fullmatch(uri) is not None
    with convert_errors("cannot open the database", label, "check the file, and that no other process writes to it"):
        path = _existing_file(uri, label) if is_file else ":memory:"
        connection = duckdb.connect(str(path), read_only=is_file)
    with connection:
        with convert_errors("the query failed", label, TO_QUERY, secrets):
            relation = connection.sql(sql)
            if relation is None:
                raise DataError("the query has no result", where=label, fix="end it with a SELECT")
            reader = relation.to_arrow_reader(BATCH_ROWS)
        yield reader


DRIVERS: dict[str, Callable[[str, str, str, tuple[str, ...]], AbstractContextManager[pa.RecordBatchReader]]] = {
    "postgresql": _postgresql, "sqlite": _sqlite, "duckdb": _duckdb,
}  # fmt: skip


@contextmanager
def _closed_quietly(connection: Any) -> Iterator[None]:
    """Close a connection on exit; a connection that was lost cannot be closed and must not hide its error."""
    try:
        yield
    finally:
        with suppress(Exception):  # drivers have no common base class
            connection.close()


def _existing_file(uri: str, label: str) -> Path:
    """Return the file of a database: drivers would create a missing one."""
    file = DATABASE_FILE.fullmatch(uri)
    assert file is not None
    path = Path(file[1]).expanduser().absolute()
    if not path.is_file():
        raise DataError("no such database file", where=str(path), fix="check uri: sqlite:////FILE is an absolute path")
    return path


def _secrets(uri: str) -> tuple[str, ...]:
    """Return the forms of the password in a URI, which libraries may quote in messages."""
    try:
        password = urlsplit(uri).password
    except ValueError:
        password = None
    return tuple(dict.fromkeys([uri, *([password, unquote(password)] if password else [])]))
