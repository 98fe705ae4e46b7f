"""Reader of labeled tab-separated values (http://ltsv.org), one row a line: ``name:Ann<TAB>age:31``."""

from typing import BinaryIO

import pyarrow as pa


def read_ltsv(stream: BinaryIO) -> pa.Table:
    """Return all columns of an open file; those with numbers only are float64. A label that a line lacks is null."""
    rows = [dict(field.split(":", 1) for field in line.decode().rstrip("\r\n").split("\t")) for line in stream]
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: _typed(pa.array([row.get(name) for row in rows], pa.string())) for name in names})


def _typed(texts: pa.Array) -> pa.Array:
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return texts
