"""Integers outside int64 in CSV and JSON lines, compared with Python's integers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow

WHOLE = pa.decimal128(38, 0)


def write(path: Path, values: list[Any]) -> None:
    if path.suffix == ".csv":
        path.write_text("".join(["k,n\n", *(f"{'' if v is None else v},1\n" for v in values)]))
    else:
        path.write_text("".join(json.dumps({"k": v, "n": 1}) + "\n" for v in values))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([2**63 + 1, 2**63 + 2, None], pa.uint64()),
        ([2**63 + 1, -1], WHOLE),
        ([-(2**63) - 1, 5], WHOLE),
        ([2**130, 2**130 + 1], pa.decimal256(76, 0)),
        ([2**63 + 1, 1.5], pa.float64()),
        ([2**53 + 1, None], pa.int64()),
    ],
)
def test_integers_keep_their_digits(tmp_path: Path, suffix: str, values: list[Any], kind: pa.DataType) -> None:
    write(tmp_path / f"t.{suffix}", values)
    column = read_arrow(Source(path=str(tmp_path / f"t.{suffix}"))).table.column("k")
    assert column.type == kind
    assert column.to_pylist() == ([float(v) for v in values] if kind == pa.float64() else values)


def test_files_whose_integers_need_different_types_have_the_wider_one(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [1, -2])
    write(tmp_path / "b.jsonl", [2**63 + 1])
    column = read_arrow(Source(path=str(tmp_path))).table.column("k")
    assert (column.type, column.to_pylist()) == (WHOLE, [1, -2, 2**63 + 1])
