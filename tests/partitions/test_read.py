"""Reading a source in chunks on workers: the same table, notes and errors as on one machine."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from gpupipe.backends import Backend, choose
from gpupipe.config import Config
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.connect import connect
from gpupipe.datasets.churn import write
from gpupipe.errors import DataError, GpupipeError, SchemaError
from gpupipe.partitions import source_chunks
from gpupipe.partitions.read import LoadedPartitions, partition_table, read_partitions
from gpupipe.partitions.table import PartitionedTable
from gpupipe.table.blocks import Table
from gpupipe.training.preparation.read_stage import read_table
from tests.examples import examples
from tests.inline_workers import InlineWorkers

COUNTS = (1, 2, 3, 7)


@pytest.fixture(scope="module")
def backend() -> Backend:
    return choose("cpu")


def config(**source: Any) -> Config:
    tables = source.pop("tables", {})
    return Config.model_validate({"source": {"cache": False, **source}, "tables": tables})


def assert_same(got: LoadedPartitions, expected: Table) -> None:
    table = got.table
    assert table.schema == expected.schema
    assert (table.n_rows, dict(table.places)) == (expected.n_rows, dict(expected.places))
    parts = table.workers.gather(table.partitions)
    assert list(table.heights) == [part.n_rows for part in parts]
    for name, block in expected.blocks.items():
        start = 0
        for part in parts:
            own = block[:, start : start + part.n_rows]
            assert part.blocks[name].dtype == block.dtype and part.blocks[name].tobytes() == own.tobytes(), name
            start += part.n_rows
    for name, text in expected.texts.items():
        assert [v for part in parts for v in part.texts[name].to_pylist()] == text.to_pylist()


def compare(
    asked: Config, backend: Backend, counts: tuple[int, ...] = COUNTS, copies: bool = False
) -> list[LoadedPartitions]:
    """Read both ways; both refuse with the same class of error, or both give the same table and notes."""
    try:
        expected = read_table(asked, backend)
    except GpupipeError as error:
        for count in counts:
            with pytest.raises(type(error)) as caught:
                read_partitions(asked, InlineWorkers(backend, 2, copies=copies), count)
            assert caught.value.names == error.names
        raise
    assert isinstance(expected.table, Table)
    found = [read_partitions(asked, InlineWorkers(backend, 2, copies=copies), count) for count in counts]
    for read in found:
        assert_same(read, expected.table)
        assert sorted(read.notes) == sorted(expected.notes)
    return found


def n_parts(found: list[LoadedPartitions]) -> list[int]:
    return [len(read.table.partitions) for read in found]


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("churn")
    write(folder / "whole.parquet", 12_000)
    pq.write_table(pq.read_table(folder / "whole.parquet"), folder / "churn.parquet", row_group_size=800)
    return folder / "churn.parquet"


ADULT = [f"c{i}" for i in range(15)]


@pytest.mark.data
@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("telco-churn/Telco-Customer-Churn.csv", {"target": "Churn"}),
        ("telco-churn/Telco-Customer-Churn.csv", {"where": "tenure > 3 and Contract != 'One year'"}),
        ("telco-churn/Telco-Customer-Churn.csv", {"schema": {"TotalCharges": "text", "SeniorCitizen": "boolean"}}),
        ("nyc-taxi/nyc_taxi.csv", {}),
        ("bike-sharing/bike.csv", {}),
        ("diamonds/diamonds.csv", {"drop": ["@categorical"]}),
        ("chicago-taxi/chicago_taxi.csv", {}),
        ("online-retail/by-day", {}),
    ],
)
def test_public_tables_are_the_same(data_dir: Path, backend: Backend, path: str, source: dict[str, Any]) -> None:
    found = compare(config(path=str(data_dir / path), **source), backend)
    assert n_parts(found)[-1] >= 7


@pytest.mark.data
def test_two_files_with_bad_rows_give_the_same_table(data_dir: Path, backend: Backend) -> None:
    paths = [str(data_dir / "adult-income" / name) for name in ("adult.data", "adult.test")]
    csv = {"names": ADULT, "null_values": ["?"], "bad_rows": "skip"}
    found = compare(config(path=paths, format="csv", csv=csv), backend)
    assert any("skipped 1 row" in note for note in found[0].notes)
    with pytest.raises(DataError, match="line 1: expected 15 fields, found 1"):
        compare(config(path=paths, format="csv", csv={**csv, "bad_rows": "error"}), backend)


@pytest.mark.data
def test_a_compressed_file_is_read_by_one_worker_and_cut_then(data_dir: Path, backend: Backend) -> None:
    path = data_dir / "online-retail" / "online_retail.csv.gz"
    (found,) = compare(config(path=str(path)), backend, counts=(7,))
    assert len(found.table.partitions) == 7 and "cannot be split" in found.partition_notes[0]


@pytest.mark.data
def test_parquet_files_of_every_type_give_the_same_table_or_error(data_dir: Path, backend: Backend) -> None:
    n_read = 0
    for file in sorted((data_dir / "parquet-types").rglob("*.parquet")):
        if file.name.startswith("large_string_map"):  # two texts of a gigabyte
            continue
        try:
            compare(config(path=str(file)), backend, counts=(1, 3))
            n_read += 1
        except GpupipeError:
            pass
    assert n_read >= 20


@pytest.mark.parametrize("copies", [False, True])
def test_row_groups_give_the_same_table(churn: Path, backend: Backend, copies: bool) -> None:
    found = compare(config(path=str(churn), target="Churn"), backend, copies=copies)
    assert n_parts(found) == [1, 2, 3, 7]


@pytest.mark.parametrize("source", [{}, {"where": "tenure > 60 and Contract == 'Two year'", "drop": ["tenure"]}])
@pytest.mark.parametrize("suffix", ["csv", "orc", "jsonl", "arrow", "parquet"])
def test_the_same_rows_in_every_format(
    churn: Path, tmp_path: Path, backend: Backend, suffix: str, source: dict[str, Any]
) -> None:
    table = pq.read_table(churn).slice(0, 4_000)
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        arrow_csv.write_csv(table, path)
    elif suffix == "orc":
        orc.write_table(table, path, stripe_size=1, batch_size=1_000)
    elif suffix == "jsonl":
        table = table.drop_columns(["signup_ts"])
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif suffix == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, path, row_group_size=300)
    found = compare(config(path=str(path), **source), backend)
    assert n_parts(found)[-1] > 3


@pytest.mark.parametrize("generator", ["churn", "churn_events"])
def test_every_worker_makes_its_own_rows(backend: Backend, generator: str) -> None:
    found = compare(config(generate=generator, rows=9_000, seed=3), backend)
    assert n_parts(found) == [1, 2, 3, 7]
    compare(config(generate=generator, rows=40, where="customerID != ''"), backend)


def test_folders_that_are_columns_and_files_that_differ(churn: Path, tmp_path: Path, backend: Backend) -> None:
    table = pq.read_table(churn).slice(0, 3_000)
    tables = [
        table.slice(0, 1_000),
        table.slice(0, 0),
        table.slice(1_000, 900).select(table.column_names[::-1]).drop_columns(["gender"]),
        table.slice(1_900).set_column(1, "tenure", table.column("tenure").slice(1_900).cast(pa.float64())),
    ]
    for i, part in enumerate(tables):
        folder = tmp_path / f"year={2023 + i // 2}" / f"kind=k{i % 2}"
        folder.mkdir(parents=True)
        pq.write_table(part, folder / f"{i}.parquet", row_group_size=400)
    found = compare(config(path=str(tmp_path), target="Churn"), backend)
    assert any("no rows" in note for note in found[0].notes) and any("missing from" in note for note in found[0].notes)


ROWS = 400  # few rows, so that a chunk has about a kilobyte
LATE = {  # a column whose last value differs in type
    "int to float": ("1", "2.5"),
    "minus zero": ("-0", "2.5"),
    "int to bool": ("1", "true"),
    "int to text": ("07", "C7"),
    "number to bool": ("2", "true"),
    "date to time": ("2024-01-31", "2024-01-31 10:00:00"),
    "time to fraction": ("2024-01-31 10:00:00", "2024-01-31 10:00:00.5"),
    "old time to fraction": ("1001-01-31 10:00:00", "2024-01-31 10:00:00.5"),
    "zoned to plain": ("2024-01-31T10:00:00Z", "2024-01-31 10:00:00"),
    "time of day to text": ("10:30", "soon"),
    "nothing to int": ("", "3"),
    "nothing to text": ("NA", "x"),
    "padded null": ("3", " NA "),
    "padded null among floats": ("3.5", " NA "),
    "padded null among texts": ("x", " NA "),
    "big": ("1", "9999999999999999999"),
}


@pytest.mark.parametrize("n_odd", [1, -1, ROWS // 2])
@pytest.mark.parametrize("case", LATE)
def test_what_some_rows_show_counts_for_all(tmp_path: Path, backend: Backend, case: str, n_odd: int) -> None:
    """The first row, all but the last, or half of them have the second kind."""
    usual, odd = LATE[case]
    rows = [f"{i},{odd}" for i in range(ROWS)]
    rows[n_odd:] = [f"{i},{usual}" for i in range(ROWS - len(rows[:n_odd]))]
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(rows) + "\n")
    assert n_parts(compare(config(path=str(tmp_path / "t.csv")), backend, counts=(3,))) == [3]


def test_columns_that_are_text_in_one_file_are_text_in_all(tmp_path: Path, backend: Backend) -> None:
    for i, odd in enumerate(("5", "C5", " NA ", "10:30")):
        rows = [f"0{j},{j}.5,10:31,x,{j if j > 300 else ''}" for j in range(ROWS)] + [f"{odd},1,{odd},y,{odd}"]
        (tmp_path / f"{i}.csv").write_text("a,b,c,d,e\n" + "\n".join(rows))
    found = compare(config(path=str(tmp_path)), backend)
    assert any("read as text" in note for note in found[0].notes)


CELLS = st.sampled_from(
    [
        "1",
        "-0",
        "2.5",
        "true",
        "",
        "NA",
        " NA ",
        "x",
        "x\ny",
        'say "hi"',
        "a,b",
        "\r\n",
        "2024-01-31",
        "10:30",
        '"',
        "é",
    ]
)


@examples(60)
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=30), quoting=st.booleans(), seed=st.integers(0, 99))
def test_text_files_are_cut_only_between_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], quoting: bool, seed: int
) -> None:
    backend, rng = choose("cpu"), random.Random(seed)
    path = tmp_path_factory.mktemp("csv") / "t.csv"

    def field(text: str) -> str:
        if not quoting or (rng.random() < 0.5 and not set(text) & set('\n\r,"')):
            return text
        return '"' + text.replace('"', '""') + '"'

    path.write_bytes(("a,b\n" + "".join(f"{field(a)},{field(b)}\n" for a, b in rows)).encode())
    try:
        compare(config(path=str(path)), backend, counts=(4,))
        compare(config(path=str(path), csv={"bad_rows": "skip"}), backend, counts=(4,))
    except GpupipeError:  # which was the same one
        pass


def big_csv(path: Path, **odd: str) -> Path:
    """Write rows ``i,text,i/2``, except those passed by name: ``row_300="x,y"``."""
    rows = [f"{i},name {i % 5},{i / 2}" for i in range(ROWS)]
    for name, row in odd.items():
        rows[int(name.removeprefix("row_"))] = row
    path.write_text("a,b,c\n" + "\n".join(rows) + "\n", "latin-1")
    return path


@pytest.mark.parametrize(
    ("odd", "source", "error", "says"),
    [
        ({"row_300": "1,2,3,4", "row_350": "5"}, {}, DataError, "line 302: expected 3 fields, found 4"),
        ({"row_300": "1,é,3"}, {}, DataError, "the text is not utf8"),
        (
            {"row_300": "1,b,four"},
            {"schema": {"c": "float"}},
            SchemaError,
            "expected a number in column 'c'; found 'four'",
        ),
        ({"row_300": "1,b,3"}, {"schema": {"b": "boolean"}}, SchemaError, "expected a boolean"),
        (
            {"row_300": "1,b,3"},
            {"schema": {"b": "datetime"}},
            SchemaError,
            "no known time format matches all values",
        ),
        ({}, {"schema": {"b": {"kind": "datetime", "format": "%Y"}}}, SchemaError, "expected a time in the format"),
        ({}, {"schema": {"a": "datetime"}}, SchemaError, "expected a unit for the times"),
        ({}, {"schema": {"bb": "float"}}, SchemaError, "schema: declares a column that is not in the data"),
        ({}, {"drop": ["bb"]}, SchemaError, "no such column: bb"),
        ({}, {"columns": ["bb"]}, SchemaError, "none of the requested columns"),
        ({}, {"where": "a > 1e9"}, DataError, "no row passes the filter"),
        ({}, {"where": "b > 3"}, SchemaError, "cannot be compared"),
        ({}, {"where": "bb > 3"}, SchemaError, "there is no column 'bb'"),
        ({}, {"drop": ["@numeric", "@categorical"]}, SchemaError, "source.drop removes all columns"),
    ],
)
def test_errors_are_the_same(
    tmp_path: Path, backend: Backend, odd: dict[str, str], source: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        compare(config(path=str(big_csv(tmp_path / "t.csv", **odd)), **source), backend, (1, 3), copies=True)


def test_of_several_columns_that_are_wrong_the_same_one_is_refused(tmp_path: Path, backend: Backend) -> None:
    path = big_csv(tmp_path / "t.csv", row_300="1,perhaps,four", row_20="2,never,5")
    with pytest.raises(SchemaError, match="column 'c'; found 'four'"):
        compare(config(path=str(path), schema={"b": "boolean", "c": "float"}), backend)


def test_the_first_of_several_files_that_are_wrong_is_refused(tmp_path: Path, backend: Backend) -> None:
    big_csv(tmp_path / "a.csv")
    big_csv(tmp_path / "b.csv", row_390="1,2")
    big_csv(tmp_path / "c.csv", row_3="1")
    with pytest.raises(DataError, match=r"line 392: expected 3 fields, found 2(.|\n)*b\.csv"):
        compare(config(path=str(tmp_path)), backend)


def test_other_encodings_delimiters_and_headers(tmp_path: Path, backend: Backend) -> None:
    path = big_csv(tmp_path / "t.csv", row_300="1,é,3")
    assert n_parts(compare(config(path=str(path), csv={"encoding": "latin-1"}), backend)) == list(COUNTS)
    text = path.read_text("latin-1").replace(",", ";")
    wide = tmp_path / "wide.csv"
    wide.write_bytes(text.encode("utf-16"))
    found = compare(config(path=str(wide), csv={"encoding": "utf-16"}), backend)
    assert n_parts(found) == list(COUNTS) and "cannot be split" in found[-1].partition_notes[0]
    (tmp_path / "mark.csv").write_bytes(text.encode("utf-8-sig").replace(b"\n", b"\r\n"))
    assert n_parts(compare(config(path=str(tmp_path / "mark.csv")), backend)) == list(COUNTS)
    (tmp_path / "bare.csv").write_bytes(b"\xef\xbb\xbf" + text.partition("\n")[2].encode())
    compare(config(path=str(tmp_path / "bare.csv"), csv={"names": ["x", "y", "z"], "strip": False}), backend)
    (tmp_path / "old.csv").write_bytes(text.replace("\n", "\r").encode())
    compare(config(path=str(tmp_path / "old.csv")), backend)
    (tmp_path / "header.csv").write_bytes(b'\n"a\nb";c;d\n' + text.partition("\n")[2].encode())
    compare(config(path=str(tmp_path / "header.csv")), backend)


@pytest.mark.parametrize(("quoted", "is_cut"), [("x", True), (' "a b"', True), ('\t"a b"', False)])
def test_fields_separated_by_runs_of_blanks(tmp_path: Path, backend: Backend, quoted: str, is_cut: bool) -> None:
    """A quote after a tab is irregular to the scan for row ends, which knows one delimiter: such a file is not cut."""
    text = big_csv(tmp_path / "t.csv", row_300=f"1,{quoted},3").read_text("latin-1")
    text = text.replace("name ", "name").replace(",", "  ")
    path = tmp_path / "blanks.txt"
    path.write_text(text.replace('  \t"', '\t"').replace("\n", " \n  "))
    found = compare(config(path=str(path), format="csv", csv={"delimiter": r"\s+"}), backend)
    assert n_parts(found) == list(COUNTS)
    assert ("cannot be split" not in "".join(found[-1].partition_notes)) is is_cut


def test_a_field_that_is_longer_than_a_piece(tmp_path: Path, backend: Backend) -> None:
    long = "x\n" * 20_000
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,x\n" * 50 + f'2,"{long}"\n' + "3,y\n" * 50)
    compare(config(path=str(path), schema={"b": "text"}), backend)


@pytest.mark.parametrize(
    ("usual", "odd"),
    [
        ({"a": 1}, {"a": 1.5}),
        ({"a": 1, "t": "2024-01-31 10:00:00"}, {"t": "soon"}),
        ({"a": None}, {"a": 3, "late": True}),
        ({"a": 1, "nested": None}, {"nested": {"b": 1}}),
        ({"a": 1, "nested": [1]}, {"other": [2]}),
        ({"a": "x"}, {"a": "N/A"}),
        ({"a": 1}, {"a": "x"}),
        ({"a": 1}, {"a": True}),
        ({"a": 2**62}, {"a": 2**64}),
    ],
)
def test_json_lines_that_differ_late(tmp_path: Path, backend: Backend, usual: Any, odd: Any) -> None:
    lines = [json.dumps({"i": i, **usual}) for i in range(ROWS)] + [json.dumps(odd)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    try:
        compare(config(path=str(tmp_path / "t.jsonl")), backend)
    except SchemaError as error:
        assert "write each column with one type" in error.fix


def test_json_objects_over_several_lines_are_read_as_a_whole(tmp_path: Path, backend: Backend) -> None:
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"a": i, "b": "x"}, indent=1) + "\n" for i in range(ROWS)))
    found = compare(config(path=str(tmp_path / "t.jsonl")), backend)
    assert "cannot be split" in found[-1].partition_notes[0]


def test_a_damaged_file_is_refused_by_name(churn: Path, tmp_path: Path, backend: Backend) -> None:
    content = bytearray(churn.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4_000] = bytes(4_000)
    (tmp_path / "damaged.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"damaged\.parquet"):
        compare(config(path=str(tmp_path / "damaged.parquet")), backend)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" * 9_999)[:-20])
    with pytest.raises(DataError, match=r"t\.csv\.gz"):
        compare(config(path=str(tmp_path / "t.csv.gz")), backend)


def test_files_without_rows(tmp_path: Path, backend: Backend) -> None:
    for content in ("", "a,b\n", "\n\n"):
        (tmp_path / "t.csv").write_text(content)
        with pytest.raises(DataError, match="there are no rows"):
            compare(config(path=str(tmp_path / "t.csv")), backend)
    big_csv(tmp_path / "u.csv")
    compare(config(path=str(tmp_path)), backend)


def test_a_hook_receives_all_rows_and_that_is_reported(tmp_path: Path, backend: Backend) -> None:
    (tmp_path / "hook.py").write_text("def clean(frame): return frame.assign(n=len(frame))")
    source = {"path": str(big_csv(tmp_path / "t.csv")), "prepare": f"{tmp_path}/hook.py:clean"}
    found = compare(config(**source), backend)
    assert n_parts(found) == list(COUNTS) and found[0].partition_notes[0].startswith("read by one worker")


@pytest.mark.parametrize("how", ["many_to_one", "one_to_one", "one_to_many"])
def test_tables_are_joined(churn: Path, tmp_path: Path, backend: Backend, how: str) -> None:
    table = pq.read_table(churn, columns=["customerID", "tenure", "City"])
    cities = table.group_by("City").aggregate([("tenure", "mean")])
    pq.write_table(cities.slice(0, 1_500), tmp_path / "cities.parquet")
    pq.write_table(table.slice(0, 6_000), tmp_path / "again.parquet")
    tables: dict[str, Any] = {
        "cities": {"path": str(tmp_path / "cities.parquet"), "on": "City", "cardinality": "many_to_one"},
        "again": {"path": str(tmp_path / "again.parquet"), "on": "customerID", "cardinality": how, "prefix": "again_"},
    }
    found = compare(config(path=str(churn), tables=tables), backend)
    assert ("read by one worker" in found[0].partition_notes[0]) == (how == "one_to_one")
    tables["again"]["path"] = str(churn)
    tables["again"] |= {"on": "tenure", "schema": {"Churn": "categorical"}}
    if how != "one_to_many":
        with pytest.raises(SchemaError, match="occurs more than once"):
            compare(config(path=str(churn), tables=tables), backend)


def test_a_key_has_one_meaning_in_partitions_of_digits_and_of_texts(tmp_path: Path, backend: Backend) -> None:
    (tmp_path / "t.csv").write_text("k,a\n" + "7,1\n" * ROWS + "x,1\n" * ROWS)
    pq.write_table(pa.table({"k": [7, 8], "b": ["p", "q"]}), tmp_path / "right.parquet")
    right = {"path": str(tmp_path / "right.parquet"), "on": "k", "cardinality": "many_to_one"}
    compare(config(path=str(tmp_path / "t.csv"), tables={"right": right}), backend)


def test_a_table_in_the_driver_is_sent_to_the_workers(churn: Path, backend: Backend) -> None:
    table = read_table(config(path=str(churn)), backend).table
    assert isinstance(table, Table)
    sent = partition_table(table, InlineWorkers(backend, 2), 3)
    assert len(sent.partitions) == 3
    assert_same(LoadedPartitions(sent, (), ()), table)


def test_other_processes_read_the_same(churn: Path, tmp_path: Path, backend: Backend) -> None:
    """Dask's: what they hold is fetched here, to be compared."""
    arrow_csv.write_csv(pq.read_table(churn), tmp_path / "t.csv")
    asked = config(path=str(tmp_path / "t.csv"), target="Churn", where="tenure > 3")
    expected = read_table(asked, backend)
    with connect(ClusterSettings(scheduler="local", workers=2, threads=1, memory_limit=1 << 30), "cpu") as workers:
        found = read_partitions(asked, workers, 5)
        tables = workers.gather(found.table.partitions)
        wrong = config(path=str(tmp_path / "t.csv"), schema={"Churn": "float"})
        with pytest.raises(SchemaError, match="data rows 0, 1"):
            read_partitions(wrong, workers, 5)
    here = InlineWorkers(backend, 2)
    parts, heights = tuple(map(here.put, tables)), tuple(table.n_rows for table in tables)
    table = PartitionedTable(parts, here, heights, found.table.schema, found.table.places)
    assert len(parts) == 5 and found.notes == expected.notes
    assert isinstance(expected.table, Table)
    assert_same(LoadedPartitions(table, (), ()), expected.table)


def test_chunks_stay_small_if_few_are_requested(churn: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_chunks, "CHUNK_BYTES", 200_000)
    (found,) = compare(config(path=str(churn)), backend, counts=(1,))
    assert len(found.table.partitions) > 5
