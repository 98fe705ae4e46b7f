"""Lines of CSV files that are not part of the table: titles, comments, ``sep=``; the reference is pandas."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import ConfigError, DataError, FieldCountError
from gpupipe.io.chunks import chunk_stream
from gpupipe.io.chunks.chunk_stream import ChunkStream
from gpupipe.io.csv_settings import CsvSettings
from gpupipe.io.formats.csv import rewritten_rows
from gpupipe.io.formats.csv.reader import find_malformed
from gpupipe.io.formats.csv.rewritten_rows import RewrittenRows
from gpupipe.io.input_files import input_files
from gpupipe.io.raw_columns import read_stored
from gpupipe.io.row_sample import take_sample
from gpupipe.io.settings import Source, TableSource
from gpupipe.io.source_reader import LoadedTable, read_arrow
from gpupipe.starter.source_table import read_source_table
from tests.examples import examples

ROWS = "n,c,q\n" + "".join(f'{i},{"ab"[i % 2]},"x, {i}"\n' for i in range(40))
TITLE = 'Report "of 2024\nmade by, hand\n'
COMMENTS = '# exported, "by hand\n#\n'
BETWEEN = ROWS.replace("\n5,", '\n# a "note\n5,').replace("\n7,", "\n#7,#,#\n7,")
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "title": (TITLE + ROWS, {"skip_rows": 2}),
    "title and blank line": ("Report\n\n" + ROWS, {"skip_rows": 1}),
    "comments": (COMMENTS + ROWS, {"comment": "#"}),
    "title and comments": (TITLE + COMMENTS + ROWS, {"skip_rows": 2, "comment": "#"}),
    "comments between rows": (COMMENTS + BETWEEN + "# the end", {"comment": "#"}),
    "plain comments between rows": (ROWS.replace("\n7,", "\n#7,#,#\n7,"), {"comment": "#"}),
    "separator": ("sep=,\n" + ROWS, {"skip_rows": 1}),
    "other separator": ("sep=:\n" + ROWS.replace(",", ":"), {}),
    "carriage returns": ((TITLE + ROWS).replace("\n", "\r\n"), {"skip_rows": 2}),
    "byte order mark": ("\ufeff" + COMMENTS + ROWS, {"comment": "#"}),
    "blanks": ("# by hand\n" + ROWS.replace(",", " "), {"comment": "#", "delimiter": r"\s+"}),
    "title and blanks": (TITLE + ROWS.replace(",", " "), {"skip_rows": 2, "delimiter": r"\s+"}),
    "names": (TITLE + ROWS.partition("\n")[2], {"skip_rows": 2, "names": ["n", "c", "q"]}),
    "longer prefix": ("// by hand\n" + ROWS.replace("\n5,", "\n//5,\n5,"), {"comment": "//"}),
}


ON_ROADS = [
    "title",
    "comments",
    "comments between rows",
    "plain comments between rows",
    "title and blanks",
    "separator",
]


def _expected(text: str, settings: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the columns by the standard library; no table has quoted line breaks."""
    lines = text.removeprefix("\ufeff").splitlines()[settings.get("skip_rows", text.startswith("sep=")) :]
    lines = [line for line in lines if line and not line.startswith(settings.get("comment", "\0"))]
    delimiter = {"\\s+": " ", None: ":" if text.startswith("sep=:") else ","}[settings.get("delimiter")]
    rows = list(csv.reader(lines, delimiter=delimiter))
    names = settings["names"] if "names" in settings else rows.pop(0)
    return {name: [row[i].strip() for row in rows] for i, name in enumerate(names)}


