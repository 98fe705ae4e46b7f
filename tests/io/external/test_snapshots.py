"""Snapshots of Delta and Iceberg tables as input files."""

from __future__ import annotations

import base64
import json
import math
import struct
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from gpupipe.errors import DataError, GpupipeError
from gpupipe.io.external.row_predicate import implied_condition, select_rows, to_sql
from gpupipe.io.filter import filter_rows
from gpupipe.io.input_files import InputFiles, input_files
from gpupipe.io.settings import JoinedTable, Source, TableSource
from gpupipe.io.source_reader import plain_arrow, read_arrow

ORDERS = pa.table({"id": range(12), "shop": ["b", "a", None] * 4, "price": [1.5, None, math.nan, 4.0] * 3})
PYTHON_BASE85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def rows(**origin: Any) -> list[dict[str, Any]]:
    return read_arrow(TableSource(**origin)).table.sort_by("id").to_pylist()


def expected(table: pa.Table) -> list[dict[str, Any]]:
    pq.write_table(table, "expected.parquet")
    return rows(path="expected.parquet")


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    return str(found) == str(wanted)  # NaN differs from itself


def test_delta_deletes_partitions_and_new_columns_are_applied() -> None:
    write_deltalake("orders", ORDERS, partition_by=["shop"], configuration={"delta.enableDeletionVectors": "true"})
    assert same(rows(delta="orders"), expected(ORDERS))
    DeltaTable("orders").delete("id = 3 OR id = 7")
    more = pa.table({"id": [12], "shop": ["c"], "price": [2.0], "note": ["new"]})
    write_deltalake("orders", more, mode="append", schema_mode="merge")
    kept = pa.concat_tables(
        [ORDERS.filter(pa.compute.invert(pa.compute.is_in(ORDERS["id"], pa.array([3, 7])))), more],
        promote_options="default",
    )
    found = rows(delta="orders")
    assert same([{name: row[name] for name in kept.column_names} for row in found], expected(kept))
    assert same(rows(delta="orders", version=0), expected(ORDERS))


def test_deletion_vectors_are_applied() -> None:
    """The library writes none, so the log is written here as the protocol of Delta Lake states."""
    Path("marked/_delta_log").mkdir(parents=True)
    pq.write_table(ORDERS, "marked/part.parquet")
    deleted = (2, 5)
    bitmap = struct.pack("<IIHHI2H", 12346, 1, 0, len(deleted) - 1, 16, *deleted)  # Roaring: one array container
    vector = struct.pack("<iqi", 1681511377, 1, 0) + bitmap
    z85 = bytes.maketrans(PYTHON_BASE85, Z85)
    fields = [("id", "long"), ("shop", "string"), ("price", "double")]
    schema = {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields],
    }
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"metaData": {"id": "orders", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                      "schemaString": json.dumps(schema), "configuration": {}}},
        {"add": {"path": "part.parquet", "partitionValues": {}, "size": Path("marked/part.parquet").stat().st_size,
                 "modificationTime": 0, "dataChange": True,
                 "deletionVector": {"storageType": "i", "sizeInBytes": len(vector), "cardinality": len(deleted),
                                    "pathOrInlineDv": base64.b85encode(vector).translate(z85).decode()}}},
    ]  # fmt: skip
    Path("marked/_delta_log/00000000000000000000.json").write_text("\n".join(map(json.dumps, actions)))
    assert [row["id"] for row in rows(delta="marked")] == [i for i in range(12) if i not in deleted]


def test_iceberg_deletes_partitions_and_changed_columns_are_applied(
    catalog: Catalog, properties: dict[str, str]
) -> None:
    table = catalog.create_table("shop.orders", schema=ORDERS.schema)
    with table.update_spec() as change:
        change.add_field("shop", IdentityTransform())
    table.append(ORDERS)
    first = table.current_snapshot()
    assert first is not None
    table.delete("id == 3 or id == 7")
    with table.update_schema() as update:
        update.rename_column("price", "cost")
        update.add_column("count", LongType())
    named = ORDERS.filter(pa.compute.invert(pa.compute.is_in(ORDERS["id"], pa.array([3, 7]))))
    named = named.rename_columns(["id", "shop", "cost"])
    origin = {"iceberg": "shop.orders", "catalog": properties}
    found = rows(**origin)
    assert {row.pop("count") for row in found} == {None} or all(math.isnan(row["count"]) for row in found)
    assert same(found, expected(named))
    assert same(rows(**origin, snapshot=first.snapshot_id), expected(ORDERS))


