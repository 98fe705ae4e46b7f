"""Malformed text files: reading at once and in chunks gives the same table and notes, or the same error."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpupipe.backends import choose
from gpupipe.errors import ConfigError, DataError
from gpupipe.io.chunks.compact_tables import widen_codes
from gpupipe.io.csv_settings import CsvSettings
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.partitions.source_chunks import read_chunks
from tests.inline_workers import InlineWorkers

ROWS = "".join(f"{i},{i / 2},x{i % 3}\n" for i in range(40))
BASE = "a,b,s\n" + ROWS
WITH_E = BASE.replace("x1", "\u00e9")
Outcome = tuple[list[list[Any]], list[str]] | tuple[str, str, str]


def in_pieces(source: TableSource, n: int) -> tuple[pa.Table, list[str]]:
    workers = InlineWorkers(choose("cpu"), 2)
    found = read_chunks(source, workers, n)
    rows = workers.gather([chunk.rows for chunk in found.chunks])
    return pa.concat_tables([widen_codes(table) for table in rows]), found.notes.lines()


def outcome(read: Any) -> Outcome:
    try:
        table, notes = read()
    except DataError as error:
        return error.what, error.where, error.fix
    names = table.column_names
    return [names, *([repr(v) for v in table.column(name).to_pylist()] for name in names)], notes


def read(folder: Path, content: str | bytes, name: str = "t.csv", **settings: Any) -> Outcome:
    """Return what comes of reading a file, by all roads the same."""
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    source = TableSource(path=str(folder / name), csv=CsvSettings(**settings))

    def whole() -> tuple[pa.Table, list[str]]:
        loaded = read_arrow(source)
        return loaded.table, loaded.notes.lines()

    found = outcome(whole)
    for n in (1, 7):
        assert outcome(lambda n=n: in_pieces(source, n)) == found
    return found


def refusal(found: Outcome) -> str:
    assert isinstance(found[0], str), found
    return "\n".join(map(str, found))


def values(found: Outcome) -> list[list[Any]]:
    assert not isinstance(found[0], str), found
    return found[0]


@pytest.mark.parametrize(
    ("content", "settings", "says"),
    [
        (WITH_E.encode("latin-1"), {}, ["byte 0xe9 at offset 21, in line 3", "{encoding: latin-1}"]),
        (BASE.replace("x1", "\u20ac").encode("cp1252"), {}, ["byte 0x80", "{encoding: cp1252}"]),
        (WITH_E, {"encoding": "ascii"}, ["byte 0xc3", "{encoding: utf8}"]),
        (b"\xff\xfe" + BASE.encode("utf-16-le"), {}, ["mark of utf-16", "{encoding: utf-16}"]),
        (BASE.encode("utf-32"), {}, ["mark of utf-32", "{encoding: utf-32}"]),
        (BASE.encode("utf-16-le"), {}, ["every other byte is NUL", "{encoding: utf-16-le}"]),
        (BASE.encode("utf-16-be"), {}, ["every other byte is NUL", "{encoding: utf-16-be}"]),
        (b"\0" * 2000, {}, ["100% of the first characters are NUL"]),
        (BASE + "1,2\n", {}, ["line 42: expected 3 fields, found 2: '1,2'", "bad_rows: skip"]),
        (BASE + "\n\n1,2,3,4\n", {}, ["line 42: expected 3 fields, found 4"]),
        (BASE + '1,2,"x\n' + ROWS, {}, ["a quote in line 42 is never closed", "quote: null"]),
        (BASE + '1,"2,x\n' + ROWS, {}, ["line 42: expected 3 fields, found 2", "a quote that is never closed"]),
        (BASE + '1,2,"x\n' + ROWS, {"bad_rows": "skip"}, ["line 42 is never closed"]),
        ('"a,b\n1,2\n3,4\n', {}, ["a quote in line 1 is never closed"]),
        ("a,b,a\n1,2,3\n", {}, ["duplicate column names in the header: 'a'"]),
        ("   \n  \n", {}, ["there are no rows"]),
        (b"\xef\xbb\xbf", {}, ["there are no rows"]),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place_and_the_setting(
    tmp_path: Path, content: str | bytes, settings: dict[str, Any], says: list[str]
) -> None:
    said = refusal(read(tmp_path, content, **settings))
    assert all(part in said for part in [*says, "t.csv"]), said


@pytest.mark.parametrize(
    ("content", "settings"),
    [
        (BASE.encode("utf-8-sig"), {}),
        (b"\xfe\xff" + BASE.encode("utf-16-be"), {"encoding": "utf-16"}),
        (BASE.replace("x2", '"x2"').encode("utf-16"), {"encoding": "utf-16"}),
        (BASE.encode("cp500"), {"encoding": "cp500"}),
        (BASE.replace(",", ";"), {}),
        (BASE.replace(",", "\t"), {}),
        (BASE.replace("\n", "\r\n"), {}),
        (BASE.replace("\n", "\r"), {}),
        (BASE.rstrip("\n"), {}),
        (BASE + "\n   \n\n", {}),
        (BASE.replace(",x", ',"x').replace("\n", '"\n').replace('s"', "s"), {}),
        (BASE.replace("x", "x\ny").replace(",x\ny", ',"x\ny').replace("y0", 'y0"').replace("y1", 'y1"')
         .replace("y2", 'y2"'), {}),
        (BASE + '7,8,5" pipe\n', {}),
        (BASE + "1,2,x\0y\n", {}),
        (BASE + f"1,2,{'long ' * 60_000}\n", {}),
    ],
)  # fmt: skip
def test_harmless_ways_of_writing_give_the_values_that_the_standard_library_reads(
    tmp_path: Path, content: str | bytes, settings: dict[str, Any]
) -> None:
    raw = content.encode() if isinstance(content, str) else content
    text = raw.decode(settings.get("encoding", "utf-8-sig")).replace(";", ",").replace("\t", ",")
    csv.field_size_limit(1 << 20)
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if "".join(row).strip()]
    names, a, b, s = values(read(tmp_path, content, **settings))
    assert names == rows[0]
    assert a == [repr(int(row[0])) for row in rows[1:]]
    assert b == [repr(float(row[1])) for row in rows[1:]]
    assert s == [repr(row[2].strip()) for row in rows[1:]]


@pytest.mark.parametrize(
    ("texts", "settings", "expected", "says"),
    [
        (["1.234,56", "7,5", "1.000.000"], {"decimal": ",", "thousands": "."}, [1234.56, 7.5, 1e6], ""),
        (["1'234.5", "12"], {"thousands": "'"}, [1234.5, 12.0], ""),
        (["1,234", "1,234,567"], {"thousands": ","}, [1234, 1234567], ""),
        ([" 7,5", "? "], {"decimal": ",", "null_values": ["?"]}, [7.5, None], ""),
        ([" 7.5", "8.5"], {"decimal": ","}, ["7.5", "8.5"], ""),
        (["1.23,4", "1"], {"decimal": ",", "thousands": "."}, ["1.23,4", "1"], "numbers except '1.23,4'"),
        (["1.234,56", "7,5"], {}, ["1.234,56", "7,5"], "looks like numbers with other separators"),
        (["1", "2", "oops"], {}, ["1", "2", "oops"], "all values are numbers except 'oops'; to read these as missing"),
        (["1", "2", "<1"], {}, ["1", "2", "<1"], "except '<1'; '<1': a band of numbers, not a missing value"),
        (["1", "n/d", ">= 20"], {}, ["1", "n/d", ">= 20"], "'>= 20': a band of numbers, not a missing value"),
        (["1", "1.5e3", "+2"], {}, [1.0, 1500.0, 2.0], ""),
        (["9223372036854775807", "-9223372036854775808"], {}, [2**63 - 1, -(2**63)], ""),
        (["9223372036854775808", "1"], {}, [2**63, 1], ""),
        (["1e400", "1"], {}, [float("inf"), 1.0], "infinite"),
        (["NaN", "inf", "N/A", "-Infinity"], {}, [None, float("inf"), None, -float("inf")], "infinite"),
    ],
)
def test_numbers_follow_the_settings_and_near_numbers_get_a_note(
    tmp_path: Path, texts: list[str], settings: dict[str, Any], expected: list[Any], says: str
) -> None:
    content = "k,v\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(texts))
    found = read(tmp_path, content, **settings)
    assert values(found)[2] == [repr(value) for value in expected]
    assert [says in note for note in found[1]] == ([True] if says else [])


def test_hundreds_of_columns_are_read_alike(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(400)]
    found = read(tmp_path, "\n".join([",".join(names), *[",".join(map(str, range(i, i + 400))) for i in range(3)]]))
    assert values(found)[0] == names and values(found)[400] == ["399", "400", "401"]


@pytest.mark.parametrize("settings", [{"encoding": "hex"}, {"thousands": "."}, {"thousands": ",", "delimiter": ","}])
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises((ConfigError, ValueError)):
        CsvSettings(**settings)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.zst", "t.csv.bz2", "t.csv.xz", "t.csv.zip", "t.jsonl.gz"])
def test_a_file_that_is_not_compressed_as_its_name_says_is_named_so(tmp_path: Path, name: str) -> None:
    assert "data from the suffix, found b'a,b,s" in refusal(read(tmp_path, BASE, name))


def test_a_compressed_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(BASE.encode())
    assert "Truncated" in refusal(read(tmp_path, packed[:-6], "t.csv.gz"))


LINE = '{"a": 1, "t": "x\\"{["}\n'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (LINE * 9 + '{"a": 2, "t": "y', "line 10 is not valid JSON: Unterminated string"),
        (LINE * 9 + '{"a": 2, "t": 12', "line 10 is not valid JSON"),
        ("[" + LINE.strip() + "]", "line 1: expected a JSON object, found an array"),
        (LINE * 9 + "null\n", "line 10: expected a JSON object, found null"),
        ("null\n" + LINE, "line 1: expected a JSON object, found null"),
        (" null", "line 1: expected a JSON object, found null"),
        (LINE + '{"a": 2, "a": 3}\n', "line 2 has the key 'a' twice"),
        (LINE * 9 + '{"a": "x"}\n', "column 'a' has both number and string values: 'x' in line 10"),
        (LINE + '{"a": 1e400}\n{"a": 1.5}\n', "column 'a': '1e400' in line 2 is outside the float64 range"),
        ((LINE * 9).encode() + b'{"a": 3, "t": "\xff"}\n', "line 10 is not utf8: byte 0xff at its offset 15"),
        (LINE.encode() + b'{"\xff": 3}\n', "line 2 is not utf8"),
        (LINE.encode("utf-16"), "the text is utf-16"),
        (LINE + '{"t": "\\ud800"}\n', "line 2 has an unpaired surrogate in 't'"),
        (LINE + '{"t": "a\nb"}\n', "line 2 is not valid JSON"),
        (LINE + '{"o": ' + "[" * 20_000 + "]" * 20_000 + "}\n", "line 2 is nested too deeply"),
        ('{"o": ' * 20_000 + "1" + "}" * 20_000, "line 1 is nested too deeply"),
        ('{"o":\n' * 500 + "1" + "}" * 500, "line 1 is not valid JSON"),
        ("{}\n{}\n", "there are no rows"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, content: str | bytes, says: str) -> None:
    said = refusal(read(tmp_path, content, "t.jsonl"))
    assert says in said and "t.jsonl" in said


@pytest.mark.parametrize(
    "content",
    [
        LINE * 9,
        LINE.replace("\n", "\r\n") * 3,
        "\n" + LINE + "\n  \n" + LINE,
        "\ufeff" + LINE,
        '{}\n{"a": 1, "t": "null"}\n',
        '{"a": 1}\n{"t": "x"}\n{"a": null, "t": "]]]]\\\\"}\n',
    ],
)
def test_lines_of_objects_are_the_values_that_the_standard_library_reads(tmp_path: Path, content: str) -> None:
    rows = [json.loads(line) for line in content.lstrip("\ufeff").splitlines() if line.strip()]
    names, *columns = values(read(tmp_path, content, "t.jsonl"))
    assert sorted(names) == ["a", "t"]
    for name, column in zip(names, columns, strict=True):
        expected = [row.get(name) for row in rows]
        assert column == [repr(None if value == "null" else value) for value in expected]


@pytest.mark.parametrize("gap", [4 << 20, (4 << 20) + 1, (4 << 20) - 2])
def test_a_null_at_the_edge_of_what_is_parsed_at_once_is_found(tmp_path: Path, gap: int) -> None:
    line = b'{"a": 1}'
    assert "line 2: expected a JSON object, found null" in refusal(
        read(tmp_path, line + b" " * (gap - len(line) - 1) + b"\nnull\n" + line, "t.jsonl")
    )


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_files_of_a_folder_that_disagree_are_put_together_or_named(tmp_path: Path, kind: str) -> None:
    def write(folder: str, **files: list[dict[str, Any]]) -> Outcome:
        os.makedirs(tmp_path / folder)
        for name, rows in files.items():
            lines = [json.dumps(row) for row in rows]
            if kind == "csv":
                lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
            (tmp_path / folder / f"{name}.{kind}").write_text("\n".join(lines) + "\n")
        source = TableSource(path=str(tmp_path / folder))
        loaded = outcome(lambda: (read_arrow(source).table, read_arrow(source).notes.lines()))
        assert outcome(lambda: in_pieces(source, 3)) == loaded
        return loaded

    order = write("order", one=[{"a": 1, "b": 2}], two=[{"b": 4, "a": 3}])
    assert order == ([["a", "b"], ["1", "3"], ["2", "4"]], [])
    lacking = write("lacking", one=[{"a": 1, "b": 2}], two=[{"a": 3}])
    assert values(lacking) == [["a", "b"], ["1", "3"], ["2", "None"]]
    assert len(lacking[1]) == 1 and "column 'b' is missing from" in lacking[1][0]
    types = write("types", one=[{"a": 1, "b": 2}], two=[{"a": "x", "b": 2.5}])
    if kind == "csv":
        assert values(types) == [["a", "b"], ["'1'", "'x'"], ["2.0", "2.5"]] and "read as text: a" in types[1][0]
    else:
        said = refusal(types)
        assert "column 'a'" in said and "one.jsonl" in said and "two.jsonl" in said


def test_a_file_with_only_a_header_is_skipped_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("a,b\n")
    (tmp_path / "two.csv").write_text("a,b\n1,2\n")
    loaded = read_arrow(TableSource(path=str(tmp_path)))
    assert loaded.table.to_pydict() == {"a": [1], "b": [2]}
    assert loaded.notes.lines() == [f"no rows in {tmp_path / 'one.csv'}"]
