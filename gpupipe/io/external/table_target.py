"""Tables that rows are merged into by their key: PostgreSQL, SQLite, DuckDB and Delta Lake.

A merge is one transaction, or one commit of a Delta table. It updates rows whose key the table has and whose other
values differ, and inserts rows with a new key. It deletes none, since other tables may refer to them, and a repeated
merge changes nothing. The rows come from a Parquet file, in batches.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpupipe.errors import ConfigError, DataError, SchemaError
from gpupipe.files.directory import AtomicDirectory
from gpupipe.files.file import replace_file
from gpupipe.files.policy import CAN_REPLACE
from gpupipe.io.external import sql as queries
from gpupipe.io.external.open_table import convert_errors, load_library, quoted
from gpupipe.io.external.parquet_copy import stored_column, stored_type
from gpupipe.io.files import mask, reason_of
from gpupipe.io.origin_settings import DATABASE_FILE, database_name, normalize_uri
from gpupipe.io.table_copy import PREFIX
from gpupipe.names import count_noun

BATCH_ROWS = 65_536
DUCKDB_MEMORY = "1GiB"  # of its buffers; larger joins use its temporary folder
STAGED = "gpupipe_staged"
FORMS = "write postgresql://USER@HOST/NAME#SCHEMA.TABLE, sqlite:///FILE#TABLE, duckdb:///FILE#TABLE or delta://PATH"
TO_WRITE = "nothing was written; check the name, the rights of the user, and that no other process locks the database"
ZONED = pa.timestamp("us", "UTC")
SQL_TYPES = {
    pa.int64(): "BIGINT", pa.float64(): "DOUBLE PRECISION", pa.string(): "TEXT", pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP", ZONED: "TIMESTAMPTZ", pa.binary(): "BYTEA",
}  # fmt: skip
# Types by a part of the declared one, after https://sqlite.org/datatype3.html; others are numeric.
SQLITE_TYPES = {
    "INT": pa.int64(), "CHAR|CLOB|TEXT": pa.string(), "BLOB|BYTEA|^$": pa.binary(), "BOOL": pa.bool_(),
    "TIMESTAMPTZ": ZONED, "TIME": pa.timestamp("us"), "DATE": pa.date32(), "": pa.float64(),
}  # fmt: skip
LIBRARIES = {
    "postgresql": ("adbc_driver_postgresql.dbapi", "adbc-driver-postgresql", queries.EXTRA),
    "sqlite": ("adbc_driver_sqlite.dbapi", "adbc-driver-sqlite", queries.EXTRA),
    "duckdb": ("duckdb", "duckdb", queries.EXTRA),
    "delta": ("deltalake", "deltalake", "delta"),
}


@dataclass(frozen=True)
class MergeCounts:
    """Numbers of rows of a merge."""

    inserted: int
    updated: int
    unchanged: int


@dataclass(frozen=True)
class _Session:
    """Open transaction of a database, which is rolled back unless it is committed."""

    execute: Callable[[str], int]  # returns the number of rows that a statement changes
    query: Callable[[str], pa.Table]
    stage: Callable[[Path], Any]  # makes the rows of a Parquet file the temporary table `STAGED`; called first
    commit: Callable[[], Any]


@dataclass(frozen=True)
class TableTarget:
    """A table to merge rows into; it need not exist.

    - `kind` ({"postgresql", "sqlite", "duckdb", "delta"})
    - `uri`: URI of the database, or path or URL of the Delta table
    - `names`: schema, if given, and table; of a Delta table, none
    - `path`: the local file or folder, if there is one
    """

    kind: str
    uri: str
    names: tuple[str, ...] = ()
    path: Path | None = None

    @classmethod
    def parse(cls, text: str) -> TableTarget:
        """Return the table of ``--to``; raise ConfigError, without the text, which may contain a password.

        >>> TableTarget.parse("postgresql://ada:secret@db.example.com/shop#public.scores").label
        'postgresql://db.example.com/shop#public.scores'
        """
        kind, _, place = text.partition("://")
        if kind == "delta" and place and "#" not in place:
            path = None if "://" in place else Path(place).expanduser().absolute()
            return cls("delta", str(path or place), path=path)
        uri, _, table = text.rpartition("#")
        names = tuple(table.split("."))
        try:
            if not uri or not all(names) or len(names) > 2 or uri == "duckdb://":
                raise ValueError("expected a database and, after #, the name of a table")
            uri = normalize_uri(uri)
        except ValueError as error:
            raise ConfigError(f"--to: {error}", fix=FORMS) from None
        file = DATABASE_FILE.fullmatch(uri)
        return cls(uri.partition(":")[0], uri, names, file and Path(file[1]).expanduser().absolute())

    @property
    def label(self) -> str:
        """The table without secrets, for messages."""
        return f"{database_name(self.uri)}#{'.'.join(self.names)}" if self.names else f"delta://{mask(self.uri)}"

    def schema(self) -> pa.Schema | None:
        """Return the columns of the table, or None if it does not exist; called before any work.

        Raise ConfigError if a library is not installed, or the file or folder cannot be made; DataError if the table
        cannot be opened.
        """
        library = self._library()
        if self.path is not None and not self.path.parent.is_dir():
            raise ConfigError(f"no such folder: {self.path.parent}", where=self.label, fix="create it")
        if self.kind != "delta":
            if self.path is not None and not self.path.exists():
                return None
            with self._session(self.path) as session, self._errors("the table cannot be read"):
                return self._columns(session)
        with self._errors("the table cannot be opened"):
            if library.DeltaTable.is_deltatable(self.uri):
                return pa.schema(library.DeltaTable(self.uri).schema())
        if self.path is not None:
            AtomicDirectory(self.path).require_place()
        return None

    def agree(self, rows: pa.Schema, existing: pa.Schema | None, copied: Collection[str]) -> pa.Schema:
        """Return the columns to write; texts in the columns `copied` from the input get the types of the table.

        Raise SchemaError if a column cannot be written, or the table has other columns or types: all that differ.
        """
        types = {field.name: self._written_type(field) for field in rows}
        if unusable := [field for field in rows if types[field.name] is None]:
            what = f"column {unusable[0].name!r} has the type {unusable[0].type}, which cannot be written to a table"
            raise SchemaError(what, where=self.label, fix="do not copy the column, or convert it to text or numbers")
        if existing is not None:
            known = {field.name: self._written_type(field) or field.type for field in existing}
            for name in known.keys() & set(copied):
                types[name] = known[name] if types.get(name) == pa.string() else types.get(name)
            differences = [
                f"{name}: {kind} here, {known.get(name, 'absent')} in the table"
                for name, kind in types.items()
                if known.get(name) != kind
            ]
            differences += [f"{name}: only in the table" for name in known if name not in types]
            if differences:
                what = "\n".join(["the table exists with other columns; nothing was written", *differences])
                fix = "name another table, or choose columns with --id, --keep, --model-version and --run-time"
                raise SchemaError(what, where=self.label, fix=fix)
        return pa.schema(list(types.items()))

    def convert(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return rows with the types of `agree`; raise SchemaError if a value does not have its type."""
        columns = []
        for field, column in zip(schema, rows.columns, strict=True):
            try:
                plain = stored_column(column.combine_chunks(), stored_type(pa.field("", column.type)) or column.type)
                columns.append(plain.cast(field.type))
                if pa.types.is_string(plain.type) and field.type == pa.int64():  # 007 is not 7
                    changed = plain.filter(pc.not_equal(plain, columns[-1].cast(pa.string())))
                    if len(changed):
                        raise pa.ArrowInvalid(f"the text {changed[0].as_py()!r}")
            except pa.ArrowException as error:
                what = f"column {field.name!r}: expected {field.type} as in the table; found {reason_of(error)}"
                raise SchemaError(what, where=self.label, fix="fix the values, or change the table") from None
        return pa.Table.from_arrays(columns, schema=schema)

    def merge(self, staged: Path, keys: Sequence[str]) -> MergeCounts:
        """Merge the rows of a Parquet file with the columns of `agree`; all or, with an error, none.

        `keys` are unique and not null in the rows. A table that does not exist is made, in a database with `keys` as
        its primary key. Raise DataError if the rows are refused, or the table of a database has a key more than once.
        """
        if self.kind == "delta":
            with self._errors("the rows cannot be merged"):
                return self._merge_delta(staged, keys)
        if self.path is None or self.path.exists():
            return self._merge_sql(self.path, staged, keys)
        draft = staged.with_name(f"new.{self.kind}")
        counts = self._merge_sql(draft, staged, keys)
        token = CAN_REPLACE.set(False)  # another process may have made the database since
        try:
            with replace_file(self.path) as file, draft.open("rb") as made:
                shutil.copyfileobj(made, file)
        finally:
            CAN_REPLACE.reset(token)
        return counts

    def _merge_sql(self, path: Path | None, staged: Path, keys: Sequence[str]) -> MergeCounts:
        schema, n_rows = pq.read_schema(staged), pq.read_metadata(staged).num_rows
        table, names = ".".join(map(quoted, self.names)), list(map(quoted, schema.names))
        matched, differ = _conditions(schema, keys)
        joined = f"{STAGED} AS s LEFT JOIN {table} AS t ON {matched}"
        with self._session(path) as session, self._errors("the rows cannot be merged"):
            session.stage(staged)
            if self._columns(session) is None:
                primary = ", ".join(map(quoted, keys))
                session.execute(f"CREATE TABLE {table} ({_definitions(schema)}, PRIMARY KEY ({primary}))")
            elif self.kind == "postgresql":  # without a unique index, two merges could insert the same key
                session.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")
            values = ", ".join(f"{name} = s.{name}" for name in names if name not in map(quoted, keys))
            update = f"UPDATE {table} AS t SET {values} FROM {STAGED} AS s WHERE {matched} AND ({differ})"
            rows = f"SELECT {', '.join(f's.{name}' for name in names)} FROM {joined} WHERE t.{quoted(keys[0])} IS NULL"
            updated = session.execute(update)
            inserted = session.execute(f"INSERT INTO {table} ({', '.join(names)}) {rows}")
            found = session.query(f"SELECT count(*) FROM {joined}")[0][0].as_py()
            if found != n_rows:
                what = f"the table has {count_noun(found - n_rows, 'row')} with a key that another row of it has"
                fix = f"nothing was written; make {', '.join(keys)} unique in the table, or name the whole key"
                raise DataError(what, where=self.label, fix=fix)
            session.commit()
        return MergeCounts(inserted, updated, n_rows - inserted - updated)

    def _merge_delta(self, staged: Path, keys: Sequence[str]) -> MergeCounts:
        library, rows = self._library(), _batches(staged)
        n_rows = pq.read_metadata(staged).num_rows
        if not library.DeltaTable.is_deltatable(self.uri):
            with ExitStack() as stack:
                place = self.uri if self.path is None else stack.enter_context(AtomicDirectory(self.path)).path
                library.write_deltalake(place, rows, mode="error")
            return MergeCounts(n_rows, 0, 0)
        matched, differ = _conditions(rows.schema, keys)
        merger = library.DeltaTable(self.uri).merge(rows, matched, source_alias="s", target_alias="t")
        found = queries.wait_for(merger.when_matched_update_all(differ).when_not_matched_insert_all().execute)
        inserted, updated = found["num_target_rows_inserted"], found["num_target_rows_updated"]
        return MergeCounts(inserted, updated, n_rows - inserted - updated)

    def _columns(self, session: _Session) -> pa.Schema | None:
        full, table = ".".join(map(quoted, self.names)), _literal(self.names[-1])
        schema = _literal(("main", *self.names)[-2])  # of SQLite and DuckDB; PostgreSQL searches its path
        if self.kind == "sqlite":
            found = session.query(f"SELECT name, type FROM pragma_table_info({table}, {schema})").to_pylist()
            return pa.schema([(each["name"], _sqlite_type(each["type"])) for each in found]) if found else None
        exists = {
            "postgresql": f"SELECT to_regclass({_literal(full)}) IS NOT NULL",
            "duckdb": "SELECT count(*) > 0 FROM information_schema.tables WHERE table_catalog = current_database() AND "
            f"lower(table_schema) = lower({schema}) AND lower(table_name) = lower({table})",
        }[self.kind]
        return session.query(f"SELECT * FROM {full} LIMIT 0").schema if session.query(exists)[0][0].as_py() else None

    @contextmanager
    def _session(self, path: Path | None) -> Iterator[_Session]:
        """Yield a session of the database in the file `path`, if it is one."""
        library = self._library()
        with ExitStack() as stack:
            with self._errors("cannot connect to the database"):
                if self.kind == "duckdb":
                    session = stack.enter_context(_duckdb_session(library, path or Path()))
                elif self.kind == "sqlite":
                    session = stack.enter_context(_adbc_session(lambda: library.connect(f"file:{quote(str(path))}")))
                    session.execute("PRAGMA busy_timeout = 60000")
                else:
                    stack.enter_context(queries.without_notices())
                    session = stack.enter_context(_adbc_session(lambda: library.connect(self.uri)))
            yield session

    def _library(self) -> Any:
        return load_library(*LIBRARIES[self.kind], "--to")

    def _errors(self, what: str) -> AbstractContextManager[None]:
        return convert_errors(what, self.label, TO_WRITE, queries.secrets_of(self.uri) if self.names else ())

    def _written_type(self, field: pa.Field) -> pa.DataType | None:
        """Return the type that a column is written with, or None if it cannot be written."""
        kind = stored_type(field) or field.type
        if pa.types.is_timestamp(kind):
            return ZONED if kind.tz else pa.timestamp("us")
        if pa.types.is_decimal128(kind):
            return pa.string() if self.kind == "sqlite" else kind
        wide = {
            pa.types.is_integer: pa.int64(), pa.types.is_floating: pa.float64(), pa.types.is_date: pa.date32(),
            pa.types.is_null: pa.string(), pa.types.is_large_binary: pa.binary(),
        }  # fmt: skip
        kind = next((other for test, other in wide.items() if test(kind)), kind)
        return kind if kind in SQL_TYPES else None


