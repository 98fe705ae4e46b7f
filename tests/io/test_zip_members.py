"""Compressed files that Arrow cannot unpack: zip and xz; the reference is the same file without compression."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpupipe.errors import DataError
from gpupipe.io.row_sample import take_sample
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow
from gpupipe.starter.source_table import read_source_table

CSV = "x,y\n" + "".join(f'{i},"a\n{i % 3}"\n' for i in range(5_000))
LINES = "".join(f'{{"x": {i}, "y": "a{i % 3}"}}\n' for i in range(5_000))


def zipped(members: Mapping[str, str]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return target.getvalue()


PACK = {
    ".xz": lambda text: lzma.compress(text.encode()),
    ".zip": lambda text: zipped({"__MACOSX/._rows": "x", "in/": "", "in/.DS_Store": "x", "in/rows": text}),
    ".gz": lambda text: gzip.compress(text.encode()),
    ".bz2": lambda text: bz2.compress(text.encode()),
}


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize(("name", "text"), [("t.csv", CSV), ("t.jsonl", LINES)])
def test_a_compressed_file_has_the_rows_of_its_content(tmp_path: Path, name: str, text: str, suffix: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / f"{name}{suffix}").write_bytes(PACK[suffix](text))
    source = Source(path=f"{name}{suffix}")
    assert read_arrow(source).table.equals(read_arrow(Source(path=name)).table)
    (tmp_path / "sample").mkdir()
    assert read_arrow(take_sample(source, tmp_path / "sample", 100).source).table.num_rows >= 50  # rows of two lines


@pytest.mark.parametrize(("member", "text"), [("in/train.csv", CSV), ("train.jsonl", LINES)])
def test_the_format_is_that_of_the_member(tmp_path: Path, member: str, text: str) -> None:
    (tmp_path / "archive.zip").write_bytes(zipped({member: text}))
    assert read_arrow(Source(path="archive.zip")).table.num_rows == 5_000
    assert read_source_table(str(tmp_path / "archive.zip")).table.num_rows == 5_000


def _encrypted() -> bytes:
    raw = bytearray(zipped({"rows.csv": CSV}))
    raw[6] |= 1
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    return bytes(raw)


DAMAGED = {
    "two members": (
        zipped({"a.csv": CSV, "b.csv": CSV}),
        "expected one file in the zip archive, found 2: a.csv, b.csv",
    ),
    "no member": (zipped({"in/": "", "__MACOSX/x": "y"}), "expected one file in the zip archive, found 0"),
    "encrypted": (_encrypted(), "encrypted"),
    "cut off": (zipped({"a.csv": CSV})[:-30], "not a zip file"),
    "changed": (zipped({"a.csv": CSV}).replace(b"\x01", b"\x02"), "the file cannot be read"),
    "text": (CSV.encode(), "expected zip data from the suffix"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_other_archives_are_refused_with_the_reason(tmp_path: Path, case: str) -> None:
    raw, words = DAMAGED[case]
    (tmp_path / "t.csv.zip").write_bytes(raw)
    with pytest.raises(DataError) as caught:
        read_arrow(Source(path="t.csv.zip"))
    assert words in caught.value.what and caught.value.where == str(tmp_path / "t.csv.zip")


def test_an_xz_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv.xz").write_bytes(lzma.compress(CSV.encode())[:-20])
    with pytest.raises(DataError, match="ended before the end-of-stream"):
        read_arrow(Source(path="t.csv.xz"))
