"""CSV: types, nulls, headers, delimiters, encodings, bad rows, compression."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import DataError, EncodingError, FieldCountError, QuoteError, RowSizeError, SchemaError
from gpupipe.io.csv_settings import CsvSettings
from gpupipe.io.formats.csv import reader as csv
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import LoadedTable, read_arrow
from tests.examples import examples

TEXT = pa.dictionary(pa.int32(), pa.string())


def read(folder: Path, content: str | bytes, name: str = "t.csv", **settings: Any) -> LoadedTable:
    raw = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(raw)
    if "csv" in settings:
        settings["csv"] = CsvSettings(**settings["csv"])
    return read_arrow(Source(path=name, **settings))


def types(loaded: LoadedTable) -> dict[str, str]:
    return {field.name: "text" if field.type == TEXT else str(field.type) for field in loaded.table.schema}


def test_each_column_has_the_type_that_all_its_values_have(tmp_path: Path) -> None:
    loaded = read(
        tmp_path, "i,f,b,d,t,s\n1,1.5,true,2024-01-31,2024-01-31 10:20:30,x\n,,,,,\n-3,2,false,2024-02-01,,y\n"
    )
    assert types(loaded) == {
        "i": "int64", "f": "double", "b": "bool", "d": "timestamp[us]", "t": "timestamp[us]", "s": "text",
    }  # fmt: skip
    assert loaded.table.column("i").to_pylist() == [1, None, -3]
    assert loaded.table.column("s").to_pylist() == ["x", None, "y"]


def test_a_type_that_changes_far_down_the_file_widens_that_column_only(tmp_path: Path) -> None:
    rows = ["1,1,1"] * 400_000 + ["2,2.5,x"] + ["3,3,3"] * 400_000
    loaded = read(tmp_path, "a,b,c\n" + "\n".join(rows))
    assert types(loaded) == {"a": "int64", "b": "double", "c": "text"}
    assert loaded.table.column("c")[400_000].as_py() == "x"
    assert loaded.table.column("c")[0].as_py() == "1"


@pytest.mark.parametrize("null", ["", "NA", "N/A", "NaN", "null", "None", "NULL", " NA ", "<NA>"])
def test_usual_words_for_missing_are_null_in_text_and_in_numbers(tmp_path: Path, null: str) -> None:
    table = read(tmp_path, f"n,s,k\n1,x,a\n{null},{null},b\n3,y,c\n").table
    assert table.column("n").type == pa.int64()
    assert table.column("n").to_pylist() == [1, None, 3]
    assert table.column("s").to_pylist() == ["x", None, "y"]


def test_further_words_for_missing_count_whatever_blanks_are_around_them(tmp_path: Path) -> None:
    table = read(tmp_path, "n,s\n1, ?\n ? , x\n 2.5 ,?\n", csv={"null_values": ["?"]}).table
    assert table.column("n").to_pylist() == [1.0, None, 2.5]
    assert table.column("s").to_pylist() == [None, "x", None]


def test_blanks_around_text_are_trimmed_by_default(tmp_path: Path) -> None:
    content = "a,b\n1, x\n2,x \n3,x\n"
    assert read(tmp_path, content).table.column("b").unify_dictionaries().chunk(0).dictionary.to_pylist() == ["x"]
    assert read(tmp_path, content, csv={"strip": False}).table.column("b").to_pylist() == [" x", "x ", "x"]


def test_a_column_declared_categorical_keeps_its_leading_zeros(tmp_path: Path) -> None:
    table = read(tmp_path, "zip,n\n02139,1\n10001,2\n", schema={"zip": "categorical"}).table
    assert table.column("zip").to_pylist() == ["02139", "10001"]


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["1", "2"], [1, 2]),
        (["1.0", "2.0", ""], [1.0, 2.0, None]),
        (["01", "2"], ["01", "2"]),
        (["1e3", "2"], ["1e3", "2"]),
        (["9007199254740993.0"], ["9007199254740993.0"]),
        (["1", "HQ"], ["1", "HQ"]),
        (["2024-01-31"], [dt.datetime(2024, 1, 31)]),
    ],
)
def test_a_key_is_a_number_or_time_only_if_that_loses_nothing(
    tmp_path: Path, cells: list[str], found: list[object]
) -> None:
    (tmp_path / "t.csv").write_text("k,n\n" + "".join(f"{cell},0\n" for cell in cells))
    assert read_arrow(Source(path="t.csv").read_as(["k"])).table.column("k").to_pylist() == found
    # The types of all files decide, as if they were one.
    for i, cell in enumerate(cells):
        (tmp_path / "files").mkdir(exist_ok=True)
        (tmp_path / "files" / f"{i}.csv").write_text(f"k,n\n{cell},0\n")
    assert read_arrow(Source(path="files").read_as(["k"])).table.column("k").to_pylist() == found


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected(tmp_path: Path, delimiter: str) -> None:
    rows = [["name", "note", "n"], ["a", "one; two", "1"], ["b", "x | y", "2"], ["c", "three, four", "3"]]
    content = "\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows)
    table = read(tmp_path, content).table
    assert table.column_names == ["name", "note", "n"]
    assert table.column("note").to_pylist() == ["one; two", "x | y", "three, four"]


def test_a_decimal_comma_is_not_the_delimiter(tmp_path: Path) -> None:
    table = read(tmp_path, "a;b\n1,5;2,5\n3,5;4\n", csv={"decimal": ","}).table
    assert table.to_pydict() == {"a": [1.5, 3.5], "b": [2.5, 4.0]}


def test_quoted_fields_may_hold_newlines_delimiters_and_quotes(tmp_path: Path) -> None:
    table = read(tmp_path, 'a,b\n1,"x\ny"\n2,"p,q"\n3,"say ""hi"""\n').table
    assert table.column("b").to_pylist() == ["x\ny", "p,q", 'say "hi"']


