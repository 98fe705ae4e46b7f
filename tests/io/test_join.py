"""Left joins with a declared cardinality, which is checked."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import SchemaError
from gpupipe.io.join import read_joined
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.io.source_reader import LoadedTable
from gpupipe.user_warnings import WarningNote
from tests.examples import examples


def join(
    folder: Path,
    left: dict[str, Any],
    right: dict[str, Any],
    on: Any = "k",
    cardinality: str = "many_to_one",
    **more: Any,
) -> LoadedTable:
    pq.write_table(pa.table(left), folder / "left.parquet", row_group_size=3)
    pq.write_table(pa.table(right), folder / "right.parquet", row_group_size=2)
    table = JoinedTable.model_validate({"path": "right.parquet", "on": on, "cardinality": cardinality, **more})
    return read_joined(Source(path="left.parquet"), {"right": table})


def test_every_row_of_the_main_table_stays_once_in_its_order(tmp_path: Path) -> None:
    loaded = join(
        tmp_path,
        {"k": ["b", "a", None, "z", "b"], "n": [1, 2, 3, 4, 5]},
        {"k": ["a", "b", "c", None], "v": [10, 20, 30, 40], "s": ["x", None, "y", "n"]},
    )
    assert loaded.table.column_names == ["k", "n", "v", "s"]
    assert loaded.table.column("n").to_pylist() == [1, 2, 3, 4, 5]
    assert loaded.table.column("v").to_pylist() == [20, 10, None, None, 20]
    assert loaded.table.column("s").to_pylist() == [None, "x", None, None, None]
    assert "table 'right': 60.0% of the rows have a match" in loaded.notes
    assert [Path(file.path).name for file in loaded.files] == ["left.parquet", "right.parquet"]


def test_a_key_of_several_columns_matches_as_a_whole(tmp_path: Path) -> None:
    loaded = join(
        tmp_path,
        {"k": [1, 1, 2, 2, None], "day": ["mo", "tu", "mo", "we", "mo"]},
        {"id": [1, 2, 1], "d": ["tu", "mo", "mo"], "v": [1.0, 2.0, 3.0]},
        on={"left": ["k", "day"], "right": ["id", "d"]},
    )
    assert loaded.table.column_names == ["k", "day", "v"]
    assert loaded.table.column("v").to_pylist() == [3.0, 1.0, 2.0, None, None]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([1, 2, None], pa.int8()), pa.array([1, 2], pa.int64())),
        (pa.array([1.0, 2.0, None]), pa.array([1, 2])),
        (pa.array([1, 2, None]), pa.array(["1", "2"])),
        (pa.array(["1.0", "2", None]), pa.array([1, 2])),
        (pa.array(["01", "2", None]), pa.array([1, 2])),
        (pa.array(["a", "2", None]), pa.array([1, 2])),
        (pa.array([1.5, 2, None]), pa.array(["1.5", "2"])),
        (pa.array([1.1, 2, None], pa.float32()), pa.array([1.1, 2.0])),
        (pa.array([1.5, 2, None]), pa.array([1.5, 2.0], pa.float32())),
        (pa.array(["True", "FALSE", None]), pa.array([True, False])),
        (pa.array(["2024-01-31", "2024-02-01T00:00:00"]), pa.array([dt.date(2024, 1, 31), dt.date(2024, 2, 1)])),
        (pa.array([1, 2, None], pa.timestamp("ms")), pa.array([1000, 2000], pa.timestamp("us"))),
        (pa.array([0, 1, None], pa.date32()), pa.array([0, 86_400], pa.timestamp("s"))),
        (pa.array([True, False, None]), pa.array([True, False])),
    ],
)
def test_keys_of_similar_types_are_compared_by_value(tmp_path: Path, left: pa.Array, right: pa.Array) -> None:
    table = join(tmp_path, {"k": left}, {"k": right, "v": [10, 20]}).table
    assert table.column("v").to_pylist()[:2] == [None if left[0].as_py() in ("a", "01") else 10, 20]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([True]), pa.array([1])),
        (pa.array([1]), pa.array([1], pa.timestamp("us"))),
    ],
)
def test_keys_of_unlike_types_are_refused(tmp_path: Path, left: pa.Array, right: pa.Array) -> None:
    with pytest.raises(SchemaError, match="cannot compare the keys k = k"):
        join(tmp_path, {"k": left}, {"k": right, "v": [10]})


def test_a_duplicate_key_is_reported_with_its_rows(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="many_to_one, but the key k='b' occurs more than once") as caught:
        join(tmp_path, {"k": ["a"]}, {"k": ["a", "b", "c", "b", "b"], "v": [1, 2, 3, 4, 5]})
    assert caught.value.where == "table 'right', rows 1, 3; rows are counted from 0"


def test_one_to_one_checks_the_main_table_too(tmp_path: Path) -> None:
    left, right = {"k": ["a", "b", "a"]}, {"k": ["a", "b"], "v": [1, 2]}
    assert join(tmp_path, left, right).table.num_rows == 3
    with pytest.raises(SchemaError, match="one_to_one, but the key k='a'") as caught:
        join(tmp_path, left, right, cardinality="one_to_one")
    assert caught.value.where == "the main table, rows 0, 2; rows are counted from 0"


def test_null_keys_are_never_duplicates(tmp_path: Path) -> None:
    table = join(
        tmp_path, {"k": [None, None, 1]}, {"k": [None, None, 1], "v": [1, 2, 3]}, cardinality="one_to_one"
    ).table
    assert table.column("v").to_pylist() == [None, None, 3]


def test_two_columns_of_one_name_need_a_prefix(tmp_path: Path) -> None:
    left, right = {"k": [1], "v": [1]}, {"k": [1], "v": [2], "w": [3]}
    with pytest.raises(SchemaError, match="both tables have 'v'") as caught:
        join(tmp_path, left, right)
    assert "prefix: right_" in caught.value.fix
    assert join(tmp_path, left, right, prefix="r_").table.column_names == ["k", "v", "r_v", "r_w"]


@pytest.mark.parametrize("more", [{"columns": ["v"]}, {"drop": ["k", "w"]}])
def test_columns_of_a_table_need_not_list_its_key(tmp_path: Path, more: dict[str, Any]) -> None:
    left, right = {"k": [2, 1]}, {"k": [1, 2], "v": [10, 20], "w": [0, 0]}
    assert join(tmp_path, left, right, **more).table.to_pydict() == {"k": [2, 1], "v": [20, 10]}


def test_an_absent_key_is_named_with_its_table(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no column 'id'") as caught:
        join(tmp_path, {"id": [1]}, {"idd": [1], "v": [2]}, on="id")
    assert "table 'right'" in caught.value.where and "did you mean 'idd'?" in caught.value.fix


def test_a_later_table_may_have_its_key_in_an_earlier_one(tmp_path: Path) -> None:
    for name, columns in {
        "orders": {"customer": [1, 2, 1]},
        "customers": {"customer": [1, 2], "city": ["Oslo", "Rome"]},
        "cities": {"city": ["Rome", "Oslo"], "people": [28, 7]},
    }.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    tables = {
        name: JoinedTable.model_validate({"path": f"{name}.parquet", "on": on, "cardinality": "many_to_one"})
        for name, on in (("customers", "customer"), ("cities", "city"))
    }
    loaded = read_joined(Source(path="orders.parquet"), tables, columns=["people", "customer"])
    assert loaded.table.to_pydict() == {"customer": [1, 2, 1], "people": [7, 28, 7]}


KEYS = st.lists(st.one_of(st.none(), st.integers(0, 12)), min_size=1, max_size=25)


@examples(50)
@given(left=KEYS, right=KEYS, as_text=st.booleans())
def test_the_result_matches_pandas(
    tmp_path_factory: pytest.TempPathFactory, left: list[int | None], right: list[int | None], as_text: bool
) -> None:
    folder = tmp_path_factory.mktemp("join")
    unique = list(dict.fromkeys(right))
    kind: Any = "str" if as_text else "Int64"
    frames = [
        pd.DataFrame({"k": pd.array(keys, "Int64").astype(kind), "n" + str(i): range(len(keys))})
        for i, keys in enumerate((left, unique))
    ]
    for frame, name in zip(frames, ("left", "right"), strict=True):
        frame.to_parquet(folder / f"{name}.parquet", row_group_size=4)
    path = str(folder / "right.parquet")
    table = JoinedTable.model_validate({"path": path, "on": "k", "cardinality": "many_to_one"})
    ours = read_joined(Source(path=str(folder / "left.parquet")), {"right": table}).table
    theirs = frames[0].merge(frames[1].dropna(subset="k"), on="k", how="left")
    assert ours.column("n0").to_pylist() == theirs["n0"].tolist()
    assert ours.column("n1").to_pylist() == [None if pd.isna(n) else int(n) for n in theirs["n1"]]


def csv_join(folder: Path, left: list[str], right: list[str], **more: Any) -> LoadedTable:
    """Join two CSV files by keys; the second one has the number of each key."""
    (folder / "left.csv").write_text("k\n" + "".join(f"{key}\n" for key in left))
    (folder / "right.csv").write_text("k,v\n" + "".join(f"{key},{i}\n" for i, key in enumerate(right)))
    table = JoinedTable.model_validate({"path": "right.csv", "on": "k", "cardinality": "many_to_one", **more})
    return read_joined(Source(path="left.csv").read_as(["k"]), {"right": table})


@pytest.mark.parametrize("further", [[], ["HQ"]])
@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        (["01", "02", "1"], ["01", "02", "1"], [0, 1, 2]),
        (["1", "2"], ["01", "2"], [None, 1]),
        (["1.0", "2.0"], ["1", "2"], [0, 1]),
        (["9007199254740993"], ["9007199254740992", "9007199254740993"], [1]),
        (["18446744073709551617"], ["18446744073709551616", "18446744073709551617"], [1]),
        (["2024-01-31"], ["2024-01-31 00:00:00"], [0]),
        (["1.10"], ["1.1", "1.10"], [1]),
        (["1e3", "1000"], ["1000"], [None, 0]),
    ],
)
def test_what_a_key_of_a_csv_file_means_does_not_depend_on_the_other_keys(
    tmp_path: Path, left: list[str], right: list[str], found: list[int | None], further: list[str]
) -> None:
    for ours, theirs in ((left, [*right, *further]), ([*left, *further], right)):
        loaded = csv_join(tmp_path, ours, theirs)
        assert loaded.table.column("v").to_pylist()[: len(found)] == found


def test_a_key_that_is_declared_a_number_is_one(tmp_path: Path) -> None:
    loaded = csv_join(tmp_path, ["1", "2", "HQ"], ["01", "02"], schema={"k": "int"})
    assert loaded.table.column("v").to_pylist() == [0, 1, None]
    with pytest.raises(SchemaError, match="expected a number in column 'k'; found 'HQ'"):
        csv_join(tmp_path, ["1"], ["01", "HQ"], schema={"k": "int"})


@pytest.mark.parametrize(
    ("n_rows", "n_matches", "is_warning"), [(9, 0, False), (10, 0, True), (300, 2, True), (300, 3, False)]
)
def test_a_share_of_matches_near_zero_is_a_warning(
    tmp_path: Path, n_rows: int, n_matches: int, is_warning: bool
) -> None:
    left = ["7"] * n_matches + ["007"] * (n_rows - n_matches)
    (note,) = [note for note in csv_join(tmp_path, left, ["7"]).notes if "have a match" in note]
    assert isinstance(note, WarningNote) == is_warning
    if is_warning:
        assert f"{n_matches} of {n_rows} rows with a key" in note and "such as '007' here and 7 there" in note
        assert "schema: {KEY: int}" in note
