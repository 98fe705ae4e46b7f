"""Corrupt, encrypted, unusual or misnamed binary files: read correctly, or refused with a reason."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import faulthandler
import gc
import os
import random
import signal
import socket
import warnings
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from pyarrow import ipc, orc

from gpupipe.errors import DataError, GpupipeError, SchemaError
from gpupipe.io.files import find_files
from gpupipe.io.formats.parquet_footers import read_groups_of
from gpupipe.io.row_sample import take_sample
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow

N = 60
SMALL = pa.table({"a": [1, 2, 3], "b": ["x", "y", "x"]})


def write_ipc(table: pa.Table, path: Path) -> None:
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=20)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": lambda table, path: pq.write_table(table, path, row_group_size=20),
    "orc": orc.write_table,
    "arrow": write_ipc,
}
FORMATS = pytest.mark.parametrize("kind", WRITERS)


def refusal(path: Path, **settings: object) -> DataError:
    with pytest.raises(DataError) as caught:
        read_arrow(Source(path=str(path), **settings))
    assert str(path.parent) in caught.value.where and caught.value.exit_code == 5
    return caught.value


def outcome(work: Callable[[], object]) -> int:
    """Run `work` in a fork; return 0, the exit code of its error, or minus the number of the signal that ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads, which Arrow restarts in the child
        child = os.fork()
    if child == 0:
        faulthandler.disable()
        gc.disable()  # or the collector would copy every page of the tests' process
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        code = 99
        try:
            work()
            code = 0
        except GpupipeError as error:
            code = error.exit_code
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def look_at(path: Path, folder: Path) -> None:
    """Read a file in every way: its footer, for the host and for a device; a sample; all rows."""
    source = Source(path=str(path))
    if path.suffix == ".parquet":
        for written_out in (False, True):
            read_groups_of(find_files(source)[0], source, written_out)
    take_sample(source, folder)
    read_arrow(source).table.validate(full=True)


@pytest.fixture(scope="module")
def awkward() -> pa.Table:
    return pa.table(
        {
            "i": [None if i % 7 == 0 else i for i in range(N)],
            "s": [None if i % 5 == 0 else f"v{i % 9}" for i in range(N)],
            "t": pa.array(range(N), pa.timestamp("us")),
            "d": [decimal.Decimal(i) / 4 for i in range(N)],
            "y": [b"abc%d" % (i % 3) for i in range(N)],
            "l": [[i, i + 1] for i in range(N)],
        }
    )


@FORMATS
def test_no_flipped_byte_of_a_footer_or_a_page_crashes_a_reader(kind: str, awkward: pa.Table, tmp_path: Path) -> None:
    path, folder, rng = tmp_path / f"t.{kind}", tmp_path / "sample", random.Random(5)
    WRITERS[kind](awkward, path)
    content = path.read_bytes()
    folder.mkdir()
    for case in range(12):
        damaged = bytearray(content)
        at = rng.randrange(len(content) // 2, len(content)) if case % 2 else rng.randrange(len(content))
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        assert outcome(lambda: look_at(path, folder)) in (0, 5), (case, at)


def test_footers_that_crash_pyarrow_are_rejected_before_it_reads_them(tmp_path: Path) -> None:
    path, folder = tmp_path / "t.parquet", tmp_path / "sample"
    folder.mkdir()
    pq.write_table(SMALL, path)
    content = path.read_bytes()
    start, fatal = len(content) - 8 - int.from_bytes(content[-8:-4], "little"), 0

    def ask() -> None:
        try:
            metadata = pq.ParquetFile(path).metadata
        except (OSError, pa.ArrowException) as error:
            raise DataError(str(error)) from None
        for j in range(metadata.num_columns):
            assert metadata.row_group(0).column(j).statistics is not None

    for at in range(start, len(content) - 8, 9):
        path.write_bytes(content[:at] + bytes([content[at] ^ 8]) + content[at + 1 :])
        if outcome(ask) == -signal.SIGABRT:
            fatal += 1
            assert outcome(lambda: look_at(path, folder)) in (0, 5), at
    assert fatal  # otherwise pyarrow is fixed, and `gpupipe.io.formats.parquet_footers` may use column chunk metadata


class Keys(pe.KmsClient):
    """Public test keys."""

    def __init__(self, settings: object) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64decode(key)


@pytest.mark.parametrize("plain_footer", [True, False])
def test_an_encrypted_file_is_reported_and_its_plain_columns_are_read(tmp_path: Path, plain_footer: bool) -> None:
    settings = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["b"]}, plaintext_footer=plain_footer)
    factory = pe.CryptoFactory(Keys)
    encryption = factory.file_encryption_properties(pe.KmsConnectionConfig(), settings)
    path = tmp_path / "t.parquet"
    with pq.ParquetWriter(path, SMALL.schema, encryption_properties=encryption) as writer:
        writer.write_table(SMALL)
    assert outcome(lambda: read_groups_of(find_files(Source(path=str(path)))[0], Source(path=str(path)))) in (0, 5)
    assert refusal(path).what == "the file is encrypted"
    if plain_footer:
        assert read_arrow(Source(path=str(path), drop=["b"])).table.to_pydict() == {"a": [1, 2, 3]}