def test_without_a_quotation_mark_quotes_are_text(tmp_path: Path) -> None:
    assert read(tmp_path, 'a,b\n1,"x\n2,y"\n', csv={"quote": None}).table.column("b").to_pylist() == ['"x', 'y"']


def test_a_file_without_a_header_gets_the_given_names(tmp_path: Path) -> None:
    table = read(tmp_path, "1,x\n2,y\n", csv={"names": ["n", "s"]}).table
    assert table.column_names == ["n", "s"] and table.num_rows == 2
    with pytest.raises(DataError, match=r"csv.names has 3 names, but the rows have 2 fields"):
        read(tmp_path, "1,x\n2,y\n", csv={"names": ["a", "b", "c"]})


def test_columns_without_a_name_are_ignored_and_named_as_by_pandas(tmp_path: Path) -> None:
    content = ",a, ,Unnamed: 2\n1,2,3,4\n"
    loaded = read(tmp_path, content)
    assert loaded.table.column_names == ["a"]
    assert any("column 'Unnamed: 0' is ignored: it has no name" in note for note in loaded.notes)
    names = ["Unnamed: 0", "a", "Unnamed: 2.1", "Unnamed: 2"]
    assert read(tmp_path, content, columns=names).table.to_pydict() == dict(
        zip(names, [[1], [2], [3], [4]], strict=True)
    )


def test_a_duplicate_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"duplicate column names in the header: 'a'") as caught:
        read(tmp_path, "a,b,a\n1,2,3\n")
    assert "t.csv" in caught.value.where


@pytest.mark.parametrize("content", ["", "\n\n", "a,b\n", "a,b"])
def test_a_file_without_rows_is_an_error(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match="there are no rows"):
        read(tmp_path, content)


def test_a_row_of_another_length_is_named_with_its_number_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 3: expected 2 fields, found 3: '3,4,5'") as caught:
        read(tmp_path, "a,b\n1,2\n3,4,5\n6,7\n8\n")
    assert "bad_rows: skip" in caught.value.fix


def test_malformed_rows_are_skipped_and_counted_if_configured(tmp_path: Path) -> None:
    loaded = read(tmp_path, "a,b\n1,2\n3,4,5\n6,7\n8\n", csv={"bad_rows": "skip"})
    assert loaded.table.to_pydict() == {"a": [1, 6], "b": [2, 7]}
    assert any(note.startswith("skipped 2 rows") for note in loaded.notes)


def test_a_byte_order_mark_is_not_part_of_the_first_name(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa,b\n1,2\n").table.column_names == ["a", "b"]


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "cp1252"])
def test_other_encodings_are_read_when_stated(tmp_path: Path, encoding: str) -> None:
    table = read(tmp_path, "né,b\n1,é\n".encode(encoding), csv={"encoding": encoding}).table
    assert table.to_pydict() == {"né": [1], "b": ["é"]}


@pytest.mark.parametrize(
    ("content", "likely"),
    [("né,b\n1,é\n".encode("latin-1"), "latin-1"), ("a,b\n1,é\n".encode("utf-16"), "utf-16")],
)
def test_the_wrong_encoding_is_named_with_the_setting(tmp_path: Path, content: bytes, likely: str) -> None:
    with pytest.raises(DataError, match="the text is not utf8") as caught:
        read(tmp_path, content)
    assert "t.csv" in caught.value.where and f"csv: {{encoding: {likely}}}" in caught.value.fix


def test_the_wrong_encoding_is_found_far_down_the_file_too(tmp_path: Path) -> None:
    content = b"a,b\n" + b"1,xxxxxxxxxx\n" * 100_000 + b"2,\xe9\n"
    with pytest.raises(DataError, match="the text is not utf8"):
        read(tmp_path, content)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst", ".lz4"])
