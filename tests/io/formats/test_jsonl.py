"""JSON lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from gpupipe.errors import DataError, SchemaError
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import LoadedTable, read_arrow

ROWS: list[dict[str, object]] = [
    {"i": 1, "f": 1, "s": "x", "t": "2024-01-31 10:00:00"},
    {"i": None, "f": 2.5, "s": "NA", "t": None},
    {"i": 3, "s": "y", "late": True},
]


def read(folder: Path, content: str | bytes, name: str = "t.jsonl", **settings: object) -> LoadedTable:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read_arrow(Source(path=name, **settings))


def lines(rows: list[dict[str, object]]) -> str:
    return "\n".join(json.dumps(row) for row in rows)


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.jsonl.gz"])
def test_columns_are_those_of_all_lines_and_what_is_absent_is_null(tmp_path: Path, name: str) -> None:
    content = lines(ROWS).encode()
    table = read(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name).table
    assert table.column("i").to_pylist() == [1, None, 3] and table.field("i").type == pa.int64()
    assert table.column("f").to_pylist() == [1.0, 2.5, None]
    assert table.column("s").to_pylist() == ["x", None, "y"]
    assert table.field("s").type == pa.dictionary(pa.int32(), pa.string())
    assert table.field("t").type == pa.timestamp("us")
    assert table.column("late").to_pylist() == [None, None, True]


def test_integers_that_turn_into_floats_far_down_are_floats(tmp_path: Path) -> None:
    content = '{"a":1,"pad":"xxxxxxxxxxxxxxxxxxxxxxxx"}\n' * 200_000 + '{"a":1.5}\n'
    assert read(tmp_path, content).table.column("a")[-1].as_py() == 1.5


def test_nested_values_are_dropped_with_a_note_and_refused_if_requested(tmp_path: Path) -> None:
    content = '{"a":1,"b":{"c":2},"d":[1]}\n'
    loaded = read(tmp_path, content)
    assert loaded.table.column_names == ["a"] and len(loaded.notes.lines()) == 2
    with pytest.raises(SchemaError, match="not supported"):
        read(tmp_path, content, target="b")


@pytest.mark.parametrize("gap", [0, 200_000])
def test_a_column_of_mixed_types_is_refused(tmp_path: Path, gap: int) -> None:
    content = '{"a":1,"pad":"xxxxxxxxxxxxxxxxxxxxxxxx"}\n' * (gap + 1) + '{"a":"x"}\n'
    with pytest.raises(SchemaError) as caught:
        read(tmp_path, content)
    assert "t.jsonl" in caught.value.where and "one type" in caught.value.fix


@pytest.mark.parametrize("content", ['[{"a":1},{"a":2}]', "1\n2\n"])
def test_lines_other_than_objects_are_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match="expected a JSON object") as caught:
        read(tmp_path, content)
    assert "one JSON object per line" in caught.value.fix


@pytest.mark.parametrize("content", [b'{"a":1', b"a,b\n1,2\n", b'{"a":"\xff"}\n', b'{"a":1}\n{"a":}\n'])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, content)
    assert "t.jsonl" in caught.value.where


@pytest.mark.parametrize("content", ["", "\n"])
def test_a_file_without_rows_is_an_error(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match="there are no rows"):
        read(tmp_path, content)


def test_a_line_longer_than_a_block_is_read(tmp_path: Path) -> None:
    table = read(tmp_path, lines([{"a": "x" * (5 << 20)}, {"a": "y"}])).table
    assert len(table.column("a")[0].as_py()) == 5 << 20


def test_texts_that_look_like_times_stay_texts_if_they_are_declared(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"s": "2024-01-31T05:00:00", "t": "2024-01-31", "n": 1}]
    for declared in ("categorical", "text"):
        table = read(tmp_path, lines(rows), schema={"s": declared}).table
        assert table.column("s").to_pylist() == ["2024-01-31T05:00:00"]
        assert table.field("t").type == pa.timestamp("us") and table.field("n").type == pa.int64()
