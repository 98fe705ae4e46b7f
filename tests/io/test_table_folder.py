"""The folder of a table: links out of it, links that stay inside, and loops of links."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from gpupipe.config.paths import resolve_path
from gpupipe.errors import DataError
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import find_files
from gpupipe.io.settings import JoinedTable, TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.io.table_folder import TableFolder, find_matches, require_inside

SECRET = "a\nhidden\n"
PATHS = ["lake", "lake/**/*.csv*", "file://{here}/lake"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return the folder of a table, next to files that are not part of it."""
    for name in ("lake/a.csv", "lake/north/b.csv", "lake/.store/c.csv", "lake/.store/2026/d.csv"):
        put(tmp_path / name, f"a\n{name}\n")
    for name in ("private/x.csv", "private/more/y.csv", "lake2/z.csv", "other/rows.jsonl"):
        put(tmp_path / name, SECRET)
    with ZipFile(tmp_path / "other/x.csv.zip", "w") as archive:
        archive.writestr("x.csv", SECRET)
    return tmp_path / "lake"


def put(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def link(path: Path, target: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def names(path: str, **settings: Any) -> list[str]:
    files = find_files(TableSource(path=path.format(here=os.getcwd()), **settings))
    return [os.path.relpath(file.path) for file in files]


def link_twice(folder: Path) -> None:
    link(folder / ".second", "../private/x.csv")
    link(folder / "first.csv", ".second")


def link_below_a_link(folder: Path) -> None:
    link(folder / ".store/e", "../../private")
    link(folder / "south", ".store")


LINKS: dict[str, Callable[[Path], None]] = {
    "relative": lambda folder: link(folder / "e.csv", "../private/x.csv"),
    "absolute": lambda folder: link(folder / "e.csv", folder.parent / "private/x.csv"),
    "two links": link_twice,
    "a folder with the same beginning": lambda folder: link(folder / "e.csv", "../lake2/z.csv"),
    "below": lambda folder: link(folder / "north/deep/e.csv", "../../../private/x.csv"),
    "hive": lambda folder: link(folder / "year=2026/e.csv", "../../private/x.csv"),
    "archive": lambda folder: link(folder / "e.csv.zip", "../other/x.csv.zip"),
    "folder": lambda folder: link(folder / "e", "../private"),
    "folder of hive": lambda folder: link(folder / "year=2026", "../private/more"),
    "folder in a folder": lambda folder: link(folder / "north/e", folder.parent / "private"),
    "by way of outside": lambda folder: link(folder / "e.csv", "../lake/../private/x.csv"),
    "folder below a link inside": link_below_a_link,
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", LINKS)
def test_a_link_out_of_the_folder_is_refused_unless_the_setting_allows_it(lake: Path, kind: str, path: str) -> None:
    before = names(path)
    LINKS[kind](lake)
    with pytest.raises(DataError, match="a symbolic link leads outside of the folder of the table, to ") as caught:
        names(path)
    assert os.path.realpath(caught.value.where) in caught.value.what
    assert not os.path.realpath(caught.value.where).startswith(str(lake) + os.sep)
    assert "outside_files: true" in caught.value.fix
    assert len(names(path, outside_files=True)) > len(before)


def test_a_glob_without_folders_below_checks_the_files_that_match(lake: Path) -> None:
    link(lake / "year=1", "../private")
    assert names("lake/*.csv") == ["lake/a.csv"]
    for path in ("lake/*/*.csv", "lake/year=?/x.csv"):
        with pytest.raises(DataError, match="leads outside"):
            names(path)
    link(lake / "e.csv", "../private/x.csv")
    with pytest.raises(DataError, match="leads outside"):
        names("lake/[e]*.csv")


def test_a_path_that_the_user_names_may_be_a_link(lake: Path, tmp_path: Path) -> None:
    link(tmp_path / "mine", "lake")
    link(tmp_path / "mine.csv", "private/x.csv")
    link(lake / "e.csv", "../private/x.csv")
    assert names("mine.csv") == ["mine.csv"]
    assert names("lake/e.csv") == ["lake/e.csv"]
    os.unlink(lake / "e.csv")
    for path in ("mine", "mine/**/*.csv", "mine/*.csv"):
        assert names(path) == [name.replace("lake", "mine") for name in names(path.replace("mine", "lake"))]


def test_links_inside_are_followed_and_each_folder_is_read_once(lake: Path) -> None:
    plain = ["lake/a.csv", "lake/north/b.csv"]
    link(lake / "again", "north")
    link(lake / "loop", ".")
    link(lake / "up", "..")
    link(lake / "north/back", "../north")
    link(lake / "north/itself", "itself")
    assert names("lake") == names("lake/**/*.csv") == plain
    link(lake / "c.csv", ".store/c.csv")
    link(lake / "new", ".store/2026")
    assert names("lake") == names("lake/**/*.csv") == ["lake/a.csv", "lake/c.csv", "lake/new/d.csv", "lake/north/b.csv"]
    assert names("lake/.store/**/*.csv") == ["lake/.store/2026/d.csv", "lake/.store/c.csv"]


def test_links_that_double_the_paths_at_each_level_end(tmp_path: Path) -> None:
    for level in range(40):
        for name in ("one", "two"):
            link(tmp_path / f"lake/level={level}" / name, f"../level={level + 1}")
    put(tmp_path / "lake/level=40/a.csv", "a\n1\n")
    assert names("lake") == names("lake/**/*.csv") == ["lake/level=40/a.csv"]
    assert resolve_path("lake/**/*.parquet", tmp_path / "configs") == "lake/**/*.parquet"


@pytest.mark.parametrize(
    "pattern", ["lake/**/*.csv", "**/*.csv", "lake/**", "l*/**/b.csv", "lake/.store/**", "**/.store/*"]
)
def test_globs_match_what_the_standard_library_matches(lake: Path, pattern: str) -> None:
    found = {os.path.relpath(path) for path in find_matches(pattern)}
    assert found == {os.path.normpath(path) for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)}


def test_links_that_are_not_read_may_lead_anywhere(lake: Path) -> None:
    link(lake / "README", "../private/x.csv")
    link(lake / "_notes", "../private")
    link(lake / ".git", "../private")
    link(lake / "rows.jsonl", "../other/rows.jsonl")
    assert names("lake", format="csv") == ["lake/a.csv", "lake/north/b.csv"]


def test_a_file_that_became_a_link_is_refused_when_it_is_opened(lake: Path) -> None:
    (file, *_) = find_files(TableSource(path="lake"))
    private = lake.parent / "private/x.csv"
    status = private.stat()
    os.unlink(lake / "a.csv")
    link(lake / "a.csv", private)
    same = replace(file, size=status.st_size, mtime_ns=status.st_mtime_ns)
    with pytest.raises(DataError, match="leads outside"), open_file(same):
        pass
    with open_file(replace(same, folder="")) as stream:
        assert stream.read() == SECRET.encode()


def test_further_tables_are_checked_and_a_copy_of_the_settings_forgets_the_permission(lake: Path) -> None:
    link(lake / "e.csv", "../private/x.csv")
    table = JoinedTable(path="lake", on="a", cardinality="one_to_many")
    with pytest.raises(DataError, match="leads outside"):
        read_arrow(table)
    allowed = table.model_copy(update={"outside_files": True})
    assert "hidden" in read_arrow(allowed).table.column("a").to_pylist()
    assert not allowed.moved_to("other.csv", "csv").outside_files


@pytest.mark.parametrize(
    ("root", "location", "place"),
    [
        ("/lake/t", "/lake/t/a/b.parquet", "a/b.parquet"),
        ("/lake/t/", "file:///lake/t/b.parquet", "b.parquet"),
        ("file:/lake/t", "file:///lake/t/p=a%2Fb/c d.parquet", "p=a%2Fb/c d.parquet"),
        ("file:///lake/t", "/lake/t/..b/c..d", "..b/c..d"),
        ("s3://bucket/t", "s3://bucket/t/b", "b"),
        ("s3a://bucket/t", "s3n://bucket/t/b", "b"),
        ("/lake/t", "/lake/t", None),
        ("/lake/t", "/lake/t2/b", None),
        ("/lake/t", "/lake/t/../u/b", None),
        ("/lake/t", "/lake/t/a/%2e%2E/../b", None),
        ("/lake/t", "/lake/t/%2e%2e/b", None),
        ("/lake/t", "/lake/t/..%2fb", None),
        ("/lake/t", "//lake/t/b", None),
        ("/lake/t", "file:////lake/t/b", None),
        ("/lake/t", "file://host/lake/t/b", None),
        ("/lake/t", "lake/t/b", None),
        ("/lake/t", "", None),
        ("/lake/t", "/lake/t/a?b", None),
        ("/lake/t", "/lake/t/a#b", None),
        ("/lake/t", "/lake/t/.\t./b", None),
        ("/lake/t", "/lake/t/..\n/b", None),
        ("/lake/t", "/lake/t/..\\b", None),
        ("/lake/t", "/lake/t/a\0", None),
        ("/lake/t", " /lake/t/b", None),
        ("/lake/t", "s3://lake/t/b", None),
        ("s3://bucket/t", "s3://bucket/other/b", None),
        ("s3://bucket/t", "s3://bucket2/t/b", None),
        ("s3://bucket/t", "s3://bucket/t2/b", None),
        ("s3://bucket/t", "https://bucket/t/b", None),
        ("s3://bucket/t", "/bucket/t/b", None),
        ("gs://bucket/t", "s3://bucket/t/b", None),
    ],
)
def test_a_location_is_inside_at_the_boundary_of_a_slash(root: str, location: str, place: str | None) -> None:
    if place is not None:
        assert require_inside(root, location, "table") == place
        return
    with pytest.raises(DataError, match="the table leads to a file outside of its folder"):
        require_inside(root, location, "table")


def test_pipes_in_the_folder_of_a_table_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "part-0.parquet")
    with pytest.raises(DataError, match="expected a regular file"):
        TableFolder(str(tmp_path)).require_all()
