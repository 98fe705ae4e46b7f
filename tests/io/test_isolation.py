"""Isolated sources: a child process checks files before this one reads them."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.backends import machine
from gpupipe.backends.machine import MemoryFigures
from gpupipe.errors import DataError, GpupipeError, LimitError
from gpupipe.io import isolation
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow

SMALL = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """End all child processes before and after a test."""
    isolation.end_trials()
    isolation.forget()
    yield
    isolation.end_trials()


def written(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        pq.write_table(SMALL, folder / f"{name}.parquet")
    return folder


def refusal(path: Path) -> GpupipeError:
    with pytest.raises(GpupipeError) as caught:
        read_arrow(Source(path=str(path), isolate=True))
    return caught.value


def test_files_are_read_once_by_one_child_and_then_as_without_it(tmp_path: Path, strange_reader: Path) -> None:
    folder = written(tmp_path / "data", "a", "b", "c")
    isolated, plain = (read_arrow(Source(path=str(folder), isolate=isolate)) for isolate in (True, False))
    assert isolated.table.equals(plain.table)
    read_arrow(Source(path=str(folder / "b.parquet"), isolate=True, columns=["id"]))
    pq.write_table(SMALL.slice(1), folder / "c.parquet")
    assert read_arrow(Source(path=str(folder), isolate=True)).table.num_rows == 8
    pids, names = zip(*map(str.split, strange_reader.read_text().splitlines()), strict=True)
    assert names == ("a.parquet", "b.parquet", "c.parquet", "b.parquet", "c.parquet")
    assert len(set(pids)) == 1 and pids[0] != str(os.getpid())


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("crash", "its reader crashed (SIGSEGV)"),
        ("exit", "its reader exited with code 0"),
        ("hang", "its reader did not finish within 1 s"),
        ("other", "its reader sent an invalid reply"),
    ],
)
def test_a_file_passes_only_with_a_reply_and_the_next_one_gets_a_new_child(
    tmp_path: Path, strange_reader: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    folder = written(tmp_path / "data", name, "z")
    if name == "hang":
        monkeypatch.setattr(isolation, "LEAST_SECONDS", 1.0)
    error = refusal(folder)
    assert (type(error), error.what, error.where) == (DataError, what, str(folder / f"{name}.parquet"))
    assert "corrupt or malicious" in error.fix
    if name == "crash":
        assert read_arrow(Source(path=str(folder / "z.parquet"), isolate=True)).table.num_rows == 3
        assert type(refusal(folder)) is DataError  # its check result is not kept


def test_a_child_that_does_not_start_is_not_blamed_on_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "MODULE", "gpupipe.no_such_reader")
    error = refusal(written(tmp_path / "data", "a"))
    assert type(error) is GpupipeError
    assert "could not start" in error.what and "No module named" in error.what


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits are of Linux")
def test_a_file_that_unfolds_into_more_than_the_free_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_bytes = 192 << 20
    monkeypatch.setattr(machine, "memory", lambda: MemoryFigures(total=n_bytes, available=n_bytes, peak=0))
    with gzip.open(tmp_path / "bomb.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"a,b\n")
        for _ in range(24):
            file.write(b"1.5,2.5\n" * (1 << 20))
    (tmp_path / "small.csv").write_text("a,b\n1.5,2.5\n")
    assert read_arrow(Source(path=str(tmp_path / "small.csv"), isolate=True)).table.num_rows == 1
    error = refusal(tmp_path / "bomb.csv.gz")
    assert (type(error), error.where) == (LimitError, str(tmp_path / "bomb.csv.gz"))
    assert error.what == "its reader ran out of memory (limit: 0.2 GiB)"


def test_errors_of_the_reader_are_kept(tmp_path: Path) -> None:
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 cut short")
    with pytest.raises(DataError) as caught:
        read_arrow(Source(path=str(tmp_path / "cut.parquet")))
    assert str(refusal(tmp_path / "cut.parquet")) == str(caught.value)


def test_the_child_imports_nothing_from_the_current_folder(
    tmp_path: Path, hostile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path / "data", "a")
    monkeypatch.chdir(hostile_folder)
    assert read_arrow(Source(path=str(folder), isolate=True)).table.num_rows == 3