ODD = {
    "decimal256": (pa.array([decimal.Decimal("1" * 60 + ".5"), None], pa.decimal256(70, 1)),
                   [decimal.Decimal("1" * 60 + ".5"), None]),
    "zone": (pa.array([dt.datetime(2024, 3, 10, 6, 30), None], pa.timestamp("s", "America/New_York")),
             [dt.datetime(2024, 3, 10, 1, 30, tzinfo=ZoneInfo("America/New_York")), None]),
    "duration": (pa.array([1500, None], pa.duration("ms")), [1.5, None]),
    "half": (pa.array(np.array([1.5, np.inf], np.float16)), [1.5, np.inf]),
    "wide": (pa.array([2**64 - 1, None], pa.uint64()), [2**64 - 1, None]),
    "nulls": (pa.array([None, None], pa.int16()), [None, None]),
    "nothing": (pa.nulls(2), [None, None]),
    "codes": (pa.array([2.5, None]).dictionary_encode(), [2.5, None]),
    "text": (pa.array([b"ab", None], pa.binary_view()), ["ab", None]),
    "runs": (pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([1.5, 2.0])), [1.5, 2.0]),
}  # fmt: skip


WITHOUT_ZONE = {("orc", "zone"): [dt.datetime(2024, 3, 10, 6, 30), None]}  # the format has no zones


@FORMATS
def test_columns_of_every_odd_type_have_the_values_that_were_written(kind: str, tmp_path: Path) -> None:
    read = 0
    for name, (column, values) in ODD.items():
        path = tmp_path / f"{name}.{kind}"
        try:
            WRITERS[kind](pa.table({"c": column}), path)
        except (pa.ArrowException, NotImplementedError):
            continue  # the format has no such type
        loaded = read_arrow(Source(path=str(path)))
        assert loaded.table.column("c").to_pylist() == WITHOUT_ZONE.get((kind, name), values), name
        assert not any("outside the int64 range" in note for note in loaded.notes)
        read += 1
    assert read >= {"parquet": 9, "orc": 2, "arrow": 10}[kind]


@FORMATS
def test_thousands_of_columns_and_any_names_are_read(kind: str, tmp_path: Path) -> None:
    names = ["", "a b\n", "x.y", "ü", *(f"c{i}" for i in range(1500))]
    table = pa.table({name: [i, i + 1] for i, name in enumerate(names)})
    WRITERS[kind](table, tmp_path / f"t.{kind}")
    loaded = read_arrow(Source(path=str(tmp_path / f"t.{kind}")))
    assert loaded.table.equals(table.select(names[1:])) and loaded.names == tuple(names)  # without a name: ignored


def test_a_file_without_rows_groups_or_columns_is_an_error(tmp_path: Path) -> None:
    for kind, write in WRITERS.items():
        path = tmp_path / f"t.{kind}"
        write(SMALL.slice(0, 0), path)
        assert refusal(path).what == "there are no rows"
        if kind != "orc":
            write(SMALL.select([]), path)
            assert refusal(path).what == "the file has no columns"
        write(pa.Table.from_arrays([SMALL["a"], SMALL["a"]], ["a", "a"]), path)
        assert "duplicate column names: 'a'" in refusal(path).what


