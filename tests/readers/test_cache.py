"""The encoded cache."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpupipe.errors import ConfigError
from gpupipe.readers.cache import Cache
from gpupipe.readers.settings import JoinedTable, Source
from gpupipe.table.blocks import Table, layout
from gpupipe.table.schema import Column, Schema


def encoded(n_rows: int = 1000, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    schema = Schema(
        (
            Column("age", "numeric", "int64", storage="float32"),
            Column("paid", "numeric", "double", storage="float64"),
            Column("city", "categorical", "string", storage="int8", levels=("Oslo", "Zürich\n")),
            Column("flag", "boolean", "bool", storage="int8", levels=("false", "true")),
            Column("when", "datetime", "timestamp[us]", storage="int64", time_format="%Y"),
            Column("note", "text", "string"),
        )
    )
    blocks = {
        "float32": rng.random((1, n_rows), np.float32),
        "float64": rng.random((1, n_rows)),
        "int8": rng.integers(0, 5, (2, n_rows), np.int8),
        "int64": rng.integers(-(2**60), 2**60, (1, n_rows)),
    }
    half = n_rows // 2
    texts = [pa.array((["a", None] * half)[:half], pa.string()), pa.array(["b"] * (n_rows - half), pa.string())]
    notes = pa.chunked_array([text.dictionary_encode() for text in texts])
    return Table(schema, n_rows, blocks, layout(schema), {"note": notes})


def assert_equal(a: Table, b: Table) -> None:
    assert (a.schema, a.n_rows, dict(a.places)) == (b.schema, b.n_rows, dict(b.places))
    assert set(a.blocks) == set(b.blocks)
    for name, block in a.blocks.items():
        np.testing.assert_array_equal(block, b.blocks[name])
        assert block.dtype == b.blocks[name].dtype
    assert {n: c.to_pylist() for n, c in a.texts.items()} == {n: c.to_pylist() for n, c in b.texts.items()}


def is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def test_what_is_stored_is_loaded_without_a_copy(tmp_path: Path) -> None:
    table = encoded()
    assert Cache(tmp_path / "cache", "k").load() is None
    assert Cache(tmp_path / "cache", "k").store(table) == []
    loaded = Cache(tmp_path / "cache", "k").load()
    assert loaded is not None
    assert_equal(loaded, table)
    for block in loaded.blocks.values():
        assert is_mapped(block) and not block.flags.writeable and block.ctypes.data % 64 == 0
    assert os.listdir(tmp_path / "cache") == ["k"]


@pytest.mark.parametrize("n_rows", [0, 1])
def test_small_tables_are_kept_too(tmp_path: Path, n_rows: int) -> None:
    Cache(tmp_path, "k").store(encoded(n_rows))
    loaded = Cache(tmp_path, "k").load()
    assert loaded is not None
    assert_equal(loaded, encoded(n_rows))


@pytest.mark.parametrize("name", ["int8.npy", "float64.npy", "levels.json", "texts.arrow", "table.json"])
@pytest.mark.parametrize("harm", ["truncate", "remove", "garbage", "flip a bit"])
def test_a_damaged_entry_is_written_anew_with_a_note(tmp_path: Path, name: str, harm: str) -> None:
    Cache(tmp_path, "k").store(encoded())
    path = tmp_path / "k" / name
    if harm == "truncate":
        path.write_bytes(path.read_bytes()[:-10])
    elif harm == "remove":
        path.unlink()
    elif harm == "flip a bit":
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
    elif name == "table.json":
        path.write_text("{}")
    else:
        path.write_bytes(b"x" * 100)
    cache = Cache(tmp_path, "k")
    assert cache.load() is None
    (note,) = cache.store(encoded())
    assert "damaged" in note and "written anew" in note
    loaded = Cache(tmp_path, "k").load()
    assert loaded is not None
    assert_equal(loaded, encoded())


def test_the_least_recently_used_entries_make_room(tmp_path: Path) -> None:
    size = sum(p.stat().st_size for p in _stored(tmp_path, "a").iterdir())
    for i, key in enumerate("bc"):
        _stored(tmp_path, key)
        os.utime(tmp_path / key, (i + 1000, i + 1000))
    os.utime(tmp_path / "a", (0, 0))
    assert Cache(tmp_path, "a").load() is not None  # now the most recent
    assert Cache(tmp_path, "d", limit_bytes=int(size * 3.5)).store(encoded()) == []
    assert sorted(os.listdir(tmp_path)) == ["a", "c", "d"]


def test_a_table_larger_than_the_cache_is_not_kept_and_removes_nothing(tmp_path: Path) -> None:
    _stored(tmp_path, "a")
    (note,) = Cache(tmp_path, "b", limit_bytes=100).store(encoded())
    assert "not kept" in note
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (note,) = Cache(tmp_path / "file", "k").store(encoded())
    assert "not kept" in note


def _stored(folder: Path, key: str) -> Path:
    assert Cache(folder, key).store(encoded()) == []
    return folder / key


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "u.csv").write_text("a,c\n1,2\n")
    monkeypatch.setenv("GPUPIPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GPUPIPE_CACHE_LIMIT", raising=False)
    return Source(path="t.csv", cache=True)


def key_of(source: Source, folder: Path, **tables: JoinedTable) -> str:
    cache = Cache.of(source, tables, folder)
    assert cache is not None
    return cache.path.name


def test_the_key_follows_the_files_and_the_settings(source: Source, tmp_path: Path) -> None:
    joined = JoinedTable.model_validate({"path": "u.csv", "on": "a", "cardinality": "many_to_one"})
    first = key_of(source, tmp_path)
    assert first == key_of(source, tmp_path)
    keys = {first, key_of(Source(path="t.csv", cache=True, drop=["a"]), tmp_path), key_of(source, tmp_path, u=joined)}
    os.utime(tmp_path / "t.csv", ns=(1, 1))
    keys.add(key_of(source, tmp_path))
    os.utime(tmp_path / "u.csv", ns=(1, 1))
    keys.add(key_of(source, tmp_path, u=joined))
    (tmp_path / "t.csv").write_text("a,b\n1,23\n")
    os.utime(tmp_path / "t.csv", ns=(1, 1))
    keys.add(key_of(source, tmp_path))
    assert len(keys) == 6


def test_auto_keeps_large_inputs_only(source: Source, tmp_path: Path) -> None:
    auto = Source(path="t.csv")
    assert Cache.of(auto, None, tmp_path) is None
    os.truncate(tmp_path / "t.csv", 64 << 20)
    assert Cache.of(auto, None, tmp_path) is not None
    assert Cache.of(Source(path="t.csv", cache=False), None, tmp_path) is None
    assert Cache.of(Source(generate="churn", rows=10**9), None, tmp_path) is None


def test_the_folder_is_the_setting_or_the_environment_or_the_users(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder(source: Source) -> Path:
        cache = Cache.of(source, None, tmp_path)
        assert cache is not None
        return cache.folder

    assert folder(Source(path="t.csv", cache="here")) == tmp_path / "here"
    assert folder(source) == tmp_path / "cache"
    monkeypatch.delenv("GPUPIPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert folder(source) == tmp_path / "xdg" / "gpupipe"


@pytest.mark.parametrize(
    ("text", "n_bytes"), [("20GiB", 20 << 30), ("500 MB", 5 * 10**8), ("1024", 1024), ("1.5kib", 1536)]
)
def test_the_limit_is_a_size(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, n_bytes: int
) -> None:
    monkeypatch.setenv("GPUPIPE_CACHE_LIMIT", text)
    cache = Cache.of(source, None, tmp_path)
    assert cache is not None and cache.limit_bytes == n_bytes
    monkeypatch.setenv("GPUPIPE_CACHE_LIMIT", "much")
    with pytest.raises(ConfigError, match="no size"):
        Cache.of(source, None, tmp_path)
