"""The prepare hook."""

from __future__ import annotations

import resource
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.errors import ConfigError, DataError, GpupipeError, LimitError
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow

TEXT = pa.dictionary(pa.int32(), pa.string())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("id,n,s,t\n1,5,a,2024-01-01\n2,,b,2024-01-02\n3,7,,2024-01-03\n")
    return tmp_path


def prepared(folder: Path, body: str, **settings: object) -> pa.Table:
    (folder / "hook.py").write_text(body)
    source = Source(path="t.csv", prepare="hook.py:prepare", **settings)
    return read_arrow(source).table


def test_the_hook_sees_plain_columns_and_its_result_is_the_table(folder: Path) -> None:
    body = """
def prepare(frame):
    assert [str(dtype) for dtype in frame.dtypes] == ["int64", "Int64", "str", "datetime64[us]"], frame.dtypes
    frame["label"] = frame["s"] + "!"
    frame["twice"] = frame["n"] * 2
    frame["y"] = (frame["id"] > 1).map({True: "Yes", False: "NA"})
    return frame.drop(columns=["t"])
"""
    table = prepared(folder, body, target="y", drop=["s"])
    assert table.column_names == ["id", "n", "label", "twice", "y"]
    assert table.column("label").to_pylist() == ["a!", "b!", None] and table.field("label").type == TEXT
    assert table.column("twice").to_pylist() == [10, None, 14] and table.field("twice").type == pa.int64()
    assert table.column("y").to_pylist() == [None, "Yes", "Yes"]


def test_the_filter_comes_after_the_hook(folder: Path) -> None:
    table = prepared(folder, "def prepare(frame):\n    return frame.assign(k=frame['id'] * 10)\n", where="k > 10")
    assert table.column("k").to_pylist() == [20, 30]


def test_the_hook_may_flatten_what_is_nested(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "l": [[1, 2], [3]]}), tmp_path / "t.parquet")
    (tmp_path / "hook.py").write_text("def prepare(frame):\n    return frame.assign(n=frame['l'].map(len))\n")
    loaded = read_arrow(Source(path="t.parquet", prepare="hook.py:prepare"))
    assert loaded.table.to_pydict() == {"a": [1, 2], "n": [2, 1]}


def test_the_hook_is_part_of_the_identity_of_the_input(folder: Path) -> None:
    (folder / "hook.py").write_text("def prepare(frame):\n    return frame\n")
    loaded = read_arrow(Source(path="t.csv", prepare="hook.py:prepare"))
    assert [Path(file.path).name for file in loaded.files] == ["t.csv", "hook.py"]


def test_an_error_in_the_hook_is_reported_with_its_line(folder: Path) -> None:
    with pytest.raises(DataError, match="KeyError: 'nope'") as caught:
        prepared(folder, "def prepare(frame):\n    frame = frame.copy()\n    return frame[['id']]['nope']\n")
    assert caught.value.where.endswith("hook.py:3")


@pytest.mark.parametrize("result", ["None", "frame['id']", "frame.assign(x=[1, 'a', None])"])
def test_a_hook_that_returns_no_usable_table_is_an_error(folder: Path, result: str) -> None:
    with pytest.raises(DataError, match=r"prepare: (expected a pandas\.DataFrame|returned a column of mixed types)"):
        prepared(folder, f"def prepare(frame):\n    return {result}\n")


@pytest.mark.parametrize(("limit", "expected"), [(1 << 40, LimitError), (resource.RLIM_INFINITY, DataError)])
def test_a_hook_that_lacks_memory_under_a_limit_is_not_at_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: int, expected: type[GpupipeError]
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda of: (limit, limit))
    with pytest.raises(expected, match="3 TiB") as caught:
        prepared(folder, "def prepare(frame):\n    raise MemoryError('3 TiB')\n")
    assert caught.value.where.endswith("hook.py:2")


def test_an_absent_function_is_named_with_the_nearest(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no such function: 'prepare'") as caught:
        prepared(folder, "def prepares(frame):\n    return frame\n")
    assert "did you mean 'prepares'?" in caught.value.fix
    with pytest.raises(ConfigError, match="no such file"):
        read_arrow(Source(path="t.csv", prepare="absent.py:prepare"))
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        prepared(folder, "1 / 0\n")
