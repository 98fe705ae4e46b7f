"""The encoded cache."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpupipe.errors import ConfigError
from gpupipe.io.cache import MARKER, TAG, TableCache, cache_key, make_draft
from gpupipe.io.files import SourceFile
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.table.blocks import Table, layout
from gpupipe.table.schema import Column, Schema

KEY = "0123456789abcdef" * 4


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
    assert TableCache(tmp_path / "cache", KEY).load() is None
    assert TableCache(tmp_path / "cache", KEY).store(table) == []
    loaded = TableCache(tmp_path / "cache", KEY).load()
    assert loaded is not None
    assert_equal(loaded, table)
    for block in loaded.blocks.values():
        assert is_mapped(block) and not block.flags.writeable and block.ctypes.data % 64 == 0
    assert sorted(os.listdir(tmp_path / "cache")) == [KEY, TAG]


@pytest.mark.parametrize("n_rows", [0, 1])
def test_small_tables_are_kept_too(tmp_path: Path, n_rows: int) -> None:
    TableCache(tmp_path, KEY).store(encoded(n_rows))
    loaded = TableCache(tmp_path, KEY).load()
    assert loaded is not None
    assert_equal(loaded, encoded(n_rows))


@pytest.mark.parametrize("name", ["int8.npy", "float64.npy", "levels.json", "texts.arrow", "table.json"])
@pytest.mark.parametrize("harm", ["truncate", "remove", "garbage", "flip a bit"])
def test_a_corrupt_entry_is_rewritten_with_a_note(tmp_path: Path, name: str, harm: str) -> None:
    TableCache(tmp_path, KEY).store(encoded())
    path = tmp_path / KEY / name
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
    cache = TableCache(tmp_path, KEY)
    assert cache.load() is None
    (note,) = cache.store(encoded())
    assert "is corrupt" in note and "read again" in note
    loaded = TableCache(tmp_path, KEY).load()
    assert loaded is not None
    assert_equal(loaded, encoded())


def test_the_least_recently_used_entries_make_room(tmp_path: Path) -> None:
    a, b, c, d = [digit * 64 for digit in "abcd"]
    size = sum(p.stat().st_size for p in _stored(tmp_path, a).iterdir())
    for i, key in enumerate((b, c)):
        _stored(tmp_path, key)
        os.utime(tmp_path / key, (i + 1000, i + 1000))
    os.utime(tmp_path / a, (0, 0))
    assert TableCache(tmp_path, a).load() is not None  # now the most recent
    assert TableCache(tmp_path, d, limit_bytes=int(size * 3.5)).store(encoded()) == []
    assert sorted(os.listdir(tmp_path)) == [TAG, a, c, d]


def test_a_table_larger_than_the_cache_is_not_kept_and_removes_nothing(tmp_path: Path) -> None:
    _stored(tmp_path, KEY)
    (note,) = TableCache(tmp_path, "b" * 64, limit_bytes=100).store(encoded())
    assert "not cached" in note
    assert sorted(os.listdir(tmp_path)) == [KEY, TAG]


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (note,) = TableCache(tmp_path / "file", KEY).store(encoded())
    assert "not cached" in note


def put(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("neighbour", ["precious", KEY, ".draft-a1b2c3d4"])
def test_a_folder_that_holds_anything_else_is_refused_before_anything_is_read(
    source: Source, tmp_path: Path, neighbour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "home" / "photos", a="mine")
    put(tmp_path / "home" / neighbour, b="mine")
    monkeypatch.setenv("GPUPIPE_CACHE", str(tmp_path / "home"))
    before = tree(tmp_path / "home")
    for setting in (source, Source(path="t.csv", cache="home")):
        with pytest.raises(ConfigError, match="photos") as caught:
            TableCache.of(setting)
        assert caught.value.where == str(tmp_path / "home") and "gpupipe-cache" in caught.value.fix
    (note,) = TableCache(tmp_path / "home", KEY, limit_bytes=1 << 20).store(encoded())
    assert "not cached" in note
    assert tree(tmp_path / "home") == before


def test_only_entries_with_name_and_marker_make_room(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "cache", tmp_path / "elsewhere"
    size = sum(path.stat().st_size for path in _stored(folder, KEY).iterdir())
    put(folder / ".snapshot", a="of the file system")
    put(folder / ("a" * 64), b="a name like that of an entry")
    (folder / ("a" * 64) / "table.json").touch()
    put(folder / ".draft-0a1b2c3d", c="a name like that of a draft")
    (_stored(folder, "b" * 64) / "notes.txt").write_text("a file that another program added")
    _stored(elsewhere, "c" * 64)
    (folder / ("c" * 64)).symlink_to(elsewhere / ("c" * 64), target_is_directory=True)
    (_stored(folder, "d" * 64) / "table.json").unlink()
    (folder / ("d" * 64) / "table.json").symlink_to(elsewhere / ("c" * 64) / "table.json")
    for path in folder.iterdir():
        os.utime(path, (0, 0))
    before = {*tree(folder), *tree(elsewhere)}
    assert TableCache(folder, "e" * 64, limit_bytes=int(size * 1.5)).store(encoded()) == []
    gone = {name for name in before - {*tree(folder), *tree(elsewhere)} if "/" not in name}
    assert gone == {KEY}
    assert {*tree(folder), *tree(elsewhere)} >= {name for name in before if not name.startswith(KEY)}


def test_a_cache_folder_with_foreign_files_is_refused_too(source: Source, tmp_path: Path) -> None:
    entry = _stored(tmp_path / "cache", KEY)
    (entry / "table.json").unlink()  # a corrupt entry alone is not refused
    assert TableCache.of(source) is not None
    put(tmp_path / "cache" / "photos", a="mine")
    with pytest.raises(ConfigError, match="photos"):
        TableCache.of(source)


def test_an_entry_is_neither_read_nor_replaced_through_a_link_or_without_its_marker(tmp_path: Path) -> None:
    _stored(tmp_path / "elsewhere", KEY)
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / KEY).symlink_to(tmp_path / "elsewhere" / KEY, target_is_directory=True)
    (_stored(cache, "a" * 64) / MARKER).unlink()
    for key in (KEY, "a" * 64):
        before = tree(tmp_path)
        assert TableCache(cache, key).load() is None
        (note,) = TableCache(cache, key).store(encoded())
        assert "not cached" in note
        assert tree(tmp_path) == before


def test_a_cache_of_an_earlier_version_keeps_working_and_its_entries_stay(source: Source, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    put(folder / ("f" * 64), table="")
    (folder / ("f" * 64) / "table.txt").rename(folder / ("f" * 64) / "table.json")
    (folder / ".draft-q9_zk21a").mkdir()
    (folder / "kernels" / "0123456789abcdef").mkdir(parents=True)
    before = tree(folder)
    cache = TableCache.of(source)
    assert cache is not None and cache.store(encoded()) == []
    assert TableCache.of(source) is not None
    assert set(tree(folder)) >= set(before)


def test_files_of_killed_processes_are_evicted_after_a_day(tmp_path: Path) -> None:
    size = sum(path.stat().st_size for path in _stored(tmp_path, KEY).iterdir())
    drafts = [make_draft(tmp_path), make_draft(tmp_path)]
    os.utime(drafts[0], (0, 0))
    assert TableCache(tmp_path, "a" * 64, limit_bytes=int(size * 1.5)).store(encoded()) == []
    assert sorted(os.listdir(tmp_path)) == sorted([TAG, "a" * 64, drafts[1].name])


def test_concurrent_evictions_and_stores_leave_complete_entries(tmp_path: Path) -> None:
    size = sum(path.stat().st_size for path in _stored(tmp_path, KEY).iterdir())

    def use(start: int) -> None:
        for i in range(start, start + 20):
            cache = TableCache(tmp_path, f"{i % 3:064x}", limit_bytes=int(size * 2.5))
            if cache.load() is None:
                notes = cache.store(encoded())
                assert all("is corrupt" in note for note in notes), notes

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(use, range(3)))
    names = sorted(os.listdir(tmp_path))
    assert names[-1] == TAG and all(TableCache(tmp_path, name).load() is not None for name in names[:-1])


def test_folders_are_private_for_any_umask(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        entry = _stored(tmp_path / "new" / "cache", KEY)
    finally:
        os.umask(before)
    for folder in (tmp_path / "new", tmp_path / "new" / "cache", entry):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    entry = _stored(shared / "cache", KEY)
    for exposed in (shared, shared / "cache", entry):
        was = exposed.stat().st_mode
        exposed.chmod(0o777)
        cache = TableCache(shared / "cache", KEY)
        assert cache.load() is None and not cache.has_entry
        (note,) = cache.store(encoded())
        assert f"other users can write to {exposed} (mode 777)" in note and "chmod go-w" in note
        exposed.chmod(was)
    assert TableCache(shared / "cache", KEY).load() is not None


def _stored(folder: Path, key: str) -> Path:
    assert TableCache(folder, key).store(encoded()) == []
    return folder / key


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "u.csv").write_text("a,c\n1,2\n")
    monkeypatch.setenv("GPUPIPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GPUPIPE_CACHE_LIMIT", raising=False)
    return Source(path="t.csv", cache=True)


def key_of(source: Source, folder: Path, **tables: JoinedTable) -> str:
    cache = TableCache.of(source, tables)
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


def test_content_written_under_the_old_size_and_time_is_another_input(source: Source, tmp_path: Path) -> None:
    hooked = Source(path="t.csv", cache=True, prepare="hook.py:f")
    remote = Source(path=f"file://{tmp_path}/t.csv", cache=True)
    (tmp_path / "hook.py").write_text("def f(frame): return frame\n")
    time_ns = (tmp_path / "t.csv").stat().st_mtime_ns
    before = [key_of(each, tmp_path) for each in (source, hooked, remote)]
    (tmp_path / "hook.py").write_text("def f(frame): return frame\n".upper())
    hook_alone = key_of(hooked, tmp_path)
    (tmp_path / "t.csv").write_text("a,b\n1,3\n")  # in place
    os.utime(tmp_path / "t.csv", ns=(time_ns, time_ns))
    in_place = [key_of(each, tmp_path) for each in (source, hooked, remote)]
    (tmp_path / "link.csv").symlink_to("t.csv")
    linked = Source(path="link.csv", cache=True)
    to_one = key_of(linked, tmp_path)
    (tmp_path / "other.csv").write_text("a,b\n1,4\n")
    os.utime(tmp_path / "other.csv", ns=(time_ns, time_ns))
    (tmp_path / "link.csv").unlink()
    (tmp_path / "link.csv").symlink_to("other.csv")
    assert len({*before, hook_alone, *in_place, to_one, key_of(linked, tmp_path)}) == 9


def test_files_with_equal_size_and_time_are_distinguished(source: Source) -> None:
    """Many file systems store times in milliseconds, and a link may be changed to another file."""
    files = [SourceFile("/t.csv", 100, 7, "csv", ctime_ns=7, inode=number) for number in (1, 2)]
    assert cache_key(files[:1], source) != cache_key(files[1:], source)


def test_a_remote_file_that_shows_no_changes_is_never_taken_for_the_same(source: Source) -> None:
    silent = SourceFile("http://host/t.csv", 100, 0, "csv", remote=object())
    assert cache_key([silent], source) != cache_key([silent], source)
    tagged = SourceFile("http://host/t.csv", 100, 0, "csv", version="W/1", remote=object())
    assert cache_key([tagged], source) == cache_key([tagged], source)


def test_auto_keeps_large_inputs_only(source: Source, tmp_path: Path) -> None:
    auto = Source(path="t.csv")
    assert TableCache.of(auto) is None
    os.truncate(tmp_path / "t.csv", 64 << 20)
    assert TableCache.of(auto) is not None
    assert TableCache.of(Source(path="t.csv", cache=False)) is None
    assert TableCache.of(Source(generate="churn", rows=10**9)) is None


def test_the_folder_is_the_setting_or_the_environment_or_the_users(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder(source: Source) -> Path:
        cache = TableCache.of(source)
        assert cache is not None
        return cache.folder

    assert folder(Source(path="t.csv", cache="here")) == Path("here")
    assert folder(source) == tmp_path / "cache"
    monkeypatch.delenv("GPUPIPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert folder(source) == tmp_path / "xdg" / "gpupipe"


def test_the_limit_is_a_size(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPIPE_CACHE_LIMIT", "500 MB")
    cache = TableCache.of(source)
    assert cache is not None and cache.limit_bytes == 500_000_000
    monkeypatch.setenv("GPUPIPE_CACHE_LIMIT", "much")
    with pytest.raises(ConfigError, match=r"expected a size .*, got 'much'") as caught:
        TableCache.of(source)
    assert caught.value.where == "GPUPIPE_CACHE_LIMIT"
