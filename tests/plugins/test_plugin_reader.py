"""Readers of other packages: by suffix and by format, in folders, isolated and cached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import gpupipe as gp
from gpupipe.io import isolation
from gpupipe.io.cache import cache_key
from gpupipe.io.files import find_files
from gpupipe.io.settings import Source, TableSource
from gpupipe.io.source_reader import read_arrow

Install = Callable[..., Path]
SOURCE = """
import io
import pyarrow as pa

def read_pairs(stream):
    assert stream.seekable()
    rows = [line.split("=") for line in io.TextIOWrapper(stream, "utf8").read().split()]
    return pa.table({"key": [key for key, _ in rows], "value": [float(value) for _, value in rows],
                     "pair": [{"key": key} for key, _ in rows]})

def read_list(stream):
    return [1, 2]
"""
PLUGINS = {"gpupipe.readers": {"pairs": "pkg_r:read_pairs", "wrong": "pkg_r:read_list"}}


@pytest.fixture
def folder(install: Install, tmp_path: Path) -> Path:
    install("pkg-r", "1.0", PLUGINS, SOURCE)
    data = tmp_path / "data"
    data.mkdir()
    (data / "1.pairs").write_text("a=1\nb=2\n")
    (data / "2.PAIRS").write_text("c=3\n")
    (data / "notes.txt").write_text("nothing\n")
    return data


def read(source: TableSource) -> pa.Table:
    return read_arrow(source).table


def test_a_folder_of_its_files_is_one_table_without_nested_columns(folder: Path) -> None:
    table = read(TableSource(path=str(folder)))
    assert table.column("value").to_pylist() == [1, 2, 3] and table.column_names == ["key", "value"]
    assert read(TableSource(path=str(folder / "1.pairs"), columns=("value",))).column_names == ["value"]


def test_the_format_can_be_stated(folder: Path) -> None:
    path = folder / "notes.txt"
    path.write_text("d=4\n")
    assert read(TableSource(path=str(path), format="pairs")).column("value").to_pylist() == [4]
    with pytest.raises(ValueError, match="pearl"):  # the value, in the message of pydantic
        TableSource(path=str(path), format="pearl")


def test_an_error_of_the_reader_names_the_file(folder: Path) -> None:
    (folder / "1.pairs").write_text("a\n")
    with pytest.raises(gp.DataError) as error:
        read(TableSource(path=str(folder)))
    assert str(folder / "1.pairs") in error.value.where


def test_a_reader_that_returns_no_table_is_named_with_its_package(folder: Path) -> None:
    with pytest.raises(gp.ConfigError) as error:
        read(TableSource(path=str(folder / "notes.txt"), format="wrong"))
    assert "'wrong' of pkg-r 1.0" in error.value.what


def test_a_new_version_reads_the_files_again(folder: Path, install: Install) -> None:
    source = Source(path=str(folder), target="value")
    files = find_files(source)
    before = cache_key(files, source)
    assert cache_key(files, source) == before
    install("pkg-r", "1.1", PLUGINS, SOURCE)
    assert cache_key(files, source) != before


@pytest.mark.process
@pytest.mark.slow
def test_an_isolated_child_reads_with_it(folder: Path) -> None:
    try:
        assert read(TableSource(path=str(folder), isolate=True)).num_rows == 3
        (folder / "1.pairs").write_text("a\n")
        with pytest.raises(gp.DataError):
            read(TableSource(path=str(folder), isolate=True))
    finally:
        isolation.end_trials()


def test_a_file_without_reader_lists_those_of_plugins(folder: Path) -> None:
    with pytest.raises(gp.DataError) as error:
        read(TableSource(path=str(folder / "notes.txt")))
    assert ".pairs" in error.value.fix
