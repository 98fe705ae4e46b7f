"""Iceberg tables whose metadata lead to files outside of their folders, to classes, or to servers."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from gpupipe.errors import DataError
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow

ROWS = pa.table({"id": range(10)})
OUTSIDE = "outside of"


class Manifest(ManifestWriterV2):
    """Writer of a manifest of data files or of deletes."""

    kind = ManifestContent.DATA

    def content(self) -> ManifestContent:
        return self.kind

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": self.kind.name.lower()}


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path) -> Table:
    """Return a table, next to a file of another table that is not part of it."""
    other = catalog.create_table("shop.other", schema=ROWS.schema)
    other.append(pa.table({"id": [99]}))
    (tmp_path / "private").mkdir()
    (found,) = other.inspect.files()["file_path"].to_pylist()
    shutil.copy(found.removeprefix("file://"), tmp_path / "private/rows.parquet")
    made = catalog.create_table("shop.orders", schema=ROWS.schema)
    made.append(ROWS)
    return made


@pytest.fixture
def ids(properties: dict[str, str]) -> Callable[..., list[int]]:
    """Return a function that reads the ids of a table."""

    def read(name: str = "shop.orders", **settings: Any) -> list[int]:
        return read_arrow(TableSource(iceberg=name, catalog=properties, **settings)).table.column("id").to_pylist()

    return read


def folder_of(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def edit_metadata(table: Table, change: Callable[[dict[str, Any]], Any]) -> None:
    path = Path(table.metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def forge(
    table: Table,
    path: str,
    kind: ManifestContent = ManifestContent.DATA,
    file_format: FileFormat = FileFormat.PARQUET,
    manifest: str = "{table}/metadata/m{n}.avro",
    manifests: str = "{table}/metadata/l{n}.avro",
) -> None:
    """Let the snapshot have a data file or a file of deletes at `path`; PyIceberg caches manifests by their names."""
    n = len(os.listdir(folder_of(table) / "metadata"))
    snapshot, io = table.current_snapshot(), PyArrowFileIO()
    assert snapshot is not None
    here = folder_of(table).parents[2]
    manifest, manifests, path = (
        text.replace("{table}", str(folder_of(table))).replace("{here}", str(here)).replace("{n}", str(n))
        for text in (manifest, manifests, path)
    )
    writer = type("Forged", (Manifest,), {"kind": kind})(
        table.spec(), table.schema(), io.new_output(manifest), snapshot.snapshot_id, "null"
    )
    is_data = kind is ManifestContent.DATA
    content = DataFileContent.DATA if is_data else DataFileContent.POSITION_DELETES
    with writer:
        file = DataFile.from_args(
            _table_format_version=2,
            content=content,
            file_path=path,
            file_format=file_format,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=500,
        )
        status = ManifestEntryStatus.ADDED
        writer.add_entry(ManifestEntry.from_args(status=status, snapshot_id=snapshot.snapshot_id, data_file=file))
    old = [] if is_data else snapshot.manifests(table.io)
    output = io.new_output(manifests)
    with write_manifest_list(2, output, snapshot.snapshot_id, None, snapshot.sequence_number or 1, "null") as written:
        written.add_manifests([*old, writer.to_manifest_file()])
    edit_metadata(table, lambda document: [each.update({"manifest-list": manifests}) for each in document["snapshots"]])


ESCAPES = [
    "{here}/private/rows.parquet",
    "file://{here}/private/rows.parquet",
    "file:{here}/private/rows.parquet",
    "file://{table}/../../../private/rows.parquet",
    "{table}/data/../../../../private/rows.parquet",
    "file://{table}2/rows.parquet",
    "private/rows.parquet",
    "s3://other/rows.parquet",
    "hdfs://127.0.0.1:1/rows.parquet",
]


def test_no_row_of_a_file_outside_is_read(table: Table, ids: Callable[..., list[int]]) -> None:
    for path in ESCAPES:
        forge(table, path)
        with pytest.raises(DataError, match=OUTSIDE) as caught:
            ids()
        assert "outside_files: true" in caught.value.fix, path
    (folder_of(table) / "linked").symlink_to(folder_of(table).parents[2] / "private")
    for path in ("file://{table}/linked/rows.parquet", "file://{table}/linked;/rows.parquet"):
        forge(table, path)
        with pytest.raises(DataError, match=OUTSIDE):
            ids()
    os.unlink(folder_of(table) / "linked")
    forge(table, table.inspect.files()["file_path"].to_pylist()[0])
    assert ids() == list(range(10))


def test_the_setting_allows_files_outside(table: Table, ids: Callable[..., list[int]], tmp_path: Path) -> None:
    table.add_files([f"file://{tmp_path}/private/rows.parquet"])
    with pytest.raises(DataError, match=OUTSIDE):
        ids()
    assert sorted(ids(outside_files=True)) == [*range(10), 99]


def test_files_of_deletes_outside_are_refused(table: Table, ids: Callable[..., list[int]]) -> None:
    for file_format in (FileFormat.PARQUET, FileFormat.ORC, FileFormat.PUFFIN):
        for path in (ESCAPES[0], ESCAPES[3], "s3://other/deletes"):
            forge(table, path, ManifestContent.DELETES, file_format)
            with pytest.raises(DataError, match=OUTSIDE):
                ids()


def test_a_file_of_deletes_inside_is_applied(table: Table, ids: Callable[..., list[int]]) -> None:
    (data,) = table.inspect.files()["file_path"].to_pylist()
    pq.write_table(pa.table({"file_path": [data], "pos": [3]}), folder_of(table) / "data/deletes.parquet")
    forge(table, "file://{table}/data/deletes.parquet", ManifestContent.DELETES)
    assert ids() == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("name", ["manifest", "manifests"])
def test_manifests_outside_are_refused(table: Table, ids: Callable[..., list[int]], name: str) -> None:
    (data,) = table.inspect.files()["file_path"].to_pylist()
    (folder_of(table) / "metadata/x.avro").symlink_to("../../../../private/x.avro")
    for place in ("{table}/metadata/x.avro", "{here}/private/y.avro", "{table}/../../../private/z.avro"):
        forge(table, data, **{name: place})
        assert ids(outside_files=True) == list(range(10))
        with pytest.raises(DataError, match=OUTSIDE):
            ids()
        (folder_of(table) / "metadata/x.avro").unlink(missing_ok=True)


def test_the_location_in_the_metadata_counts_for_nothing(
    table: Table, ids: Callable[..., list[int]], tmp_path: Path
) -> None:
    edit_metadata(table, lambda document: document.update(location=f"file://{tmp_path}/private"))
    assert ids() == list(range(10))
    forge(table, f"file://{tmp_path}/private/rows.parquet")
    with pytest.raises(DataError, match=OUTSIDE):
        ids()


@pytest.mark.parametrize("name", ["write.data.path", "write.metadata.path"])
def test_tables_of_several_folders_need_the_setting(
    catalog: Catalog, ids: Callable[..., list[int]], tmp_path: Path, name: str
) -> None:
    catalog.create_table("shop.wide", ROWS.schema, properties={name: f"file://{tmp_path}/elsewhere"}).append(ROWS)
    with pytest.raises(DataError, match=OUTSIDE):
        ids("shop.wide")
    assert ids("shop.wide", outside_files=True) == list(range(10))


def test_a_warehouse_may_be_a_link(
    catalog: Catalog, properties: dict[str, str], ids: Callable[..., list[int]], tmp_path: Path
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "linked").symlink_to("disk")
    catalog.create_table("shop.far", ROWS.schema, location=f"file://{tmp_path}/linked/far").append(ROWS)
    assert ids("shop.far") == list(range(10))


def test_properties_of_a_table_neither_import_a_class_nor_name_a_server(
    table: Table, ids: Callable[..., list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    text = "from pyiceberg.io.pyarrow import PyArrowFileIO as Io\n"
    (tmp_path / "code/table_code.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "code")
    edit_metadata(table, lambda document: document["properties"].update({"py-io-impl": "table_code.Io"}))
    assert ids() == ids(outside_files=True) == list(range(10))
    assert "table_code" not in sys.modules
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        added = {"s3.endpoint": endpoint, "DEFAULT_SCHEME": "s3", "DEFAULT_NETLOC": "other", "py-io-impl": "no.Such"}
        edit_metadata(table, lambda document: document["properties"].update(added))
        forge(table, f"{folder_of(table)}/data/{os.listdir(folder_of(table) / 'data')[0]}")
        assert ids() == list(range(10))
        with pytest.raises(BlockingIOError):
            server.accept()