def test_the_identity_is_the_version_and_what_is_read_of_it() -> None:
    write_deltalake("orders", ORDERS)
    (first,) = input_files(TableSource(delta="orders"))
    assert first.identity == input_files(TableSource(delta="orders", version=0))[0].identity
    assert first.copy is not None
    assert first.copy.settings == {"version": 0}
    other = {first.identity, input_files(TableSource(delta="orders", columns=["id"]))[0].identity}
    other.add(input_files(TableSource(delta="orders", where="id > 3"))[0].identity)
    write_deltalake("orders", ORDERS, mode="overwrite")
    other.add(input_files(TableSource(delta="orders"))[0].identity)
    assert len(other) == 4


def test_only_needed_columns_and_rows_are_copied(catalog: Catalog, properties: dict[str, str]) -> None:
    wide = ORDERS.append_column("unused", ORDERS["id"]).append_column("key", ORDERS["id"])
    wide = wide.append_column("tag", ORDERS["id"]).append_column("secret", ORDERS["id"])
    write_deltalake("wide", wide)
    catalog.create_table("shop.wide", schema=wide.schema).append(wide)
    joined = {"on": {"left": "key", "right": "id"}, "cardinality": "many_to_one"}
    pq.write_table(ORDERS, "orders.parquet")
    tables = {"orders": JoinedTable.model_validate({"path": "orders.parquet", **joined})}
    for origin in ({"delta": "wide"}, {"iceberg": "shop.wide", "catalog": properties}):
        source = Source.model_validate(
            {**origin, "target": "price", "columns": ["sh*"], "id": "tag", "drop": ["secret"], "where": "id >= 6"}
        )
        (file,) = InputFiles.find(source, tables).source
        copied = pq.read_table(file.path)
        assert copied.column_names == ["id", "shop", "price", "key", "tag", "secret"]
        assert copied.column("id").to_pylist() == list(range(6, 12))


TABLE = pa.table(
    {
        "small": pa.array([-5, 0, 3, None, 2**31 - 1, 7], pa.int32()),
        "large": pa.array([-(2**60), 0, 3, None, 2**60, 7], pa.int64()),
        "real": pa.array([0.1, -0.0, math.nan, None, math.inf, 7.0], pa.float64()),
        "text": pa.array(["", "NA", "it's", None, " a ", "b"]),
        "odd name": pa.array([1.5, 2.5, None, 4.5, math.nan, 7.0], pa.float64()),
        "narrow": pa.array([0.1, 0.2, math.nan, None, math.inf, 7.0], pa.float32()),
        "flag": pa.array([True, False, None, True, False, True]),
        "day": pa.array([0, 1, None, 3, 4, 5], pa.timestamp("us")),
    }
)
NUMBERS = st.sampled_from(["0", "3", "-5", "7.0", "0.1", "2147483648", "9007199254740993", "1e999"])
TEXTS = st.sampled_from(["'NA'", "''", "' a '", '"it\'s"', "'b'"])
COMPARED = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])


def comparisons(names: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{} {} {}".format, names, COMPARED, values),
        st.builds("{} {} {}".format, values, COMPARED, names),
        st.builds("{} <= {} < {}".format, values, names, values),
        st.builds("{} {} [{}, {}]".format, names, st.sampled_from(["in", "not in"]), values, values),
        st.builds("{} {} None".format, names, st.sampled_from(["is", "is not"])),
    )


CONDITIONS = st.recursive(
    st.one_of(
        comparisons(st.sampled_from(["small", "large", "real", "`odd name`", "narrow"]), NUMBERS),
        comparisons(st.just("text"), TEXTS),
        st.sampled_from(["flag", "day < '1970-01-01'", "day is None", "small < real", "text == 3", "flag == True"]),
    ),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner),
        st.builds("(not {})".format, inner),
    ),
    max_leaves=4,
)


