"""The files of a path, and one table from several files."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from gpupipe.errors import DataError, GpupipeError, LimitError, SchemaError
from gpupipe.io.external.open_table import convert_errors
from gpupipe.io.files import convert_read_errors, find_files, mask
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow


def put(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = ["b.csv", "a.csv", "sub/c.csv", "_SUCCESS", ".hidden.csv", "sub/_temporary/d.csv", "x.txt"]
    for n, name in enumerate(names):
        put(tmp_path / "data" / name, f"a\n{n}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("data", [1, 0, 2]),
        ("data/", [1, 0, 2]),
        ("data/*.csv", [1, 0]),
        ("data/**/*.csv", [1, 0, 2, 5]),
        (["data/b.csv", "data/a.csv"], [0, 1]),
        ("data/[a]*.csv", [1]),
    ],
)
def test_rows_come_in_the_sorted_order_of_the_files(folder: Path, path: str | list[str], values: list[int]) -> None:
    loaded = read_arrow(Source(path=path))
    assert sorted(loaded.table.column("a").to_pylist()) == sorted(values)
    if path != "data/**/*.csv":
        assert loaded.table.column("a").to_pylist() == values


def test_the_identity_of_each_file_is_its_path_size_and_time(folder: Path) -> None:
    (file,) = find_files(Source(path="data/a.csv"))
    status = os.stat(folder / "data" / "a.csv")
    assert (file.path, file.size, file.mtime_ns) == (str(folder / "data" / "a.csv"), status.st_size, status.st_mtime_ns)


def test_a_file_name_that_looks_like_a_pattern_is_literal(tmp_path: Path) -> None:
    put(tmp_path / "t[1].csv", "a\n1\n")
    assert read_arrow(Source(path="t[1].csv")).table.num_rows == 1


def test_absent_files_are_named_with_the_nearest(folder: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder") as caught:
        find_files(Source(path="data/aa.csv"))
    assert str(folder / "data" / "aa.csv") in caught.value.where and "did you mean" in caught.value.fix
    with pytest.raises(DataError, match="no file matches"):
        find_files(Source(path="data/*.parquet"))
    with pytest.raises(DataError, match="the folder has no parquet file"):
        (folder / "empty").mkdir()
        find_files(Source(path="empty", format="parquet"))


def test_a_suffix_that_says_nothing_needs_the_format(tmp_path: Path) -> None:
    put(tmp_path / "t.data", "a,b\n1,2\n")
    with pytest.raises(DataError, match="the file format cannot be determined") as caught:
        read_arrow(Source(path="t.data"))
    assert "source.format: csv" in caught.value.fix
    assert read_arrow(Source(path="t.data", format="csv")).table.column_names == ["a", "b"]


def test_a_folder_of_several_formats_needs_the_format(folder: Path) -> None:
    pq.write_table(pa.table({"a": [9]}), folder / "data" / "z.parquet")
    with pytest.raises(DataError, match="several formats: csv, parquet"):
        read_arrow(Source(path="data"))
    assert read_arrow(Source(path="data", format="parquet")).table.to_pydict() == {"a": [9]}


def test_folders_of_a_hive_table_are_columns(tmp_path: Path) -> None:
    for year, city, n in [("2023", "New%20York", 1), ("2024", "Oslo", 2), ("2024", "__HIVE_DEFAULT_PARTITION__", 3)]:
        target = tmp_path / "t" / f"year={year}" / f"city={city}"
        target.mkdir(parents=True)
        pq.write_table(pa.table({"n": [n, n]}), target / "part-0.parquet")
    rows = {(1, 2023, "New York"), (2, 2024, "Oslo"), (3, 2024, None)}
    for path in ("t", "t/**/*.parquet"):
        table = read_arrow(Source(path=path)).table
        assert table.field("year").type == pa.int64()
        assert table.field("city").type == pa.dictionary(pa.int32(), pa.string())
        assert {tuple(row.values()) for row in table.to_pylist()} == rows and table.num_rows == 6
    assert read_arrow(Source(path="t", drop=["city"], where="year > 2023")).table.num_rows == 4


@pytest.mark.parametrize(
    ("folders", "settings", "keys", "found"),
    [
        (["01", "02"], {}, (), [1, 2]),
        (["01", "02", "A3"], {}, (), ["01", "02", "A3"]),
        (["01"], {"schema": {"g": "categorical"}}, (), ["01"]),
        (["01", "1"], {}, ("g",), ["01", "1"]),
        (["1", "2"], {}, ("g",), [1, 2]),
        (["NA", " x "], {}, (), [None, "x"]),
    ],
)
def test_the_name_of_a_folder_is_a_text_that_the_schema_interprets(
    tmp_path: Path, folders: list[str], settings: dict[str, object], keys: tuple[str, ...], found: list[object]
) -> None:
    for name in folders:
        put(tmp_path / f"t/g={name}/a.csv", "n\n1\n")
    table = read_arrow(Source(path="t", **settings).read_as(keys)).table
    assert sorted(table.column("g").to_pylist(), key=str) == sorted(found, key=str)


def test_columns_may_come_in_another_order_and_may_be_absent(tmp_path: Path) -> None:
    put(tmp_path / "t/a.csv", "x,y\n1,p\n")
    put(tmp_path / "t/b.csv", "y,x,z\nq,2.5,7\n")
    loaded = read_arrow(Source(path="t"))
    assert loaded.table.to_pydict() == {"x": [1.0, 2.5], "y": ["p", "q"], "z": [None, 7]}
    assert any("'z' is missing from" in note and "a.csv" in note for note in loaded.notes)


def test_a_csv_column_that_is_text_in_one_file_is_text_in_all(tmp_path: Path) -> None:
    put(tmp_path / "t/a.csv", "id,n\n0536365,1\n536366,2\n")
    put(tmp_path / "t/b.csv", "id,n\nC536379,3\n")
    loaded = read_arrow(Source(path="t"))
    assert loaded.table.column("id").to_pylist() == ["0536365", "536366", "C536379"]
    assert any("read as text: id" in note for note in loaded.notes)


def test_integers_and_floats_in_two_files_are_floats_and_nulls_go_with_all(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    columns = [pa.array([1], pa.int8()), pa.array([2.5]), pa.nulls(1), pa.array([2**40])]
    for i, values in enumerate(columns):
        pq.write_table(pa.table({"v": values}), tmp_path / "t" / f"{i}.parquet")
    assert read_arrow(Source(path="t")).table.column("v").to_pylist() == [1.0, 2.5, None, float(2**40)]


def test_types_without_a_common_type_are_refused_with_both_files(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"v": [1]}), tmp_path / "t" / "a.parquet")
    pq.write_table(pa.table({"v": ["x"]}), tmp_path / "t" / "b.parquet")
    with pytest.raises(SchemaError, match="'v' has int64 values in one file and text in another") as caught:
        read_arrow(Source(path="t"))
    assert "a.parquet" in caught.value.where and "b.parquet" in caught.value.where


def test_one_file_without_rows_among_others_is_allowed(tmp_path: Path) -> None:
    put(tmp_path / "t/a.csv", "x\n")
    put(tmp_path / "t/b.csv", "")
    put(tmp_path / "t/c.csv", "x\n5\n")
    loaded = read_arrow(Source(path="t"))
    assert loaded.table.to_pydict() == {"x": [5]}
    assert sum("no rows in" in note for note in loaded.notes) == 2


@pytest.fixture
def memory() -> fsspec.AbstractFileSystem:
    system = fsspec.filesystem("memory")
    system.pipe("/bucket/a.csv", b"a,b\n1,x\n")
    system.pipe("/bucket/b.csv", b"a,b\n2,y\n")
    yield system
    system.rm("/bucket", recursive=True)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    "path", ["memory://bucket", "memory://bucket/*.csv", ["memory://bucket/a.csv", "memory://bucket/b.csv"]]
)
def test_urls_of_fsspec_are_read(path: str | list[str]) -> None:
    assert read_arrow(Source(path=path)).table.to_pydict() == {"a": [1, 2], "b": ["x", "y"]}


def test_every_format_is_read_through_a_file_url(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    pq.write_table(table, tmp_path / "t.parquet")
    put(tmp_path / "t.jsonl", '{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n')
    pa.orc.write_table(table, tmp_path / "t.orc")
    pa.feather.write_feather(table, tmp_path / "t.feather")
    for name in ("t.parquet", "t.jsonl", "t.orc", "t.feather"):
        assert read_arrow(Source(path=f"file://{tmp_path}/{name}")).table.to_pydict() == table.to_pydict(), name


def test_a_missing_plugin_is_named_with_the_package() -> None:
    with pytest.raises(DataError, match="s3:// needs a package that is not installed") as caught:
        find_files(Source(path="s3://bucket/t.csv"))
    assert caught.value.fix == "pip install s3fs"


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(DataError, match="unknown protocol s4://"):
        find_files(Source(path="s4://bucket/t.csv"))


def test_a_url_without_a_file_is_refused() -> None:
    with pytest.raises(DataError):
        find_files(Source(path="memory://nothing/here.csv"))


def test_passwords_and_signatures_never_reach_a_message() -> None:
    masked = mask("reading ftp://bob:hunter2@host/t.csv?sig=s3cret&x=1 failed")
    assert "hunter2" not in masked and "s3cret" not in masked and "ftp://***@host/t.csv" in masked
    with pytest.raises(DataError) as caught, convert_read_errors("https://bob:hunter2@host/t.csv"):
        raise OSError("no answer from https://bob:hunter2@host/t.csv?token=s3cret")
    assert "hunter2" not in str(caught.value) and "s3cret" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_an_error(tmp_path: Path) -> None:
    put(tmp_path / "t.csv", "a\n1\n")
    (tmp_path / "t.csv").chmod(0)
    with pytest.raises(DataError, match="may not be read"):
        read_arrow(Source(path="t.csv"))


@pytest.mark.parametrize(
    "error", [MemoryError(), pa.ArrowMemoryError("malloc of size 64 failed"), OSError("std::bad_alloc")]
)
@pytest.mark.parametrize("guard", [convert_read_errors, lambda path: convert_errors("it failed", path, "look")])
@pytest.mark.parametrize(
    ("limited", "expected"), [("RLIMIT_AS", LimitError), ("RLIMIT_DATA", LimitError), (None, DataError)]
)
def test_a_reader_that_lacks_memory_under_a_limit_does_not_blame_the_file(
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    guard: Callable[[str], AbstractContextManager[None]],
    limited: str | None,
    expected: type[GpupipeError],
) -> None:
    finite = None if limited is None else getattr(resource, limited)
    monkeypatch.setattr(resource, "getrlimit", lambda of: (1 << 30 if of == finite else resource.RLIM_INFINITY,) * 2)
    with pytest.raises(expected) as caught, guard("a.csv"):
        raise error
    assert type(caught.value) is expected and caught.value.where == "a.csv"