@contextmanager
def _adbc_session(connect: Callable[[], Any]) -> Iterator[_Session]:
    connection = queries.wait_for(connect, queries.CONNECT_SECONDS)
    with (
        queries.closed_quietly(connection),
        queries.closed_quietly(connection.cursor()) as cursor,
        queries.closed_quietly(connection.cursor()) as loader,
    ):
        statement, load = cursor.adbc_statement, loader.adbc_statement  # methods of the cursors take over Ctrl-C

        def execute(sql: str) -> int:
            statement.set_sql_query(sql)
            return int(queries.wait_for(statement.execute_update))

        def query(sql: str) -> pa.Table:
            statement.set_sql_query(sql)
            return pa.RecordBatchReader.from_stream(queries.wait_for(statement.execute_query)[0]).read_all()

        def stage(rows: Path) -> None:
            execute(f"CREATE TEMP TABLE {STAGED} ({_definitions(pq.read_schema(rows))})")
            options = {"target_table": STAGED, "mode": "adbc.ingest.mode.append", "temporary": "true"}
            load.set_options(**{f"adbc.ingest.{name}": value for name, value in options.items()})
            load.bind_stream(_batches(rows))
            queries.wait_for(load.execute_update)

        yield _Session(execute, query, stage, lambda: queries.wait_for(connection.commit))


