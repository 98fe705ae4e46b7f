"""Delta tables whose logs lead to files outside of their folders."""

from __future__ import annotations

import base64
import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from gpupipe.errors import DataError
from gpupipe.io.external.delta import require_in_table
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow

ROWS = pa.table({"id": range(12)})
COMMIT, CHECKPOINT = "00000000000000000000.json", "00000000000000000000.checkpoint.parquet"
PYTHON_BASE85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
ID = UUID("5f0f7a66-9f6b-4a53-8f0c-3a1f51b2a001")
VECTOR_FILE = f"deletion_vector_{ID}.bin"
OUTSIDE = "leads? (?:to a file )?outside of"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a table with one file, next to a file and a deletion vector that are not part of it."""
    (tmp_path / "private").mkdir()
    pq.write_table(pa.table({"id": [99]}), tmp_path / "private/rows.parquet")
    bitmap = struct.pack("<IIHHI2H", 12346, 1, 0, 1, 16, 2, 5)
    vector = struct.pack("<iqi", 1681511377, 1, 0) + bitmap
    content = b"\x01" + struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    for folder in ("private", "table/deleted"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / VECTOR_FILE).write_bytes(content)
    pq.write_table(ROWS, tmp_path / "table/part.parquet")
    return tmp_path / "table"


def actions(path: str = "part.parquet", vector: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    features = ["deletionVectors", "v2Checkpoint"]
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    size = os.path.getsize("table/part.parquet" if path == "part.parquet" else "private/rows.parquet")
    add = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
    return [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        },
        {
            "metaData": {
                "id": "t",
                "format": {"provider": "parquet", "options": {}},
                "partitionColumns": [],
                "schemaString": json.dumps(schema),
                "configuration": {},
            }
        },
        {"add": {**add, "deletionVector": vector}},
    ]


def write_log(table: Path, found: list[dict[str, Any]], edit: Callable[[str], str] = str) -> None:
    (table / "_delta_log").mkdir(exist_ok=True)
    (table / "_delta_log" / COMMIT).write_text(edit("\n".join(map(json.dumps, found))))


def vector_at(kind: str, location: str) -> dict[str, Any]:
    return {"storageType": kind, "pathOrInlineDv": location, "offset": 1, "sizeInBytes": 36, "cardinality": 2}


def prefixed(prefix: str) -> dict[str, Any]:
    return vector_at("u", prefix + base64.b85encode(ID.bytes).translate(bytes.maketrans(PYTHON_BASE85, Z85)).decode())


def ids(**settings: Any) -> list[int]:
    return read_arrow(TableSource(delta="table", **settings)).table.column("id").to_pylist()


ESCAPES = [
    "../private/rows.parquet",
    "%2e%2e/private/rows.parquet",
    ".%2E/private/rows.parquet",
    "a/../../private/rows.parquet",
    "..%2fprivate%2frows.parquet",
    "{here}/private/rows.parquet",
    "file://{here}/private/rows.parquet",
    "FILE:{here}/private/rows.parquet",
    "file://{here}/table/../private/rows.parquet",
    "//{here}/private/rows.parquet",
    "file://{here}/table2/rows.parquet",
    "..\\private\\rows.parquet",
    "\t../private/rows.parquet",
    ".\t./private/rows.parquet",
    "..\n/private/rows.parquet",
    " ../private/rows.parquet",
    "../private/rows.parquet\0",
    "../private/rows.parquet?x",
    "part.parquet?x",
    "s3://other/rows.parquet",
    "https://127.0.0.1:1/rows.parquet",
    "%66ile:/private/../../private/rows.parquet",
    "..",
    "",
]


@pytest.mark.parametrize("location", ESCAPES)
def test_locations_outside_are_refused_for_local_and_remote_tables(location: str) -> None:
    for root in ("/lake/table", "file:///lake/table", "s3://lake/table", "s3://lake/table/"):
        with pytest.raises(DataError, match=OUTSIDE):
            require_in_table(root, "table", location.replace("{here}", "/lake"))


@pytest.mark.parametrize(
    ("root", "location", "place"),
    [
        ("/lake/my #1?", "p=a%252Fb/part.parquet", "p=a%2Fb/part.parquet"),
        ("/lake/t", "p=../part.parquet", "p=../part.parquet"),
        ("/lake/t", "a b;c=d.parquet", "a b;c=d.parquet"),
        ("/lake/t", "/lake/t/part.parquet", "part.parquet"),
        ("/lake/t", "file:///lake/t/a%20b.parquet", "a b.parquet"),
        ("file:///lake/a%20b", "file:///lake/a%20b/part.parquet", "part.parquet"),
        ("s3://lake/t/", "s3://lake/t/part.parquet", "part.parquet"),
        ("s3://lake/t", "part.parquet", "part.parquet"),
    ],
)
def test_locations_of_honest_tables_are_inside(root: str, location: str, place: str) -> None:
    assert require_in_table(root, "table", location) == place


@pytest.mark.parametrize("location", [*ESCAPES[:4], ESCAPES[6], "linked.parquet", "folder/rows.parquet"])
def test_no_row_of_a_file_outside_is_read_unless_the_setting_allows_it(table: Path, location: str) -> None:
    location = location.format(here=table.parent)
    (table / "linked.parquet").symlink_to("../private/rows.parquet")
    (table / "folder").symlink_to("../private")
    write_log(table, actions(location))
    with pytest.raises(DataError, match=OUTSIDE) as caught:
        ids()
    assert "outside_files: true" in caught.value.fix
    assert ids(outside_files=True) == [99]


def test_each_version_is_checked_by_itself(table: Path) -> None:
    write_log(table, actions("../private/rows.parquet"))
    write_deltalake("table", ROWS, mode="overwrite")
    assert ids() == ids(version=1) == list(range(12))
    with pytest.raises(DataError, match=OUTSIDE):
        ids(version=0)


def test_a_checkpoint_is_checked_without_its_commits(table: Path) -> None:
    for found in (actions("../private/rows.parquet"), actions(vector=prefixed("../private/"))):
        write_log(table, found)
        DeltaTable("table").create_checkpoint()
        os.unlink(table / "_delta_log" / COMMIT)
        with pytest.raises(DataError, match=OUTSIDE):
            ids()
        shutil.rmtree(table / "_delta_log")


VECTORS = [
    vector_at("p", "file://{here}/private/" + VECTOR_FILE),
    vector_at("p", "file://{here}/table/../private/" + VECTOR_FILE),
    vector_at("p", "s3://other/vector.bin"),
    prefixed("../private/"),
    prefixed("%2e%2e/private/"),
    prefixed("{here}/private/"),
    prefixed("file://{here}/private/"),
    prefixed("..\\private/"),
    prefixed("linked/"),
]


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("reader_version", [1, 3])
def test_deletion_vectors_outside_are_refused(table: Path, vector: dict[str, Any], reader_version: int) -> None:
    """The engine applies vectors even if the protocol of the table has none."""
    (table / "linked").symlink_to("../private")
    found = actions(vector={**vector, "pathOrInlineDv": vector["pathOrInlineDv"].replace("{here}", str(table.parent))})
    if reader_version == 1:
        found[0] = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    write_log(table, found)
    with pytest.raises(DataError, match=OUTSIDE):
        ids()


def test_deletion_vectors_inside_are_applied(table: Path) -> None:
    for vector in (prefixed("deleted/"), vector_at("p", f"file://{table}/deleted/{VECTOR_FILE}")):
        write_log(table, actions(vector=vector))
        assert ids() == [i for i in range(12) if i not in (2, 5)]


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"deletionVector"', '"deletionVector": null, "deletionVector"'),
        lambda text: text.replace('"storageType": "p"', '"storageType": "p", "storageType": "i"'),
        lambda text: text.replace('"deletionVector"', '"\\u0064eletionVector"'),
        lambda text: text.replace('"pathOrInlineDv"', '"path\\u004frInlineDv"'),
        lambda text: text.replace("\n", ""),
        lambda text: "\n".join(json.dumps(json.loads(line), indent=1) for line in text.splitlines()),
        lambda text: text.replace("\n", "\r\n\r\n"),
    ],
)
def test_unusual_json_hides_nothing(table: Path, edit: Callable[[str], str]) -> None:
    write_log(table, actions(vector=vector_at("p", f"file://{table.parent}/private/{VECTOR_FILE}")), edit)
    with pytest.raises(DataError, match=r"outside of|cannot be opened"):
        ids()


@pytest.mark.parametrize(
    "location", ["part-1.parquet", *(f"{each}/part-1.parquet" for each in ("..", "file://{here}"))]
)
def test_parts_of_checkpoints_are_read_inside_only(table: Path, location: str) -> None:
    *head, add = actions()
    vector = pa.struct(
        {
            "storageType": pa.string(),
            "pathOrInlineDv": pa.string(),
            "offset": pa.int32(),
            "sizeInBytes": pa.int32(),
            "cardinality": pa.int64(),
        }
    )
    kinds = {
        "path": pa.string(),
        "partitionValues": pa.map_(pa.string(), pa.string()),
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "deletionVector": vector,
    }
    part = pa.table({"add": pa.array([{**add["add"], "partitionValues": []}], pa.struct(kinds))})
    folder = table / "_delta_log/_sidecars"
    folder.mkdir(parents=True)
    for path in (folder, folder.parent, table.parent):
        pq.write_table(part, path / "part-1.parquet")
    sidecar = {
        "path": location.format(here=table.parent),
        "sizeInBytes": os.path.getsize(folder / "part-1.parquet"),
        "modificationTime": 0,
    }
    found = [{"checkpointMetadata": {"version": 1}}, *head, {"sidecar": sidecar}]
    name = f"00000000000000000001.checkpoint.{ID}.json"
    (table / "_delta_log" / name).write_text("\n".join(map(json.dumps, found)))
    (table / "_delta_log/00000000000000000001.json").write_text('{"commitInfo": {}}')
    if "/" not in location:
        assert ids() == list(range(12))
        return
    with pytest.raises(DataError, match=OUTSIDE):
        ids()


def test_a_log_that_is_a_link_and_a_pipe_in_the_log_are_refused(table: Path) -> None:
    write_log(table, actions())
    shutil.move(table / "_delta_log" / COMMIT, table.parent / "private/commit.json")
    (table / "_delta_log" / COMMIT).symlink_to("../../private/commit.json")
    with pytest.raises(DataError, match=OUTSIDE):
        ids()
    os.unlink(table / "_delta_log" / COMMIT)
    os.mkfifo(table / "_delta_log" / COMMIT)
    with pytest.raises(DataError, match="expected a regular file"):
        ids()
    shutil.rmtree(table / "_delta_log")
    (table.parent / "log").mkdir()
    shutil.move(table.parent / "private/commit.json", table.parent / "log" / COMMIT)
    (table / "_delta_log").symlink_to("../log")
    with pytest.raises(DataError, match=OUTSIDE):
        ids()


def test_a_table_that_the_user_names_by_a_link_is_read(table: Path) -> None:
    write_log(table, actions())
    (table.parent / "mine").symlink_to("table")
    (table / "again.parquet").symlink_to("part.parquet")
    for path in ("mine", f"file://{table}", f"{table}/"):
        assert read_arrow(TableSource(delta=path)).table.num_rows == 12
