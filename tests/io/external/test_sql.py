"""Results of SQL queries as input files."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.errors import ConfigError, DataError, LimitError, SchemaError
from gpupipe.io.external.open_table import OpenTable
from gpupipe.io.external.parquet_copy import copy_table
from gpupipe.io.external.sql import open_query
from gpupipe.io.hashing_stream import HashingStream
from gpupipe.io.input_files import input_files
from gpupipe.io.join import read_joined
from gpupipe.io.settings import JoinedTable, Source, TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.io.table_copy import PREFIX
from tests.postgresql import PASSWORD, PostgresqlServer

ROWS = 200_000  # several batches of every driver


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def copies() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))


def test_types_of_postgresql_become_the_kinds_of_files(postgresql: PostgresqlServer) -> None:
    query = """
        SELECT 7::int2 AS small, 1.5::float8 AS real, true AS flag, 'x'::varchar(9) AS text,
            1.10::numeric(9, 2) AS price, 'NaN'::numeric(9, 2) AS no_price, 0.1::numeric AS ratio,
            'Infinity'::numeric AS endless, 123456789012345678901234567890123456789.5::numeric(50, 1) AS large,
            timestamptz '2024-02-29 12:00+02' AS zoned, timestamp '2024-02-29 12:00' AS plain, date '2024-02-29' AS day,
            'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid AS id, NULL::uuid AS no_id, '{"a": 1}'::jsonb AS doc,
            interval '1 month' AS span, ARRAY[1, 2] AS list, inet '127.0.0.1' AS address
        -- a comment at the end;"""
    found = read_arrow(TableSource(sql=query, uri=postgresql.uri()))
    assert found.table.to_pylist() == [
        {
            "small": 7, "real": 1.5, "flag": True, "text": "x", "price": Decimal("1.10"), "no_price": None,
            "ratio": 0.1, "endless": float("inf"), "large": Decimal("123456789012345678901234567890123456789.5"),
            "zoned": datetime(2024, 2, 29, 10), "plain": datetime(2024, 2, 29, 12), "day": datetime(2024, 2, 29),
            "id": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "no_id": None, "doc": '{"a": 1}',
        }
    ]  # fmt: skip
    notes = list(found.notes)
    assert sum(any(name in note for name in ("'span'", "'list'", "'address'")) for note in notes) == 3
    with pytest.raises(SchemaError) as error:
        read_arrow(TableSource(sql=query, uri=postgresql.uri(), columns=["span", "small"]))
    assert error.value.names == ("span",)


def test_rows_of_a_large_result_are_complete_and_in_order(postgresql: PostgresqlServer) -> None:
    for uri, series in (
        (postgresql.uri(), f"SELECT i, md5(i::text) AS t FROM generate_series(1, {ROWS}) AS s(i);"),
        ("duckdb://", f"SELECT i, md5(i::VARCHAR) AS t FROM range(1, {ROWS + 1}) AS s(i) ORDER BY i"),
    ):
        (file,) = input_files(TableSource(sql=series, uri=uri))
        table = pq.read_table(file.path)
        assert np.array_equal(table.column("i"), np.arange(1, ROWS + 1))
        assert table.column("t")[-1].as_py() == hashlib.md5(str(ROWS).encode()).hexdigest()
        assert pq.read_metadata(file.path).num_row_groups > 1


def test_the_time_zone_of_a_session_is_not_that_of_a_column() -> None:
    table = pa.table({"t": pa.array([5], pa.timestamp("us", "Asia/Tokyo"))})
    file = copy_table(OpenTable("rows", table.schema, iter(table.to_batches())), with_nested=False)
    assert pq.read_table(file.path)["t"].type == pa.timestamp("us", "UTC")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_pin_depends_on_the_rows_not_on_their_batches(data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.one_of(st.none(), st.floats(width=32)), max_size=40))
    ends = sorted(data.draw(st.lists(st.integers(0, len(numbers)), max_size=6)))
    table = pa.table({"x": pa.array(numbers, pa.float64()), "t": [str(number) for number in numbers]})

    def copied(table: pa.Table, ends: list[int]) -> tuple[str, pa.Table]:
        bounds = [0, *ends, len(table)]
        parts = [table.slice(a, b - a) for a, b in pairwise(bounds)]
        batches = (batch for part in parts for batch in part.to_batches())
        file = copy_table(OpenTable("rows", table.schema, batches), with_nested=False)
        assert file.copy is not None
        return file.copy.pin, pq.read_table(file.path)

    pin, found = copied(table, ends)
    assert pin == copied(table, [])[0]
    assert str(found.to_pydict()) == str(table.to_pydict())
    if numbers:
        assert pin != copied(table.slice(1), [])[0]


def test_a_changed_result_has_another_identity(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, price REAL)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(1, 2.5), (2, None)])
    source = TableSource(sql="SELECT * FROM orders ORDER BY id", uri=f"sqlite:///{path}")
    first, second = input_files(source)[0], input_files(source)[0]
    assert first.identity == second.identity
    assert first.path != second.path
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE orders SET price = 3 WHERE id = 2")
    assert input_files(source)[0].identity != first.identity


def test_a_copy_is_removed_with_its_last_reference_but_not_by_other_processes() -> None:
    files = input_files(TableSource(sql="SELECT 1 AS a", uri="duckdb://"))
    del_here = pickle.loads(pickle.dumps(files))
    del del_here
    assert read_arrow(TableSource(sql="SELECT 2 AS b", uri="duckdb://"), files=files).table.to_pylist() == [{"a": 1}]
    assert len(copies()) == 1
    del files
    assert copies() == []


def test_a_query_is_a_joined_table() -> None:
    shops = "SELECT * FROM (VALUES ('a', 1.5), ('b', 2.5)) AS s(shop, size)"
    orders = "SELECT * FROM (VALUES (1, 'b'), (2, 'c'), (3, 'a')) AS o(id, shop) ORDER BY id"
    joined = JoinedTable.model_validate(
        {"sql": shops, "uri": "duckdb://", "on": "shop", "cardinality": "many_to_one", "prefix": "shop_"}
    )
    found = read_joined(Source(sql=orders, uri="duckdb://"), {"shops": joined})
    assert found.table.column("shop_size").to_pylist() == [2.5, None, 1.5]
    assert copies() != []  # `found` refers to the files that it was read from
    del found
    assert copies() == []


END = f"WHEN i = {ROWS - 1} THEN"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELEC 1", "SELEC"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("CREATE TABLE made (i int)", "one SELECT"),
        ("SELECT set_config('transaction_read_only', 'off', true)", "read-write"),
        ("SELECT 1 AS a, 2 AS a", "'a'"),
        (f"SELECT CASE {END} 1 / 0 ELSE i END AS i FROM generate_series(1, {ROWS}) AS s(i)", "division by zero"),
        (
            f"SELECT CASE {END} pg_terminate_backend(pg_backend_pid())::int ELSE i END AS i "
            f"FROM generate_series(1, {ROWS}) AS s(i)",
            "terminating connection",
        ),
    ],
)
def test_a_failed_query_is_one_clear_error_and_leaves_nothing(
    query: str, reason: str, postgresql: PostgresqlServer
) -> None:
    with pytest.raises(DataError) as error:
        input_files(TableSource(sql=query, uri=postgresql.uri()))
    assert reason in error.value.what  # a message of PostgreSQL
    assert "postgresql://127.0.0.1" in error.value.where
    assert error.value.fix
    assert PASSWORD not in str(error.value)
    assert "\n" not in error.value.what
    assert copies() == []


def test_a_server_that_crashes_while_rows_are_read(postgresql: PostgresqlServer) -> None:
    query = "SELECT generate_series(1, 20000000) AS i, pg_backend_pid() AS process"
    with open_query(TableSource(sql=query, uri=postgresql.uri())) as table:

        def batches() -> Iterator[pa.RecordBatch]:
            yield (first := next(table.batches))
            os.kill(first.column("process")[0].as_py(), signal.SIGKILL)  # the server drops all connections
            yield from table.batches

        with pytest.raises(DataError) as error:
            copy_table(OpenTable(table.label, table.schema, batches()), with_nested=False)
    assert "closed the connection" in error.value.what  # a message of libpq
    assert copies() == []
    postgresql.wait()


def test_the_representation_of_a_source_has_no_password() -> None:
    source = TableSource(sql="SELECT 1", uri="postgresql://ada:wr0ng@db.example.com/shop")
    assert "wr0ng" not in repr(source) and "db.example.com/shop" in repr(source)


def test_passwords_are_hidden_also_where_the_driver_quotes_the_uri(postgresql: PostgresqlServer) -> None:
    for uri in (
        postgresql.uri(password="wr0ng&secret"),
        postgresql.uri(password="wr0ng&secret").replace("postgres?", "") + "?nonsense=wr0ng%26secret",
        "postgresql://ada:wr0ng&secret@127.0.0.1:x/db",
    ):
        with pytest.raises(DataError) as error:
            input_files(TableSource(sql="SELECT 1", uri=uri))
        assert "secret" not in str(error.value)


def test_a_missing_database_file_is_not_created(tmp_path: Path) -> None:
    for scheme in ("sqlite", "duckdb"):
        with pytest.raises(DataError) as error:
            input_files(TableSource(sql="SELECT 1", uri=f"{scheme}:///{tmp_path}/none"))
        assert error.value.where == f"{tmp_path}/none"
        assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("module", "extra", "origin"),
    [
        ("duckdb", "sql", {"sql": "SELECT 1", "uri": "duckdb://"}),
        ("adbc_driver_postgresql.dbapi", "sql", {"sql": "SELECT 1", "uri": "postgresql://h/d"}),
        ("deltalake", "delta", {"delta": "table"}),
        ("pyiceberg.catalog", "iceberg", {"iceberg": "a.b"}),
    ],
)
def test_a_missing_library_names_its_extra(
    module: str, extra: str, origin: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError) as error:
        input_files(TableSource.model_validate(origin))
    assert f"gpupipe[{extra}]" in error.value.fix


def test_a_full_disk_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(file: object, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(HashingStream, "write", write)
    with pytest.raises(LimitError) as error:
        input_files(TableSource(sql="SELECT 1 AS a", uri="duckdb://"))
    assert "TMPDIR" in error.value.fix
    assert copies() == []