@contextmanager
def _duckdb_session(duckdb: Any, path: Path) -> Iterator[_Session]:
    with tempfile.TemporaryDirectory(prefix=PREFIX) as spilled:  # by default, it is next to the database
        own = {"temp_directory": spilled, "memory_limit": DUCKDB_MEMORY}
        with duckdb.connect(config=dict.fromkeys(queries.NOT_LOADED, False) | own) as connection:
            queries.attach_file(connection, path, "READ_WRITE")

            def stage(rows: Path) -> None:  # before the transaction, which may change one database only
                connection.execute(f"CREATE TEMP VIEW {STAGED} AS FROM read_parquet({_literal(str(rows))})")
                connection.begin()

            yield _Session(
                lambda sql: int((connection.execute(sql).fetchone() or (0,))[0]),
                lambda sql: connection.sql(sql).to_arrow_table(),
                stage,
                connection.commit,
            )


def _batches(rows: Path) -> pa.RecordBatchReader:
    """Return the rows of a Parquet file as a stream."""
    return pa.RecordBatchReader.from_batches(pq.read_schema(rows), pq.ParquetFile(rows).iter_batches(BATCH_ROWS))


def _conditions(schema: pa.Schema, keys: Sequence[str]) -> tuple[str, str]:
    """Return the conditions that rows `s` and `t` have the same key, and that their other values differ."""
    matched = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys)
    others = [quoted(name) for name in schema.names if name not in keys]
    return matched, " OR ".join(f"(t.{name} IS DISTINCT FROM s.{name})" for name in others)


def _definitions(schema: pa.Schema) -> str:
    """Return the columns of a table in SQL."""
    kinds = {field.name: field.type for field in schema}
    decimals = {name: f"NUMERIC({k.precision}, {k.scale})" for name, k in kinds.items() if pa.types.is_decimal(k)}
    return ", ".join(f"{quoted(name)} {decimals.get(name) or SQL_TYPES[kind]}" for name, kind in kinds.items())


def _sqlite_type(declared: str) -> pa.DataType:
    return next(kind for pattern, kind in SQLITE_TYPES.items() if re.search(pattern, declared.upper()))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
