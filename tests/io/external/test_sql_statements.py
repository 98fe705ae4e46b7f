"""Limits of queries: one statement that reads the database and the allowed files."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.errors import DataError
from gpupipe.io.input_files import input_files
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from tests.postgresql import PostgresqlServer


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with databases that have a table `t`, a file, and a link to a file elsewhere."""
    parent = tmp_path_factory.mktemp("sql")
    here, elsewhere = parent / "shop", parent / "elsewhere"
    for folder in (here, here / "visits", elsewhere):
        folder.mkdir()
        pq.write_table(pa.table({"a": [3], "k": ["x"]}), folder / "rows.parquet")
    (here / "link.parquet").symlink_to(elsewhere / "rows.parquet")
    with duckdb.connect(str(here / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a, 'x' AS k")
    with sqlite3.connect(here / "shop.db") as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS a, 'x' AS k")
    return here


@pytest.fixture
def shop(built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return `built`, the working directory of the query."""
    monkeypatch.chdir(built)
    return built


@pytest.fixture
def own_shop(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy that may be changed."""
    shutil.copy(built / "shop.duckdb", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def state(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.parent.rglob("*")) if path.is_file()}


NO_QUERIES = (
    "INSERT INTO t VALUES (2, 'y') RETURNING a", "DELETE FROM t RETURNING a", "DROP TABLE t", "ATTACH 'made.db' AS m",
    "CREATE TEMP TABLE made AS SELECT 1 AS a", "EXPLAIN SELECT 1", "SELECT a FROM t; DROP TABLE t",
    "SELECT a FROM t; SELECT 2", "BEGIN", "", "--", "SELECT 1) AS q, (SELECT 2", "SELECT 1); DROP TABLE t; --",
    "WITH w AS (SELECT 2 AS a) INSERT INTO t SELECT a, 'y' FROM w RETURNING a",
)  # fmt: skip
OF_SQLITE = ("PRAGMA journal_mode=wal", "VACUUM INTO 'made.db'", "SELECT load_extension('x')", "REINDEX")
COPY = "WITH c AS (COPY (SELECT 1 AS a) TO 'made.csv')"
QUOTED = COPY.replace("'", "''")
OF_DUCKDB = (
    "COPY t TO 'made.csv'", "EXPORT DATABASE 'made'", "PRAGMA version", "CALL pragma_version()", "INSTALL httpfs",
    "LOAD json", "SET threads = 1", f"{COPY} FROM c", f"({COPY} SELECT 1 AS a)", f"{COPY} PIVOT t ON k USING sum(a)",
    "COPY (PIVOT t ON k USING sum(a)) TO 'made.csv'", f"SELECT * FROM ({COPY} SELECT 1)", "FROM copied",
    f"FROM query('{QUOTED} FROM c')", f"FROM json_execute_serialized_sql(json_serialize_sql('{QUOTED} FROM c'))",
    'FROM "QUERY"(CASE WHEN current_query() LIKE \'EXPLAIN%\' THEN \'SELECT 1\' ELSE '
    "'FROM json_execute_serialized_sql(json_serialize_sql(''" + QUOTED.replace("''", "''''") + " FROM c''))' END)",
    "FROM enable_logging(storage := 'file', storage_config := {'path': 'made.log'})",
)  # fmt: skip


@pytest.mark.parametrize(
    ("uri", "query"),
    [
        *(("sqlite:///shop.db", query) for query in (*NO_QUERIES, *OF_SQLITE)),
        *(("duckdb:///shop.duckdb", query) for query in (*NO_QUERIES, *OF_DUCKDB)),
        ("duckdb://", f"{COPY} FROM c"),
    ],
)
def test_only_one_select_runs_and_nothing_is_written(uri: str, query: str, shop: Path) -> None:
    before = state(shop)
    # More access does not allow more statements.
    opened = {"sql_options": {"external_access": True}} if uri.startswith("duckdb") else {}
    with pytest.raises(DataError) as error:
        input_files(TableSource.model_validate({"sql": query or ";", "uri": uri, **opened}))
    assert "sql query of" in error.value.where
    assert error.value.fix
    assert state(shop) == before


@pytest.mark.parametrize(
    "query",
    ["COPY (SELECT 1) TO PROGRAM 'touch {}'", "COPY (SELECT 1) TO '{}'", "SELECT 1) TO PROGRAM 'touch {}' --",
     "DO $$ BEGIN EXECUTE 'COPY (SELECT 1) TO ''{}'''; END $$", "SELECT 1 AS a INTO made", "COMMIT", "LISTEN a",
     "COMMIT; COPY (SELECT 1) TO '{}'", "SELECT 1 AS a; COPY (SELECT 1) TO '{}'", "SELECT 1 AS a INTO TEMP made",
     "WITH w AS (INSERT INTO made VALUES (1) RETURNING a) SELECT a FROM w", "SET TRANSACTION READ WRITE",
     "SELECT set_config('transaction_read_only', 'off', true)", "PREPARE p AS SELECT 1", "EXPLAIN SELECT 1",
     "SELECT 1) AS q; COMMIT; COPY (SELECT 1) TO '{}'; --"],
)  # fmt: skip
def test_postgresql_runs_one_select(query: str, postgresql: PostgresqlServer) -> None:
    made = postgresql.data / "made.txt"
    with pytest.raises(DataError):
        read_arrow(TableSource(sql=query.format(made), uri=postgresql.uri()))
    assert not made.exists()


@pytest.mark.parametrize(
    "query",
    ["SELECT a FROM t", "select a from t -- ; DROP TABLE t", "WITH w AS (SELECT a FROM t) SELECT * FROM w",
     "SELECT a, ';' AS k FROM t;", "SELECT a FROM t ORDER BY k LIMIT 1", "SELECT a FROM t UNION SELECT 1 AS a"],
)  # fmt: skip
@pytest.mark.parametrize("uri", ["sqlite:///shop.db", "duckdb:///shop.duckdb"])
def test_queries_that_read_run(query: str, uri: str, shop: Path) -> None:
    assert read_arrow(TableSource(sql=query, uri=uri)).table.column("a").to_pylist() == [1]


@pytest.mark.parametrize(
    ("query", "column"),
    [("FROM t", "a"), ("TABLE t", "a"), ("FROM shop.main.t", "a"), ("VALUES (1)", "col0"), ("SUMMARIZE t", "count"),
     ("PIVOT t ON k IN ('x') USING sum(a)", "x"), ("DESCRIBE t", "column_name"), ("FROM '*/rows.parquet'", "a"),
     ("SELECT t.a FROM t, 'rows.parquet' AS r WHERE r.a = 3", "a")],
)  # fmt: skip
def test_forms_of_queries_of_duckdb(query: str, column: str, shop: Path) -> None:
    assert column in read_arrow(TableSource(sql=query, uri="duckdb:///shop.duckdb")).table.column_names


@pytest.mark.parametrize(
    "path",
    ["../elsewhere/rows.parquet", "{}/elsewhere/rows.parquet", "link.parquet", "./../elsewhere/*.parquet",
     "file://{}/elsewhere/rows.parquet", "http://127.0.0.1:9/rows.parquet", "s3://bucket/r.parquet", "~/r.parquet"],
)  # fmt: skip
def test_files_elsewhere_are_named_in_the_settings(path: str, shop: Path) -> None:
    where = path.format(shop.parent)
    for query in (f"FROM '{where}'", f"FROM read_blob('{where}')", f"SELECT * FROM glob('{where}')"):
        with pytest.raises(DataError) as error:
            input_files(TableSource(sql=query, uri="duckdb://"))
        assert "sql_options.directories" in error.value.fix
        assert str(shop) in error.value.what


def test_options_allow_folders_and_all_files(shop: Path) -> None:
    query = f"SELECT a FROM '{shop.parent}/elsewhere/rows.parquet'"
    for options in ({"directories": "../elsewhere"}, {"directories": [str(shop.parent)]}, {"external_access": True}):
        source = TableSource.model_validate({"sql": query, "uri": "duckdb://", "sql_options": options})
        assert read_arrow(source).table.column("a").to_pylist() == [3]


def test_the_root_of_the_file_system_is_not_allowed_by_default(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    with pytest.raises(DataError):
        input_files(TableSource(sql=f"FROM '{shop}/rows.parquet'", uri="duckdb://"))


def test_extensions_are_loaded_and_never_installed(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(shop))
    for name, is_there in (("json", True), ("httpfs", False)):
        source = TableSource.model_validate(
            {"sql": "SELECT 1 AS a", "uri": "duckdb://", "sql_options": {"extensions": [name]}}
        )
        if is_there:
            assert read_arrow(source).table.num_rows == 1
        else:
            with pytest.raises(DataError, match="httpfs") as error:
                input_files(source)
            assert "INSTALL httpfs" in error.value.fix
    assert not (shop / ".duckdb").exists()


@pytest.mark.parametrize(
    "options",
    [{"uri": "sqlite:///shop.db"}, {"uri": "postgresql://h/d"}, {"uri": "duckdb://", "extensions": ["../x"]},
     {"uri": "duckdb://", "extensions": ["/tmp/x.duckdb_extension"]}, {"uri": "duckdb://", "unknown": 1}],
)  # fmt: skip
def test_options_that_are_not_valid(options: dict[str, object]) -> None:
    uri = options.pop("uri")
    with pytest.raises(ValueError, match="sql_options"):
        TableSource.model_validate({"sql": "SELECT 1", "uri": uri, "sql_options": options})


def test_a_query_does_not_see_python_or_the_environment(shop: Path) -> None:
    frame = pa.table({"a": [1]})
    for query in ("FROM frame", "SELECT getenv('HOME') AS home", "SET VARIABLE a = 1"):
        with pytest.raises(DataError):
            input_files(TableSource(sql=query, uri="duckdb://"))
    assert frame.num_rows == 1


def test_views_that_run_texts_are_refused(own_shop: Path) -> None:
    for made in ("CREATE VIEW v AS FROM query('SELECT 1')", 'CREATE MACRO m(x) AS TABLE FROM "QUERY" (x)'):
        with duckdb.connect(str(own_shop / "shop.duckdb")) as connection:
            connection.execute(made)
        with pytest.raises(DataError, match="runs a text"):
            input_files(TableSource(sql="FROM t", uri="duckdb:///shop.duckdb"))
        with duckdb.connect(str(own_shop / "shop.duckdb")) as connection:
            connection.execute("DROP VIEW IF EXISTS v")


@pytest.mark.parametrize("name", ["memory.duckdb", "temp.db", "it's.duckdb", "a b.c.duckdb", "ütf8.duckdb"])
def test_names_of_database_files(name: str, own_shop: Path) -> None:
    (own_shop / "shop.duckdb").rename(own_shop / name)
    assert read_arrow(TableSource(sql="SELECT a FROM t", uri=f"duckdb:///{name}")).table.num_rows == 1


def test_a_database_that_is_open_in_this_process(shop: Path) -> None:
    source = TableSource(sql="SELECT a FROM t", uri="duckdb:///shop.duckdb")
    with duckdb.connect(str(shop / "shop.duckdb"), read_only=True) as connection:
        assert read_arrow(source).table.num_rows == 1
        connection.execute("SET threads = 1")  # its settings are not locked
    with duckdb.connect(str(shop / "shop.duckdb")), pytest.raises(DataError, match="already attached"):
        input_files(source)


def test_temporary_files_are_not_in_the_folder_of_the_database(shop: Path) -> None:
    query = "SELECT current_setting('temp_directory') AS folder"
    (folder,) = read_arrow(TableSource(sql=query, uri="duckdb:///shop.duckdb")).table.column("folder").to_pylist()
    assert Path(folder).parent == Path(tempfile.gettempdir())
    assert not Path(folder).exists()  # removed after the query
