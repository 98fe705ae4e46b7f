"""Files that are written, truncated, replaced or removed during a read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.backends import choose
from gpupipe.errors import DataError
from gpupipe.io.cache import TableCache
from gpupipe.io.chunks.chunk_reader import read_chunk
from gpupipe.io.chunks.splittable_files import find_splittable_files
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import find_files
from gpupipe.io.formats.parquet import read_groups
from gpupipe.io.notes import Notes
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow
from gpupipe.table.encode import encode

TABLE = pa.table({"a": range(20_000), "b": [f"text {i}" for i in range(20_000)]})


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"9")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def replace_alike(path: Path) -> None:
    status = path.stat()
    path.with_suffix(".new").write_bytes(path.read_bytes())
    os.utime(path.with_suffix(".new"), ns=(status.st_atime_ns, status.st_mtime_ns))
    path.with_suffix(".new").rename(path)


CHANGES: list[Callable[[Path], None]] = [append, cut, replace_alike, Path.unlink]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_file_that_changes_while_it_is_open_is_refused(
    tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    path = tmp_path / name
    pq.write_table(TABLE, path) if name.endswith("parquet") else path.write_text("a,b\n1,2\n")
    (file,) = find_files(Source(path=str(path)))
    with pytest.raises(DataError, match=r"the file was (changed|removed) while it was being read") as caught:  # noqa: SIM117
        with open_file(file) as stream:
            assert stream.read(4)
            change(path)
    assert caught.value.where == str(path)


def test_a_file_that_is_cut_short_between_two_row_groups_ends_no_process(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE, path, row_group_size=5_000, compression="none", use_dictionary=False)
    source = Source(path=str(path))
    parts = read_groups(find_files(source)[0], ColumnFilter(source), Notes(), [[0], [1], [2], [3]])
    assert next(parts).num_rows == 5_000
    cut(path)  # bytes that were memory-mapped would raise SIGBUS
    with pytest.raises(DataError, match="was changed while it was being read"):
        list(parts)


def test_rows_that_were_read_do_not_follow_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(path, TABLE.schema) as writer:
        writer.write_table(TABLE)
    table = read_arrow(Source(path=str(path))).table
    path.write_bytes(b"\0" * path.stat().st_size)
    cut(path)
    assert table.column("a").equals(TABLE.column("a").cast(pa.int64()))


def test_a_piece_of_a_file_that_has_changed_since_it_was_cut_is_an_error(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet"):
        path = tmp_path / name
        pq.write_table(TABLE, path) if name.endswith("parquet") else path.write_text("a,b\n1,2\n")
        source = Source(path=str(path))
        (piece,) = find_splittable_files(source)[0].chunks(1 << 30)
        append(path)
        with pytest.raises(DataError, match="was changed while it was being read") as caught:
            read_chunk(piece, source, ColumnFilter(source))
        assert str(path) in caught.value.where


def test_a_remote_file_that_changes_while_it_is_open_is_refused() -> None:
    system = fsspec.filesystem("memory")
    system.pipe("/changed/t.csv", b"a,b\n1,2\n")
    (file,) = find_files(Source(path="memory://changed/t.csv"))
    with pytest.raises(DataError, match="was changed while it was being read"), open_file(file) as stream:
        stream.read(3)
        system.pipe("/changed/t.csv", b"a,b\n3,4\n5,6\n")
    system.rm("/changed", recursive=True)


def test_a_table_of_files_that_have_changed_since_is_never_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    source = Source(path=str(path), cache=str(tmp_path / "cache"))
    for change in (append, Path.unlink):
        path.write_text("a,b\n1,x\n2,y\n")
        cache = TableCache.of(source)
        table = encode(read_arrow(source).table, choose("cpu"))
        change(path)
        assert cache is not None
        (note,) = cache.store(table)
        assert "files have changed since the start of the run" in note
        assert not cache.path.exists()
