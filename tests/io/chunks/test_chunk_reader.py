"""Chunks of a file: their boundaries, their common schema, and their content while they wait."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import DataError
from gpupipe.io.chunks import row_boundaries
from gpupipe.io.chunks.chunk import ChunkColumns, ChunkFacts, SourceChunk
from gpupipe.io.chunks.chunk_reader import read_chunk
from gpupipe.io.chunks.column_agreement import NoAgreement, agree_on_columns, must_reread
from gpupipe.io.chunks.compact_tables import merge_chunks, narrow_codes, widen_codes
from gpupipe.io.chunks.row_boundaries import RowRanges, align_to_rows, find_data_start, scan_rows, split_evenly
from gpupipe.io.chunks.splittable_files import find_splittable_files
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.csv_settings import CsvSettings
from gpupipe.io.missing_values import TEXT
from gpupipe.io.settings import Source
from tests.examples import examples

QUOTE, COMMA = ord('"'), ord(",")


def row_spans(path: Path, most: int, quote: int | None = QUOTE) -> RowRanges | None:
    even = split_evenly(0, path.stat().st_size, most)
    return align_to_rows(even, [scan_rows(str(path), span, quote, COMMA) for span in even])


def cut(path: Path, most: int, quote: int | None = QUOTE) -> list[bytes] | None:
    """Return the parts of a file of text, cut at the ends of rows."""
    content, whole = path.read_bytes(), row_spans(path, most, quote)
    return None if whole is None else [content[a:b] for a, b in whole.spans]


FIELDS = st.text(st.sampled_from('ab",\n '), max_size=6)


@examples(150)
@given(rows=st.lists(st.lists(FIELDS, min_size=2, max_size=2), min_size=1, max_size=12), most=st.integers(1, 40))
def test_every_part_has_whole_rows(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], most: int) -> None:
    path = tmp_path_factory.mktemp("rows") / "t.csv"
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    path.write_bytes(text.getvalue().encode())
    parts = cut(path, most)
    assert parts is not None
    assert b"".join(parts) == path.read_bytes()
    assert [row for part in parts for row in csv.reader(io.StringIO(part.decode(), newline=""))] == rows
    whole = row_spans(path, most)
    assert whole is not None and whole.lines_are_rows == (not any("\n" in field for row in rows for field in row))


@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_the_boundaries_do_not_depend_on_the_block_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    (tmp_path / "t.csv").write_text('a,"x\ny"\n"p""q",2\n3,4\n')
    monkeypatch.setattr(row_boundaries, "BLOCK_BYTES", block)
    assert cut(tmp_path / "t.csv", 4) == [b'a,"x\ny"\n', b'"p""q",2\n', b"3,4\n"]


@pytest.mark.parametrize("block", [1, 1 << 20])
@pytest.mark.parametrize("row", ['5" pipe,1', '1,x "y\nz"', 'a""b,1', '"a"b"c",1'])
def test_a_file_with_quotation_marks_within_fields_is_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, block: int
) -> None:
    monkeypatch.setattr(row_boundaries, "BLOCK_BYTES", block)
    (tmp_path / "t.csv").write_text(f'a,b\n1,2\n{row}\n3,"4"\n')
    assert cut(tmp_path / "t.csv", 5) is None
    assert cut(tmp_path / "t.csv", 5, quote=None) is not None


def test_a_carriage_return_in_quotes_may_end_a_line_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'a,"x\ry"\r\n1,2\r\n')
    whole = row_spans(tmp_path / "t.csv", 6)
    assert whole is not None and not whole.lines_are_rows


def test_a_file_that_ends_in_quotes_is_not_cut(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a,b\n1,2\n3,4\n5,"6')
    assert cut(tmp_path / "t.csv", 5) is None


def test_lines_longer_than_many_blocks_and_bits_after_the_last_byte(tmp_path: Path) -> None:
    rows = [f'"{"x" * n}",{n}\n' for n in (0, 61, 62, 63, 64, 65, 127, 128, 300_000, 1)]
    (tmp_path / "t.csv").write_text("".join(rows))
    parts = cut(tmp_path / "t.csv", 64)
    assert parts is not None and b"".join(parts).decode() == "".join(rows)
    assert all(part.endswith(b"\n") and part.startswith(b'"') for part in parts)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_start_after_the_header_lines(tmp_path: Path, end: str) -> None:
    (tmp_path / "t.csv").write_bytes(end.join(["", "a", "1", "2"]).encode())
    starts = [find_data_start(str(tmp_path / "t.csv"), n) for n in range(5)]
    n = len(end)
    assert starts == [0, n, 2 * n + 1, 3 * n + 2, 3 * n + 3]


def pieces_of(source: Source, most: int) -> list[int]:
    return [len(cut.split_text(most) if cut.is_text else cut.chunks(most)) for cut in find_splittable_files(source)]


def test_files_are_cut_at_safe_positions(tmp_path: Path) -> None:
    table = pa.table({"a": range(1_000), "b": ["x", "y"] * 500})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    pq.write_table(table.append_column("c", [[b"x"] * 1_000]), tmp_path / "bytes.parquet", row_group_size=100)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 1_000)
    assert pieces_of(Source(path=str(tmp_path / "t.parquet")), 1) == [10]
    assert pieces_of(Source(path=str(tmp_path / "t.parquet")), 1 << 30) == [1]
    assert pieces_of(Source(path=str(tmp_path / "bytes.parquet")), 1) == [1]
    assert pieces_of(Source(path=str(tmp_path / "t.csv")), 1_000) == [4]
    wide = CsvSettings(encoding="utf-16")
    assert pieces_of(Source(path=str(tmp_path / "t.csv"), csv=wide), 1_000) == [1]
    generated = find_splittable_files(Source(generate="churn", rows=1_000_000))[0].chunks(70_000_000)
    assert [piece.span[0] % 262_144 for piece in generated if piece.span] == [0] * 4


def of_kinds(*kinds: pa.DataType, refused: tuple[pa.DataType, ...] = ()) -> list[ChunkFacts]:
    empty = [frozenset({"x"} if pa.types.is_null(kind) else ()) for kind in kinds]
    return [
        ChunkFacts(
            1,
            ChunkColumns({"x": kind}),
            empty=nulls,
            numbers={"x": ()} if kind == TEXT else {},
            refused={"x": frozenset(refused)},
        )
        for kind, nulls in zip(kinds, empty, strict=True)
    ]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([pa.int64(), pa.null()], pa.int64()),
        ([pa.null(), pa.null()], pa.null()),
        ([pa.int64(), pa.float64()], pa.float64()),
        ([pa.bool_(), pa.int64()], pa.bool_()),
        ([pa.date32(), pa.timestamp("s")], pa.timestamp("s")),
        ([TEXT, pa.date32()], TEXT),
    ],
)
def test_chunks_agree_on_the_widest_type(kinds: list[pa.DataType], expected: pa.DataType) -> None:
    columns = agree_on_columns(of_kinds(*kinds), "csv", set(), [])
    assert columns.kinds == {"x": expected}
    again = [must_reread(piece, columns) for piece in of_kinds(*kinds)]
    assert again == [kind not in (expected, pa.null()) for kind in kinds]


def test_a_type_refused_by_a_chunk_is_not_chosen() -> None:
    pieces = of_kinds(pa.bool_(), pa.int64(), refused=(pa.bool_(), pa.date32()))
    assert agree_on_columns(pieces, "csv", set(), []).kinds == {"x": pa.time32("s")}
    with pytest.raises(NoAgreement):
        agree_on_columns(of_kinds(pa.int64(), pa.string()), "jsonl", set(), [])
    with pytest.raises(NoAgreement):
        agree_on_columns([*of_kinds(pa.null()), ChunkFacts(1, unusable=("x",))], "jsonl", set(), [])


def test_a_column_is_reread_with_the_requested_type_or_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,-0\n")
    source = Source(path=str(tmp_path / "t.csv"))
    (piece,) = find_splittable_files(source)[0].chunks(1 << 30)
    wanted = ColumnFilter(source)
    assert read_chunk(piece, source, wanted)[1].columns.kinds == {"a": pa.int64(), "b": pa.int64()}
    table, facts = read_chunk(piece, source, wanted, ChunkColumns({"a": pa.int64(), "b": pa.float64()}))
    assert facts.columns.kinds == {"a": pa.int64(), "b": pa.float64()}
    assert str(table.column("b")[1].as_py()) == "-0.0"
    _, facts = read_chunk(piece, source, wanted, ChunkColumns({"a": pa.bool_(), "b": pa.float64()}))
    assert (facts.n_rows, facts.refused) == (0, {"a": frozenset([pa.bool_()])})


def test_an_unreadable_chunk_of_a_text_file_causes_a_read_at_once(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4,5\n")
    source = Source(path=str(tmp_path / "t.csv"))
    (file,) = find_splittable_files(source)
    assert read_chunk(SourceChunk(file.file, span=(8, 14)), source, ColumnFilter(source))[1].failed
    with pytest.raises(DataError, match="line 3: expected 2 fields, found 3"):
        read_chunk(SourceChunk(file.file), source, ColumnFilter(source))


@pytest.mark.parametrize("n_levels", [0, 1, 128, 129, 2**15, 2**15 + 1])
def test_a_packed_table_is_unpacked_unchanged(n_levels: int) -> None:
    texts = pa.array([None, *map(str, range(n_levels))], pa.string()).dictionary_encode()
    table = pa.table({"t": texts, "n": range(n_levels + 1)})
    small = narrow_codes(table)
    kind = pa.int8() if n_levels <= 2**7 else pa.int16() if n_levels <= 2**15 else pa.int32()
    assert small.field("t").type.index_type == kind
    assert widen_codes(small).equals(table) and widen_codes(small).schema == table.schema


def test_chunks_become_one_with_the_levels_of_all() -> None:
    chunks = [pa.array([None, str(i), "x"], pa.string()).dictionary_encode() for i in range(3)]
    table = pa.table({"t": pa.chunked_array(chunks), "n": pa.chunked_array([[i, None, 1] for i in range(3)])})
    one = merge_chunks(table)
    assert [column.num_chunks for column in one.columns] == [1, 1] and one.schema == table.schema
    assert one.to_pylist() == table.to_pylist()
    assert one.column("t").chunk(0).dictionary.to_pylist() == ["0", "x", "1", "2"]
