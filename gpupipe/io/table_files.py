"""On-disk format of an encoded table: a folder of memory-mappable files.

table.json     number of rows, column positions, schema, and the CRC-32 of every file
levels.json    levels of the categorical columns
int8.npy ...   one block each
texts.arrow    text columns
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.table.blocks import Table
from gpupipe.table.schema import Schema

TABLE_FORMAT = 4  # increment also when a reader or generator changes the table it returns for the same input


def write_table(table: Table, folder: Path) -> None:
    """Write `table` into an empty folder.

    Raise OSError if it cannot be written.
    """
    for name, block in table.blocks.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(block), allow_pickle=False)
    if table.texts:
        texts = pa.table(dict(table.texts))
        path = os.fsencode(folder / "texts.arrow")  # bytes: a file name need not be UTF-8
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, texts.schema) as writer:
            writer.write_table(texts.unify_dictionaries())
    levels = {column.name: column.levels for column in table.schema if column.levels is not None}
    (folder / "levels.json").write_text(json.dumps(levels), encoding="utf8")
    content = {
        "n_rows": table.n_rows,
        "places": dict(table.places),
        "columns": table.schema.to_json(),
        "files": {path.name: _checksum(path) for path in folder.iterdir()},
    }
    (folder / "table.json").write_text(json.dumps([content, _checksum_of(content)]), encoding="utf8")


def read_table(folder: Path) -> Table:
    """Return the table in `folder`, with read-only memory maps as blocks and text columns.

    Raise OSError, ValueError, KeyError, TypeError or IndexError if the folder is corrupt: a file is missing or its
    checksum differs. All bytes are checked, because compiled loops would read out of bounds for a code outside the
    levels. The check takes about 0.25 s per GiB.
    """
    content, own = json.loads((folder / "table.json").read_text(encoding="utf8"))
    if _checksum_of(content) != own:
        raise ValueError("table.json is corrupt: its checksum differs")
    for name, checksum in content["files"].items():
        if _checksum(folder / name) != checksum:
            raise ValueError(f"{name} is corrupt: its checksum differs")
    levels = json.loads((folder / "levels.json").read_text(encoding="utf8"))
    schema = Schema.from_json(content["columns"], {name: tuple(values) for name, values in levels.items()})
    blocks = {path.stem: _map(path, content["n_rows"]) for path in sorted(folder.glob("*.npy"))}
    places = {name: (block, row) for name, (block, row) in content["places"].items()}
    if any(row >= len(blocks[block]) for block, row in places.values()):
        raise ValueError("a column position is outside its block")
    return Table(schema, content["n_rows"], blocks, places, _read_texts(folder / "texts.arrow"))


def _checksum(path: Path) -> int:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return zlib.crc32(content)


def _checksum_of(content: Any) -> int:
    return zlib.crc32(json.dumps(content).encode("utf8"))


def _map(path: Path, n_rows: int) -> Any:
    if n_rows == 0:  # an empty file cannot be mapped
        return np.load(path, allow_pickle=False)
    block = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    if block.ndim != 2 or block.shape[1] != n_rows or block.dtype.name != path.stem:
        raise ValueError(f"{path.name} has an unexpected shape or dtype")
    return block


def _read_texts(path: Path) -> Mapping[str, pa.ChunkedArray]:
    if not path.exists():
        return {}
    with pa.memory_map(os.fsencode(path)) as stream:
        texts = pa.ipc.open_file(stream).read_all()
    return dict(zip(texts.column_names, texts.columns, strict=True))
