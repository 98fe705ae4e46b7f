"""Results of SQL queries: PostgreSQL and SQLite through ADBC, DuckDB through its Arrow reader.

Queries are sent as they are, because a query inside another one need not keep its order. But first, the parser of the
database must accept the query in parentheses, as a table of another one. Texts with two statements, statements that are
not a SELECT, and WITH clauses that write do not pass. Transactions and database files are opened read-only. Ctrl-C and
a limit of time end the wait for a server, and notices of libpq are not printed.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.external.open_table import OpenTable, convert_errors, guard_batches, load_library
from gpupipe.io.files import reason_of
from gpupipe.io.origin_settings import DATABASE_FILE, SECRET, SqlOptions
from gpupipe.io.settings import TableSource
from gpupipe.io.table_copy import PREFIX

POLL_SECONDS = 0.2


def wait_for(call: Callable[[], Any], seconds: float = math.inf) -> Any:
    """Return the result of a call in a thread, which Ctrl-C does not end; raise TimeoutError after `seconds`."""
    done: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            done.put((call(), None))
        except BaseException as error:
            done.put((None, error))

    Thread(target=run, daemon=True).start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(Empty):  # many waits: since the driver was imported, signals do not end one
            result, error = done.get(timeout=max(0.0, min(POLL_SECONDS, end - time.monotonic())))
            if error is not None:
                raise error
            return result
    raise TimeoutError(f"the server did not answer within {seconds:g} s")


@contextmanager
def without_notices() -> Iterator[None]:
    """Drop what C libraries print: libpq prints notices of the server as they are."""
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    library = ctypes.CDLL(None)
    library.fopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p.in_dll(library, "stderr")
    printed, stream.value = stream.value, library.fopen(os.devnull.encode(), b"w")
    try:
        yield
    finally:
        if not isinstance(sys.exc_info()[1], TimeoutError | KeyboardInterrupt):  # then the call goes on in its thread
            stream.value = printed


BATCH_ROWS = 65_536
EXTRA = "sql"
BLANKS = "; \t\r\n"
TO_CONNECT = "check user, password, host and name of the database in uri"
TO_QUERY = "correct the query"
NO_SELECT = "sql takes one SELECT statement"
TO_SELECT = "write one statement that only reads and begins with SELECT, WITH, VALUES or TABLE, or in DuckDB with FROM"
# Functions of DuckDB that run a text, or functions by name, in a new connection, where WITH clauses may write.
RUNS_TEXT = r"query|json_execute_serialized_sql|\w*external_resource\w*"
STORED_TEXT = rf"""SELECT name FROM (
    SELECT view_name AS name, sql FROM duckdb_views() WHERE NOT internal UNION ALL
    SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal
) WHERE regexp_matches(lower(sql), '\b({RUNS_TEXT})"?\s*[(]')"""
PART_OF_A_QUERY = "SELECT * FROM (\n{}) AS query"
CONNECT_SECONDS = 60.0
NOT_LOADED = ("python_enable_replacements", "autoinstall_known_extensions", "autoload_known_extensions")
TO_READ = "check that the server is running and that the query ends without errors, then run the same command again"
Rows = tuple[pa.Schema, Iterator[pa.RecordBatch]]
Reader = Iterator[Rows]


@contextmanager
def open_query(source: TableSource) -> Iterator[OpenTable]:
    """Run the query of a source and yield its result; the connection is closed on exit.

    Raise ConfigError if the driver is not installed; DataError if the database cannot be reached, or refuses the query.
    """
    assert source.sql is not None
    assert source.uri is not None
    label, secrets = source.label, secrets_of(source.uri)
    # Drivers put the query into parentheses, where a semicolon is an error and a comment at its end must be closed.
    sql = f"{source.sql.rstrip(BLANKS)}\n"
    with DRIVERS[source.uri.partition("://")[0]](sql, source, label, secrets) as (schema, rows):
        batches = guard_batches(iter(rows), "the query failed while its rows were read", label, TO_READ, secrets)
        yield OpenTable(label, schema, batches)


@contextmanager
def _postgresql(sql: str, source: TableSource, label: str, secrets: tuple[str, ...]) -> Reader:
    dbapi = load_library("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql", EXTRA)
    with convert_errors("cannot connect to the database", label, TO_CONNECT, secrets), without_notices():
        connection = wait_for(lambda: dbapi.connect(source.uri), CONNECT_SECONDS)
    with closed_quietly(connection), closed_quietly(connection.cursor()) as cursor:
        statement = cursor.adbc_statement  # methods of the cursor take over Ctrl-C, and wait on

        def run(text: str, method: Callable[[], Any]) -> Any:
            statement.set_sql_query(text)
            return wait_for(method)

        with convert_errors("the query failed", label, TO_QUERY, secrets):
            run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", statement.execute_update)
        _require_parsed(lambda text: run(text, statement.execute_schema), sql, label, secrets)
        with convert_errors("the query failed", label, TO_QUERY, secrets):
            reader = pa.RecordBatchReader.from_stream(run(sql, statement.execute_query)[0])
        yield reader.schema, iter(lambda: wait_for(lambda: next(reader, None)), None)


@contextmanager
def _sqlite(sql: str, source: TableSource, label: str, secrets: tuple[str, ...]) -> Reader:
    dbapi = load_library("adbc_driver_sqlite.dbapi", "adbc-driver-sqlite", EXTRA)
    path = _existing_file(source)
    with convert_errors("cannot open the database", label, "check the file", secrets):
        connection = dbapi.connect(f"file:{quote(str(path))}?mode=ro")
    with closed_quietly(connection), closed_quietly(connection.cursor()) as cursor:
        # SQLite has no column types: the driver infers them from the first batch.
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": BATCH_ROWS})
        _require_parsed(cursor.adbc_prepare, sql, label, secrets)
        with convert_errors("the query failed", label, TO_QUERY, secrets):
            cursor.execute(sql)
            reader = cursor.fetch_record_batch()
        yield reader.schema, reader


@contextmanager
def _duckdb(sql: str, source: TableSource, label: str, secrets: tuple[str, ...]) -> Reader:
    duckdb = load_library("duckdb", "duckdb", EXTRA)
    options, path = source.sql_options or SqlOptions(), None if source.uri == "duckdb://" else _existing_file(source)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as spilled:  # by default, it is next to the database
        own = {"allow_persistent_secrets": options.external_access, "temp_directory": spilled}
        with duckdb.connect(config=dict.fromkeys(NOT_LOADED, False) | own) as connection:
            with convert_errors("cannot open the database", label, "check the file, and that no process writes to it"):
                if path is not None:
                    attach_file(connection, path, "READ_ONLY")
                    _require_no_stored_text(connection)
            for name in options.extensions:
                fix = f"install it with DuckDB {duckdb.__version__}: INSTALL {name}"
                with convert_errors(f"the extension {name} cannot be loaded", label, fix):
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
            yield reader.schema, reader


def attach_file(connection: Any, path: Path, access: Literal["READ_ONLY", "READ_WRITE"]) -> None:
    """Open a database file in a separate instance of DuckDB: `duckdb.connect` may share that of the caller."""
    name = "AS memory_db " if path.name.partition(".")[0].lower() == "memory" else ""
    connection.execute("ATTACH '{}' {}({}, TYPE duckdb)".format(str(path).replace("'", "''"), name, access))
    found = connection.execute("SELECT database_name FROM duckdb_databases() WHERE NOT internal AND path IS NOT NULL")
    connection.execute('USE "{}"'.format(found.fetchone()[0].replace('"', '""')))


def _require_no_stored_text(connection: Any) -> None:
    if found := connection.execute(STORED_TEXT).fetchone():
        raise ValueError(f"the view or macro {found[0]} runs a text as a query, which cannot be checked")


def _confine(connection: Any, options: SqlOptions) -> list[str]:
    """Limit the files that a connection may open, for good; return the folders."""
    folders = [os.path.abspath(os.path.expanduser(folder)) for folder in options.directories]
    folders += [here] if (here := os.getcwd()) != os.path.sep else []
    connection.execute("SET allowed_directories = ?", [folders])
    connection.execute("SET allow_community_extensions = false")
    if not options.external_access:
        connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return folders


def _require_select(connection: Any, sql: str, label: str) -> None:
    """Raise an error unless DuckDB parses the text as one statement that only reads."""
    types = [statement.type.name for statement in connection.extract_statements(sql)]
    if types != ["SELECT"]:
        found = ", ".join(types).replace("MULTI", "PIVOT without IN (VALUES)") or "none"
        raise DataError(f"{NO_SELECT}; found {found}", where=label, fix=TO_SELECT)
    (parsed,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
    if call := re.search(rf'"function_name":"({RUNS_TEXT})"|^{{"error":true', parsed, re.IGNORECASE):
        raise DataError(f"{NO_SELECT}; found {call[1] or parsed}", where=label, fix=f"{TO_SELECT}; omit this function")
    connection.execute(f"EXPLAIN {PART_OF_A_QUERY.format(sql)}")


DRIVERS: dict[str, Callable[[str, TableSource, str, tuple[str, ...]], AbstractContextManager[Rows]]] = {
    "postgresql": _postgresql,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
}


def _require_parsed(parse: Callable[[str], Any], sql: str, label: str, secrets: tuple[str, ...]) -> None:
    """Raise DataError unless the driver parses the text, without running it, and then as a part of another query."""
    with convert_errors("the query failed", label, TO_QUERY, secrets):
        parse(sql)
    with convert_errors(NO_SELECT, label, TO_SELECT, secrets):
        parse(PART_OF_A_QUERY.format(sql))


@contextmanager
def closed_quietly(opened: Any) -> Iterator[Any]:
    """Close a connection or cursor on exit; one that was lost cannot be closed and must not hide its error."""
    try:
        yield opened
    finally:
        with suppress(Exception):  # drivers have no common base class
            if isinstance(sys.exc_info()[1], KeyboardInterrupt):  # a thread may still use it: it cannot be closed
                wait_for(opened.adbc_cancel, 2.0)
            else:
                opened.close()


def _existing_file(source: TableSource) -> Path:
    """Return the file of a database: drivers would create a missing one."""
    file = DATABASE_FILE.fullmatch(source.uri or "")
    assert file is not None
    path = Path(file[1]).expanduser().absolute()
    if not path.is_file():
        raise DataError("no such database file", where=str(path), fix="check uri: sqlite:////FILE is an absolute path")
    return path


def secrets_of(uri: str) -> tuple[str, ...]:
    """Return the forms of the password in a URI, which libraries may quote in messages."""
    try:
        parts = urlsplit(uri)
        found = [parts.password or "", *(value for key, value in parse_qsl(parts.query) if SECRET.search(key))]
    except ValueError:
        found = []
    forms = chain.from_iterable((each, unquote(each), quote(each)) for each in found if each)
    return tuple(dict.fromkeys([uri, *forms]))