def test_compressed_files_are_read_and_truncated_ones_refused(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    content = ("a,b\n" + "".join(f'{n},"x\n{n}"\n' for n in rng.integers(0, 10**9, 5000))).encode()
    packed = {
        ".gz": lambda: gzip.compress(content),
        ".bz2": lambda: bz2.compress(content),
        ".zst": lambda: pa.compress(content, codec="zstd", asbytes=True),
        ".lz4": lambda: pa.compress(content, codec="lz4", asbytes=True),
    }[suffix]()
    table = read(tmp_path, packed, "t.csv" + suffix).table
    assert table.num_rows == 5000 and table.column("a").type == pa.int64()
    with pytest.raises(DataError) as caught:
        read(tmp_path, packed[: len(packed) // 2], "t.csv" + suffix)
    assert "t.csv" + suffix in caught.value.where


def test_a_tsv_file_is_split_at_tabs(tmp_path: Path) -> None:
    assert read(tmp_path, "a\tb\n1,5\tx\n", "t.tsv").table.column_names == ["a", "b"]


def test_errors_of_csv_files_have_classes_and_attributes(tmp_path: Path) -> None:
    with pytest.raises(FieldCountError) as ragged:
        read(tmp_path, "a,b\n1,2\n3,4,5\n")
    assert (ragged.value.line, ragged.value.n_fields, ragged.value.n_columns) == (3, 3, 2)
    with pytest.raises(EncodingError) as undecodable:
        read(tmp_path, "a,b\n1,€\n".encode("cp1252"))
    assert (undecodable.value.encoding, undecodable.value.likely) == ("utf8", "cp1252")
    with pytest.raises(QuoteError) as unclosed:
        read(tmp_path, 'a,b\n1,2\n3,"4\n')
    assert unclosed.value.line == 3


def test_a_row_longer_than_the_largest_block_has_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "BLOCK_BYTES", 64)
    monkeypatch.setattr(csv, "MAX_BLOCK_BYTES", 64)
    with pytest.raises(RowSizeError, match=r"t\.csv"):
        read(tmp_path, "a,b\n1,2\n3," + "x" * 1000 + "\n")


def test_a_field_longer_than_a_block_is_read(tmp_path: Path) -> None:
    long = "x" * (9 << 20)
    table = read(tmp_path, f"a,b\n1,{long}\n2,y\n").table
    assert len(table.column("b")[0].as_py()) == len(long)


def test_times_of_day_become_seconds_and_zoned_times_utc(tmp_path: Path) -> None:
    loaded = read(tmp_path, "t,z\n10:30,2024-01-01T02:00:00+02:00\n00:00:05,2024-01-01T00:00:00Z\n")
    assert loaded.table.column("t").to_pylist() == [37_800.0, 5.0]
    assert len(set(loaded.table.column("z").to_pylist())) == 1
    assert any("time of day" in note for note in loaded.notes)


def test_only_selected_columns_are_converted(tmp_path: Path) -> None:
    loaded = read(tmp_path, "id,a,b,c\nq,1,2,3\nr,4,5,6\n", columns=["b", "c"], drop=["c"], target="a")
    assert loaded.table.column_names == ["a", "b"]


def test_a_missing_column_is_reported_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no such column: tenre") as caught:
        read(tmp_path, "tenure,b\n1,2\n", drop=["tenre"])
    assert "did you mean 'tenure'?" in caught.value.fix


CELLS = st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8))


@examples(60)
@given(
    rows=st.lists(
        st.tuples(st.one_of(st.none(), st.integers(-(2**53), 2**53)), CELLS, st.floats(allow_infinity=False, width=32)),
        min_size=1,
        max_size=40,
    )
)
def test_files_written_by_pandas_are_read_as_by_pandas(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int | None, str | None, float]]
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    frame = pd.DataFrame(
        {
            "i": pd.array([row[0] for row in rows], "Int64"),
            "s": pd.array([row[1] for row in rows], "str"),
            "f": [row[2] for row in rows],
            "k": "k",
        }
    )
    frame.to_csv(folder / "t.csv", index=False, lineterminator="\n", quoting=1)
    path, csv = str(folder / "t.csv"), CsvSettings(strip=False)
    source = Source.model_validate({"path": path, "schema": {"s": "text"}, "csv": csv})
    table = read_arrow(source).table
    theirs = pd.read_csv(folder / "t.csv", dtype={"i": "Int64", "s": "str"}, lineterminator="\n")
    blank = theirs["s"].str.strip().isin(["", "NA", "nan", "None", "null", "NaN", "n/a", "N/A", "NULL"])
    expected = [None if pd.isna(text) or empty else text for text, empty in zip(theirs["s"], blank, strict=True)]
    assert table.column("s").to_pylist() == expected
    assert table.column("i").to_pylist() == [None if pd.isna(i) else i for i in theirs["i"]]
    ours = table.column("f").to_pandas().to_numpy(float)
    np.testing.assert_allclose(ours, theirs["f"].to_numpy(float), rtol=1e-15)
