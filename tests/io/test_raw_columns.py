"""Raw columns of files, and rows of CSV files with a different number of fields."""

from __future__ import annotations

import csv
import io
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.io.csv_settings import CsvSettings
from gpupipe.io.formats.csv.reader import find_malformed
from gpupipe.io.input_files import input_files
from gpupipe.io.raw_columns import numbers_of_texts, read_stored, stored_names
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow


def source_of(path: Path, **csv_settings: object) -> TableSource:
    return TableSource(path=str(path), csv=CsvSettings.model_validate(csv_settings))


def test_csv_fields_are_read_as_written(tmp_path: Path) -> None:
    rows = [["00123", " x ", "1.50"], ["NA", 'a "b", c', ""], ["9" * 25, "two\nlines", "1e3"]]
    text = io.StringIO(newline="")
    csv.writer(text).writerows([["id", "note", "amount"], *rows])
    (tmp_path / "t.csv").write_text(text.getvalue())
    found = read_stored(source_of(tmp_path / "t.csv"), ["amount", "id", "note"])
    assert found.column_names == ["amount", "id", "note"]
    assert found.to_pylist() == [{"id": i, "note": n, "amount": a or None} for i, n, a in rows]


def test_typed_columns_keep_their_types_nested_ones_included(tmp_path: Path) -> None:
    table = pa.table({
        "id": pa.array([1, 2], pa.uint64()),
        "price": pa.array([Decimal("1.10"), None], pa.decimal128(9, 2)),
        "day": pa.array([date(2024, 2, 29), None]),
        "tags": pa.array([["a"], []]),
        "plan": pa.array(["b", "a"]).dictionary_encode(),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    found = read_stored(source_of(tmp_path / "t.parquet"), table.column_names)
    assert found.drop(["plan"]).equals(table.drop(["plan"]))
    assert found.column("plan").to_pylist() == ["b", "a"] and found.field("plan").type == pa.string()


def test_rows_of_several_files_match_the_table(tmp_path: Path) -> None:
    (tmp_path / "kind=b").mkdir()
    (tmp_path / "kind=b" / "2.csv").write_text("id,x\n010,3\n")
    (tmp_path / "kind=a").mkdir()
    (tmp_path / "kind=a" / "1.csv").write_text("x\n1\n2\n")
    source = source_of(tmp_path)
    found = read_stored(source, ["id", "kind"])
    assert found.to_pydict() == {"id": [None, None, "010"], "kind": ["a", "a", "b"]}
    assert found.num_rows == read_arrow(source).table.num_rows
    assert set(stored_names(source, input_files(source))) == {"id", "x", "kind"}


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "20", None], pa.int64()), (["-1", "0"], pa.int64()), (["1.5", "2"], pa.float64()),
        (["01", "2"], pa.string()), (["1e3"], pa.string()), (["9" * 20], pa.string()),
        (["0.1234567890123456"], pa.string()),
        (["+1"], pa.string()), ([None], pa.string()), (["a"], pa.string()),
    ],
)  # fmt: skip
def test_texts_become_numbers_where_no_value_changes(texts: list[str | None], kind: pa.DataType) -> None:
    assert numbers_of_texts(pa.chunked_array([pa.array(texts, pa.string())])).type == kind


@pytest.mark.parametrize("head", ["a,b\n", "\n\na,b\n"])
def test_malformed_rows_are_numbered_without_blank_lines(tmp_path: Path, head: str) -> None:
    lines = ["1,2", "", "3", "   ", '4,"five\nsix"', "7,8,9", "10,11"]
    (tmp_path / "t.csv").write_text(head + "\n".join(lines) + "\n")
    source = source_of(tmp_path / "t.csv", bad_rows="skip")
    found = find_malformed(input_files(source)[0], source)
    assert [(row.row, row.text, row.n_fields, row.n_columns) for row in found] == [(1, "3", 1, 2), (3, "7,8,9", 3, 2)]
    loaded = read_arrow(source)
    assert (loaded.table.num_rows, loaded.n_skipped) == (3, 2)


def test_malformed_rows_are_found_in_later_blocks_and_other_encodings(tmp_path: Path) -> None:
    lines = ["a;b", *(f"{i};é" for i in range(300_000))]
    lines[200_000] = "é"
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="latin-1")
    source = source_of(tmp_path / "t.csv", bad_rows="skip", encoding="latin-1")
    assert [(row.row, row.text) for row in find_malformed(input_files(source)[0], source)] == [(199_999, "é")]