def _read(folder: Path, text: str, settings: dict[str, Any], name: str = "t.csv") -> LoadedTable:
    raw = text.encode()
    (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return read_arrow(Source(path=name, csv=CsvSettings(**settings)))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("case", CASES)
def test_lines_that_are_not_rows_are_ignored(case: str, name: str, tmp_path: Path) -> None:
    found = _read(tmp_path, *CASES[case], name).table.to_pydict()
    assert {column: list(map(str, values)) for column, values in found.items()} == _expected(*CASES[case])


@pytest.mark.parametrize("case", ON_ROADS)
def test_all_roads_ignore_the_same_lines(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, settings = CASES[case]
    whole = _read(tmp_path, text, settings).table
    source = TableSource(path="t.csv", csv=CsvSettings(**settings))
    monkeypatch.setattr(chunk_stream, "CHUNK_BYTES", 100)
    chunks = list(ChunkStream(source, input_files(source), whole.column_names))
    assert (len(chunks) > 1) is ("between" not in case)  # quotes in comments are not quotes: not split
    assert [row for chunk in chunks for row in chunk.to_pylist()] == whole.to_pylist()
    assert read_stored(source, ["n"]).column("n").to_pylist() == [str(i) for i in range(40)]
    (tmp_path / "sample").mkdir()
    sample = read_arrow(take_sample(source, tmp_path / "sample").source).table
    assert sample.to_pylist() == whole.to_pylist()


FIELD = st.text(st.sampled_from('a#"\n, '), max_size=4)


@examples(80)
@given(
    rows=st.lists(st.lists(FIELD, min_size=2, max_size=2), min_size=1, max_size=6),
    notes=st.lists(st.sampled_from(["#", '# "', '#a,"b', "#1,2"]), max_size=6),
    n_bytes=st.integers(1, 9),
    block=st.integers(1, 12),
)
def test_quotes_and_comments_are_distinct_in_blocks_of_any_size(
    rows: list[list[str]], notes: list[str], n_bytes: int, block: int
) -> None:
    text = io.StringIO()
    for row, note in zip(rows, [*notes, *[""] * len(rows)], strict=False):
        text.write(f"{note}\n" if note else "")
        csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(row)
    before, rewritten_rows.BLOCK_BYTES = rewritten_rows.BLOCK_BYTES, block
    try:
        stream = RewrittenRows(io.BytesIO(text.getvalue().encode()), '"', ",", "#")
        parts = list(iter(lambda: stream.read(n_bytes), b""))
    finally:
        rewritten_rows.BLOCK_BYTES = before
    assert [row for row in csv.reader(io.StringIO(b"".join(parts).decode(), newline="")) if row] == rows


def test_numbers_of_rows_are_those_of_the_lines_of_the_file(tmp_path: Path) -> None:
    text = TITLE + ROWS.replace("\n5,", "\n5,5,")
    with pytest.raises(FieldCountError, match=r"line 9: expected 3 fields, found 4") as caught:
        _read(tmp_path, text, {"skip_rows": 2})
    assert text.splitlines()[9 - 1].startswith("5,5,") and "lines before it" in caught.value.where
    source = TableSource(path="t.csv", csv={"skip_rows": 2})
    assert [row.row for row in find_malformed(input_files(source)[0], source)] == [5]


@pytest.mark.parametrize(
    ("lead", "setting"),
    [(TITLE, "{skip_rows: 2}"), ("Report\n\n\n", "{skip_rows: 1}"), (COMMENTS, "{comment: #}")],
)
def test_the_advice_for_lines_before_the_header_is_the_setting(lead: str, setting: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected . fields?, found") as caught:
        _read(tmp_path, lead.replace('"', "") + ROWS, {})
    assert f"set csv: {setting}" in caught.value.fix


@pytest.mark.parametrize("text", [ROWS, "#n,c,q\n" + ROWS[6:], "a,b\n" + "".join(f"r{i},{i},2\n" for i in range(9))])
def test_no_setting_is_guessed_for_a_header(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert {"skip_rows", "comment"}.isdisjoint(read_source_table(str(tmp_path / "t.csv")).csv)


@pytest.mark.parametrize("case", ["title", "comments", "separator", "title and blank line", "byte order mark"])
def test_init_finds_the_setting(case: str, tmp_path: Path) -> None:
    text, settings = CASES[case]
    text = text.replace('"of', "of").replace('"by hand', "by hand")
    (tmp_path / "t.csv").write_text(text, encoding="utf8")
    found = read_source_table(str(tmp_path / "t.csv"))
    assert {name: found.csv[name] for name in settings} == settings
    expected = pd.read_csv(io.StringIO(ROWS))
    assert found.table.num_rows == len(expected) and found.table.column_names == list(expected)


@pytest.mark.parametrize("csv", [{"skip_rows": -1}, {"comment": " #"}, {"comment": ",", "delimiter": ","}])
def test_settings_that_cannot_be_meant_are_refused(csv: dict[str, Any]) -> None:
    with pytest.raises((ConfigError, ValueError), match=r"skip_rows|comment"):
        CsvSettings(**csv)
