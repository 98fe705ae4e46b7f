"""Results of SQL queries: PostgreSQL and SQLite through ADBC, DuckDB through its Arrow reader.

Queries are sent as they are, because a query inside another one need not keep its order. But first, the parser of the
database must accept the query in parentheses, as a table of another one. Texts with two statements, statements that are
not a SELECT, and WITH clauses that write do not pass. Transactions and database files are opened read-only.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.external.open_table import OpenTable, convert_errors, guard_batches, load_library
from gpupipe.io.files import reason_of
from gpupipe.io.origin_settings import DATABASE_FILE, SqlOptions
from gpupipe.io.settings import TableSource
from gpupipe.io.table_copy import PREFIX

BATCH_ROWS = 65_536
EXTRA = "sql"
BLANKS = "; \t\r\n"
TO_CONNECT = "check user, password, host and name of the database in uri"
TO_QUERY = "correct the query"
NO_SELECT = "sql takes one SELECT statement"
TO_SELECT = "write one statement that only reads and begins with SELECT, WITH, VALUES or TABLE, or in DuckDB with FROM"
DUCKDB = dict.fromkeys(
    ("python_enable_replacements", "autoinstall_known_extensions", "autoload_known_extensions"), False
)
CALL = re.compile(r'"function_name":"((?:[^"\\]|\\.)*)"')  # in the JSON form of a query
# Functions that run a text: the first may choose it after the checks, the second takes WITH clauses that write.
RUNS_TEXT = ("query", "json_execute_serialized_sql")
STORED_TEXT = f"""SELECT name FROM (
    SELECT view_name AS name, sql FROM duckdb_views() WHERE NOT internal UNION ALL
    SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal
) WHERE regexp_matches(lower(sql), '\\b({"|".join(RUNS_TEXT)})"?\\s*[(]')"""
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
    with DRIVERS[source.uri.partition("://")[0]](sql, source, label, secrets) as reader:
        batches = guard_batches(iter(reader), "the query failed while its rows were read", label, TO_READ, secrets)
        yield OpenTable(label, reader.schema, batches)


@contextmanager
def _postgresql(sql: str, source: TableSource, label: str, secrets: tuple[str, ...]) -> Reader:
    dbapi = load_library("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql", EXTRA)
    with convert_errors("cannot connect to the database", label, TO_CONNECT, secrets):
        connection = dbapi.connect(source.uri)
    with _closed_quietly(connection), connection.cursor() as cursor:
        with convert_errors("the query failed", label, TO_QUERY, secrets):
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.adbc_execute_schema(sql)  # parses it; neither this nor the next statement runs the query
        with convert_errors(NO_SELECT, label, TO_SELECT, secrets):
            cursor.adbc_execute_schema(_in_parentheses(sql))
        with convert_errors("the query failed", label, TO_QUERY, secrets):
            cursor.execute(sql)
            reader = cursor.fetch_record_batch()
        yield reader


@contextmanager
def _sqlite(sql: str, source: TableSource, label: str, secrets: tuple[str, ...]) -> Reader:
    dbapi = load_library("adbc_driver_sqlite.dbapi", "adbc-driver-sqlite", EXTRA)
    path = _existing_file(source)
    with convert_errors("cannot open the database", label, "check the file", secrets):
        connection = dbapi.connect(f"file:{quote(str(path))}?mode=ro")
    with _closed_quietly(connection), connection.cursor() as cursor:
        # SQLite has no column types: the driver infers them from the first batch.
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": BATCH_ROWS})
        with convert_errors("the query failed", label, TO_QUERY, secrets):
            cursor.adbc_prepare(sql)
        with convert_errors(NO_SELECT, label, TO_SELECT, secrets):
            cursor.adbc_prepare(_in_parentheses(sql))  # the driver would drop a second statement silently
        with convert_errors("the query failed", label, TO_QUERY, secrets):
            cursor.execute(sql)
            reader = cursor.fetch_record_batch()
        yield reader


@contextmanager
def _duckdb(sql: str, source: TableSource, label: str, secrets: tuple[str, ...]) -> Reader:
    duckdb = load_library("duckdb", "duckdb", EXTRA)
    options = source.sql_options or SqlOptions()
    path = None if source.uri == "duckdb://" else _existing_file(source)
    to_open = "check the file, and that no process writes to it"
    to_load = f"install it with DuckDB {duckdb.__version__}"
    with tempfile.TemporaryDirectory(prefix=PREFIX) as spilled:  # by default, it is next to the database
        settings = {**DUCKDB, "allow_persistent_secrets": options.external_access, "temp_directory": spilled}
        with duckdb.connect(config=settings) as connection:
            with convert_errors("cannot open the database", label, to_open):
                if path is not None:
                    _attach(connection, path)
            for name in options.extensions:
                with convert_errors(f"the extension {name} cannot be loaded", label, f"{to_load}: INSTALL {name}"):
                    connection.load_extension(name)
            folders = _confine(connection, options)
            with convert_errors("the query failed", label, f"{TO_QUERY}; it may only read"):
                try:
                    _require_select(connection, sql, label)
                    reader = connection.sql(sql).to_arrow_reader(BATCH_ROWS)
                except duckdb.PermissionException as error:
                    what = f"the query may read files in {', '.join(folders) or 'no folder'} only: {reason_of(error)}"
                    fix = "list the folder in sql_options.directories, or set sql_options.external_access"
                    raise DataError(what, where=label, fix=fix) from None
            yield reader


def _attach(connection: Any, path: Path) -> None:
    """Open a database file read-only in a separate instance: `duckdb.connect` may share that of the caller."""
    name = "AS memory_db " if path.name.partition(".")[0].lower() == "memory" else ""
    connection.execute("ATTACH '{}' {}(READ_ONLY, TYPE duckdb)".format(str(path).replace("'", "''"), name))
    found = connection.execute("SELECT database_name FROM duckdb_databases() WHERE NOT internal AND path IS NOT NULL")
    connection.execute('USE "{}"'.format(found.fetchone()[0].replace('"', '""')))
    if found := connection.execute(STORED_TEXT).fetchone():
        raise ValueError(f"the view or macro {found[0]} runs a text as a query ({' or '.join(RUNS_TEXT)})")


def _confine(connection: Any, options: SqlOptions) -> list[str]:
    """Limit the files that a connection may open, for good; return the folders."""
    here = os.getcwd()
    folders = [os.path.abspath(os.path.expanduser(folder)) for folder in options.directories]
    folders += [here] if here != os.path.sep else []
    connection.execute("SET allowed_directories = ?", [folders])
    connection.execute("SET allow_community_extensions = false")
    if not options.external_access:
        connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return folders


def _require_select(connection: Any, sql: str, label: str) -> None:
    """Raise DataError unless DuckDB parses the text as one statement that only reads."""
    types = [statement.type.name for statement in connection.extract_statements(sql)]
    if types != ["SELECT"]:
        found = f"{len(types)} statements: " * (len(types) > 1) + (", ".join(types) or "none").replace(
            "MULTI", "PIVOT without IN"
        )
        fix = "list the values, as in PIVOT t ON a IN ('x', 'y')" if types == ["MULTI"] else TO_SELECT
        raise DataError(f"{NO_SELECT}; found {found}", where=label, fix=fix)
    (parsed,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
    if calls := {*map(str.lower, CALL.findall(parsed))} & {*RUNS_TEXT}:
        what = f"{NO_SELECT}; found {min(calls)}(), which runs a text as another one"
        raise DataError(what, where=label, fix="write that text itself, in parentheses")
    if parsed.startswith('{"error":true'):
        raise ValueError(f"DuckDB cannot write the query as JSON, so it cannot be checked: {parsed}")
    connection.execute(f"EXPLAIN {_in_parentheses(sql)}")


DRIVERS: dict[str, Callable[[str, TableSource, str, tuple[str, ...]], AbstractContextManager[pa.RecordBatchReader]]] = {
    "postgresql": _postgresql, "sqlite": _sqlite, "duckdb": _duckdb,
}  # fmt: skip


def _in_parentheses(sql: str) -> str:
    return f"SELECT * FROM (\n{sql}) AS query"


@contextmanager
def _closed_quietly(connection: Any) -> Iterator[None]:
    """Close a connection on exit; a connection that was lost cannot be closed and must not hide its error."""
    try:
        yield
    finally:
        with suppress(Exception):  # drivers have no common base class
            connection.close()


def _existing_file(source: TableSource) -> Path:
    """Return the file of a database: drivers would create a missing one."""
    file = DATABASE_FILE.fullmatch(source.uri or "")
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
