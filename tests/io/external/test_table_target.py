"""Merges into tables of PostgreSQL, SQLite, DuckDB and Delta Lake, read by other means than those that wrote them."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import ConfigError, DataError, SchemaError
from gpupipe.io.external.table_target import MergeCounts, TableTarget
from tests.examples import examples
from tests.postgresql import PASSWORD, PostgresqlServer

KINDS = ("postgresql", "sqlite", "duckdb", "delta")
DATABASES = KINDS[:3]
NUMBERS = count()
Targets = Callable[[str], str]


@pytest.fixture
def targets(postgresql: PostgresqlServer, tmp_path: Path) -> Targets:
    """Return a function that returns a new target of a kind."""

    def new(kind: str) -> str:
        name = f"scores {next(NUMBERS)}"
        return {
            "postgresql": f"{postgresql.uri()}#public.{name}", "sqlite": f"sqlite:///{tmp_path}/shop.db#{name}",
            "duckdb": f"duckdb:///{tmp_path}/shop.duckdb#main.{name}", "delta": f"delta://{tmp_path}/{name}",
        }[kind]  # fmt: skip

    return new


def execute(to: str, statement: str) -> pa.Table | None:
    """Run a statement for the table named ``{}`` in a separate connection."""
    uri, _, name = to.rpartition("#")
    sql = statement.format('"' + name.removeprefix("public.").removeprefix("main.") + '"')
    if to.startswith("postgresql"):
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table() if sql.startswith("SELECT") else None
    path = uri.partition(":///")[2]
    if to.startswith("sqlite"):
        with sqlite3.connect(path) as lite:
            found = lite.execute(sql)
            names = [each[0] for each in found.description or ()]
            return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in found]) if names else None
    with duckdb.connect(path) as duck:
        return duck.sql(sql).to_arrow_table() if sql.startswith("SELECT") else (duck.execute(sql), None)[1]


def rows_of(to: str) -> list[dict[str, Any]]:
    """Return the rows of the table, sorted."""
    delta = to.startswith("delta")
    found = DeltaTable(to.removeprefix("delta://")).to_pyarrow_table() if delta else execute(to, "SELECT * FROM {}")
    assert found is not None
    return sorted(found.to_pylist(), key=lambda row: str(list(row.values())[:2]))


def merge(to: str, rows: pa.Table, keys: tuple[str, ...], folder: Path, copied: tuple[str, ...] = ()) -> MergeCounts:
    target = TableTarget.parse(to)
    schema = target.agree(rows.schema, target.schema(), copied or keys)
    folder.mkdir(exist_ok=True)
    staged = folder / f"{next(NUMBERS)}.parquet"
    pq.write_table(target.convert(rows, schema), staged)
    return target.merge(staged, keys)


KEY = st.tuples(st.integers(-3, 3), st.sampled_from(["", "a", "A", "a'b", "é"]))
VALUE = st.tuples(st.none() | st.floats(allow_nan=False), st.none() | st.text("ab'\"\n\\%", max_size=3))


@pytest.mark.parametrize("kind", KINDS)
def test_merges_are_updates_of_a_dictionary(kind: str, targets: Targets, tmp_path: Path) -> None:
    @examples(6)
    @given(st.lists(st.dictionaries(KEY, VALUE, max_size=6), min_size=1, max_size=3))
    def check(merges: list[dict[Any, Any]]) -> None:
        to, expected = targets(kind), dict[Any, Any]()
        for new in merges:
            table = pa.table(
                {
                    "user id": pa.array([key[0] for key in new], pa.int32()),
                    'the "shop"': pa.array([key[1] for key in new], pa.string()),
                    "score": pa.array([value[0] for value in new.values()], pa.float64()),
                    "select": pa.array([value[1] for value in new.values()], pa.string()),
                }
            )
            found = merge(to, table, ("user id", 'the "shop"'), tmp_path / "rows")
            updated = sum(key in expected and expected[key] != value for key, value in new.items())
            inserted = len(new.keys() - expected.keys())
            assert found == MergeCounts(inserted, updated, len(new) - inserted - updated)
            expected |= new
        rows = [list(row.values()) for row in rows_of(to)]
        assert {(a, b): (c, d) for a, b, c, d in rows} == expected and len(rows) == len(expected)

    check()


MOMENT = datetime(2024, 2, 29, 12, 30, 1, 250000)
ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.uint16()), "day": pa.array([date(2024, 2, 29), date(1969, 12, 31)]),
        "score": pa.array([0.1, float("inf")], pa.float32()), "flag": [True, None],
        "word": pa.array(["a", "b"]).dictionary_encode(), "plain": pa.array([MOMENT, None], pa.timestamp("ns")),
        "zoned": pa.array([MOMENT, None], pa.timestamp("us", "Europe/Berlin")),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(38, 2)), "raw": pa.array([b"\0x", None]),
        "code": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([UUID(int=7).bytes, None], pa.binary(16))),
        "none": pa.nulls(2),
    }
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_types_are_kept_and_recognized_again(kind: str, targets: Targets, tmp_path: Path) -> None:
    to = targets(kind)
    assert merge(to, ROWS, ("id", "day"), tmp_path) == MergeCounts(2, 0, 0)
    assert merge(to, ROWS, ("id", "day"), tmp_path) == MergeCounts(0, 0, 2)
    first, second = rows_of(to)
    zoned = MOMENT.replace(tzinfo=UTC)
    expected = {
        "id": 1, "day": date(2024, 2, 29), "score": ROWS["score"][0].as_py(), "flag": True, "word": "a",
        "plain": MOMENT, "zoned": zoned, "price": Decimal("1.50"), "raw": b"\0x", "code": str(UUID(int=7)),
        "none": None,
    }  # fmt: skip
    if kind == "sqlite":  # has no types of times and decimals
        texts = {"day": "2024-02-29", "price": "1.50", **dict.fromkeys(["plain", "zoned"], f"{MOMENT.isoformat()}")}
        expected |= texts
    if kind == "postgresql":
        expected["price"] = "1.50"  # of the driver
    assert first == expected
    assert second["score"] == float("inf")
    assert {name for name, value in second.items() if value is None} == set(ROWS.column_names[3:]) - {"word"}


@pytest.mark.parametrize("kind", KINDS)
def test_other_columns_are_listed_and_texts_of_the_input_take_the_types_of_the_table(
    kind: str, targets: Targets, tmp_path: Path
) -> None:
    to = targets(kind)
    rows = pa.table({"id": [1, 2], "prediction": ["a", "b"], "p": [0.5, 0.25]})
    merge(to, rows, ("id",), tmp_path)
    before = rows_of(to)
    other = pa.table({"id": ["1"], "prediction": [0.5], "q": [0.5]})
    with pytest.raises(SchemaError) as error:
        merge(to, other, ("id",), tmp_path)
    for words in (
        "prediction: double here, string in",
        "q: double here, absent in",
        "p: only in",
        "nothing was written",
    ):
        assert words in str(error.value)
    assert "id:" not in str(error.value)
    with pytest.raises(SchemaError, match="'nested' has the type list"):
        merge(to, rows.append_column("nested", pa.array([[1], [2]])), ("id",), tmp_path)
    for text in ("02", "x"):
        texts = pa.table({"id": ["1", text], "prediction": ["a", "b"], "p": [0.0, 1.0]})
        with pytest.raises(SchemaError, match=f"'id': expected int64 as in the table; found .*'{text}'"):
            merge(to, texts, ("id",), tmp_path)
    assert rows_of(to) == before
    texts = pa.table({"id": ["2", "3"], "prediction": ["b", "c"], "p": [0.25, 1.0]})
    assert merge(to, texts, ("id",), tmp_path) == MergeCounts(1, 0, 1)
    assert [row["id"] for row in rows_of(to)] == [1, 2, 3]


@pytest.mark.parametrize("kind", DATABASES)
def test_a_refused_row_or_a_repeated_key_leaves_a_table_of_its_user_as_it_was(
    kind: str, targets: Targets, tmp_path: Path
) -> None:
    to = targets(kind)
    execute(to, "CREATE TABLE {} (id SMALLINT, word VARCHAR(20), p DOUBLE PRECISION CHECK (p < 1))")
    execute(to, "INSERT INTO {} VALUES (1, 'a', 0.5), (2, 'b', 0.5), (2, 'b', 0.5)")
    before = rows_of(to)
    for ids, p, words in (([1, 3], [0.25, 2.0], "cannot be merged"), ([1, 2], [0.25, 0.5], "1 row with a key")):
        with pytest.raises(DataError, match=words):
            merge(to, pa.table({"id": ids, "word": ["c", "c"], "p": p}), ("id",), tmp_path)
        assert rows_of(to) == before
    rows = pa.table({"id": [1, 3], "word": ["c", "c"], "p": [0.25, 0.5]})
    assert merge(to, rows, ("id",), tmp_path) == MergeCounts(1, 1, 0)


def test_merges_into_a_table_without_a_unique_index_wait_for_each_other(
    postgresql: PostgresqlServer, targets: Targets, tmp_path: Path
) -> None:
    to, rows = targets("postgresql"), pa.table({"id": [1], "p": [0.5]})
    execute(to, "CREATE TABLE {} (id BIGINT, p DOUBLE PRECISION)")
    name = to.rpartition(".")[2]
    with postgresql.connect() as connection, connection.cursor() as cursor:
        for statement in ("BEGIN", f'INSERT INTO "{name}" VALUES (1, 0.25)'):
            cursor.execute(statement)
        thread = Thread(target=merge, args=(to, rows, ("id",), tmp_path))
        thread.start()
        waiting = pa.table({})
        while thread.is_alive() and not len(waiting):
            waiting = execute(to, "SELECT 1 FROM pg_locks WHERE NOT granted") or waiting
        cursor.execute("COMMIT")
    thread.join()
    assert rows_of(to) == [{"id": 1, "p": 0.5}]


KILLED = """
import os, signal, sys
from pathlib import Path
from gpupipe.io.external import table_target as module

