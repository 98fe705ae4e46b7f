"""Check that the log of a Delta table leads to files in its folder only.

deltalake 1.6 resolves locations as URLs relative to the table, reads parts of checkpoints when it opens the table, does
not list deletion vectors, and applies those of tables whose protocol does not name them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyarrow import fs

from gpupipe.io.table_folder import AMBIGUOUS, require_inside

LOG = "_delta_log"
UUID_LENGTH = 20  # characters at the end of the location of a deletion vector
LEAVES = ("add.deletionVector.storageType", "add.deletionVector.pathOrInlineDv", "sidecar.path")
_VECTOR = pa.struct({"storageType": pa.string(), "pathOrInlineDv": pa.string()})
_SCHEMA = pa.schema({"add": pa.struct({"deletionVector": _VECTOR}), "sidecar": pa.struct({"path": pa.string()})})
_FILE = re.compile(r"(\d{20})\.(?:json|(checkpoint\.parquet)|.*\.(?:json|parquet))", re.ASCII)
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")


def require_in_table(path: str, label: str, location: str, folder: str = "") -> str:
    """Return the place of a location in the table at `path`; raise DataError if it is outside.

    A relative location starts in `folder` of the table.
    """
    root, full = unquote(path) if "://" in path else path, unquote(location, errors="surrogateescape")
    if AMBIGUOUS.search(location) is None and _ABSOLUTE.match(location) is None:
        full = "/".join(filter(None, (root.rstrip("/"), folder, full)))
    return require_inside(root, full, label)


def check_log(files: fs.FileSystem, version: int | None, require: Callable[..., str]) -> int:
    """Return the version to read, by default the latest one, after `require` has passed each location in its log.

    `files` are those of the table. Deletion vectors since the last checkpoint are checked, also those of files that
    were removed later.
    """
    names = {info.base_name: info.path for info in files.get_file_info(fs.FileSelector(LOG))}
    found = [match for match in map(_FILE.fullmatch, names) if match is not None]
    version = max((int(match[1]) for match in found), default=0) if version is None else version
    first = max((int(match[1]) for match in found if match[2] and int(match[1]) <= version), default=0)
    for match in found:
        if first <= int(match[1]) <= version:
            for part in dict.fromkeys(_check_file(files, names[match[0]], require)):
                _check_file(files, require(part, f"{LOG}/_sidecars"), require)
    return version


def _check_file(files: fs.FileSystem, place: str, require: Callable[..., str]) -> list[str]:
    """Check the deletion vectors in a file of the log, and return the parts of a checkpoint that it names."""
    with files.open_input_file(place) as file:
        if place.endswith(".json"):  # refuses repeated keys, of which libraries choose one
            options = pj.ParseOptions(_SCHEMA, newlines_in_values=True, unexpected_field_behavior="ignore")
            table = pj.read_json(file, pj.ReadOptions(block_size=file.size() + 1), options)
        else:
            table = pq.ParquetFile(file).read(columns=[*LEAVES])
    rows = table.flatten().flatten()
    kinds, places, parts = (rows.column(n).to_pylist() if n in rows.column_names else [] for n in LEAVES)
    for kind, location in zip(kinds, places, strict=True):
        if kind == "p":
            require(location)
        elif kind == "u" and location[:-UUID_LENGTH]:
            require(f"{location[:-UUID_LENGTH]}/file")
    return [part for part in parts if part is not None]