@FORMATS
def test_a_file_with_a_wrong_suffix_is_reported_with_its_real_format(kind: str, tmp_path: Path) -> None:
    shown = {"parquet": "a Parquet file", "orc": "an ORC file", "arrow": "an Arrow file"}[kind]
    for other in ("csv", "jsonl", "parquet", "orc", "arrow"):
        if other != kind:
            WRITERS[kind](SMALL, tmp_path / f"t.{other}")
            error = refusal(tmp_path / f"t.{other}")
            assert error.what.endswith(f"expected {other}, found {shown}") and f"source.format: {kind}" in error.fix
    path = tmp_path / f"t.{kind}"
    path.write_text("a,b\n1,2\n")
    assert f"expected {kind}, found text: 'a,b" in refusal(path).what
    path.write_bytes(b"")
    assert refusal(path).what.endswith("it is empty")
    path.write_bytes(b"PK\x03\x04 and more of an Excel file")
    assert "an Excel file" in refusal(path).what


def test_a_text_that_begins_as_a_binary_file_does_is_read(tmp_path: Path) -> None:
    for head in ("PAR1", "ORC", "FEA1", "BZh9"):
        (tmp_path / "t.csv").write_text(f"{head},b\n1,2\n")
        assert read_arrow(Source(path=str(tmp_path / "t.csv"))).table.column_names == [head, "b"]


def test_special_files_are_refused_at_once_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    os.mkfifo(path)
    assert refusal(path).what == "expected a regular file, found a pipe"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert refusal(path).what == "expected a regular file, found a socket"
    for target, said in (("/dev/zero", "found a device"), ("gone", "points to gone"), (path.name, "points to itself")):
        path.unlink()
        path.symlink_to(target)
        assert said in refusal(path).what
    path.unlink()
    assert "File name too long" in refusal(tmp_path / f"{'x' * 300}.parquet").what


def test_a_folder_is_read_without_markers_and_drafts_and_not_without_a_part_that_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "t.parquet"
    folder.mkdir()
    for name in ("_SUCCESS", ".part-1.parquet.crc", "part-9.parquet.tmp", "_temporary.parquet"):
        (folder / name).write_text("no table")
    pq.write_table(SMALL, folder / "part-0.parquet")
    (folder / "up").symlink_to("..")
    assert read_arrow(Source(path=str(folder))).table.num_rows == 3
    (folder / "part-1.parquet").symlink_to("gone")
    assert refusal(folder).where.endswith("part-1.parquet")


def put(table: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True)
    pq.write_table(table, path)


def test_folders_that_contradict_the_file_or_themselves_are_refused(tmp_path: Path) -> None:
    same = {"year": [2024], "day": [dt.date(2024, 1, 2)], "city": ["Oslo"], "ok": [True], "v": [1]}
    put(pa.table(same), tmp_path / "a/year=2024/day=2024-01-02/city=Oslo/ok=true/t.parquet")
    assert read_arrow(Source(path=str(tmp_path / "a"))).table.column("year").to_pylist() == [2024]
    put(pa.table({**same, "year": [2023]}), tmp_path / "b/year=2024/t.parquet")
    with pytest.raises(SchemaError, match="'year': expected '2024' from the folder of the file, found 2023"):
        read_arrow(Source(path=str(tmp_path / "b")))
    put(SMALL, tmp_path / "c/year=1/year=2/t.parquet")
    assert refusal(tmp_path / "c").what == "partition column 'year' occurs twice in the path"


def test_twenty_thousand_equal_names_are_refused_before_they_are_read(tmp_path, monkeypatch):
    path, folder = tmp_path / "t.parquet", tmp_path / "sample"
    pq.write_table(pa.table([pa.array([1])] * 20_000, names=["a"] * 20_000), path)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)  # takes a minute
    with pytest.raises(DataError, match="duplicate column names: 'a'"):
        take_sample(Source(path=str(path), target="a"), folder)
