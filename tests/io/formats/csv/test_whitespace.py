r"""``delimiter: "\s+"``: fields between runs of blanks and tabs."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpupipe.errors import DataError, SchemaError
from gpupipe.io.csv_settings import WHITESPACE
from gpupipe.io.formats.csv import rewritten_rows
from gpupipe.io.formats.csv.rewritten_rows import RewrittenRows
from gpupipe.io.formats.csv.whitespace import collapse_blanks, insert_tabs, is_blank_separated
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import LoadedTable, read_arrow
from tests.examples import examples

# The first rows of the UCI repository's auto-mpg.data: blanks to column 56, then a tab, then a quoted name.
AUTO_MPG = """\
18.0   8   307.0      130.0      3504.      12.0   70  1\t"chevrolet chevelle malibu"
15.0   8   350.0      165.0      3693.      11.5   70  1\t"buick skylark 320"
25.0   4   98.00      ?          2046.      19.0   71  1\t"ford pinto"
26.0   4   97.00      46.00      1835.      20.5   70  2\t"volkswagen 1131, deluxe sedan"
"""
MPG_NAMES = ["mpg", "cylinders", "displacement", "horsepower", "weight", "acceleration", "year", "origin", "name"]


def read(folder: Path, content: str | bytes, name: str = "t.csv", source: Any = None, **csv: Any) -> LoadedTable:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read_arrow(Source(path=name, csv={"delimiter": r"\s+", **csv}, **(source or {})))


def written(field: str) -> str:
    needs_quotes = not field or field[0] == '"' or any(c in " \t\n\r" for c in field)
    return '"' + field.replace('"', '""') + '"' if needs_quotes else field


FIELD = st.text(st.sampled_from('ab"\n\t ,'), max_size=5)
ROWS = st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(FIELD, min_size=n, max_size=n), min_size=1, max_size=8))


@examples(80)
@given(rows=ROWS, data=st.data(), n_bytes=st.integers(1, 9), block=st.integers(1, 12))
@example(rows=[['a"b', '"'], ["", "b"]], data=None, n_bytes=1, block=1)
def test_fields_written_with_any_blanks_are_read_back(rows: list, data: Any, n_bytes: int, block: int) -> None:
    """The reference is pandas on a tab-separated file with the same fields; block sizes vary."""

    def blanks(least: int) -> str:
        return " " * least if data is None else data.draw(st.text(" \t", min_size=least, max_size=3))

    lines = [blanks(0) + blanks(1).join(map(written, row)).join(["", blanks(0)]) for row in rows]
    before, rewritten_rows.BLOCK_BYTES = rewritten_rows.BLOCK_BYTES, block
    try:
        stream = RewrittenRows(io.BytesIO("\n".join([*lines, ""]).encode()), '"', WHITESPACE, rewrite=collapse_blanks)
        parts = list(iter(lambda: stream.read(n_bytes), b""))
    finally:
        rewritten_rows.BLOCK_BYTES = before
    assert all(len(part) == n_bytes for part in parts[:-1])
    names = range(len(rows[0]))
    found = pd.read_csv(io.BytesIO(b"".join(parts)), sep="\t", header=None, names=names, dtype=str, na_filter=False)
    assert found.to_numpy().tolist() == rows


def test_cdnow_is_read_as_by_pandas(data_dir: Path) -> None:
    path = data_dir / "cdnow-transactions" / "CDNOW_master.txt"
    found = read_arrow(Source(path=str(path), format="csv", csv={"delimiter": r"\s+"})).table
    expected = pd.read_csv(path, sep=r"\s+")
    assert found.column_names == ["customer_id", "date", "number_of_cds", "dollar_value"]
    pd.testing.assert_frame_equal(found.to_pandas(), expected)


def test_a_uci_file_with_blanks_tabs_and_quoted_names(tmp_path: Path) -> None:
    table = read(tmp_path, AUTO_MPG, names=MPG_NAMES, null_values=["?"]).table
    assert table.column("horsepower").to_pylist() == [130.0, 165.0, None, 46.0]
    assert table.column("name").to_pylist()[0] == "chevrolet chevelle malibu"
    assert table.column("name").to_pylist()[3] == "volkswagen 1131, deluxe sedan"
    assert table.column("origin").to_pylist() == [1, 1, 1, 2]


@pytest.mark.parametrize("encoding", ["utf8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("quoted", [False, True])
def test_encodings_and_carriage_returns(tmp_path: Path, encoding: str, quoted: bool) -> None:
    name = '"Zoë A"' if quoted else "Zoë"
    stated = "utf8" if encoding == "utf-8-sig" else encoding
    content = f"  name   n\r\n\r\n {name}  1 \r\n   \r\nJo\t2"
    table = read(tmp_path, content.encode(encoding), encoding=stated).table
    assert table.to_pydict() == {"name": [name.strip('"'), "Jo"], "n": [1, 2]}


def test_a_byte_order_mark_is_not_a_field(tmp_path: Path) -> None:
    table = read(tmp_path, b"\xef\xbb\xbf  1  2\n  3  4\n", names=["a", "b"]).table
    assert table.to_pydict() == {"a": [1, 3], "b": [2, 4]}


def test_compressed(tmp_path: Path) -> None:
    table = read(tmp_path, gzip.compress(b" a  b\n 1  2\n"), name="t.csv.gz").table
    assert table.to_pydict() == {"a": [1], "b": [2]}


def test_a_row_of_another_length_has_its_number_and_is_skipped_if_asked(tmp_path: Path) -> None:
    content = " a   b\n" + "1   2\n" * 20_000 + "\n  3    4   5\n" + "6 7\n"
    with pytest.raises(DataError, match=r"line 20,002: expected 2 fields, found 3: '3 4 5'"):
        read(tmp_path, content)
    loaded = read(tmp_path, content, bad_rows="skip")
    assert loaded.table.num_rows == 20_001 and "skipped 1" in loaded.notes.lines()[0]


def test_a_quote_that_is_never_closed_and_a_field_longer_than_a_block(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="a quote in line 2 is never closed"):
        read(tmp_path, 'a b\n1 "x\n2 y\n')
    long = "x " * (3 << 20)
    table = read(tmp_path, f'a  b\n1  y\n2  "{long}"\n', source={"schema": {"b": "text"}}, strip=False).table
    assert table.column("b").to_pylist() == ["y", long]


def test_without_a_quotation_mark_quotes_are_text() -> None:
    assert insert_tabs(b'1  "a b"\n', None) == b'1\t"a\tb"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a  b\n1  2\n", True),
        (AUTO_MPG, True),
        ("a b\n1 2\n", True),
        ("a\tb\n1\t2\n", False),  # tabs alone are found without help
        ("first name\tage\nJo Doe\t2\n", False),
        ("a, b\n1, 2\n", False),
        ("name\nJo Doe\n", False),
        ("a b\n", False),
        ("a\n1\n", False),
    ],
)
def test_what_looks_separated_by_blanks(text: str, expected: bool) -> None:
    assert is_blank_separated(text, '"') is expected


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"target": "b"}, SchemaError, "the only column is 'a  b'"),
        ({"csv": {"names": ["x", "y"]}}, DataError, "2 names, but the rows have 1 field"),
    ],
)
def test_errors_of_a_missing_delimiter_state_it(tmp_path: Path, settings: dict, error: Any, message: str) -> None:
    (tmp_path / "t.csv").write_text("a  b\n1  2\n")
    with pytest.raises(error, match=rf"(?s){message}.*csv: {{delimiter: '\\s\+'}}"):
        read_arrow(Source(path="t.csv", **settings))


def test_a_file_read_as_one_column_gets_a_note(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a  b\n1  2\n")
    (note,) = read_arrow(Source(path="t.csv")).notes
    assert r"csv: {delimiter: '\s+'}" in note


def test_a_space_as_thousands_separator_is_refused() -> None:
    with pytest.raises(ValueError, match="thousands: ' ' is already the decimal separator"):
        Source(path="a.txt", csv={"delimiter": r"\s+", "thousands": " "})