def result(source: TableSource) -> str:
    """Return the rows of a source, or the class of its error."""
    try:
        return str(read_arrow(source).table.to_pylist())
    except GpupipeError as error:
        return type(error).__name__ if "no rows" not in error.what and "no row passes" not in error.what else "none"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return one table as Parquet, Delta and Iceberg, each of several files with their own statistics."""
    from pyiceberg.catalog import load_catalog

    folder = tmp_path_factory.mktemp("tables")
    properties = {"name": "t", "type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/ice"}
    catalog = load_catalog(**properties)
    catalog.create_namespace("shop")
    iceberg = catalog.create_table("shop.t", schema=TABLE.schema)
    for start in (0, 2, 4):
        iceberg.append(TABLE.slice(start, 2))
        for name, partitions in (("delta", None), ("parts", ["small", "text"])):
            write_deltalake(folder / name, TABLE.slice(start, 2), mode="append", partition_by=partitions)
    pq.write_table(TABLE, folder / "table.parquet")
    return [
        {"path": str(folder / "table.parquet")},
        {"delta": str(folder / "delta")},
        {"delta": str(folder / "parts")},
        {"iceberg": "shop.t", "catalog": properties},
    ]


@settings(max_examples=300, deadline=None)
@given(where=CONDITIONS)
def test_an_implied_condition_holds_for_all_rows_that_pass(where: str) -> None:
    source = TableSource(path="any", where=where)
    condition = implied_condition(source, TABLE.schema)
    numbered = TABLE.append_column("number", pa.array(range(len(TABLE))))
    try:
        passing = filter_rows(plain_arrow(numbered), where)["number"].to_pylist()
    except GpupipeError:
        return
    if condition is not None:
        query = to_sql(condition, '"{}"'.format)
        found = duckdb.sql(f"SELECT number FROM numbered WHERE {query}").fetchall()
        assert {*passing} <= {number for (number,) in found}
        assert {*passing} <= {*select_rows(numbered, condition).column("number").to_pylist()}


@settings(max_examples=25, deadline=None)
@given(where=CONDITIONS)
@example(where="real is not None and `odd name` is not None")
@example(where='0 < small and text == "it\'s"')
def test_a_filter_keeps_the_rows_that_it_keeps_of_a_file(where: str, tables: list[dict[str, Any]]) -> None:
    parquet, *others = tables

    def in_order(found: str) -> str:
        return found if found.isalpha() else str(sorted(found.strip("[{}]").split("}, {")))

    wanted = in_order(result(TableSource(**parquet, where=where)))
    for origin in others:
        assert in_order(result(TableSource(**origin, where=where))) == wanted


def test_the_folder_of_a_table_is_not_read_as_files(catalog: Catalog, tmp_path: Path) -> None:
    write_deltalake("orders", ORDERS)
    catalog.create_table("shop.orders", schema=ORDERS.schema).append(ORDERS)
    for folder in ("orders", str(tmp_path / "ice/shop/orders")):
        with pytest.raises(DataError) as error:
            input_files(TableSource(path=folder))
        assert ("delta:" if folder == "orders" else "iceberg:") in error.value.fix


@pytest.mark.parametrize(
    "origin", [{"delta": "none"}, {"delta": "orders", "version": 5}, {"iceberg": "shop.none"},
               {"iceberg": "shop.orders", "snapshot": 5}, {"iceberg": "shop.orders", "catalog": "unknown"}]
)  # fmt: skip
def test_a_missing_table_or_snapshot_is_an_error(
    origin: dict[str, Any], catalog: Catalog, properties: dict[str, str]
) -> None:
    write_deltalake("orders", ORDERS)
    catalog.create_table("shop.orders", schema=ORDERS.schema)
    if "iceberg" in origin:
        origin = {"catalog": properties, **origin}
    with pytest.raises(DataError) as error:
        input_files(TableSource.model_validate(origin))
    assert error.value.fix
    assert "\x1b" not in str(error.value)
