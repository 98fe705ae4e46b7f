"""UUIDs and binary values as text, compared with the standard library."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.io.arrow_types import UnusableColumn, plain_column
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import plain_arrow, read_arrow

IDS = [uuid.UUID(int=1), uuid.UUID(int=2**127 + 1), None]


def texts(values: pa.Array, is_named: bool = False) -> list[str | None]:
    plain, _ = plain_column(pa.chunked_array([values]), is_named)
    found: list[str | None] = plain.to_pylist()
    return found


def test_a_uuid_is_its_canonical_text_whatever_its_bytes_are(tmp_path: Path) -> None:
    column = pa.array(IDS, pa.uuid())
    expected = [None if value is None else str(value) for value in IDS]
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), column.slice(0, 2))
    assert texts(column) == texts(coded) == expected
    pq.write_table(pa.table({"k": column}), tmp_path / "t.parquet")
    assert read_arrow(Source(path=str(tmp_path / "t.parquet"))).table.column("k").to_pylist() == expected


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(2), pa.large_binary(), pa.binary_view()], ids=str)
def test_the_text_of_a_binary_value_does_not_depend_on_the_others(kind: pa.DataType) -> None:
    values = [b"ab", b"\xff\x00", None]
    assert texts(pa.array(values, kind)) == ["ab", "0xff00", None]
    assert [texts(pa.array([value], kind))[0] for value in values] == ["ab", "0xff00", None]


def test_long_binary_values_are_read_if_they_are_requested() -> None:
    values = pa.array([b"\xff" * 65])
    with pytest.raises(UnusableColumn, match="longer than 64 bytes"):
        texts(values)
    assert texts(values, is_named=True) == ["0x" + "ff" * 65]
    assert plain_arrow(pa.table({"k": values})).column("k").to_pylist() == ["0x" + "ff" * 65]


def test_numbers_keep_their_type() -> None:
    for kind in (pa.uint64(), pa.int8(), pa.decimal128(38, 2), pa.decimal256(70, 0), pa.float64(), pa.bool_()):
        assert plain_column(pa.chunked_array([pa.array([1, None]).cast(pa.int32())]).cast(kind))[0].type == kind
    assert plain_column(pa.chunked_array([pa.array([1], pa.decimal64(9, 1))]))[0].type == pa.decimal128(9, 1)
