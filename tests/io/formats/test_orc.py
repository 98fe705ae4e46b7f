"""ORC."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from gpupipe.errors import DataError, SchemaError
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow

TABLE = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "s": ["x", None, "y"],
        "d": [decimal.Decimal("1.5"), None, decimal.Decimal("-2.25")],
        "t": pa.array([dt.datetime(2024, 1, 2), None, dt.datetime(1950, 1, 1)], pa.timestamp("ns")),
        "l": [[1], [], None],
    }
)


def test_columns_are_plain_and_nested_ones_are_dropped(tmp_path: Path) -> None:
    orc.write_table(TABLE, tmp_path / "t.orc")
    loaded = read_arrow(Source(path="t.orc"))
    assert loaded.table.schema.types == [
        pa.int32(), pa.dictionary(pa.int32(), pa.string()), pa.decimal128(3, 2), pa.timestamp("us"),
    ]  # fmt: skip
    assert loaded.table.column("s").to_pylist() == ["x", None, "y"]
    assert loaded.table.column("d").to_pylist() == [1.5, None, -2.25]
    assert loaded.table.column("t").to_pylist() == TABLE.column("t").cast(pa.timestamp("us")).to_pylist()
    (note,) = loaded.notes.lines()
    assert note.startswith("column 'l' is dropped: no op reads its lists")
    with pytest.raises(SchemaError):
        read_arrow(Source(path="t.orc", columns=["l", "i"]))


def test_only_selected_columns_are_read(tmp_path: Path) -> None:
    orc.write_table(TABLE, tmp_path / "t.orc")
    assert read_arrow(Source(path="t.orc"), columns=["d", "i"]).table.column_names == ["i", "d"]


@pytest.mark.parametrize("content", [b"", b"ORC", b"no orc at all", None])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, content: bytes | None) -> None:
    orc.write_table(TABLE, tmp_path / "t.orc")
    if content is None:
        content = (tmp_path / "t.orc").read_bytes()[:-40]
    (tmp_path / "t.orc").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_arrow(Source(path="t.orc"))
    assert "t.orc" in caught.value.where