to, staged, point = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])

def die_at(call, points):
    def counted(*arguments):
        if next(points) == point:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)
    return counted

from itertools import count
points, session, batches = count(), module._Session, module._batches
def wrapped(execute, query, stage, commit):
    return session(*(die_at(call, points) for call in (execute, query, stage, commit)))
module._Session = wrapped
def dying(rows):
    reader = batches(rows)
    read = die_at(lambda: next(reader, None), points)
    return module.pa.RecordBatchReader.from_batches(reader.schema, iter(read, None))
if to.startswith("delta"):
    module._batches = dying
module.TableTarget.parse(to).merge(staged, ("id",))
"""


@pytest.mark.parametrize(
    ("kind", "is_new", "points"),
    [
        ("postgresql", False, (5, 7)),
        ("sqlite", False, (4, 6)),
        ("sqlite", True, (7,)),
        ("duckdb", False, (6,)),
        ("duckdb", True, (6,)),
        ("delta", False, (1,)),
        ("delta", True, (1,)),
    ],
)
def test_a_killed_merge_leaves_the_table_as_before_and_is_completed_by_the_next(
    kind: str, is_new: bool, points: tuple[int, ...], targets: Targets, tmp_path: Path
) -> None:
    """The process is killed before some statement, at the last point before the commit, or between two batches."""
    to, n = targets(kind), 70_000
    rows, old = pa.table({"id": range(n), "p": [0.5] * n}), pa.table({"id": [0], "p": [0.25]})
    if not is_new:
        merge(to, old, ("id",), tmp_path)
    target, staged = TableTarget.parse(to), tmp_path / "staged" / "rows.parquet"
    for point in points:
        staged.parent.mkdir()
        pq.write_table(rows, staged)
        command = [sys.executable, "-c", KILLED, to, str(staged), str(point)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert target.schema() is None if is_new else rows_of(to) == old.to_pylist()
        shutil.rmtree(staged.parent)
    assert merge(to, rows, ("id",), tmp_path) == (MergeCounts(n, 0, 0) if is_new else MergeCounts(n - 1, 1, 0))
    found = rows_of(to)
    assert len(found) == n and {row["p"] for row in found} == {0.5}


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("postgresql://ada:s3cret@localhost/shop", "after #"),
        ("postgresql://ada:s3cret@localhost/shop#a.b.c", "after #"),
        ("postgresql://ada:s3cret@localhost/shop?sslkeylogfile=x#a", "sslkeylogfile"),
        ("mysql://ada:s3cret@localhost/shop#scores", "starts with postgresql"),
        ("duckdb://#scores", "after #"),
        ("sqlite://shop.db#scores", "sqlite:///FILE"),
        ("delta://lake#scores", "starts with"),
        ("scores.csv", "after #"),
    ],
)
def test_other_targets_are_refused_without_their_passwords(to: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        TableTarget.parse(to)
    assert "s3cret" not in str(error.value) and "delta://PATH" in str(error.value)


def test_a_wrong_password_is_not_shown(postgresql: PostgresqlServer) -> None:
    wrong = postgresql.uri(password="wr0ng&word")
    for uri, words in ((wrong, "password authentication failed"), (wrong.replace("%26", "%zz"), "percent-encoded")):
        target = TableTarget.parse(f"{uri}#scores")
        with pytest.raises(DataError, match=words) as error:
            target.schema()
        shown = f"{error.value} {target.label}"
        assert not any(word in shown for word in ("wr0ng", PASSWORD, "ada:")) and "127.0.0.1" in shown


def test_a_folder_with_other_files_is_not_made_a_table(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError):
        TableTarget.parse(f"delta://{tmp_path}/lake").schema()
    with pytest.raises(ConfigError, match="no such folder"):
        TableTarget.parse(f"sqlite:///{tmp_path}/absent/shop.db#scores").schema()
